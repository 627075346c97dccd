"""Streams: formats, positions that resume, bad rows, and what people find in their files."""

import gzip
import json
import threading
from decimal import Decimal
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from sonline import streams
from sonline.errors import DataFormatError, InvalidInputError, ParameterError
from sonline.rows import rows_of as core_rows
from sonline.streams import Position, sources

SVMLIGHT = "".join(f"{(-1) ** n} {1 + n % 7}:{n / 4:g} 9:1\n" for n in range(5000))


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows_of(batches):
    """Return the rows as plain tuples."""
    rows, names, labels = [], [], []
    for batch in batches:
        names += batch.new_names
        labels += batch.new_labels
        for row in range(len(batch)):
            part = slice(*batch.indptr[row : row + 2].tolist())
            keys = batch.indices[part].tolist()
            keys = [names[key] for key in keys] if batch.named else keys
            y = labels[batch.codes[row]] if batch.codes is not None else batch.labels[row]
            rows.append((y, dict(zip(keys, batch.values[part].tolist(), strict=True))))
    return rows


def read(path, **options):
    with streams.open([path], **options) as stream:
        return rows_of(stream)


@pytest.mark.parametrize("packed", [False, True])
def test_a_stream_continues_from_any_row(tmp_path, packed):
    data = SVMLIGHT.encode()
    path = write(tmp_path, "a.svm" + ".gz" * packed, gzip.compress(data) if packed else data)
    whole = read(path)
    for count in (1, 2, 999, 4999, 5000):
        position, seen = None, 0
        with streams.open([path]) as stream:
            for batch in stream:
                part = batch.head(count - seen)
                seen += len(part)
                position = part.end
                if seen == count:
                    break
        assert position.rows == count
        assert position.line == count + 1
        with streams.open([path], start=position) as stream:
            assert rows_of(stream) == whole[count:]


def test_positions_of_tables_count_rows_and_resume(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet  # noqa: PLC0415 - only where pyarrow is

    table = pa.table({"label": np.arange(20000) % 2, "x": np.arange(20000.0)})
    parquet.write_table(table, tmp_path / "a.parquet")
    whole = read(tmp_path / "a.parquet")
    with streams.open([tmp_path / "a.parquet"], start=Position(rows=12345)) as stream:
        assert rows_of(stream) == whole[12345:]


def test_names_keep_their_ids_over_files_and_passes(tmp_path):
    entry = write(tmp_path, "1.vw", "1 | a b\n-1 | c")
    two = write(tmp_path, "2.vw", "\ufeff1 | b d\n")
    with streams.open([entry, two], passes=2) as stream:
        batches = list(stream)
    assert [name for batch in batches for name in batch.new_names] == ["a", "b", "c", "d"]
    ids = [i for batch in batches for i in batch.indices.tolist()]
    assert ids == [0, 1, 2, 1, 3] * 2
    assert batches[-1].end == Position(turn=1, file=1, offset=11, line=2, rows=1)


def test_head_knows_only_the_names_of_its_rows(tmp_path):
    path = write(tmp_path, "a.vw", "1 | a\n2 | b\n3 | c\n")
    with streams.open([path], tokens=True) as stream:
        part = next(iter(stream)).head(2)
    assert part.new_names == ["a", "b"]
    assert part.new_labels == ["1", "2"]
    assert part.end.offset == 12


TABLE = 'label,size,colour,note\n1,2.5,red,\n-1,,"deep, blue",x\n1,0,red,1\n'
EXPECTED = [
    (1.0, {"size": 2.5, "colour=red": 1.0}),
    (-1.0, {"colour=deep, blue": 1.0, "note=x": 1.0}),
    (1.0, {"colour=red": 1.0, "note=1": 1.0}),
]


def test_csv_numbers_stay_numbers_and_text_becomes_features(tmp_path):
    pytest.importorskip("pyarrow")
    assert read(write(tmp_path, "a.csv", TABLE)) == EXPECTED
    tabs = TABLE.replace('"deep, blue"', "deep; blue").replace(",", "\t").replace("; ", ", ")
    assert read(write(tmp_path, "a.tsv", tabs)) == EXPECTED


def test_json_lines_are_the_same_rows(tmp_path):
    rows = [
        {"label": 1, "size": 2.5, "colour": "red", "note": None},
        {"label": -1, "colour": "deep, blue", "note": "x"},
        {"label": 1, "size": 0, "colour": "red", "note": "1"},
    ]
    path = write(tmp_path, "a.jsonl", "\r\n".join(json.dumps(row) for row in rows))
    assert read(path) == EXPECTED


def test_columns_keep_their_types_from_file_to_file(tmp_path):
    pytest.importorskip("pyarrow")
    first = write(tmp_path, "1.csv", "label,zip\n1,x1\n")
    second = write(tmp_path, "2.csv", "label,zip\n1,12\n")
    with streams.open([first, second]) as stream:
        names = [name for batch in stream for name in batch.new_names]
        assert stream.columns == {"zip": "text"}
    assert names == ["zip=x1", "zip=12"]
    with streams.open([second, first]) as stream, pytest.raises(DataFormatError, match="--text"):
        list(stream)


def test_weights_tags_and_columns_to_ignore(tmp_path):
    pytest.importorskip("pyarrow")
    path = write(tmp_path, "a.csv", "y,w,id,x,z\n1,2,first,3,4\n")
    with streams.open([path], label="y", weight="w", tag="id", ignore=["z"]) as stream:
        (batch,) = stream
    assert batch.weights.tolist() == [2]
    assert batch.tags == ["first"]
    assert batch.new_names == ["x"]


def test_an_error_about_a_missing_label_column_lists_the_columns(tmp_path):
    pytest.importorskip("pyarrow")
    path = write(tmp_path, "a.csv", "a,b\n1,2\n")
    with streams.open([path]) as stream, pytest.raises(ParameterError, match=r"--label.*a, b"):
        list(stream)


@pytest.mark.parametrize(
    ("name", "content", "position"),
    [
        ("a.svm", "1 1:1\n1 2:x\n1 3:1\n", (2, 5)),
        ("a.svm", b"1 1:1\n1 2:\x00\n", (2, 3)),
        ("a.svm", "1 1:1\n1 9223372036854775808:1\n", (2, 3)),
        ("a.svm", "1 1:1\n1 1:1e999\n", (2, 5)),
        ("a.svm", "1 1:1\n1 1:nan\n", (2, 5)),
        ("a.vw", b"1 | a\n1 | \xff\xfe\n", (2, 5)),
        ("a.jsonl", '{"label": 1}\n{"label": 1, x}\n', (2, 14)),
        ("a.jsonl", '{"label": 1}\n{"label": 1, "x": NaN}\n', (2, 14)),
        ("a.jsonl", '{"label": 1}\n{"label": 1, "x": [1e999]}\n', (2, 14)),
        ("a.jsonl", '{"label": 1}\n{"label": 1, "x": 1, "x": 1}\n', (2, 14)),
        ("a.svm", "1 1:1\n1 1:1 2:-1e19\n", (2, 9)),
        ("a.vw", "1 | a\n1 |n:1e10 b:1e10\n", (2, 11)),
        ("a.jsonl", '{"label": 1}\n{"label": 1, "\\u00e9": 1e19}\n', (2, 14)),
        ("a.jsonl", b'{"label": 1}\n{"label": 1, "\xff": 1}\n', (2, 15)),
    ],
)
def test_bad_lines_stop_with_their_position_or_are_skipped(tmp_path, name, content, position):
    path = write(tmp_path, name, content)
    with streams.open([path]) as stream:
        batches = iter(stream)
        assert len(next(batches)) == 1  # the row before is not lost
        with pytest.raises(DataFormatError) as caught:
            list(batches)
    assert (caught.value.line, caught.value.column) == position
    assert caught.value.file == str(path)
    with streams.open([path], on_error="skip") as stream:
        batches = list(stream)
    assert sum(batch.skipped for batch in batches) == 1
    assert batches[0].bad[0].text == path.read_bytes().split(b"\n")[1]


def test_bad_cells_of_tables_stop_or_are_skipped(tmp_path):
    pytest.importorskip("pyarrow")
    path = write(tmp_path, "a.csv", "label,x\n1,1\n,2\n1,inf\n1,4\n1,2,3\n1,5\n1,1e19\n")
    with pytest.raises(DataFormatError, match=r":3: row 2: no label"):
        read(path)
    with streams.open([path], on_error="skip") as stream:
        batches = list(stream)
    assert [v for b in batches for v in b.values.tolist()] == [1, 4, 5]
    assert [row.text for b in batches for row in b.bad] == [b",2", b"1,inf", b"1,2,3", b"1,1e19"]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("1,2\n", r"2 cells, expected 3 \(found '1,2'\)"),
        ("1,e,inf\n", "column 'x': inf"),
        ('1,e,"4\n-1,f,5\n', "the quotation mark in column 'x' is not closed"),
        ('1,e,"', "the quotation mark in column 'x' is not closed"),
    ],
)
def test_the_line_of_a_bad_row_counts_blank_lines_and_breaks_in_cells(tmp_path, bad, words):
    pytest.importorskip("pyarrow")
    good = 'label,t,x\n\n1,"a ""b""\nc",1\n\n1,,2\n-1,"d\n",3\n'
    path = write(tmp_path, "a.csv", good + bad)
    words = r"a\.csv:9: row 4: " + words
    with streams.open([path]) as stream:
        batches = iter(stream)
        assert len(next(batches)) == 3  # the rows before are not lost
        with pytest.raises(DataFormatError, match=words):
            next(batches)
    with streams.open([path], on_error="skip") as stream:
        assert sum(batch.skipped for batch in stream) == 1


def test_a_quotation_mark_that_is_closed_or_within_a_cell_is_no_error(tmp_path):
    pytest.importorskip("pyarrow")
    for last in ('"x"', '"x"\n', '""', "", '5" pipe\n', '"a\nb\n"\n', '"a ""b"""\n'):
        assert len(read(write(tmp_path, "a.csv", f"label,x\n1,y\n-1,{last}"))) == 2, last


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
def test_bad_rows_of_a_csv_are_reported_once_when_a_stream_continues(tmp_path, cut):
    pytest.importorskip("pyarrow")
    rows = ["1,2,3", "1,1", "-1,inf", "-1", "1,2", "1,3", "1,", "x,y,z", "-1,4", "1", "-1,5,6"]
    path = write(tmp_path, "a.csv", "label,x\n" + "\n".join(rows) + "\n")
    with streams.open([path], on_error="skip") as stream:
        (whole,) = stream
    part = whole.head(cut)
    with streams.open([path], on_error="skip", start=part.end) as stream:
        rest = list(stream)
    bad = [row.text.decode() for batch in [part, *rest] for row in batch.bad]
    assert bad == ["1,2,3", "-1,inf", "-1", "x,y,z", "1", "-1,5,6"]
    assert len(part) + sum(map(len, rest)) == len(whole) == 5


def test_a_csv_with_nothing_but_malformed_rows(tmp_path):
    pytest.importorskip("pyarrow")
    path = write(tmp_path, "a.csv", "label,x\n1,2,3\n1\n")
    with streams.open([path], on_error="skip") as stream:
        assert [row.text for batch in stream for row in batch.bad] == [b"1,2,3", b"1"]


def test_a_cell_that_is_no_number_is_a_bad_row_of_a_csv_and_not_a_bad_file(tmp_path):
    pytest.importorskip("pyarrow")
    good = "".join(
        f"1,{n}\n" for n in range(300_000)
    )  # longer than the part that types are detected from
    path = write(tmp_path, "a.csv", f"label,x\n{good}-1,oops\n-1, 7 \n")
    with pytest.raises(DataFormatError, match=r"row 300001: column 'x': 'oops'.*--text x"):
        read(path)
    with streams.open([path], on_error="skip") as stream:
        batches = list(stream)
    assert batches[-1].values[-1] == 7
    assert [row.text for batch in batches for row in batch.bad] == [b"-1,oops"]


def test_true_and_false_in_a_csv_are_numbers(tmp_path):
    pytest.importorskip("pyarrow")
    path = write(tmp_path, "a.csv", "label,x,y\n1,true,2\n-1,False,3\n")
    assert read(path) == [(1.0, {"x": 1.0, "y": 2.0}), (-1.0, {"y": 3.0})]


@pytest.mark.parametrize("bad", [b"1,caf\xe9,3", b"1,\xff,3", b"1,a\x00b,3", b"1,x,\xc3(,7"])
def test_cells_that_are_not_utf_8_are_bad_rows(tmp_path, bad):
    pytest.importorskip("pyarrow")
    path = write(tmp_path, "a.csv", b"label,c,x\n1,red,1\n" + bad + b"\n-1,blue,2\n")
    with pytest.raises(DataFormatError, match=r"not valid UTF-8|4 cells"):
        read(path)
    with streams.open([path], on_error="skip") as stream:
        batches = list(stream)
    assert [name for batch in batches for name in batch.new_names] == ["c=red", "x", "c=blue"]
    assert sum(batch.skipped for batch in batches) == 1


@pytest.mark.parametrize(
    ("head", "words"), [("label,x,x", "two columns 'x'"), ("label,x,y\udcff", "name is not valid")]
)
def test_columns_with_the_same_name_or_invalid_names(tmp_path, head, words):
    pytest.importorskip("pyarrow")
    content = f"{head}\n1,2,3\n".encode("utf-8", "surrogateescape")
    with pytest.raises(DataFormatError, match=words):
        read(write(tmp_path, "a.csv", content))


def test_bad_rows_of_other_tables_are_kept_as_json(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"label": [1.0, -1.0], "x": [float("inf"), 2.0]})
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    with streams.open([path], on_error="skip") as stream:
        (bad,) = [row for batch in stream for row in batch.bad]
    assert json.loads(bad.text) == {"label": 1.0, "x": float("inf")}


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.vw"])
def test_ten_megabytes_are_one_row_in_other_formats_too(tmp_path, name):
    pytest.importorskip("pyarrow")
    long = "x" * 10_000_000
    content = {
        "a.csv": f"label,c\n1,{long}\n-1,b\n",
        "a.jsonl": f'{{"label": 1, "c": "{long}"}}\n{{"label": -1, "c": "b"}}\n',
        "a.vw": f"1 |c {long}\n-1 |c b\n",
    }
    rows = read(write(tmp_path, name, content[name]))
    assert [label for label, _ in rows] == [1, -1]
    assert [len(next(iter(row))) > 10_000_000 for _, row in rows] == [True, False]


@pytest.mark.parametrize("name", ["a.svm", "a.vw", "a.jsonl", "a.csv"])
def test_empty_files_have_no_rows(tmp_path, name):
    if name == "a.csv":
        pytest.importorskip("pyarrow")
    assert read(write(tmp_path, name, "")) == []


def test_a_line_of_ten_megabytes_is_one_row(tmp_path):
    pairs = " ".join(f"{i}:1" for i in range(1_200_000))
    path = write(tmp_path, "a.svm", f"1 {pairs}\n-1 1:1\n")
    assert path.stat().st_size > 10_000_000
    rows = read(path)
    assert [len(row) for _, row in rows] == [1_200_000, 1]


def test_damaged_compressed_data_is_an_error_with_the_file(tmp_path):
    packed = gzip.compress(SVMLIGHT.encode())
    path = write(tmp_path, "a.svm.gz", packed[: len(packed) // 2])
    with pytest.raises(DataFormatError, match=r"a\.svm\.gz.*gzip"):
        read(path)
    # ... also where the format must be detected from the content
    path = write(tmp_path, "a.gz", packed[:20] + b"\xff" * 20 + packed[40:])
    with pytest.raises(DataFormatError, match=r"a\.gz.*gzip"):
        read(path)


@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        (b"1 3:4\n", "svmlight"),
        (b"# note\n-1 qid:3 4:5 # x\n", "svmlight"),
        (b"1 |a b:3\n", "vw"),
        (b"a,b\n1,2\n", "csv"),
        (b"a\tb\n", "tsv"),
        (b'{"a": 1}\n', "jsonl"),
        (b"PAR1....", "parquet"),
        (b"ARROW1..", "arrow"),
    ],
)
def test_the_format_is_detected_from_the_content(sample, kind):
    assert sources.format_of_content(sample) == kind


def test_an_unknown_format_must_be_set():
    with pytest.raises(DataFormatError, match="--format"):
        sources.format_of_content(b"hello world: what\n")


def test_the_description_of_a_stream(tmp_path):
    path = write(tmp_path, "data", gzip.compress(b"1 |a b\n"))
    with streams.open([path]) as stream:
        assert stream.description == f"{path}: vw, gzip (by its content)"
        assert stream.options.features == "name"


def test_remote_addresses_need_fsspec(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(InvalidInputError, match="fsspec"):
        streams.open(["s3://bucket/a.svm"])


def test_remote_addresses_are_read_through_fsspec(tmp_path):
    pytest.importorskip("fsspec", reason="fsspec is an extra")
    path = write(tmp_path, "a.svm", SVMLIGHT)
    assert read(f"file://{path}") == read(path)


def test_files_are_read_from_a_web_server(tmp_path):
    pytest.importorskip("aiohttp", reason="aiohttp is in the extra remote")
    path = write(tmp_path, "a.svm", SVMLIGHT)
    packed = write(tmp_path, "a.svm.gz", gzip.compress(SVMLIGHT.encode()))
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            for name in (path, packed):
                assert read(f"{address}/{name.name}") == read(name)
            with pytest.raises(OSError, match="no file 'http"):
                read(f"{address}/missing.svm")
        finally:
            server.shutdown()
            thread.join()


def test_errors_of_a_download_name_the_url(monkeypatch):
    memory = pytest.importorskip("fsspec", reason="fsspec is an extra").filesystem("memory")
    memory.pipe("/lost.svm", SVMLIGHT.encode())

    def lost(*_):
        raise RuntimeError("connection lost")  # no OSError: each kind of address has its own

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFile.readinto", lost, raising=False)
    monkeypatch.setattr("fsspec.implementations.memory.MemoryFile.read", lost, raising=False)
    with pytest.raises(OSError, match=r"memory://lost\.svm: cannot be read: connection lost"):
        read("memory://lost.svm")


def test_closing_early_ends_the_thread(tmp_path):
    path = write(tmp_path, "a.svm", SVMLIGHT * 20)
    before = set(threading.enumerate())  # those of other tests may end meanwhile
    with streams.open([path]) as stream:
        next(iter(stream))
    assert set(threading.enumerate()) <= before


def test_index_mode_refuses_names(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"label": 1, "x": 1}\n')
    with pytest.raises(DataFormatError, match="--features name"):
        read(path, features="index")


def test_products_of_namespaces_are_those_of_a_plain_loop(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(300):
        words = ["1"]
        for space in rng.permutation(["apple", "bear", "cow"])[: rng.integers(0, 4)]:
            count = int(rng.integers(0, 4))
            pairs = [f"{rng.integers(50)}:{rng.integers(1, 9)}" for _ in range(count)]
            words.append(f"|{space} {' '.join(pairs)}")
        lines.append(" ".join([*words, "| 7"]) + "\n")
    path = write(tmp_path, "a.vw", "".join(lines))
    with streams.open([path], hash_bits=12) as stream:
        (plain,) = stream
    with streams.open([path], hash_bits=12, interactions=["ab", "cc"]) as stream:
        (made,) = stream
    for row, line in enumerate(lines):
        segments = [part.rstrip("\n").split(" ") for part in line.split("|")[1:]]
        spaces = [name[:1] for name, *words in segments for word in words if word]
        part = slice(*plain.indptr[row : row + 2].tolist())
        keys, values = plain.indices[part].tolist(), plain.values[part].tolist()
        expected = list(zip(keys, values, strict=True))
        for left, other in ("ab", "cc"):
            for i, first in enumerate(spaces):
                for j, second in enumerate(spaces):
                    if (first, second) == (left, other) and (left != other or i <= j):
                        key = ((keys[i] * 16777619) ^ keys[j]) % 4096
                        expected.append((key, values[i] * values[j]))
        part = slice(*made.indptr[row : row + 2].tolist())
        actual = zip(made.indices[part].tolist(), made.values[part].tolist(), strict=True)
        assert list(actual) == expected


def test_numbers_of_a_parquet_file_are_those_of_the_frame(tmp_path):
    # Arrow's cast rounds 1 decimal in 250 wrongly, and refuses integers beyond 2^53.
    arrow = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    digits = [int(n) for n in rng.integers(1, 10**17, 2000)]
    table = arrow.table(
        {
            "price": arrow.array(
                [Decimal(n).scaleb(-10) for n in digits], arrow.decimal128(38, 10)
            ),
            "id": [n * 11 for n in digits],
            "label": [float(n % 2) for n in digits],
        }
    )
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "a.parquet")
    with streams.open(tmp_path / "a.parquet", dtype="float64") as stream:
        values = np.concatenate([batch.values for batch in stream])
    expected = [[float(Decimal(n).scaleb(-10)), float(n * 11)] for n in digits]
    assert values.reshape(-1, 2).tolist() == expected
    ids = lambda names: np.arange(len(names), dtype=np.uint64)  # noqa: E731 - short
    rows = core_rows(table.drop_columns("label"), ids)
    assert rows.arguments[0].reshape(-1, 2).tolist() == expected
