"""Dates, times and amounts: the same features from files, frames and mappings."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest

from sonline import InvalidInputError, OnlineLearner, _core, streams
from sonline.errors import DataFormatError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

WHEN = [
    "2024-05-17",
    "2024-05-17T12:30:00",
    "1999-12-31 23:59:59.5",
    "2024-02-29T00:00:00Z",
    "2024-03-01T01:00:00+02:00",
    "2000-01-01",
    "0001-01-01",
    "9999-12-31",
]


def moment(word: str) -> dt.datetime:
    time = dt.datetime.fromisoformat(word)
    return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)


@pytest.mark.parametrize("word", WHEN)
def test_parts_are_those_of_the_calendar(word: str) -> None:
    time = moment(word)
    days = (time - dt.datetime(2000, 1, 1, tzinfo=dt.UTC)) / dt.timedelta(days=1)
    assert _core.read_date(word) == pytest.approx(days, abs=1e-9)
    start = dt.datetime(time.year, 1, 1, tzinfo=dt.UTC)
    length = 366 if time.year % 4 == 0 and (time.year % 100 or time.year % 400 == 0) else 365
    turns = {
        "year": (time - start).days / length,
        "week": time.weekday() / 7,
        "day": (time - dt.datetime(*time.timetuple()[:3], tzinfo=dt.UTC)) / dt.timedelta(days=1),
    }
    expected = {"": days}
    for name, turn in turns.items():
        expected[f".{name}_sin"] = math.sin(2 * math.pi * turn)
        expected[f".{name}_cos"] = math.cos(2 * math.pi * turn) - 1
    assert dict(_core.date_parts(_core.read_date(word))) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "word",
    ["", "2024", "2024-5-17", "2024-02-30", "2023-02-29", "2024-13-01", "2024-05-17T25:00",
     "2024-05-17x", "2024-05-17T12", "17.05.2024", "2024-05-17T12:30+99:00", "0000-01-01"],
)  # fmt: skip
def test_other_text_is_no_date(word: str) -> None:
    assert _core.read_date(word) is None


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1,234.50 €", 1234.5),
        ("1.234,50 €", 1234.5),
        ("-$5", -5.0),
        ("12 %", 12.0),
        ("12,5%", 12.5),
        ("1,234", 1234.0),
        ("1.234", 1.234),
        ("1 234 567", 1234567.0),
        ("£0.99", 0.99),
        ("7", 7.0),
        ("", None),
        ("%", None),
        ("five", None),
    ],
)
def test_amounts(word: str, value: float | None) -> None:
    assert _core.read_amount(word) == value


def write(folder: Path, kind: str, dates: list[str | None]) -> Path:
    labels = [n % 2 for n in range(len(dates))]
    path = folder / f"d.{kind}"
    if kind == "csv":
        rows = zip(dates, labels, strict=True)
        path.write_text("when,label\n" + "".join(f"{d or ''},{y}\n" for d, y in rows))
    elif kind == "jsonl":
        rows = zip(dates, labels, strict=True)
        path.write_text("".join(json.dumps({"when": d, "label": y}) + "\n" for d, y in rows))
    else:
        column = pa.array(dates)
        if kind == "parquet":
            times = [None if d is None else moment(d) for d in dates]
            column = pa.array(times, pa.timestamp("us", tz="UTC"))
        table = pa.table({"when": column, "label": labels})
        if kind == "parquet":
            parquet.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
    return path


@pytest.mark.parametrize("missing", ["absent", "mark"])
def test_all_files_have_the_same_features(tmp_path: Path, missing: str) -> None:
    dates: list[str | None] = [*WHEN, None]
    rows = {}
    for kind in ("csv", "jsonl", "parquet", "arrow"):  # the last has text
        file = write(tmp_path, kind, dates)
        with streams.open(file, dtype="float64", missing=missing) as stream:
            (batch,) = stream
            names = [*batch.new_names]
            assert stream.columns == {"when": "date"}
        ends = batch.indptr.tolist()
        rows[kind] = [
            {names[i]: v for i, v in zip(batch.indices[a:b], batch.values[a:b], strict=True)}
            for a, b in itertools.pairwise(ends)
        ]
    first = rows.pop("csv")
    assert set(first[1]) == {"when", *(f"when.{p}_{f}" for p in ("year", "week", "day") for f in ("sin", "cos"))}  # noqa: E501 # fmt: skip
    assert first[-1] == ({"when=(missing)": 1.0} if missing == "mark" else {})
    for others in rows.values():
        for one, other in zip(first, others, strict=True):
            assert one == pytest.approx(other, abs=1e-9)


def test_a_model_with_dates_reads_them_again(tmp_path: Path) -> None:
    day = dt.date(2023, 1, 2)
    dates = [str(day + dt.timedelta(days=n)) for n in range(700)]
    weekend = [int((day + dt.timedelta(days=n)).weekday() >= 5) for n in range(700)]
    rows = zip(dates, weekend, strict=True)
    file = tmp_path / "d.csv"
    file.write_text("when,label\n" + "".join(f"{d},{y}\n" for d, y in rows))
    learner = OnlineLearner()
    learner.learn_stream(file, passes=3)
    learner.save(tmp_path / "m.son")
    loaded = OnlineLearner.load(tmp_path / "m.son")
    assert loaded.model.reading.columns == {"when": "date"}
    with streams.open(
        write(tmp_path, "parquet", dates[:70]), names=loaded.model.core, features="name",
        frozen=True, columns={"when": "date"},
    ) as stream:  # fmt: skip
        (batch,) = stream
        predicted = loaded.model.predict(batch)[0]
    assert batch.unknown_features == 0
    right = (predicted > 0) == np.array(weekend[:70])
    assert right.mean() > 0.9
    for number in range(5):  # the same features in mappings
        for value in (dates[number], dt.date.fromisoformat(dates[number])):
            one = loaded.predict_one({"when": value})
            assert one == pytest.approx(float(predicted[number]), abs=1e-4)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_cell_that_is_no_date(tmp_path: Path, kind: str) -> None:
    dates = ["2024-05-17"] * 400_000 if kind == "csv" else ["2024-05-17"] * 200
    path = tmp_path / f"d.{kind}"
    if kind == "parquet":
        labels = [n % 2 for n in range(201)]
        parquet.write_table(pa.table({"when": [*dates, "soon"], "label": labels}), path)
    else:
        write(tmp_path, kind, [*dates, "soon"])
    with (
        streams.open(path) as stream,
        pytest.raises(DataFormatError, match=r'text=\["when"\] \(--text when\)'),
    ):
        list(stream)
    with streams.open(path, text=["when"]) as stream:
        assert {name for batch in stream for name in batch.new_names} == {
            "when=2024-05-17",
            "when=soon",
        }


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_amounts_of_a_table(tmp_path: Path, kind: str) -> None:
    prices = ["1,234.50 €", "12 €", "-3.5 €", *(f"{n},000 €" for n in range(1, 30))]
    path = tmp_path / f"d.{kind}"
    labels = [n % 2 for n in range(len(prices))]
    if kind == "csv":
        rows = zip(prices, labels, strict=True)
        path.write_text("price,label\n" + "".join(f'"{p}",{y}\n' for p, y in rows))
    elif kind == "jsonl":
        rows = zip(prices, labels, strict=True)
        path.write_text("".join(json.dumps({"price": p, "label": y}) + "\n" for p, y in rows))
    else:
        parquet.write_table(pa.table({"price": prices, "label": labels}), path)
    if kind != "jsonl":  # JSON has numbers
        how = r'numbers with amounts=\["price"\] \(--amount price\)'
        with streams.open(path) as stream, pytest.raises(DataFormatError, match=how):
            list(stream)
        with streams.open(path, text=["price"]) as stream:
            list(stream)
    with streams.open(path, amounts=["price"], dtype="float64") as stream:
        (batch,) = stream
        assert stream.columns == {"price": "number"}
    assert batch.values.tolist()[:3] == [1234.5, 12.0, -3.5]
    learner = OnlineLearner()
    learner.learn_stream(path, amounts=["price"])
    assert [*learner.weights()] == ["price"]
    assert learner.model.reading.table.amounts == ("price",)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_with_another_text_in_each_row_gives_a_warning(tmp_path: Path, kind: str) -> None:
    ids, labels = [f"user {n}" for n in range(300)], [n % 2 for n in range(300)]
    path = tmp_path / f"d.{kind}"
    if kind == "csv":
        rows = zip(ids, labels, strict=True)
        path.write_text("id,label\n" + "".join(f"{i},{y}\n" for i, y in rows))
    else:
        parquet.write_table(pa.table({"id": ids, "label": labels}), path)
    with pytest.warns(
        UserWarning, match=r"column 'id' has another text.*ignore=\[.id.\] \(--ignore id\)"
    ):
        OnlineLearner().learn_stream(path)


# -- frames and mappings ---------------------------------------------------------------------------


def frames(times: list[dt.datetime | None]) -> dict[str, object]:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    texts = [None if time is None else str(time) for time in times]
    zone = dt.timezone(dt.timedelta(hours=2))
    return {
        "pandas": pandas.DataFrame({"when": pandas.Series(times, dtype="datetime64[ns]")}),
        "pandas with a zone": pandas.DataFrame(
            {"when": pandas.Series(times).dt.tz_localize("UTC").dt.tz_convert(zone)}
        ),
        "pandas, text": pandas.DataFrame({"when": texts}),
        "pandas, objects": pandas.DataFrame({"when": pandas.Series(times, dtype=object)}),
        "polars": polars.DataFrame({"when": times}),
        "polars, text": polars.DataFrame({"when": texts}),
        "arrow": pa.table({"when": pa.array(times)}),
        "arrow, text": pa.table({"when": texts}),
        "mappings": [{"when": time} for time in times],
        "mappings, text": [{"when": text} for text in texts],
        "mappings, pandas": [
            {"when": None if time is None else pandas.Timestamp(time)} for time in times
        ],
        "mappings, NumPy": [
            {"when": np.datetime64("NaT" if time is None else time, "s")} for time in times
        ],
    }


@pytest.mark.parametrize("missing", ["absent", "mark"])
def test_frames_and_mappings_have_the_features_of_files(tmp_path: Path, missing: str) -> None:
    start = dt.datetime(2023, 1, 2)  # noqa: DTZ001 - as tables have them
    times: list[dt.datetime | None] = [start + dt.timedelta(hours=31 * n) for n in range(300)]
    labels = [int(time is not None and time.weekday() >= 5) for time in times]
    times[20] = None
    path = tmp_path / "d.csv"
    path.write_text(
        "when,label\n"
        + "".join(f"{time or ''},{y}\n" for time, y in zip(times, labels, strict=True))
    )
    read = OnlineLearner(missing=missing)
    read.learn_stream(path)
    wanted = read.weights()
    assert ("when=(missing)" in wanted) == (missing == "mark")
    for name, rows in frames(times).items():
        learner = OnlineLearner(missing=missing)
        learner.learn(rows, labels)
        assert learner.weights() == pytest.approx(wanted, rel=1e-5), name
        predicted = read.predict(rows)
        assert learner.predict(rows) == pytest.approx(predicted, rel=1e-4, abs=1e-6), name
        one = rows[7] if isinstance(rows, list) else {"when": times[7]}
        assert read.predict_one(one) == pytest.approx(predicted[7], rel=1e-5)
        parts = read.explain_one(one)
        assert sum(parts.values()) == pytest.approx(predicted[7], abs=1e-4)
        assert {"when", "when.week_sin"} <= set(parts)


def test_dates_of_numpy_in_nanoseconds_are_no_numbers() -> None:
    learner, twin = OnlineLearner(dtype="float64"), OnlineLearner(dtype="float64")
    for day in ("2024-05-17", "2024-05-18T06"):
        learner.learn_one({"when": np.datetime64(day, "ns")}, 1)
        twin.learn_one({"when": np.datetime64(day, "ns").astype("datetime64[us]").item()}, 1)
    assert learner.model.to_bytes() == twin.model.to_bytes()
    assert "when.day_sin" in learner.features()


def test_texts_of_a_column_of_categories_are_no_dates(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    words, labels = ["2024-05-17", "2024-05-18"] * 20, [0, 1] * 20
    path = tmp_path / "d.csv"
    pandas.DataFrame({"when": words, "label": labels}).to_csv(path, index=False)
    read, given = OnlineLearner(), OnlineLearner()
    read.learn_stream(path, text=["when"])
    given.learn(pandas.DataFrame({"when": words}).astype("category"), labels)
    read.save(tmp_path / "m.son")
    for learner in (read, given, OnlineLearner.load(tmp_path / "m.son")):
        assert learner.features() == ["when=2024-05-17", "when=2024-05-18"]
        raw = learner.predict(pandas.DataFrame({"when": words}))
        assert learner.predict_one({"when": "2024-05-18"}) == raw[1] > raw[0]
        learner.learn_one({"when": "2024-05-17"}, 0)
        assert learner.features() == ["when=2024-05-17", "when=2024-05-18"]


def test_a_column_of_a_frame_keeps_its_type() -> None:
    pandas = pytest.importorskip("pandas")
    when = pandas.DataFrame({"when": pandas.date_range("2024-01-01", periods=40)})
    labels = [0, 1] * 20
    frames, mappings = OnlineLearner(), OnlineLearner()
    frames.learn(when, labels)
    mappings.learn(when.to_dict("records"), labels)
    for learner in (frames, mappings):
        with pytest.raises(InvalidInputError, match=r"has numbers, but .* trained with dates"):
            learner.predict(pandas.DataFrame({"when": [1.0]}))
    with pytest.raises(InvalidInputError, match="'when' holds dates, and 'soon' is none") as error:
        frames.predict(pandas.DataFrame({"when": ["2024-01-01", "soon"]}))
    assert error.value.row == 1
    with pytest.raises(InvalidInputError, match=r"has text \('soon'\), but .* with dates"):
        mappings.predict(pandas.DataFrame({"when": ["soon"]}))
    for kind, values in (("numbers", [1.0] * 40), ("text", ["a"] * 40)):
        learner = OnlineLearner()
        learner.learn(pandas.DataFrame({"when": values}), labels)
        with pytest.raises(InvalidInputError, match=f"has dates, but .* trained with {kind}"):
            learner.predict(when)


def test_a_frame_with_another_text_in_each_row_gives_a_warning() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [f"user {n}" for n in range(300)]})
    learner = OnlineLearner()
    with pytest.warns(UserWarning, match="column 'id' has another text.*leave it out") as caught:
        learner.learn(frame, [0, 1] * 150)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OnlineLearner().learn(frame.astype("category"), [0, 1] * 150)
        OnlineLearner().learn(frame.assign(id=["a", "b"] * 150), [0, 1] * 150)
        learner.learn(frame, [0, 1] * 150)  # it has been said


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_a_frame_with_amounts_gives_a_warning(kind: str) -> None:
    prices = ["1,234.50 €", "12 €", *(f"{n},000 €" for n in range(1, 299))]
    shares = [f"{n % 40} %" for n in range(300)]
    columns, labels = {"price": prices, "share": shares}, [0, 1] * 150
    frame = pa.table(columns) if kind == "arrow" else pytest.importorskip(kind).DataFrame(columns)
    with pytest.warns(UserWarning, match="convert them to numbers") as caught:
        OnlineLearner().learn(frame, labels)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2
    for name, message in zip(columns, messages, strict=True):
        assert f"column {name!r} has numbers with separators or signs" in message
    assert caught[0].filename == __file__


@pytest.mark.parametrize("kind", ["date32", "timestamp[us]", "timestamp[us, tz=UTC]"])
def test_a_dictionary_of_dates_holds_categories_everywhere(tmp_path: Path, kind: str) -> None:
    days = pa.array([dt.date(2024, 5, 17), dt.date(2024, 5, 18), None] * 10)
    zone = {"tz": "UTC"} if "UTC" in kind else {}
    dates = days if kind == "date32" else days.cast(pa.timestamp("us", **zone))
    table = pa.table({"when": dates.dictionary_encode(), "label": [0, 1, 1] * 10})
    parquet.write_table(table, tmp_path / "d.parquet")
    with pa.ipc.new_file(tmp_path / "d.arrow", table.schema) as writer:
        writer.write_table(table)
    learners = [OnlineLearner(), OnlineLearner(), OnlineLearner()]
    learners[0].learn_stream(tmp_path / "d.parquet")
    learners[1].learn_stream(tmp_path / "d.arrow")
    learners[2].learn(table.select(["when"]), table["label"].to_pylist())
    first = learners[0].features()
    assert [name[:15] for name in first] == ["when=2024-05-17", "when=2024-05-18"]
    assert [learner.features() for learner in learners] == [first] * 3
