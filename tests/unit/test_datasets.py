"""The registry, reading from folders, and the label rules."""

import bz2
import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sonline.errors import DataFormatError, ParameterError
from sonline.paper import datasets
from sonline.paper.datasets.convert import FORMS

LETTERS = b"1 1:2 3:1\n5 2:4\n2 1:1 2:0\n"  # A, E, B


@pytest.fixture(autouse=True)
def no_other_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SONLINE_DATA", raising=False)
    monkeypatch.setenv("SONLINE_CACHE", str(tmp_path / "cache"))


def test_the_registry_holds_the_23_sets_of_the_paper_with_source_and_form():
    assert len(datasets.names()) == 23
    for name in datasets.names():
        known = datasets.info(name)
        assert known.page.startswith("https://")
        assert known.urls or known.form == "20news"  # which scikit-learn fetches
        assert known.form in FORMS
        assert known.licence
        assert known.task
        assert known.positive


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ParameterError, match="'a10a'; there are 20news, a9a"):
        datasets.load("a10a")


@pytest.mark.parametrize(
    ("ending", "pack"),
    [
        (".svm", bytes),
        (".svm.gz", gzip.compress),
        (".bz2", bz2.compress),
        (".svm.xz", lzma.compress),
    ],
)
def test_a_folder_may_hold_text_packed_in_any_way(tmp_path, ending, pack):
    (tmp_path / f"letter{ending}").write_bytes(pack(LETTERS))
    data = datasets.load("letter", tmp_path)
    assert data.y.tolist() == [1, 1, -1]  # vowels against the rest
    assert data.labels.tolist() == [1, 5, 2]
    assert data.X.shape == (3, 16)
    np.testing.assert_array_equal(data.X.toarray()[:, :3], [[2, 0, 1], [0, 4, 0], [1, 0, 0]])
    assert data.X.nnz == 4  # the explicit zero is dropped


def test_the_folder_can_be_named_by_the_environment(tmp_path, monkeypatch):
    (tmp_path / "letter.svm").write_bytes(LETTERS)
    monkeypatch.setenv("SONLINE_DATA", str(tmp_path))
    assert datasets.load("letter").path == tmp_path / "letter.svm"


def test_a_folder_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(ParameterError, match="is not a folder"):
        datasets.load("letter", tmp_path / "nowhere")


def test_an_error_about_missing_data_lists_the_folders(tmp_path):
    with pytest.raises(datasets.DownloadError, match=r"letter is neither .* fetch it"):
        datasets.load("letter", tmp_path, download=False)


def test_labels_that_are_binary_already_are_kept(tmp_path):
    (tmp_path / "covtype.svm").write_bytes(b"+1 1:1\n-1 2:1\n")
    assert datasets.load("covtype", tmp_path).y.tolist() == [1, -1]
    (tmp_path / "mnist.svm").write_bytes(b"1 1:1\n0 2:1\n")
    assert datasets.load("mnist", tmp_path).y.tolist() == [1, -1]


def test_other_classes_than_those_of_the_task_are_left_out(tmp_path):
    (tmp_path / "mnist.svm").write_bytes(b"4 1:1\n7 1:2\n9 1:3\n")
    data = datasets.load("mnist", tmp_path)
    assert data.y.tolist() == [1, -1]
    assert data.X.toarray()[:, 0].tolist() == [1, 3]


def test_a_file_of_one_class_is_an_error(tmp_path):
    (tmp_path / "letter.svm").write_bytes(b"2 1:1\n3 1:2\n")
    with pytest.raises(DataFormatError, match=r"letter\.svm: labels are .*vowels"):
        datasets.load("letter", tmp_path)


def test_a_bad_line_is_named(tmp_path):
    (tmp_path / "letter.svm").write_bytes(b"1 1:1\n2 one:1\n")
    with pytest.raises(DataFormatError, match=r"letter\.svm:2:3: .*one:1"):
        datasets.load("letter", tmp_path)


def test_a_damaged_file_is_an_error(tmp_path):
    (tmp_path / "letter.svm.gz").write_bytes(gzip.compress(LETTERS * 100)[:-20])
    with pytest.raises(DataFormatError, match="damaged"):
        datasets.load("letter", tmp_path)


def test_index_zero_is_an_error(tmp_path):
    (tmp_path / "letter.svm").write_bytes(b"1 0:1\n2 1:1\n")
    with pytest.raises(DataFormatError, match="counted from 1"):
        datasets.load("letter", tmp_path)


def test_an_error_about_a_file_shows_the_difference(tmp_path):
    (tmp_path / "letter.svm").write_bytes(LETTERS)
    assert datasets.load("letter", tmp_path).differences() == [
        "3 rows, expected 20000",
        "1.33 non-zeros in a row, expected 15.58",
    ]


def test_the_fingerprint_is_of_contents_not_of_types():
    X = sp.csr_matrix([[0.0, 1.5], [2.0, 0.0]])
    wide = sp.csr_matrix((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)))
    y = np.array([1.0, -1.0])
    assert datasets.fingerprint(X, y) == datasets.fingerprint(wide, y)
    assert datasets.fingerprint(X, y) != datasets.fingerprint(X, -y)
    assert datasets.fingerprint(X, y) != datasets.fingerprint(X[::-1], y)


def test_letters_and_telescope_are_read_as_published(tmp_path):
    (tmp_path / "letters").write_text("T,2,8,0\nA,1,0,3\n")
    X, labels = FORMS["letter"]([tmp_path / "letters"])
    assert labels.tolist() == [20, 1]
    np.testing.assert_array_equal(X.toarray(), [[2, 8, 0], [1, 0, 3]])
    (tmp_path / "magic").write_text("28.5,0,g\n-1,2,h")  # no newline at the end
    X, labels = FORMS["magic04"]([tmp_path / "magic"])
    assert labels.tolist() == [1, -1]
    np.testing.assert_array_equal(X.toarray(), [[28.5, 0], [-1, 2]])


def test_forest_cover_is_read_as_published(tmp_path):
    (tmp_path / "covtype.data.gz").write_bytes(gzip.compress(b"2596,0,1,5\n2590,56,0,2\n"))
    X, labels = FORMS["covtype"]([tmp_path / "covtype.data.gz"])
    assert labels.tolist() == [5, 2]
    np.testing.assert_array_equal(X.toarray(), [[2596, 0, 1], [2590, 56, 0]])
    assert X.nnz == 4


def test_tables_become_numbers_and_one_feature_for_each_word(tmp_path):
    (tmp_path / "data").write_text("38, Private, 0, - 50000.\n44, ?, 2.5, 50000+.\n")
    (tmp_path / "test").write_text("0, Federal, 1, - 50000.\n")
    X, labels = FORMS["census"]([tmp_path / "data", tmp_path / "test"])
    assert labels.tolist() == [-1, 1, -1]
    # age; Federal, Private; the last number
    np.testing.assert_array_equal(X.toarray(), [[38, 0, 1, 0], [44, 0, 0, 2.5], [0, 1, 0, 1]])


def test_adult_leaves_out_the_comment_of_its_test_part(tmp_path):
    (tmp_path / "adult.data").write_text("39, State-gov, <=50K\n52, Private, >50K\n\n")
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n25, Private, >50K.\n")
    X, labels = FORMS["adult"]([tmp_path / "adult.data", tmp_path / "adult.test"])
    assert labels.tolist() == [-1, 1, 1]
    np.testing.assert_array_equal(X.toarray(), [[39, 0, 1], [52, 1, 0], [25, 1, 0]])


def test_parts_of_a_set_follow_one_another(tmp_path):
    (tmp_path / "a").write_bytes(b"+1 1:1\n")
    (tmp_path / "b").write_bytes(b"-1 3:1\n")
    X, labels = FORMS["svmlight"]([tmp_path / "a", tmp_path / "b"])
    assert labels.tolist() == [1, -1]
    np.testing.assert_array_equal(X.toarray(), [[1, 0, 0], [0, 0, 1]])


@pytest.mark.data
@pytest.mark.parametrize("name", ["letter", "magic04", "census", "a9a", "heart", "ijcnn1", "w8a"])
def test_real_files_are_those_of_the_registry(data_dir, name):
    if datasets.locate(name, data_dir) is None:
        pytest.skip(f"{name} is not in the folder")
    assert datasets.load(name, data_dir).differences() == []


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "file"), [("letter", "letter-recognition.data.gz"), ("magic04", "magic04.data.gz")]
)
def test_published_files_become_the_rows_of_the_registry(data_dir, name, file):
    raw = data_dir / "raw" / file
    if not raw.exists():
        pytest.skip(f"the folder has no {raw}")
    X, labels = FORMS[name]([raw])
    assert datasets.fingerprint(X, labels) == datasets.info(name).fingerprint


@pytest.mark.long
@pytest.mark.data
def test_published_census_becomes_the_rows_of_the_registry(data_dir):
    raw = data_dir / "raw" / "census-income.test.gz"
    if not raw.exists() or datasets.locate("census", data_dir) is None:
        pytest.skip(f"the folder has no {raw} or no census")
    X, labels = FORMS["census"]([raw])
    data = datasets.load("census", data_dir)
    tail = data.X[-X.shape[0] :]
    np.testing.assert_array_equal(labels, data.labels[-X.shape[0] :])
    # Words that only the training part has are columns of zeros there, and missing here.
    used = np.unique(tail.indices)
    assert (tail[:, used] != X).nnz == 0
