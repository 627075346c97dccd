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
        found = {batch.new_names[key]: value for key, value in zip(keys, values, strict=True)}
        assert {name: value for name, value in found.items() if "*" in name} == wanted


def test_an_exclusive_or_is_learnt_with_a_product_only(tmp_path):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (2000, 2))
    rows = [f"{1 if a != b else -1},u{a},v{b}" for a, b in bits.tolist()]
    file = tmp_path / "a.csv"
    file.write_text("label,x,y\n" + "\n".join(rows) + "\n")
    plain, crossed = OnlineLearner(), OnlineLearner()
    assert plain.learn_stream(file).error.average > 0.3
    assert crossed.learn_stream(file, interactions=["x*y"]).error.average < 0.02
    assert "x=u0*y=v1" in crossed.weights()


def test_what_cannot_be_multiplied(tmp_path):
    file = written(tmp_path, "csv")
    for given, words in ((["age"], "such as 'a\\*b'"), (["age*sex"], "no column 'sex'")):
        with (
            pytest.raises((ParameterError, DataFormatError), match=words),
            streams.open(file, interactions=given) as stream,
        ):
            list(stream)
    other = tmp_path / "a.svm"
    other.write_text("1 1:2\n")
    with pytest.raises(ParameterError, match="interactions need columns"):
        streams.open(other, interactions=["1*2"])
