"""What each kind of line of Vowpal Wabbit text means, and where each kind of bad line is bad."""

import numpy as np
import pytest

from sonline import _core, streams


def parse(data, **options):
    parser = _core.TextParser(
        "vw", **{"dtype": "float64", "on_error": "skip", "features": "name", **options}
    )
    batch = parser.feed(data)
    assert not parser.end_file().errors
    return batch


def features(batch, row=0):
    part = slice(*batch.indptr[row : row + 2])
    names = [batch.new_names[i] for i in batch.indices[part]]
    return list(zip(names, batch.values[part].tolist(), strict=True))


def error_of(data, **options):
    [error] = parse(data, **options).errors
    return error.kind, error.line, error.column


def test_full_line():
    batch = parse(b"-1 2.5 0 'first |user:2 age:0.5 tall | plain:3 |item price:1e2\n")
    assert batch.labels.tolist() == [-1]
    assert batch.weights.tolist() == [2.5]
    assert batch.tags == ["first"]
    assert features(batch) == [
        ("user^age", 1.0),
        ("user^tall", 2.0),
        ("plain", 3.0),
        ("item^price", 100.0),
    ]


def test_optional_columns_are_none_when_unused():
    batch = parse(b"1 | a\n-1 1 0 | b\n")
    assert batch.weights is None
    assert batch.tags is None
    batch = parse(b"1 | a\n-1 3 | b\n0 | c\n")
    assert batch.weights.tolist() == [1, 3, 1]


def test_base_predictions_are_bad_rows(tmp_path):
    assert error_of(b"1 2 0.25 | a\n") == ("base_prediction", 1, 5)
    (tmp_path / "a.vw").write_bytes(b"1 | a\n-1 1 0.25 | b\n1 1 0 | c\n")
    with streams.open(tmp_path / "a.vw", on_error="skip") as stream:
        [batch] = stream
    assert batch.labels.tolist() == [1, 1]
    assert [bad.line for bad in batch.bad] == [2]


@pytest.mark.parametrize(
    ("head", "label", "tag"),
    [
        (b"1 |", 1, ""),
        (b"1 'tag |", 1, "tag"),
        (b"1 tag|", 1, "tag"),
        (b"1 'tag|", 1, "tag"),
        (b"1 2 tag|", 1, "tag"),
        (b"1|", None, "1"),  # as in Vowpal Wabbit: a word that touches the bar is a tag
        (b"'tag |", None, "tag"),
        (b"|", None, ""),
        (b"  \t |", None, ""),
        (b"1 ' |", 1, ""),
        ("1 'é|".encode(), 1, "é"),
    ],
)
def test_labels_and_tags(head, label, tag):
    batch = parse(b"0 'x |\n" + head + b" a\n", allow_unlabelled=True)
    assert batch.tags == ["x", tag]
    assert batch.unlabelled == (label is None)
    assert np.isnan(batch.labels[1]) if label is None else batch.labels[1] == label


def test_namespaces():
    batch = parse(b"1 |a x | x |b:0.5 x:4 |a y||c\n", namespaces=True)
    assert features(batch) == [("a^x", 1), ("x", 1), ("b^x", 2), ("a^y", 1)]
    assert batch.new_namespaces == ["a", "", "b", "c"]
    assert batch.namespaces.tolist() == [0, 1, 2, 0]


def test_namespaces_only_if_asked_for():
    batch = parse(b"1 |a x\n")
    assert batch.namespaces.size == 0
    assert batch.new_namespaces == []


def test_unnamed_features_are_numbered_within_their_namespace():
    batch = parse(b"1 |a :0.5 :0.7 b | :3\n")
    assert features(batch) == [("a^0", 0.5), ("a^1", 0.7), ("a^b", 1), ("0", 3)]


def test_zero_values_and_repeated_features_are_kept():
    batch = parse(b"1 | a:0 b a:2 b\n")
    assert features(batch) == [("a", 0), ("b", 1), ("a", 2), ("b", 1)]


def test_blank_lines_windows_newlines_and_tabs():
    batch = parse(b"\n \t \r\n1\t|\ta\tb:2\t\r\n\r\n-1 | c\r\n")
    assert features(batch, 0) == [("a", 1), ("b", 2)]
    assert batch.lines.tolist() == [3, 5]


def test_names_may_be_any_utf8():
    name = "größe=10²_#'^\U0001f600"
    batch = parse(f"1 |{name} {name}:2\n".encode())
    assert features(batch) == [(f"{name}^{name}", 2)]


@pytest.mark.parametrize("size", range(1, 40))
def test_names_of_every_length(size):
    name = "ä" + "x" * (size - 1)
    assert features(parse(f"1 |n {name} {name}:2\n".encode())) == [
        (f"n^{name}", 1),
        (f"n^{name}", 2),
    ]


@pytest.mark.parametrize(
    ("line", "kind", "column"),
    [
        (b"1 a:2", "bar_missing", 1),
        (b" 1", "bar_missing", 2),
        (b"| a", "label_missing", 1),
        (b"'tag | a", "label_missing", 6),
        (b"x | a", "not_a_number", 1),
        (b"1 x | a", "not_a_number", 3),
        (b"1 1 x | a", "not_a_number", 5),
        (b"1:2 | a", "not_a_number", 1),
        (b"nan | a", "not_finite", 1),
        (b"1e999 | a", "overflow", 1),
        (b"1 inf | a", "not_finite", 3),
        (b"1 -2 | a", "negative_weight", 3),
        (b"1 1 1 1 | a", "too_many_label_fields", 7),
        (b"1 1 1 1 t| a", "too_many_label_fields", 9),
        (b"1 |:2 a", "namespace_missing", 4),
        (b"1 |n: a", "value_missing", 4),
        (b"1 |n:x a", "not_a_number", 6),
        (b"1 |n:1e999 a", "overflow", 6),
        (b"1 | a:", "value_missing", 5),
        (b"1 | a: 2", "value_missing", 5),
        (b"1 | a:|b", "value_missing", 5),
        (b"1 | a:b", "not_a_number", 7),
        (b"1 | http://x", "not_a_number", 10),
        (b"1 | a:1:2", "not_a_number", 7),
        (b"1 | a:nan", "not_finite", 7),
        (b"1 | a:1e999", "overflow", 7),
        (b"1 |n:1e200 a:1e200", "overflow", 12),
        (b"1 | a\x00b", "control_byte", 6),
        (b"1 | a:1\x00", "control_byte", 8),
        (b"1 |\x00 a", "control_byte", 4),
        (b"1\x00 | a", "control_byte", 2),
        (b"1 | a\rb", "control_byte", 6),
        (b"1 | a\xff", "invalid_utf8", 5),
        (b"1 |\xc0\xaf a", "invalid_utf8", 4),
        (b"1 '\xed\xa0\x80 | a", "invalid_utf8", 3),
        (b"1 | abcdefgh\xf4\x90\x80\x80", "invalid_utf8", 5),
        (b"1 | \xe2\x82", "invalid_utf8", 5),
    ],
)
def test_bad_lines(line, kind, column):
    text = b"0 | a\n" + line + b"\n0 | a\n"
    assert error_of(text) == (kind, 2, column)
    assert parse(text).lines.tolist() == [1, 3]


def test_names_of_a_bad_line_are_forgotten():
    batch = parse(b"1 |a b\n1 |c d e:x\n1 |f g\n", namespaces=True)
    assert batch.new_names == ["a^b", "f^g"]
    assert batch.new_namespaces == ["a", "f"]
    assert batch.indices.tolist() == [0, 1]


def test_value_times_weight_must_fit_float32():
    assert error_of(b"1 |n:1e20 a:1e20\n", dtype="float32") == ("overflow_float32", 1, 11)


def test_labels_as_tokens():
    batch = parse(b"cat | a\ndog 2 | b\ncat 't | c\n", labels="token")
    assert batch.label_codes.tolist() == [0, 1, 0]
    assert batch.new_labels == ["cat", "dog"]
    assert batch.weights.tolist() == [1, 2, 1]
    assert error_of(b"\xff | a\n", labels="token") == ("invalid_utf8", 1, 1)


def test_hashed_features_have_the_slot_of_their_full_name():
    batch = parse(b"1 |ns a b:2 | a 17 017\n", features="hash", hash_bits=20)
    names = [b"ns^a", b"ns^b", b"a", b"17", b"017"]
    assert batch.indices.tolist() == [_core.hash_slot(name, 20) for name in names]
    assert batch.indices[3] == 17
    assert batch.new_names == []


def test_features_by_index_are_the_same_as_those_of_svmlight():
    text = b"1 | 3:0.5 70:2 0\n"
    batch = parse(text, features="index")
    assert batch.indices.tolist() == [3, 70, 0]
    assert error_of(b"1 | 3 x:1\n", features="index") == ("name_not_index", 1, 7)
    assert error_of(b"1 | 03\n", features="index") == ("name_not_index", 1, 5)
    assert error_of(b"1 |n 3\n", features="index") == ("name_not_index", 1, 6)
    assert error_of(b"1 | 9223372036854775808\n", features="index") == ("name_not_index", 1, 5)


def test_frozen_names_leave_out_and_count_new_features():
    batch = parse(b"1 | a b:2 c:3\n", frozen_names=True, names=["c", "a"])
    assert batch.indices.tolist() == [1, 0]
    assert batch.values.tolist() == [1, 3]
    assert batch.unknown_features == 1
    assert batch.new_names == []


def test_unknown_features_of_a_bad_line_are_not_counted():
    batch = parse(b"1 | new:1 a:x\n1 | a\n", frozen_names=True, names=["a"])
    assert batch.unknown_features == 0
    assert len(batch.errors) == 1
