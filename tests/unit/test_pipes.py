"""A read of a pipe may return a single byte: format and compression are detected anyway."""

import bz2
import gzip
import lzma
import os
import re
import threading
import time

import pyarrow as pa
import pytest
from pyarrow import parquet

from sonline import streams
from sonline.errors import DataFormatError

LINES = {
    "svmlight": b"# 1 |a\n\n1 1:0.5 7:2\n-1 3:1\n",
    "vw": b"1 |a b:0.5 c\n-1 |a d\n",
    "csv": b"label,x,y\n1,0.5,2\n-1,3,1\n",
    "jsonl": b'{"label": 1, "x": 2}\n{"label": -1, "x": 3}\n',
}
PACKED = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda content: pa.compress(content, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("kind", LINES)
def test_a_pipe_that_gives_byte_by_byte(tmp_path, kind, packed):
    content = PACKED[packed](LINES[kind])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write():
        with pipe.open("wb", buffering=0) as file:
            for position in range(len(content)):
                file.write(content[position : position + 1])
                time.sleep(0.001)  # for the reader to take it

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    file = tmp_path / "file"
    file.write_bytes(content)
    more = {"label": "label"} if kind in ("csv", "jsonl") else {}
    assert all_of(pipe, **more) == all_of(file, **more)
    thread.join(60)


def all_of(path, **options):
    """Return the labels, keys, values and names of all rows, however they came in batches."""
    labels, indices, values, names = [], [], [], []
    with streams.open([path], **options) as stream:
        for batch in stream:
            labels += batch.labels.tolist()
            indices += batch.indices.tolist()
            values += batch.values.tolist()
            names += batch.new_names
    assert len(labels) == 2
    return labels, indices, values, names


@pytest.mark.parametrize("packed", [name for name in PACKED if name != "plain"])
def test_a_compressed_file_that_is_cut_off_is_an_error(tmp_path, packed):
    text = "".join(f"1 1:{n} 2:{n * n % 1009}\n" for n in range(20000)).encode()
    content = PACKED[packed](text)
    file = tmp_path / "cut.svm"
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataFormatError, match="damaged or cut off"):
        rows_of(file)
    file.write_bytes(content + content)  # frames one after another are one file
    assert rows_of(file) == 40000


def rows_of(path):
    with streams.open([path]) as stream:
        return sum(map(len, stream))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_tables_are_named(tmp_path, kind, damage):
    table = pa.table({"label": [1, -1] * 3000, "x": [float(n) for n in range(6000)]})
    file = tmp_path / f"bad.{kind}"
    if kind == "parquet":
        parquet.write_table(table, file)
    else:
        with pa.OSFile(str(file), "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
    content = bytearray(file.read_bytes())
    if damage == "cut":
        del content[len(content) // 2 :]
    else:
        content[8:200] = bytes(255 - byte for byte in content[8:200])
    file.write_bytes(content)
    with pytest.raises(DataFormatError, match=re.escape(str(file))):
        rows_of(file)


@pytest.mark.parametrize("packed", PACKED)
def test_arrow_streams_of_any_size_are_read(tmp_path, packed):
    """A source returns the bytes that it has; pyarrow takes fewer than it asked for as the end."""
    table = pa.table({"label": [1, -1] * 20_000, "x": [float(n) for n in range(40_000)]})
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table)
    file = tmp_path / "a.arrows"
    file.write_bytes(PACKED[packed](buffer.getvalue().to_pybytes()))
    assert rows_of(file) == 40_000
    os.mkfifo(tmp_path / "pipe")
    sender = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[file.read_bytes()])
    sender.start()
    assert rows_of(tmp_path / "pipe") == 40_000
    sender.join()
