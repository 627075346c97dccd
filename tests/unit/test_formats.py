"""A format is a file with a reader and one entry in the registry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from sonline import OnlineLearner, streams
from sonline.errors import DataFormatError
from sonline.rows.cells import SparseRows
from sonline.streams.batch import BadRow
from sonline.streams.formats import FORMATS, Format, by_line
from sonline.streams.rows import RowBuilder


class BagReader:
    """Lines such as ``yes = red red round``: how often each word is there."""

    def __init__(self, options: Any, columns: dict[str, str]) -> None:
        self._builder = RowBuilder(options)

    def read(self, source: Any, start: Any) -> Iterator[Any]:
        """Yield a batch for each thousand lines, so that memory does not grow with the file."""
        lines = islice(_lines(source), start.rows, None)  # a run may be resumed within the file
        while some := list(islice(lines, 1000)):
            batch = self._batch(some, start, source.name)
            yield batch
            start = batch.end

    def _batch(self, lines: list[bytes], start: Any, file: str) -> Any:
        builder = self._builder
        counts, keys, values, labels, ends, bad = [], [], [], [], [], []
        for number, line in enumerate(lines, start.rows):
            label, equals, words = line.decode(errors="replace").partition(" = ")
            if not equals:
                bad.append(BadRow.of_table(file, number, "no ' = '", line))
                continue
            bag = Counter(words.split())
            labels.append(label)
            counts.append(len(bag))
            keys += [builder.key(word) for word in bag]
            values += bag.values()
            ends.append(number + 1)
        return builder.batch(
            rows=SparseRows.of_counts(
                np.array(counts, np.int64), np.array(keys, np.int64), np.array(values, np.float64)
            ),
            labels=labels,
            start=start,
            end=replace(start, rows=start.rows + len(lines)),
            row_ends=np.array(ends, np.int64),
            bad=bad,
            file=file,
        )


def _lines(source: Any) -> Iterator[bytes]:
    rest = b""
    while chunk := source.read(1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        yield rest


@pytest.fixture
def bags(monkeypatch: pytest.MonkeyPatch) -> None:
    bag = Format("bag", (".bag",), f"{__name__}:BagReader", looks=lambda line: b" = " in line)
    monkeypatch.setitem(FORMATS, "bag", bag)


@pytest.mark.usefixtures("bags")
@pytest.mark.parametrize("name", ["rows.bag", "rows"])
def test_a_format_of_a_test(name, tmp_path):
    (tmp_path / name).write_text("yes = red red round\nno = blue\n" * 20)
    with streams.open(tmp_path / name, tokens=True) as stream:
        assert stream.options.format == "bag"
    learner = OnlineLearner()
    assert learner.learn_stream(tmp_path / name).loss.rows == 40
    assert learner.features() == ["red", "round", "blue"]
    assert learner.predict_proba_one({"red": 2, "round": 1})["yes"] > 0.9


@pytest.mark.usefixtures("bags")
def test_its_rows_are_read_in_pieces_left_out_and_resumed(tmp_path):
    lines = [f"{'yes' if n % 3 else 'no'} = w{n % 50} w{n % 3}" for n in range(4000)]
    (tmp_path / "rows.bag").write_text("\n".join([*lines[:2500], "broken", *lines[2500:]]))
    with pytest.raises(DataFormatError, match=r"row 2501: no ' = '"):
        OnlineLearner().learn_stream(tmp_path / "rows.bag")
    assert OnlineLearner().learn_stream(tmp_path / "rows.bag", on_error="skip").loss.rows == 4000
    with streams.open(tmp_path / "rows.bag", tokens=True, on_error="skip") as stream:
        first = next(iter(stream)).head(700)
    position = first.end
    assert position.rows == 700
    with streams.open(tmp_path / "rows.bag", start=position, tokens=True, on_error="skip") as rest:
        assert sum(map(len, rest)) == 3300


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (b"+1 3:0.5 7:1", "svmlight"),
        (b"+1 qid:3 7:1 # note", "svmlight"),
        (b"1 3:0.5 x:1", "svmlight"),  # with something wrong in it, which its parser says
        (b"1 |a b:2", "vw"),
        (b'{"a": "1|2", "b": 3}', "jsonl"),
        (b"a,b,c", "csv"),
        (b"a\tb,c", "tsv"),
        (b"what is this", None),
    ],
)
def test_the_format_of_a_line(line, wanted):
    assert by_line(line) == wanted


def test_lines_of_no_format(tmp_path):
    (tmp_path / "rows").write_text("what is this\n")
    with pytest.raises(DataFormatError, match="cannot detect the format"):
        streams.open(tmp_path / "rows")
