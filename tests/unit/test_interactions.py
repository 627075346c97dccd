"""Products of columns, in every format that has columns and on both faces."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from sonline import OnlineLearner, streams
from sonline.errors import DataFormatError, ParameterError

ROWS = [
    {"label": 1, "age": 2.0, "city": "Oslo", "plan": "a"},
    {"label": -1, "age": 3.0, "city": "Rome", "plan": "a"},
    {"label": 1, "age": None, "city": "Oslo", "plan": "b"},
    {"label": -1, "age": 5.0, "city": None, "plan": "b"},
]
PRODUCTS = ["age*city", "city*plan", "age*age"]
WANTED = [
    {"age*city=Oslo": 2.0, "city=Oslo*plan=a": 1.0, "age*age": 4.0},
    {"age*city=Rome": 3.0, "city=Rome*plan=a": 1.0, "age*age": 9.0},
    {"city=Oslo*plan=b": 1.0},
    {"age*age": 25.0},
]


def written(folder, kind):
    file = folder / f"a.{kind}"
    table = pa.Table.from_pylist(ROWS)
    if kind == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif kind == "parquet":
        parquet.write_table(table, file)
    else:
        lines = ["label,age,city,plan"]
        lines += [",".join("" if v is None else str(v) for v in row.values()) for row in ROWS]
        file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_products_of_columns(tmp_path, kind):
    with streams.open(written(tmp_path, kind), interactions=PRODUCTS) as stream:
        [batch] = [batch for batch in stream if len(batch)]
    for row, wanted in enumerate(WANTED):
        part = slice(*batch.indptr[row : row + 2].tolist())
        keys, values = batch.indices[part].tolist(), batch.values[part].tolist()
        actual = {batch.new_names[key]: value for key, value in zip(keys, values, strict=True)}
        assert {name: value for name, value in actual.items() if "*" in name} == wanted


def test_an_exclusive_or_is_learned_with_a_product_only(tmp_path):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (2000, 2))
    rows = [f"{1 if a != b else -1},u{a},v{b}" for a, b in bits.tolist()]
    file = tmp_path / "a.csv"
    file.write_text("label,x,y\n" + "\n".join(rows) + "\n")
    plain, crossed = OnlineLearner(), OnlineLearner()
    assert plain.learn_stream(file).error.average > 0.3
    assert crossed.learn_stream(file, interactions=["x*y"]).error.average < 0.02
    assert "x=u0*y=v1" in crossed.weights()


def test_invalid_interactions(tmp_path):
    file = written(tmp_path, "csv")
    for options, words in ((["age"], "such as 'a\\*b'"), (["age*sex"], "no column 'sex'")):
        with (
            pytest.raises((ParameterError, DataFormatError), match=words),
            streams.open(file, interactions=options) as stream,
        ):
            list(stream)
    other = tmp_path / "a.svm"
    other.write_text("1 1:2\n")
    with pytest.raises(ParameterError, match="interactions need columns"):
        streams.open(other, interactions=["1*2"])


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_words_of_a_column(tmp_path, kind):
    rows = [
        {"label": 1, "a": 2.0, "text": "to be or  to\tbe", "b": 3.0},
        {"label": -1, "a": 1.0, "text": None, "b": 4.0},
        {"label": 1, "a": 5.0, "text": "be", "b": 6.0},
    ]
    file = tmp_path / f"a.{kind}"
    if kind == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), file)
    elif kind == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        cells = [["" if v is None else str(v) for v in row.values()] for row in rows]
        file.write_text("\n".join(map(",".join, [list(rows[0]), *cells])) + "\n")
    with streams.open(file, ngrams=["text:2"]) as stream:
        [batch] = [batch for batch in stream if len(batch)]
    names = ["a", "to", "be", "or", "to be", "be or", "or to", "b"]
    names = [name if len(name) == 1 else f"text={name}" for name in names]
    assert batch.new_names == names
    assert batch.indptr.tolist() == [0, 8, 10, 13]
    assert batch.indices.tolist() == [*range(8), 0, 7, 0, 2, 7]
    assert batch.values.tolist() == [2, 2, 2, 1, 2, 1, 1, 3, 1, 4, 5, 1, 6]


def test_words_that_cannot_be_split(tmp_path):
    file = written(tmp_path, "csv")
    for options, words in ((["city"], "COLUMN:N"), (["sex:2"], r"no column 'sex' \(there are ")):
        with (
            pytest.raises(ParameterError, match=words),
            streams.open(file, ngrams=options) as stream,
        ):
            list(stream)


def test_weights_behind_labels(tmp_path):
    file = tmp_path / "a.svm"
    file.write_text("1:0.5 3:2\n-1 3:1\nyes:2 4:1\n1:x 3:1\n1:-1 3:1\n:2 3:1\n1: 3:1\n")
    with streams.open(file, weight="label", tokens=True, on_error="skip") as stream:
        [batch] = stream
    assert batch.weights.tolist() == [0.5, 1, 2]
    assert batch.new_labels == ["1", "-1", "yes"]
    assert batch.indices.tolist() == [3, 3, 4]
    assert [(row.line, row.column) for row in batch.bad] == [(4, 3), (5, 3), (6, 1), (7, 1)]
    file.write_text("1:0.5 3:2\n2.5:4 1:1\n")
    with streams.open(file, weight="label") as stream:
        [batch] = stream
    assert (batch.labels.tolist(), batch.weights.tolist()) == ([1, 2.5], [0.5, 4])
    plain, weighted = OnlineLearner(loss="squared"), OnlineLearner(loss="squared")
    weighted.learn_stream(file, weight="label")
    plain.learn([{3: 2.0}, {1: 1.0}], [1.0, 2.5], [0.5, 4.0])
    assert (
        weighted.predict([{3: 1.0, 1: 1.0}]).tolist() == plain.predict([{3: 1.0, 1: 1.0}]).tolist()
    )
    with pytest.raises(ParameterError, match="--weight label"):
        OnlineLearner().learn_stream(file, weight="w")


def test_namespaces_to_ignore(tmp_path):
    file = tmp_path / "a.vw"
    file.write_text("1 | a b |user c:2 |item d |unit e\n")
    for options, wanted in (
        ({}, ["a", "b", "user^c", "item^d", "unit^e"]),
        ({"ignore": ["u"]}, ["a", "b", "item^d"]),
        ({"ignore": [" ", "i"]}, ["user^c", "unit^e"]),
    ):
        with streams.open(file, **options) as stream:
            assert [name for batch in stream for name in batch.new_names] == wanted
    learner = OnlineLearner()
    learner.learn_stream(file, ignore=["u"])
    learner.learn_stream(file)  # the model knows how it reads
    assert learner.features() == ["a", "b", "item^d"]
