"""Pipes give what they have, which may be a single byte: format and compression are told anyway."""

import bz2
import gzip
import lzma
import os
import threading
import time

import pyarrow as pa
import pytest

from sonline import streams

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
            for place in range(len(content)):
                file.write(content[place : place + 1])
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
