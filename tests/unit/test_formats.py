"""A format is a file with a reader and one entry in the registry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sonline import OnlineLearner, streams
from sonline.errors import DataFormatError
from sonline.rows.cells import SparseRows
from sonline.streams.formats import FORMATS, Format, by_line
from sonline.streams.rows import RowBuilder


class BagReader:
    """Lines such as ``yes = red red round``: how often each word is there."""

    def __init__(self, options: Any, columns: dict[str, str]) -> None:
        self._builder = RowBuilder(options)

    def read(self, source: Any, start: Any) -> Iterator[Any]:
        counts, keys, values, labels = [], [], [], []
        while chunk := source.read(1 << 16):
            for line in chunk.decode().splitlines():
                label, _, words = line.partition(" = ")
                bag = {word: float(words.split().count(word)) for word in words.split()}
                labels.append(label)
                counts.append(len(bag))
                keys += [self._builder.key(word) for word in bag]
                values += bag.values()
        yield self._builder.batch(
            rows=SparseRows.of_counts(np.array(counts), np.array(keys), np.array(values)),
            labels=labels,
            start=start,
            end=replace(start, rows=len(counts)),
            file=source.name,
        )


@pytest.mark.parametrize("name", ["rows.bag", "rows"])
def test_a_format_of_a_test(name, tmp_path, monkeypatch):
    bag = Format("bag", (".bag",), f"{__name__}:BagReader", looks=lambda line: b" = " in line)
    monkeypatch.setitem(FORMATS, "bag", bag)
    (tmp_path / name).write_text("yes = red red round\nno = blue\n" * 20)
    with streams.open(tmp_path / name, tokens=True) as stream:
        assert stream.options.format == "bag"
    learner = OnlineLearner()
    assert learner.learn_stream(tmp_path / name).loss.rows == 40
    assert learner.features() == ["red", "round", "blue"]
    assert learner.predict_proba_one({"red": 2, "round": 1})["yes"] > 0.9


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
