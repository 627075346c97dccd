"""From tables, texts and ids to rows; streams as files."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from benchmarks.accuracy import encode, tables
from benchmarks.accuracy.cache import Cache
from benchmarks.accuracy.stream import MOST_ROWS, Stream


def table(**fields) -> tables.Table:
    about = {"source": "", "name": "t", "file": "", "target": "y", "kind": "regression"}
    return tables.Table(**(about | {"group": "tables"} | fields))


FRAME = pd.DataFrame(
    {
        "y": [3.0, 1.0, None, 9.0, 0.0],
        "word": ["a", "b", "b", "a", "c"],
        "shop": [7, 8, 8, 7, 9],
        "number": ["1.5", "2", "3", "?", "4"],
        "copy": [3.0, 1.0, 0.0, 9.0, 0.0],
        "day": [2, 4, 3, 1, 5],
    }
)


def test_rows_of_a_table():
    described = table(drop=("copy",), as_ids=("shop",), sort="day", log=True)
    X, y = described.rows_of(FRAME.assign(number=[1.5, 2.0, 3.0, None, np.inf]))
    assert y.tolist() == np.log10([10, 4, 2, 1]).tolist()  # by day, without the missing target
    assert X.toarray()[:, :3].tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert X.toarray()[:, 3:6].tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert X.toarray()[:, 6:].tolist() == [[0, 1], [1.5, 2], [2, 4], [0, 5]]


def test_labels_of_a_table():
    frame = pd.DataFrame({"y": [" no", "yes ", "no", "maybe"], "x": range(4)})
    binary = table(kind="binary", positive=("yes", "maybe"), order=True)
    assert binary.rows_of(frame)[1].tolist() == [-1, 1, -1, 1]
    assert table(kind="multiclass", order=True).rows_of(frame)[1].tolist() == [1, 2, 1, 0]
    numbers = pd.DataFrame({"y": [0.0, 1.0, 2.0], "x": range(3)})
    assert table(kind="binary", above=0, order=True).rows_of(numbers)[1].tolist() == [-1, 1, 1]
    assert table(kind="binary", positive=("1",), order=True).rows_of(numbers)[1].tolist() == [
        -1, 1, -1,
    ]  # fmt: skip


def test_shuffled_tables_have_one_order_and_a_part_is_its_beginning():
    frame = pd.DataFrame({"y": np.arange(100.0), "x": np.arange(100.0)})
    y = table().rows_of(frame)[1]
    assert y.tolist() == encode.order(100).tolist()
    assert table(rows=10).rows_of(frame)[1].tolist() == y[:10].tolist()


def test_columns_of_words_and_numbers():
    frame = pd.DataFrame(
        {
            "levels": pd.Categorical(["1", "2", "2"]),  # R's factors are names, even of numbers
            "text": ["1", "2", "x"],
            "numbers": ["1", "2", "3"],
            "flag": [True, False, True],
        }
    )
    X = encode.columns_of(frame, levels=2).toarray()
    assert X.tolist() == [[0, 1, 1, 0, 1, 1], [1, 0, 0, 1, 2, 0], [1, 0, 0, 0, 3, 1]]


def test_a_table_of_orange():
    text = "a\tb\ncontinuous\td\n\tclass\n1\tx\n?\ty\nbroken line\n2\t\n"
    frame = tables.orange(text)
    assert frame["a"].tolist()[0] == "1"
    assert frame.isna().to_numpy().tolist() == [[False, False], [True, False], [False, True]]


def test_the_list_of_tables_is_complete():
    listed = tables.listed()
    assert len(listed) > 130
    assert all((t.kind == "binary") == bool(t.positive or t.above is not None) for t in listed)
    assert not [t.name for t in listed if t.target in t.drop]
    assert all(t.sort or t.order for t in listed if t.group == "ordered")


def test_classes_need_rows_and_are_cut():
    labels = list("abacabbbd")
    assert encode.classes(labels)[1].tolist() == [0, 1, 0, 2, 0, 1, 1, 1, 3]
    kept, y = encode.classes(labels, least=2, cap=2)
    assert kept == [0, 1, 2, 5]
    assert y.tolist() == [0, 1, 0, 1]
    assert encode.classes(labels, most=1)[0] == [1, 5, 6, 7]


@pytest.mark.parametrize(
    ("how", "first"), [("counts", [2, 1]), ("0/1", [1, 1]), ("tf-idf", [0.8944, 0.4472])]
)
def test_words(how, first):
    X = encode.words(["x y x", "x y"], how).toarray()
    assert X[0] == pytest.approx(first, abs=1e-4)
    assert encode.words(["ab"], "0/1", letters=(2, 2)).shape == (1, 3)  # " a", "ab", "b "


def stream(X, y, kind="regression") -> Stream:
    return Stream("A stream, 0/1", kind, "tables", lambda: (X, np.asarray(y, float)), "npm:a@1")


def test_a_stream_is_built_once(tmp_path):
    X = sp.csr_matrix([[0, 0.1, 0], [0, 2, 3], [0, 0, 0]])
    cache = Cache(tmp_path / "streams")
    cache.rows(stream(X, [1, 2, 6]))
    again, y = cache.rows(stream(X * 2, [5, 5, 5]))  # not loaded
    assert again.toarray().tolist() == X.toarray()[:, 1:].tolist()  # the first column is empty
    assert y.tolist() == [1, 2, 6]
    entry = json.loads((tmp_path / "streams" / "index.json").read_text(encoding="utf-8"))[0]
    assert entry == {
        "name": "A stream, 0/1", "kind": "regression", "group": "tables", "half": "development",
        "source": "npm:a@1", "file": "a-stream-0-1.npz", "rows": 3, "features": 2,
        "nnz_per_row": 1.0, "classes": None, "base_rate": 3.0,
    }  # fmt: skip


def test_a_long_stream_is_cut_and_its_classes_numbered_again(tmp_path):
    y = np.r_[np.arange(MOST_ROWS) % 3 * 2, 1, 1]
    X, classes = Cache(tmp_path).rows(stream(sp.csr_matrix(np.ones((y.size, 1))), y, "multiclass"))
    assert X.shape[0] == classes.size == MOST_ROWS
    assert set(classes) == {0, 1, 2}


@pytest.mark.parametrize(
    ("X", "y", "kind", "message"),
    [
        ([[1.0], [np.nan]], [1, 2], "regression", "not finite"),
        ([[1.0], [2.0]], [1, 2, 3], "regression", "do not fit"),
        ([[1.0], [2.0]], [1, 1], "binary", "both of them"),
        ([[1.0], [2.0]], [0, 1], "binary", "-1 and"),
    ],
)
def test_a_bad_stream_is_not_kept(tmp_path, X, y, kind, message):
    with pytest.raises(ValueError, match=message):
        Cache(tmp_path).rows(stream(sp.csr_matrix(X), y, kind))
    assert not list(tmp_path.iterdir())


def test_streams_that_cannot_be_built_are_left_out_with_a_line(tmp_path, monkeypatch, capsys):
    main = pytest.importorskip("benchmarks.accuracy.__main__")
    good = Stream("good", "regression", "tables", lambda: (sp.eye_array(3).tocsr(), np.arange(3.0)))
    bad = Stream("bad", "regression", "ids", lambda: 1 / 0)
    monkeypatch.setattr("benchmarks.accuracy.streams.all_streams", lambda *_: [bad, good])
    arguments = ["accuracy", "--cache", str(tmp_path), "--prepare"]
    monkeypatch.setattr("sys.argv", arguments)
    main.main()
    out, err = capsys.readouterr()
    assert "good: 3 rows, 3 features" in out
    assert err == "left out: bad: ZeroDivisionError('division by zero')\n"
    assert [path.name for path in (tmp_path / "streams").glob("*.npz")] == ["good.npz"]
    monkeypatch.setattr("sys.argv", [*arguments, "--groups", "ids"])
    main.main()
    assert "good" not in capsys.readouterr().out
