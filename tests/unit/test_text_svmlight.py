"""The meaning of each kind of svmlight line, and the position of each kind of error."""

import gzip
import io

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from sonline import _core


def parse(data, **options):
    parser = _core.TextParser("svmlight", **{"dtype": "float64", "on_error": "skip", **options})
    first = parser.feed(data)
    last = parser.end_file()
    assert not len(last) or not data.endswith(b"\n")
    return last if len(last) or last.errors else first


def error_of(data, **options):
    [error] = parse(data, **options).errors
    return error.kind, error.line, error.column


def test_rows():
    batch = parse(b"+1 1:0.5 7:-2.25\n-1\n2.000000 3:1e-3 1:4 3:5\n")
    assert batch.labels.tolist() == [1, -1, 2]
    assert batch.indptr.tolist() == [0, 2, 2, 5]
    assert batch.indices.tolist() == [1, 7, 3, 1, 3]  # as written: not sorted, not summed
    assert batch.values.tolist() == [0.5, -2.25, 1e-3, 4, 5]
    assert batch.lines.tolist() == [1, 2, 3]
    assert (batch.indptr.dtype, batch.indices.dtype) == (np.int64, np.int64)
    assert batch.weights is None
    assert batch.tags is None


def test_comments_and_blank_lines_are_no_rows():
    batch = parse(b"# head\n\n  \t\n1 1:2 # 3:4\n1 1:2#3:4\n1# only a label\n   # indented\n")
    assert batch.indptr.tolist() == [0, 1, 2, 2]
    assert batch.lines.tolist() == [4, 5, 6]


def test_comments_may_hold_anything():
    assert len(parse(b"1 1:2 # \x00 \xff nan:nan\n")) == 1


def test_zero_based_indices_and_explicit_zeros_are_kept():
    batch = parse(b"1 0:0 1:0.000000 2:-0\n")
    assert batch.indices.tolist() == [0, 1, 2]
    assert batch.values.tolist() == [0, 0, 0]
    assert np.signbit(batch.values).tolist() == [False, False, True]


def test_windows_newlines():
    batch = parse(b"1 1:2\r\n-1 3:4\r\n\r\n0 5:6\r")
    assert batch.labels.tolist() == [0]
    batch = parse(b"1 1:2\r\n-1 3:4\r\n")
    assert batch.values.tolist() == [2, 4]
    assert batch.ends.tolist() == [7, 15]


def test_no_newline_at_the_end():
    batch = parse(b"1 1:2 3:4")
    assert batch.values.tolist() == [2, 4]
    assert batch.ends.tolist() == [9]


def test_tabs_and_several_blanks():
    batch = parse(b" \t1\t1:2   3:4\t \n")
    assert batch.indices.tolist() == [1, 3]


def test_byte_order_mark_at_the_start_only():
    assert parse(b"\xef\xbb\xbf1 1:2\n").labels.tolist() == [1]
    assert error_of(b"1 1:2\n\xef\xbb\xbf1 1:2\n") == ("not_a_number", 2, 1)


def test_empty_input():
    batch = parse(b"")
    assert len(batch) == 0
    assert batch.indptr.tolist() == [0]


def test_query_ids():
    batch = parse(b"1 qid:3 1:2\n2 1:2\n3 qid:9223372036854775807\n")
    assert batch.labels.tolist() == [1, 2, 3]
    assert batch.indices.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b"1 1:1e-999 2:-1e-999\n", [0.0, -0.0]),
        (b"1 1:1e308 2:4.9e-324 3:2e-324\n", [1e308, 5e-324, 0.0]),
        (b"1 1:+.5 2:5. 3:+1E+2\n", [0.5, 5, 100]),
        (b"1 1:0e999999999999 2:0.0000000000e-99999\n", [0, 0]),
        (b"1 1:1" + b"0" * 400 + b"e-400 2:0." + b"0" * 400 + b"1e401\n", [1, 1]),
        (b"1 1:9007199254740993 2:9007199254740992.5\n", [9007199254740992] * 2),
    ],
)
def test_unusual_numbers(text, values):
    batch = parse(text)
    assert not batch.errors
    assert batch.values.tobytes() == np.array(values, np.float64).tobytes()


def test_largest_index():
    batch = parse(b"1 9223372036854775807:1 000000000000000000000000000012:1\n")
    assert batch.indices.tolist() == [2**63 - 1, 12]


@pytest.mark.parametrize(
    ("line", "kind", "column"),
    [
        (b"x 1:2", "not_a_number", 1),
        (b"1,2 1:2", "not_a_number", 1),
        (b"nan 1:2", "not_finite", 1),
        (b"1:2 3:4", "label_is_feature", 1),
        (b"1 1:nan", "not_finite", 5),
        (b"1 1:-Inf", "not_finite", 5),
        (b"1 1:infinity", "not_finite", 5),
        (b"1 1:1e999", "overflow", 5),
        (b"1 1:-1e999", "overflow", 5),
        (b"1 1:0x10", "not_a_number", 5),
        (b"1 1:1e", "not_a_number", 5),
        (b"1 1:+-5", "not_a_number", 5),
        (b"1 1:--5", "not_a_number", 5),
        (b"1 1:.", "not_a_number", 5),
        (b"1 1:1.2.3", "not_a_number", 5),
        (b"1 1:2:3", "not_a_number", 5),
        (b"1 1:", "value_missing", 3),
        (b"1 1: 2", "value_missing", 3),
        (b"1 1:#", "value_missing", 3),
        (b"1 2:3 5", "colon_missing", 7),
        (b"1 :5", "index_not_integer", 3),
        (b"1 -3:5", "index_not_integer", 3),
        (b"1 +3:5", "index_not_integer", 3),
        (b"1 1.5:5", "index_not_integer", 3),
        (b"1 a:5", "index_not_integer", 3),
        (b"1 9223372036854775808:1", "index_too_large", 3),
        (b"1 99999999999999999999999:1", "index_too_large", 3),
        (b"1 qid:x 1:2", "query_not_integer", 3),
        (b"1 qid:-1 1:2", "query_not_integer", 3),
        (b"1 qid: 1:2", "query_not_integer", 3),
        (b"1 1:2 qid:3", "query_misplaced", 7),
        (b"1 qid:3 qid:3", "query_misplaced", 9),
        (b"\x00", "control_byte", 1),
        (b"1 1:2 \x00", "control_byte", 7),
        (b"1\x00 1:2", "control_byte", 2),
        (b"1 1:2\x003", "control_byte", 6),
        (b"1 1:2\r3:4", "control_byte", 6),
        (b"1 1:2\x0b3:4", "control_byte", 6),
    ],
)
def test_bad_lines(line, kind, column):
    assert error_of(b"0 1:1\n" + line + b"\n0 1:1\n") == (kind, 2, column)
    batch = parse(b"0 1:1\n" + line + b"\n0 1:1\n")
    assert batch.lines.tolist() == [1, 3]
    assert batch.errors[0].text == line
    assert batch.errors[0].offset == 6


def test_values_that_only_float64_can_hold():
    assert parse(b"1 1:1e39\n").values.tolist() == [1e39]
    assert error_of(b"1 1:1e39\n", dtype="float32") == ("overflow_float32", 1, 5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_largest_value_may_be_asked_for(dtype):
    text = b"1 1:1e18 2:-1e18\n1 1:1000000000000000001000\n"
    assert parse(text, dtype=dtype, largest_value=1e18).lines.tolist() == [1]
    assert error_of(text, dtype=dtype, largest_value=1e18) == ("value_too_large", 2, 5)


def test_float32_is_the_rounded_double():
    batch = parse(b"1 1:0.1 2:16777217 3:3.4028235e38\n", dtype="float32")
    assert batch.values.dtype == np.float32
    assert batch.values.tolist() == np.float32([0.1, 16777217, 3.4028235e38]).tolist()


def test_labels_as_tokens():
    parser = _core.TextParser("svmlight", labels="token", on_error="skip")
    batch = parser.feed("spam 1:2\nham\nspäm 1:1\nspam 3:4\n1,2 1:1\n".encode())
    assert batch.label_codes.tolist() == [0, 1, 2, 0, 3]
    assert batch.new_labels == ["spam", "ham", "späm", "1,2"]
    assert batch.labels.size == 0
    batch = parser.feed(b"new 1:2\nbad 1:x\nham\n")
    assert batch.label_codes.tolist() == [4, 1]
    assert batch.new_labels == ["new"]  # a bad line teaches nothing
    assert [error.kind for error in parser.feed(b"\xff 1:2\n").errors] == ["invalid_utf8"]


def test_rows_without_labels():
    batch = parse(b"1:2 3:4\nqid:5 1:2\n1 1:2\n", allow_unlabelled=True)
    assert np.isnan(batch.labels).tolist() == [True, True, False]
    assert batch.unlabelled == 2
    assert batch.indptr.tolist() == [0, 2, 3, 4]
    batch = parse(b"1:2 3:4\na 1:2\n", allow_unlabelled=True, labels="token")
    assert batch.label_codes.tolist() == [-1, 0]


def test_features_by_hash_and_by_name():
    text = b"1 3:1 300:2 003:5\n"
    assert parse(text, features="hash", hash_bits=4).indices.tolist() == [
        3,
        _core.hash_slot(300, 4),
        3,
    ]
    batch = parse(text, features="name")
    assert batch.indices.tolist() == [0, 1, 0]
    assert batch.new_names == ["3", "300"]


@pytest.mark.parametrize("blanks", [0, 1, 2, 15, 16, 31, 32, 33])
def test_fast_path_at_every_alignment_of_a_line(blanks):
    """The 32-byte look-ahead must not see past the line, nor past the chunk."""
    text = b"1" + b" " * (blanks + 1) + b"1:2\n7:8 1234567:0.123456 9:1\n"
    batch = parse(text, allow_unlabelled=True)
    assert batch.indices.tolist() == [1, 7, 1234567, 9]
    assert batch.values.tolist() == [2, 8, 0.123456, 1]


@pytest.mark.data
@pytest.mark.parametrize("name", ["a9a", "breast-cancer", "diabetes", "ijcnn1", "20news", "w8a"])
def test_real_files_are_read_as_scikit_learn_reads_them(name, data_dir):
    text = gzip.decompress((data_dir / f"{name}.svm.gz").read_bytes())
    batch = parse(text)
    matrix, labels = load_svmlight_file(io.BytesIO(text), zero_based=True)
    assert not batch.errors
    assert np.array_equal(batch.labels, labels)
    assert np.array_equal(batch.indptr, matrix.indptr)
    assert np.array_equal(batch.indices, matrix.indices)
    assert np.array_equal(batch.values, matrix.data)
