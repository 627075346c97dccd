"""The native parser against the plain Python one: generated lines, mutated lines, all chunkings."""

import itertools
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import text_oracle as reference
from sonline import _core

MARK = b"\xef\xbb\xbf"
PARSE = {"svmlight": reference.parse_svmlight, "vw": reference.parse_vw}


def bits(value):
    """Return a double so that 0.0 and -0.0 differ and NaN equals itself."""
    return struct.pack("<d", value)


def cut(data, positions):
    edges = [0, *sorted(positions), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def parse_native(fmt, chunks, *, tokens=False, unlabelled=False, **options):
    """Return rows and errors in the form of `parse_reference`."""
    parser = _core.TextParser(
        fmt,
        labels="token" if tokens else "number",
        allow_unlabelled=unlabelled,
        **{"dtype": "float64", "features": "name", "on_error": "skip", **options},
    )
    batches = [parser.feed(chunk) for chunk in chunks] + [parser.end_file()]
    names, labels, spaces, rows, errors = [], [], [], [], []
    for batch in batches:
        names += batch.new_names
        labels += batch.new_labels
        spaces += batch.new_namespaces
        errors += [(error.line, error.column, error.kind) for error in batch.errors]
        for row in range(len(batch)):
            part = slice(*batch.indptr[row : row + 2])
            if tokens:
                code = batch.label_codes[row]
                label = None if code < 0 else labels[code]
            else:
                label = None if math.isnan(batch.labels[row]) else bits(batch.labels[row])
            rows.append(
                (
                    label,
                    1.0 if batch.weights is None else batch.weights[row],
                    "" if batch.tags is None else batch.tags[row],
                    [names[i] for i in batch.indices[part]],
                    [bits(value) for value in batch.values[part]],
                    [spaces[i] for i in batch.namespaces[part]],
                    batch.lines[row],
                    batch.ends[row],
                )
            )
    return rows, errors


def parse_reference(fmt, data, *, tokens=False, unlabelled=False, namespaces=False):
    rows, errors, end = [], [], 0
    for number, raw in enumerate(_lines(data), 1):
        end += len(raw)
        [line] = reference.split_lines(raw) or [b""]
        start = len(MARK) if number == 1 and line.startswith(MARK) else 0
        try:
            row = PARSE[fmt](line[start:], tokens=tokens, unlabelled=unlabelled)
        except reference.LineError as error:
            errors.append((number, start + error.position + 1, error.kind))
            continue
        if row is not None:
            label = bits(row.label) if isinstance(row.label, float) else row.label
            rows.append(
                (
                    label,
                    row.weight,
                    row.tag,
                    [str(name) for name, _ in row.features],
                    [bits(value) for _, value in row.features],
                    row.namespaces if namespaces else [],
                    number,
                    end,
                )
            )
    return rows, errors


def _lines(data):
    """Return the lines with their newlines; only that byte ends a line."""
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


PIECES = [
    *[b"1", b"-1", b"+1", b"2.000000", b"0", b"x", b"-", b"+", b"e", b".", b"5.", b".5", b"1e5"],
    *[b" ", b" ", b"  ", b"\t", b":", b"::", b"#", b" # note", b"\r", b"\x00", b"\x01", b"\x7f"],
    *[b"12:0.5", b" 7:-3", b" 3:4", b" 1:1", b"1234567:0.123456", b" 12345678:12345678"],
    *[b"123456789:1.23456789012", b" 2:0.1234567", b" 2:0.12345678", b" 2:1234567.8"],
    *[b"qid:", b"qid:4", b" qid:7 ", b"qid:x", b"nan", b"inf", b"-inf", b"NaN(1)", b"infinity"],
    *[b"1e999", b"1e-999", b"-1e-999", b"1e39", b"3.4028236e38", b"0x10", b"1_0", b"1,5"],
    *[b"9007199254740993", b"0.1234567890123456789", b"000000000000000000000000000000001"],
    *[b"9223372036854775807", b"9223372036854775808", b"18446744073709551616"],
    *[b"\xff", b"\xc3\xa9", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", MARK],
    *[b"|", b"|", b" |", b"|a", b"|b:2", b"|:2", b"||", b"'tag", b" f", b" g:0.5", b" :3", b"a^b"],
    *[b"1 |", b"1 2 0.5 |n ", b"1 2 3 4 |", b"-2 ", b"'t|"],
]
STARTS = {"svmlight": [b"", b"", b"1 ", b"-1 3:4"], "vw": [b"", b"1 |a ", b"0.5 2 |", b"'t | x"]}


def texts(fmt):
    line = st.builds(
        lambda start, pieces, end: start + b"".join(pieces) + end,
        st.sampled_from(STARTS[fmt]),
        st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=12),
        st.sampled_from([b"", b"", b"\r"]),
    )
    return st.builds(
        lambda lines, end: b"\n".join(lines) + end,
        st.lists(line, min_size=1, max_size=4),
        st.sampled_from([b"\n", b"", b"\n\n"]),
    )


OPTIONS = st.fixed_dictionaries({"tokens": st.booleans(), "unlabelled": st.booleans()})


@pytest.mark.parametrize("fmt", ["svmlight", "vw"])
@given(data=st.data(), options=OPTIONS)
def test_rows_and_errors_are_those_of_the_reference(fmt, data, options):
    text = data.draw(texts(fmt))
    positions = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    expected = parse_reference(fmt, text, **options, namespaces=fmt == "vw")
    namespaces = {"namespaces": True} if fmt == "vw" else {}
    assert parse_native(fmt, [text], **options, **namespaces) == expected
    assert parse_native(fmt, cut(text, positions), **options, **namespaces) == expected


SAMPLES = {
    "svmlight": (
        b"\xef\xbb\xbf+1 1:0.5 7:-2 # note\r\n-1 qid:3 2:1e-3 123456789:1.5\r\n\r\n# c\n"
        b"1 3:x 4:5\n2.000000 1:1 12345678:0.1234567 5:12345678.25\n1 5:"
    ),
    "vw": (
        b"1 2.0 'tag |a:2 x:3 y | z \xc3\xa9:1\n|b :1 :2\r\n0 |a x:nan\n\n-1 0.5 0.25 q|q\n"
        b"1 |name1234567890 feature_of_some_length:0.123456 b:-1e-3|c\n0 |a \xff"
    ),
}


@pytest.mark.parametrize("fmt", ["svmlight", "vw"])
def test_every_single_cut_gives_the_same_rows(fmt):
    text = SAMPLES[fmt]
    expected = parse_reference(fmt, text, unlabelled=True)
    assert len(expected[0]) >= 3
    assert len(expected[1]) >= 2
    for position in range(len(text) + 1):
        assert parse_native(fmt, cut(text, [position]), unlabelled=True) == expected


@pytest.mark.parametrize("fmt", ["svmlight", "vw"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_every_chunk_size_gives_the_same_rows(fmt, size):
    text = SAMPLES[fmt] * 3
    chunks = [text[i : i + size] for i in range(0, len(text), size)]
    assert parse_native(fmt, chunks, unlabelled=True) == parse_reference(fmt, text, unlabelled=True)


@pytest.mark.parametrize("fmt", ["svmlight", "vw"])
@given(data=st.data())
def test_one_changed_byte_is_seen_by_both(fmt, data):
    text = bytearray(SAMPLES[fmt])
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    assert parse_native(fmt, [bytes(text)]) == parse_reference(fmt, bytes(text))


DECIMALS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map("{:.17g}".format),
    st.floats(-1e6, 1e6).map("{:.6f}".format),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map("{:.9g}".format),
    st.integers(-(10**20), 10**20).map(str),
    st.builds(
        lambda digits, point: f"{digits[:point]}.{digits[point:]}",
        st.integers(10**15, 10**19).map(str),
        st.integers(0, 20),
    ),
    st.from_regex(r"[+-]?[0-9]{0,25}\.?[0-9]{0,25}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)


def halfway_cases():
    """Return decimals of up to 19 digits that lie exactly between two neighbouring doubles."""
    rng = np.random.default_rng(0)
    cases = []
    for shift in range(1, 11):
        for odd in rng.integers(2**52, 2**53, 200).tolist():
            digits = str((2 * odd + 1) * 5**shift)
            if shift < len(digits) <= 19:
                cases.append(f"{digits[:-shift]}.{digits[-shift:]}")
    return cases


def test_halfway_cases_go_to_the_even_neighbour():
    cases = halfway_cases()
    assert len(cases) > 500
    text = "".join(f"1 1:{case} 2:-{case}1 3:{case[:-1]}4\n" for case in cases).encode()
    assert parse_native("svmlight", [text]) == parse_reference("svmlight", text)


def test_many_long_decimals():
    """One in some thousands of these is so near to a halfway case that the remainder decides."""
    rng = np.random.default_rng(0)
    positions = rng.integers(0, 20, 100_000).tolist()
    decimals = [
        f"{digits[:position]}.{digits[position:]}"
        for digits, position in zip(
            map(str, rng.integers(10**17, 2**63, 100_000).tolist()), positions, strict=True
        )
    ]
    text = "1 " + " ".join(f"7:{decimal}" for decimal in decimals) + "\n"
    batch = _core.TextParser("svmlight", dtype="float64").feed(text.encode())
    assert batch.values.tobytes() == np.array(decimals, np.float64).tobytes()


@given(st.lists(DECIMALS, min_size=1, max_size=20), st.lists(st.integers(0, 2**63 - 1)))
def test_numbers_are_correctly_rounded(decimals, indices):
    pairs = list(zip(itertools.chain(indices, itertools.count()), decimals, strict=False))
    text = "".join(f"1 {index}:{decimal}\n" for index, decimal in pairs).encode()
    assert parse_native("svmlight", [text]) == parse_reference("svmlight", text)


@given(st.lists(DECIMALS, min_size=1, max_size=20))
def test_float32_values_are_rounded_doubles(decimals):
    text = "".join(f"1 1:{decimal}\n" for decimal in decimals).encode()
    parser = _core.TextParser("svmlight", dtype="float32", on_error="skip")
    batch = parser.feed(text)
    doubles, errors = [], []
    for number, decimal in enumerate(decimals, 1):
        try:
            value = reference.parse_number(decimal.encode(), 0)
        except reference.LineError as error:
            # An empty value is reported as missing rather than as no number.
            errors.append((number, error.kind if decimal else "value_missing"))
            continue
        with np.errstate(over="ignore"):
            single = np.float32(value)
        if np.isinf(single):
            errors.append((number, "overflow_float32"))
        else:
            doubles.append(single)
    assert batch.values.dtype == np.float32
    assert batch.values.tobytes() == np.array(doubles, np.float32).tobytes()
    assert [(error.line, error.kind) for error in batch.errors] == errors
