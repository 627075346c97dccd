"""JSON lines that are too long, too deep or no text: bad rows, and never the end of the stream."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from sonline import streams
from sonline.errors import DataFormatError
from sonline.streams import text

GOOD = '{"label": 1, "x": 2}'

BAD: dict[str, str] = {
    "integer of 5,000 digits": '{"label": 1, "x": ' + "9" * 5000 + "}",
    "label of 5,000 digits": '{"label": ' + "1" * 5000 + ', "x": 1}',
    "integer of 400 digits": '{"label": 1, "x": ' + "9" * 400 + "}",
    "key of half a character": '{"label": 1, "\\ud800": 1}',
    "value of half a character": '{"label": 1, "x": "a\\udfffb"}',
    "label of half a character": '{"label": "\\ud800", "x": 1}',
    "half a key twice": '{"label": 1, "\\ud800": 1, "\\ud800": 1}',
    "deep": '{"label": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "infinity": '{"label": 1, "x": Infinity}',
    "no object": "[1, 2]",
}


def read(path: Path, **options: Any) -> tuple[int, list[Any]]:
    rows, bad = 0, []
    with streams.open([str(path)], **options) as stream:
        for batch in stream:
            rows += len(batch)
            bad += batch.bad
    return rows, bad


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("what", BAD)
def test_bad_lines_can_be_skipped(what: str, tokens: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{GOOD}\n{BAD[what]}\n{GOOD}\n", encoding="utf-8")
    rows, bad = read(path, on_error="skip", tokens=tokens)
    fine = tokens and what == "label of 5,000 digits" and not bad
    assert rows == 2 + fine
    assert [entry.line for entry in bad] == [2] * (1 - fine)
    if bad:
        with pytest.raises(DataFormatError, match=r"a\.jsonl:2:"):
            read(path, tokens=tokens)


def test_whole_pairs_are_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(GOOD + "\n" + '{"label": 1, "\\ud83d\\ude00": 1}\n', encoding="utf-8")
    assert read(path) == (2, [])


@pytest.mark.parametrize("ending", ["", "\n", "\n" + GOOD, "\n" + GOOD + "\n"])
def test_long_lines_are_bad_rows(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "a.jsonl"
    long = '{"label": 1, "x": "' + "a" * (3 << 20) + '"}'
    path.write_text(f"{GOOD}\n{long}{ending}", encoding="utf-8")
    rows, bad = read(path, on_error="skip")
    assert rows == 1 + (GOOD in ending)
    assert [entry.line for entry in bad] == [2]
    assert bad[0].reason == "the line is longer than 64 MB; perhaps a line break is missing"
    assert len(bad[0].text) == 65536


def test_positions_behind_a_long_line_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "a.jsonl"
    lines = [GOOD, '{"label": "' + "a" * (2 << 20) + '"}', GOOD, GOOD]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with streams.open([str(path)], on_error="skip") as stream:
        batches = list(stream)
    assert batches[-1].end.offset == path.stat().st_size
    assert sum(len(batch) for batch in batches) == 3


def test_time_grows_as_the_line_does(tmp_path: Path) -> None:
    def seconds(size: int) -> float:
        path = tmp_path / "a.jsonl"
        path.write_text('{"label": 1, "x": "' + "a" * size + '"}\n', encoding="utf-8")
        best = 1e9
        for _ in range(3):
            started = time.process_time()
            read(path)
            best = min(best, time.process_time() - started)
        return best

    small, large = seconds(4 << 20), seconds(48 << 20)
    assert large < 60 * max(small, 0.01)  # 12 times the length; it was 144 times the time


def test_a_duplicate_among_many_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    row = json.dumps({"label": 1, **{f"k{i}": 1 for i in range(100_000)}})
    seconds = []
    for line in (row, row[:-1] + ', "k99999": 1}'):
        path.write_text(line + "\n" + GOOD + "\n", encoding="utf-8")
        started = time.process_time()
        rows, bad = read(path, on_error="skip")
        seconds.append(time.process_time() - started)
    assert rows == 1
    assert "'k99999' occurs twice" in bad[0].reason
    assert seconds[1] < 20 * seconds[0]  # comparing each with each takes a thousand times as long
