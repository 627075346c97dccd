"""Data frames of R packages, without R.

A package keeps its data in files of one object or more (.rda, .RData), or all of it in one pair of
files: an index (Rdata.rdx) of places and lengths, and compressed objects (Rdata.rdb).
"""

from __future__ import annotations

import bz2
import io
import lzma
import warnings
import zlib
from typing import Any

from benchmarks.accuracy.sources import MissingSourceError, Sources

_XZ = [{"id": lzma.FILTER_LZMA2, "preset": 9}]


def read(sources: Sources, package: str, name: str) -> Any:
    """Return an object of the data of a Debian package: mostly a pandas data frame."""
    import rdata  # noqa: PLC0415 - only these streams need it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a format that is guessed, and of classes unknown
        index = next(iter(sources.files(package, r"/data/Rdata\.rdx$")), None)
        if index is not None:
            places = rdata.conversion.convert(rdata.parser.parse_data(index[1]))["variables"]
            if name not in places:
                raise MissingSourceError(f"{package} has no object {name}")
            start, length = (int(number) for number in places[name])
            packed = sources.read(package, "/data/Rdata.rdb")[start : start + length]
            return rdata.conversion.convert(rdata.parser.parse_data(unpacked(packed)))
        for _, content in sources.files(package, rf"/data/{name}\.(rda|RData|rdata)$"):
            return rdata.conversion.convert(rdata.parser.parse_file(io.BytesIO(content)))[name]
    raise MissingSourceError(f"{package} has no object {name}")


def unpacked(packed: bytes) -> bytes:
    """Return the bytes of an object: four of its length, then mostly one that names the method."""
    method = packed[4:5]
    if method == b"2":
        return bz2.decompress(packed[5:])
    if method == b"Z":
        return lzma.decompress(packed[5:], format=lzma.FORMAT_RAW, filters=_XZ)
    if method == b"0":
        return packed[5:]
    return zlib.decompress(packed[4:])
