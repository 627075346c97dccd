r"""Rows from files, pipes and URLs: batches in bounded memory, parsed ahead in a thread.

>>> import pathlib, tempfile
>>> from sonline import streams
>>> file = pathlib.Path(tempfile.mkdtemp(), "tiny.svm")
>>> _ = file.write_text("+1 1:0.5 3:2\n-1 2:1\n")
>>> with streams.open(file) as stream:
...     for batch in stream:
...         print(batch.labels.tolist(), batch.indices.tolist(), batch.end.offset)
[1.0, -1.0] [1, 3, 2] 20
"""

from sonline.read_options import ReadOptions
from sonline.streams.batch import BadRow, Batch, Position
from sonline.streams.formats import FORMATS
from sonline.streams.stream import (
    ON_ERROR,
    Options,
    Stream,
    listed,
    open,  # noqa: A004 - as gzip.open is called
)

__all__ = [
    "FORMATS",
    "ON_ERROR",
    "BadRow",
    "Batch",
    "Options",
    "Position",
    "ReadOptions",
    "Stream",
    "listed",
    "open",
]
