"""Arrow batches as Spark hands them over become batches for a learner; no Spark is needed."""

import numpy as np
import pyarrow as pa
import pytest

from sonline.distributed import spark
from sonline.distributed.spark.params import LEARNER, SONParams
from sonline.distributed.spark.rows import Layout, RowReader, array_cells, vector_cells, words_of
from sonline.labels import ClassTable
from sonline.parameters import Parameters
from sonline.streams import Options

NOT_FINITE = (
    "NaN is not a finite number; drop or fill missing values, or leave them out (an empty cell, "
    "null in JSON)"
)
TOO_LARGE = "is too large: at most 1e+18 with float32; scale it, or use dtype='float64'"
VECTORS = pa.struct(
    [
        ("type", pa.int8()),
        ("size", pa.int32()),
        ("indices", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float64())),
    ]
)


def dense(*values):
    return {"type": 1, "size": None, "indices": None, "values": list(values)}


def sparse(size, indices, values):
    return {"type": 0, "size": size, "indices": indices, "values": values}


def table(*columns):
    return pa.RecordBatch.from_arrays(list(columns), names=[f"_{i}" for i in range(len(columns))])


def layout(kind, columns=("features",), label="label", weight=None, classes=None, **options):
    arguments = {
        "features": "index",
        "on_error": "skip",
        "format": "arrow",
        "label": label,
    } | options
    classes = None if classes is None else ClassTable(tuple(classes))
    return Layout(kind, tuple(columns), label, weight, classes, Options(**arguments))


def read(where, *tables):
    return list(RowReader(where, "partition 3").read(iter(tables)))


def reasons(batch):
    return [str(row.error()) for row in batch.bad]


def test_dense_and_sparse_vectors_are_one_matrix():
    column = pa.array([dense(1, 0, 3), sparse(3, [0, 2], [5, 6]), sparse(3, [], [])], type=VECTORS)
    (batch,) = read(layout("vector"), table(column, pa.array([1.0, 2.0, 3.0])))
    assert batch.indptr.tolist() == [0, 2, 4, 4]
    assert batch.indices.tolist() == [0, 2, 0, 2]
    assert batch.values.tolist() == [1, 3, 5, 6]
    assert batch.values.dtype == np.float32
    assert batch.labels.tolist() == [1, 2, 3]
    assert not batch.bad


def test_slices_of_arrow_arrays_are_read_from_their_start():
    column = pa.array([dense(9, 9), None, sparse(2, [1], [4]), dense(7, 8)], type=VECTORS)
    whole = table(column, pa.array([0.0, 0.0, 1.0, 2.0]))
    (batch,) = read(layout("vector"), whole.slice(2, 2))
    assert batch.indices.tolist() == [1, 0, 1]
    assert batch.values.tolist() == [4, 7, 8]
    assert batch.labels.tolist() == [1, 2]


def test_bad_vectors_are_named_by_partition_and_row():
    column = pa.array(
        [
            dense(1, 2),
            None,
            sparse(2, [2], [1]),
            sparse(2, [0], [1, 2]),
            dense(1, 2, 3),
            dense(np.nan, 0),
            sparse(2, [1], [1e19]),
            sparse(2, [-1], [1]),
            dense(3, 4),
        ],
        type=VECTORS,
    )
    numbers = pa.array([1.0] * 9)
    first, second = read(layout("vector"), table(column, numbers), table(column[:2], numbers[:2]))
    assert first.values.tolist() == [1, 2, 3, 4]
    assert first.row_ends.tolist() == [1, 9]
    assert reasons(first) == [
        "partition 3: row 2: no vector (null)",
        "partition 3: row 3: a sparse vector with an index beyond its size",
        "partition 3: row 4: a broken sparse vector",
        "partition 3: row 5: a vector of size 3, the others have 2",
        f"partition 3: row 6: feature 0: {NOT_FINITE}",
        f"partition 3: row 7: feature 1: 1e+19 {TOO_LARGE}",
        "partition 3: row 8: a sparse vector with an index beyond its size",
    ]
    assert reasons(second) == ["partition 3: row 11: no vector (null)"]


def test_arrays_of_any_number():
    for kind in (pa.float64(), pa.float32(), pa.int32(), pa.int8()):
        column = pa.array([[1, 0, 2], None, [0, 0, 3], [1, None, 2]], type=pa.list_(kind))
        (batch,) = read(layout("array"), table(column, pa.array([1.0, 2.0, 3.0, 4.0])))
        assert batch.indices.tolist() == [0, 2, 2]
        assert batch.labels.tolist() == [1, 3]
        assert len(batch.bad) == 2


def test_cells_of_no_rows():
    assert vector_cells(pa.array([], type=VECTORS))[0].values.size == 0
    assert array_cells(pa.array([], type=pa.list_(pa.float64())))[0].values.size == 0


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        ((0.0, 1.0, 2.5), pa.array([2.5, None, 1.0, 7.0, np.nan, -0.0])),
        (("a", "b", "ü"), pa.array(["ü", None, "b", "x", None, "a"])),
        ((0.0, 1.0), pa.array([True, None, True, None, None, False])),
    ],
)
def test_labels_become_places_of_classes(classes, labels):
    column = pa.array([[1.0]] * 6)
    (batch,) = read(layout("array", classes=classes), table(column, labels))
    assert batch.labels is None
    positions = [classes.index(labels[row].as_py()) for row in (0, 2, 5)]
    assert batch.codes.tolist() == positions
    assert [row.offset for row in batch.bad] == [1, 3, 4]
    assert "no class in the label column 'label'" in batch.bad[0].reason


def test_weights_are_checked():
    column = pa.array([[1.0]] * 4)
    where = layout("array", weight="importance")
    weights = pa.array([0.5, -1.0, None, 2.0])
    (batch,) = read(where, table(column, pa.array([1.0] * 4), weights))
    assert batch.weights.tolist() == [0.5, 2.0]
    assert [row.offset for row in batch.bad] == [1, 2]


def test_columns_have_names():
    where = layout("columns", ("größe", "Farbe", "an"), features="name", classes=("n", "y"))
    options = table(
        pa.array([1.5, None, np.nan, np.inf]),
        pa.array(["rot", "blau", None, "rot"]),
        pa.array([True, False, True, True]),
        pa.array(["y", "n", "y", "n"]),
    )
    (batch,) = read(where, options)
    assert batch.new_names == ["größe", "Farbe=rot", "an", "Farbe=blau"]
    assert batch.indices.tolist() == [0, 1, 2, 3, 2]
    assert batch.codes.tolist() == [1, 0, 1]
    (reason,) = reasons(batch)
    assert reason.startswith("partition 3: row 4: column 'größe': inf is not a finite number")


def lines(classes, **options):
    arguments = {"format": "svmlight", "tokens": True} | options
    return layout("lines", ("value",), None, classes=classes, **arguments)


def test_lines_of_text():
    first = pa.array(["+1 1:2 3:4", "-1 x", None, "1.0 2:3", "# nothing", "5 1:1"])
    second = pa.array(["-1 7:1"])
    left, two = read(lines((-1.0, 1.0)), table(first), table(second))
    assert left.codes.tolist() == [1, 1]
    assert left.indices.tolist() == [1, 3, 2]
    assert two.codes.tolist() == [0]
    assert two.indices.tolist() == [7]
    assert [row.line for row in left.bad] == [2, 6]
    assert reasons(left)[1] == "partition 3:6: the label is none of the classes (found '5')"


def test_labels_of_lines_are_words_if_one_of_them_is():
    options = table(pa.array(["1 1:1", "none 1:2", "+1 1:3"]))
    (batch,) = read(lines(("1", "none")), options)
    assert batch.codes.tolist() == [0, 1]
    assert [row.line for row in batch.bad] == [3]


def test_words_of_lines():
    options = table(pa.array(["spam 1:1", "ham 1:2", "broken", "spam 2:1 x"]))
    assert set(words_of(lines(None), [options])) >= {"spam", "ham"}


def test_every_parameter_of_the_learner_has_a_name_in_spark():
    assert set(LEARNER.values()) == set(Parameters.names())
    assert all(SONParams().hasParam(name) for name in LEARNER)


@pytest.mark.parametrize("version", ["3.5.9", "4.0.1"])
def test_an_old_spark_is_named(version, monkeypatch):
    monkeypatch.setattr("pyspark.__version__", version)
    monkeypatch.delitem(vars(spark), "SONClassifier", raising=False)
    with pytest.raises(ImportError, match=f"needs Spark 4.1 or newer, pyspark is {version}"):
        _ = spark.SONClassifier
