"""JSON lines beside Python's own ``json``: the same features, labels, weights, tags and types."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sonline import streams
from sonline.errors import DataFormatError
from sonline.labels import token_of
from sonline.streams import text

NAN = float("nan")
Features = list[tuple[str, float]]


def features_of(column: str, value: Any, types: dict[str, str]) -> Features:
    """Return the features of a value, written after the documentation."""
    if value is None:
        return []
    if isinstance(value, str):
        types.setdefault(column, "text")
        return [(f"{column}={value}", 1.0)]
    if isinstance(value, dict):
        features = [
            features_of(f"{column}.{key}", learner, types) for key, learner in value.items()
        ]
        return [pair for pairs in features for pair in pairs]
    if isinstance(value, list):
        if value and all(isinstance(learner, str) for learner in value):
            types.setdefault(column, "text")
            return [(f"{column}={learner}", float(n)) for learner, n in Counter(value).items()]
        return features_of(column, {str(n): learner for n, learner in enumerate(value)}, types)
    types.setdefault(column, "number")
    return [(column, float(value))] if value else []


def read(path: Path, **options: Any) -> tuple[list[Features], list[Any], dict[str, str]]:
    rows: list[Features] = []
    labels: list[Any] = []
    names: list[str] = []
    options = {"dtype": "float64", "tokens": True} | options
    with streams.open(path, **options) as stream:
        for batch in stream:
            names += batch.new_names
            ends = batch.indptr.tolist()
            pairs = zip([names[i] for i in batch.indices], batch.values.tolist(), strict=True)
            all_pairs = list(pairs)
            rows += [all_pairs[a:b] for a, b in itertools.pairwise(ends)]
            labels += [batch.names.words[code] for code in batch.codes.tolist()]
    return rows, labels, stream.columns


numbers = st.one_of(
    st.integers(-(10**18), 10**18),
    st.floats(-1e150, 1e150, allow_nan=False),
    st.booleans(),
    st.sampled_from([0, -0.0, 1e-310, 5e-324, 0.1, 1e22, 123456789.123456789, 2**53 + 1]),
)
words = st.text(st.characters(codec="utf-8"), max_size=12)
values = st.recursive(
    st.none() | numbers | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=8,
)
rows = st.lists(
    st.dictionaries(words.filter(lambda k: k != "label"), values, max_size=6), max_size=6
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=rows, labels=st.lists(numbers | words, min_size=6, max_size=6), data=st.data())
def test_features_are_those_of_python(
    rows: list[dict[str, Any]], labels: list[Any], data: st.DataObject, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    plain = data.draw(st.booleans())
    indent = data.draw(st.sampled_from([(", ", ": "), (",", ":"), (" ,\t", " :  ")]))
    lines = [
        json.dumps({**row, "label": label}, ensure_ascii=plain, separators=indent)
        for row, label in zip(rows, labels, strict=False)
    ]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    types: dict[str, str] = {}
    expected = [
        [pair for column, value in row.items() for pair in features_of(column, value, types)]
        for row in rows
    ]
    if not rows:
        return
    actual, tokens, columns = read(path, format="jsonl")
    assert actual == expected
    assert tokens == [token_of(label) for label in labels[: len(rows)]]
    assert columns == types


def test_chunks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    row = {"label": "é", "a": 1.5, "b": ["x", "y", "x"], "c": {"d": "\u20ac\n"}}
    path.write_text("".join(json.dumps(row) + "\n" for _ in range(50)), encoding="utf-8")
    whole = read(path)
    for size in (1, 7, 64):
        monkeypatch.setattr(text, "CHUNK", size)
        assert read(path) == whole


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"label": 1', "',' or the closing bracket"),
        ('{"label": 1,}', "a key in double quotes"),
        ('{"label" 1}', "':' after the key"),
        ('{"label": 1, "a": }', "expected a value"),
        ('{"label": 1, "a": tru}', "expected a value"),
        ('{"label": 1, "a": 01}', "not a number as JSON"),
        ('{"label": 1, "a": 1.}', "not a number as JSON"),
        ('{"label": 1, "a": 1e}', "not a number as JSON"),
        ('{"label": 1, "a": -}', "not a number as JSON"),
        ('{"label": 1, "a": "x', "does not end on its line"),
        ('{"label": 1, "a": "\t"}', "control character"),
        ('{"label": 1, "a": "\\x"}', "unknown escape"),
        ('{"label": 1} {"label": 1}', "one object per line"),
        ('{"label": [1], "a": 1}', "column 'label' holds an array"),
        ('{"label": 1, "a": {"b": 1, "b": 2}}', "column 'a.b' occurs twice"),
        ('{"a": 1}', "column 'label' is missing"),
        ('{"label": null, "a": 1}', "column 'label' is missing"),
    ],
)
def test_errors_describe_the_fault(line: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(DataFormatError, match=r"a\.jsonl:1:") as caught:
        read(path)
    assert reason in caught.value.message


def test_a_bad_row_leaves_no_names(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    bad = '{"label": 2, "new": 1, "c": "new", "a": }'
    path.write_text(f'{{"label": 1, "a": 1}}\n{bad}\n{{"label": 3, "new": 5, "a": 2}}\n')
    actual, labels, _ = read(path, on_error="skip")
    assert actual == [[("a", 1.0)], [("new", 5.0), ("a", 2.0)]]
    assert labels == ["1", "3"]


def test_roles_are_those_of_paths_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"meta": {"y": 1, "id": "x1", "w": 2.5, "skip": [1, {"a": NAN}]}, "n": 7.0, "b": True}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"label": "meta.y", "tag": "meta.id", "weight": "meta.w", "ignore": ["meta.skip"]}
    with streams.open(path, text=["n", "b"], **options) as stream:
        (batch,) = stream
    assert batch.labels.tolist() == [1.0]
    assert batch.tags == ["x1"]
    assert batch.weights.tolist() == [2.5]
    assert batch.new_names == ["n=7", "b=1"]
