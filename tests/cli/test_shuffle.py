"""Rows in another order in each pass, within blocks."""

import json

import pytest

from cli.conftest import svmlight, tensors
from sonline import streams
from sonline.streams.shuffling import shuffled


def rows_of(batches):
    """Return the features of each row by name, in the order of the rows."""
    names, rows = [], []
    for batch in batches:
        names += batch.new_names
        ends = batch.indptr.tolist()
        for row, label in enumerate(batch.labels.tolist()):
            part = slice(ends[row], ends[row + 1])
            keys, values = batch.indices[part].tolist(), batch.values[part].tolist()
            weight = 1.0 if batch.weights is None else float(batch.weights[row])
            tag = "" if batch.tags is None else batch.tags[row]
            features = tuple(zip([names[key] for key in keys], values, strict=True))
            rows.append((label, weight, tag, int(batch.lines[row]), features))
    return rows


@pytest.mark.parametrize("block", [1, 7, 40, 1000])
def test_blocks_hold_the_same_rows_in_another_order(tmp_path, block):
    lines = [
        f"{n} {n % 3 + 1} 'tag{n} | " + " ".join(f"f{n % k}:{n}" for k in range(1, n % 5 + 1))
        for n in range(1, 101)
    ]
    lines.insert(50, "bad")
    file = tmp_path / "a.vw"
    file.write_text("\n".join(lines) + "\n")
    reading = {"on_error": "skip"}
    with streams.open([file], **reading) as stream:
        plain = rows_of(stream)
    with streams.open([file], passes=2, **reading) as stream:
        blocks = list(shuffled(stream, block, 3, lambda: False))
    assert sum(batch.skipped for batch in blocks) == 2
    actual = rows_of(blocks)
    first, second = actual[:100], actual[100:]
    for start in range(0, 100, block):
        part = slice(start, start + block)
        assert sorted(first[part]) == sorted(second[part]) == sorted(plain[part])
    assert (first == plain) == (block == 1)
    assert (first == second) == (block == 1)
    # From the end of any block on the blocks are the same.
    position = blocks[0].end
    with streams.open([file], passes=2, start=position, **reading) as stream:
        labels = [batch.labels.tolist() for batch in shuffled(stream, block, 3, lambda: False)]
    assert labels == [batch.labels.tolist() for batch in blocks[1:]]


def test_sorted_rows_are_learned_better_and_resume_is_exact(sonline, tmp_path):
    lines = sorted(svmlight(1000, features=20).splitlines(keepends=True), key=lambda x: x[:2])
    (tmp_path / "a.svm").write_text("".join(lines))
    command = ["train", "a.svm", "--passes", 2]
    evaluation = {}
    for name, more in (("plain", []), ("mixed", ["--shuffle", 5000])):
        sonline(*command, *more, "-o", f"{name}.son", "-q")
        report = sonline("evaluate", "a.svm", "-m", f"{name}.son", "--json")
        evaluation[name] = json.loads(report.stdout)["loss"]
    assert evaluation["mixed"] < evaluation["plain"]
    again = [*command, "--shuffle", 100, "-o", "whole.son", "-q"]
    sonline(*again)
    parts = [*command, "--shuffle", 100, "-o", "parts.son", "-q"]
    sonline(*parts, "--limit", 1300)
    assert (
        "shuffle 100, this run has 50"
        in sonline(*command, "--shuffle", 50, "-o", "parts.son", "--resume", code=2).stderr
    )
    sonline(*parts, "--resume")
    assert tensors(tmp_path / "parts.son") == tensors(tmp_path / "whole.son")
    for option in (["--holdout", 5], ["--predictions", "p.txt"]):
        assert "--shuffle" in sonline(*again, *option, code=2).stderr
