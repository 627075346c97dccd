"""A cache of parsed rows: an Arrow file, written during one pass and read in the later ones.

The file is in the Arrow IPC format. A record batch holds one or a few batches of the stream,
because each takes some time, however few rows it has. The metadata of the schema says what was
parsed and how; that of a record batch has positions, new names and bad rows of its batches, and a
checksum. The last record batch has no rows; it says that the file is complete.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import asdict, fields
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sonline.errors import ParameterError
from sonline.files import check_writable, is_replaced, replacing
from sonline.rows import Indices as Integers
from sonline.streams.batch import ROW_COLUMNS, BadRow, Batch, Dictionary, Position
from sonline.streams.shuffling import joined
from sonline.streams.sources import fingerprint
from sonline.streams.tables import arrow

if TYPE_CHECKING:
    from sonline.streams.stream import Options, Stream

VERSION = 1  # of the content; the format is that of Arrow
_KEY = b"sonline.cache"
_MAGIC = b"ARROW1\0\0"
_KNOWN = ("names", "label_names", "columns")  # options that may differ, within limits
_TYPES = {"int64": np.int64, "float": np.float32, "double": np.float64}
_ROWS, _STORED = 8192, 1 << 18  # rows and features of a record batch, or a few more
_OF_HASHES = ("hash_bits", "hash_seed")

Item = tuple[Batch, int]  # a batch, and the bytes of the files up to its end


class Cache:
    """The parsed rows of the files of a stream.

    Parameters
    ----------
    path : path-like
        The Arrow file.
    files : list of str
        The files of the stream.
    options : Options
        How they are read, with format and features detected.
    columns : dict
        The type of each column so far; new ones are added.
    size : int
        The bytes of all files.
    say : callable
        Called with a line about what happens to the cache.

    Raises
    ------
    ParameterError
        If there is another file at ``path``: it is never overwritten.
    OSError
        If no file can be written there.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        files: list[str],
        options: Options,
        columns: dict[str, str],
        *,
        size: int,
        say: Callable[[str], object],
    ) -> None:
        self._arrow = arrow("a cache (--cache) needs")
        self._path = Path(path)
        self._files, self._options, self._columns = files, options, columns
        self._size, self._say = size, say
        # What the stream knows so far.
        self._names = _known_names(options)
        self._dictionary = Dictionary(len(self._names), list(options.label_names))
        self._rows: _Rows | None = None
        self._is_new = not self._path.exists() or self._path.stat().st_size == 0
        if not is_replaced(path) or not (self._is_new or is_cache(self._path)):
            raise ParameterError(
                f"cache (--cache): {path} is not a cache of sonline and is not overwritten; name "
                "another file, or remove it"
            )
        if self._is_new:
            check_writable(path)

    def is_ready(self) -> bool:
        """Return whether the next pass can be read; a file of an earlier run is checked once."""
        if self._rows is None and not self._is_new:
            self._is_new = True
            why = self._open()
            what = f"not used, because {why}: written anew" if why else "read instead of the data"
            self._say(f"cache {self._path}: {what}")
        return self._rows is not None

    def _open(self) -> str:
        """Open the file of an earlier run; return why it cannot be used, "" if it can."""
        try:
            with self._path.open("rb") as file:
                rows = _Rows(self._arrow, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            why = _difference(rows.about, self._about())
            why = why or rows.unlike(self._names, self._dictionary.words, self._columns)
            if why:
                return why
            rows.check(self._options)
        except (
            self._arrow.ArrowException,
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
        ):
            return "it is damaged or cut off"
        self._rows = rows
        return ""

    def _about(self) -> dict[str, Any]:
        """Return what the rows depend on."""
        options = self._options
        left_out = _KNOWN if options.features == "hash" else (*_KNOWN, *_OF_HASHES)
        used = {f.name: getattr(options, f.name) for f in fields(options) if f.name not in left_out}
        if options.frozen:
            used["names"] = _digest(_known_names(options))
        about = {
            "version": VERSION,
            "sonline": version("sonline"),
            "sources": [_state_of(name) for name in self._files],
            "options": used,
        }
        plain: dict[str, Any] = json.loads(json.dumps(about))  # as it is after reading
        return plain

    def read(self, turn: int) -> Generator[Item]:
        """Yield the batches of a pass.

        The first pass has those that were parsed, because the measures of the frozen model depend
        on them; nothing else does, so later passes have fewer and larger ones.
        """
        rows = self._rows
        assert rows is not None  # noqa: S101 - is_ready said so
        names, words = self._names, self._dictionary.words
        features = _Numbers(names, rows.initial["names"], rows.names)
        labels = _Numbers(words, len(rows.initial["labels"]), rows.labels)
        for record, entry in rows.entries(apart=turn == 0):
            batch = _batch(record, entry, turn, self._files)
            batch.names, batch.named = self._dictionary, self._options.features == "name"
            batch.first_name, batch.first_label = len(names), len(words)
            batch.new_names = features.add(batch.new_names)
            batch.new_labels = labels.add(batch.new_labels)
            if batch.named:
                batch.indices = features.of(batch.indices)
            if batch.codes is not None:
                batch.codes = labels.of(batch.codes)
            for column, kind in entry["columns"].items():
                self._columns.setdefault(column, kind)
            yield batch, turn * self._size + entry["done"]

    @property
    def absent_columns(self) -> list[str]:
        """The columns that options name and that no row has."""
        return [] if self._rows is None else list(self._rows.totals["absent_columns"])

    def follow(
        self, items: Generator[Item], stream: Stream, whole: bool, needed: bool
    ) -> Generator[Item]:
        """Yield the batches of a pass that is parsed; write them if it is a whole pass.

        If the next pass ``needed`` them and they cannot be written, that is an error.
        """
        if whole:
            items = self._write(items, stream, needed)
        with closing(items):
            for item in items:
                self._names += item[0].new_names
                self._dictionary = item[0].names
                yield item

    def _write(self, items: Generator[Item], stream: Stream, needed: bool) -> Generator[Item]:
        """Yield the batches and write them; the file appears when all are written."""
        about = self._about()
        initial = {
            "names": len(self._names),
            "digest": _digest(self._names),
            "labels": list(self._dictionary.words),
            "columns": dict(self._columns),
        }
        item: Item | None = None
        reading = False  # errors of the data pass
        try:
            with replacing(self._path, durable=False) as file:
                writer = _Writer(self._arrow, file, about | {"initial": initial}, self._columns)
                while True:
                    reading = True
                    item = next(items, None)
                    reading = False
                    if item is None:
                        break
                    writer.write(item[0], item[1] - item[0].start.turn * self._size)
                    yield item
                writer.close(stream.absent_columns, changed=self._about() != about)
                file.flush()
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                self._rows = _Rows(self._arrow, content)
        except _NoRowsError:
            return
        except (OSError, self._arrow.ArrowException) as error:
            if reading:
                raise
            why = getattr(error, "strerror", None) or error
            if needed:
                raise OSError(f"cache {self._path}: cannot be written: {why}") from error
            self._say(f"cache {self._path}: cannot be written, so every pass parses: {why}")
            if item is not None:
                yield item
            yield from items


def is_cache(path: Path) -> bool:
    """Return whether a file starts as a cache does, even if it is damaged further on."""
    pa = arrow()
    with pa.OSFile(os.fspath(path)) as file:
        try:
            is_arrow = file.read(len(_MAGIC)) == _MAGIC
            return is_arrow and _KEY in (pa.ipc.read_schema(file).metadata or {})
        except (pa.ArrowException, OSError):
            return False


class _NoRowsError(Exception):
    """There is nothing to write."""


class _Writer:
    """Writes batches as record batches."""

    def __init__(self, pa: Any, file: Any, head: dict[str, Any], columns: dict[str, str]) -> None:
        self._pa, self._file, self._head = pa, file, head
        self._writer: Any = None
        self._nothing: Any = None  # a record batch without rows
        self._columns, self._known = columns, len(columns)
        self._waiting: list[Batch] = []
        self._entries: list[dict[str, Any]] = []
        self._rows = self._records = 0

    def write(self, batch: Batch, done: int) -> None:
        """Write a batch; ``done`` are the bytes of the files up to its end, in this pass."""
        waiting = self._waiting
        if waiting and (
            waiting[0].start.file != batch.start.file
            or sum(map(len, waiting)) >= _ROWS
            or sum(other.indices.size for other in waiting) >= _STORED
        ):
            self._flush()
        entry = {
            "rows": len(batch),
            "start": _place(batch.start),
            "end": _place(batch.end),
            "done": done,
            "names": batch.new_names,
            "labels": batch.new_labels,
            "columns": dict([*self._columns.items()][self._known :]),
            "unknown": batch.unknown_features,
            "weighted": batch.weights is not None,
            "tagged": batch.tags is not None,
            "bad": [
                {k: v for k, v in asdict(row).items() if k != "file"}
                | {"text": row.text.decode("latin-1")}
                for row in batch.bad
            ],
        }
        self._known = len(self._columns)
        self._rows += len(batch)
        self._waiting.append(batch)
        self._entries.append(entry)

    def _flush(self) -> None:
        batch = joined(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
        self._put(self._record(batch), self._entries, _checksum(batch))
        self._records += 1
        self._waiting, self._entries = [], []

    def close(self, absent_columns: list[str], changed: bool) -> None:
        """Write that the file is complete.

        Raises
        ------
        OSError
            If the data ``changed`` meanwhile.
        """
        if changed:
            raise OSError("the data changed while it was read")
        if not self._rows:
            raise _NoRowsError
        self._flush()
        totals = {
            "rows": self._rows,
            "records": self._records,
            "columns": dict(self._columns),
            "absent_columns": absent_columns,
        }
        self._put(self._nothing, totals, 0)
        self._writer.close()

    def _put(self, record: Any, entry: Any, checksum: int) -> None:
        if self._writer is None:
            self._nothing = record.slice(0, 0)
            schema = record.schema.with_metadata({_KEY: json.dumps(self._head).encode()})
            self._writer = self._pa.ipc.new_file(self._file, schema)
        text = json.dumps(entry).encode()
        custom = {"entry": text, "crc32": str(zlib.crc32(text, checksum))}
        self._writer.write_batch(record, custom_metadata=custom)

    def _record(self, batch: Batch) -> Any:
        pa = self._pa
        pairs = pa.StructArray.from_arrays(
            [self._column(batch.indices), self._column(batch.values)], ["index", "value"]
        )
        columns = {"features": pa.LargeListArray.from_arrays(self._column(batch.indptr), pairs)}
        for name in ROW_COLUMNS:
            column = getattr(batch, name)
            if column is not None:
                columns[name] = self._column(column)
            elif name == "weights":  # as tags, they may be absent in some batches only
                columns[name] = pa.nulls(len(batch), pa.float64())
        columns["tags"] = (
            pa.nulls(len(batch), pa.string())
            if batch.tags is None
            else pa.array(batch.tags, pa.string())
        )
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def _column(self, numbers: NDArray[Any]) -> Any:
        """Return numbers as an Arrow array of the same memory; pyarrow.array imports pandas."""
        content = self._pa.py_buffer(np.ascontiguousarray(numbers))
        kind = self._pa.from_numpy_dtype(numbers.dtype)
        return self._pa.Array.from_buffers(kind, numbers.size, [None, content])


class _Rows:
    """The rows of a complete cache."""

    def __init__(self, pa: Any, content: mmap.mmap) -> None:
        self._reader = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(content)))
        self.about = json.loads(self._reader.schema.metadata[_KEY])
        self.initial = self.about.pop("initial")
        self._count = self._reader.num_record_batches - 1
        self.totals = json.loads(self._custom(self._count)[1])
        if self.totals["records"] != self._count:
            raise ValueError("there are other record batches")
        self.names: list[str] = []  # in the order of their numbers, after the initial ones
        self.labels: list[str] = []
        for _, entry in self.entries():
            self.names += entry["names"]
            self.labels += entry["labels"]

    def _custom(self, number: int) -> tuple[Any, bytes, int]:
        """Return a record batch, what is written about it, and the checksum of both."""
        record, custom = self._reader.get_batch_with_custom_metadata(number)
        return record, custom[b"entry"], int(custom[b"crc32"])

    def entries(self, apart: bool = False) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield the record batches with what is written about them; split as parsed if apart."""
        for number in range(self._count):
            record, text, _ = self._custom(number)
            parts = json.loads(text)
            if not apart:
                yield record, _together(parts)
                continue
            first = 0
            for part in parts:
                yield record.slice(first, part["rows"]), part
                first += part["rows"]

    def unlike(self, names: list[str], labels: list[str], columns: dict[str, str]) -> str:
        """Return why a stream that knows these cannot use the rows; "" if it can."""
        count, words = self.initial["names"], self.initial["labels"]
        if len(names) < count or _digest(names[:count]) != self.initial["digest"]:
            return "it was written for a model with other features"
        if labels[: len(words)] != words:
            return "it was written for a model with other labels"
        if not self.initial["columns"].items() <= columns.items() <= self.totals["columns"].items():
            return "it was written for columns of other types"
        return ""

    def check(self, options: Options) -> None:
        """Raise an error if a number differs from what was written, or is outside its range."""
        features, labels = self.initial["names"], len(self.initial["labels"])
        rows = 0
        for number in range(self._count):
            record, text, checksum = self._custom(number)
            record.validate(full=True)
            batch = _batch(record, _together(json.loads(text)), 0, None)
            features, labels = features + len(batch.new_names), labels + len(batch.new_labels)
            limits = {"name": features, "hash": 1 << (options.hash_bits or 0), "index": 1 << 63}
            for numbers, least, limit in (
                (batch.indices, 0, limits[options.features]),
                (batch.codes, -1, labels),
            ):
                if numbers is None or not numbers.size:
                    continue
                if int(numbers.min()) < least or int(numbers.max()) >= limit:
                    raise ValueError("a number is outside its range")
            if zlib.crc32(text, _checksum(batch)) != checksum:
                raise ValueError("the checksum is another one")
            rows += len(batch)
        if rows != self.totals["rows"]:
            raise ValueError("there are other rows")


class _Numbers:
    """The numbers that a stream has for the words (names or labels) of a cache.

    Both number them in the order of their appearance, but the stream may know more from the start.
    """

    def __init__(self, known: list[str], initial: int, words: list[str]) -> None:
        self._known, self._next = known, initial
        common = known[initial : initial + len(words)]
        self._table: dict[str, int] | None = None
        if common != words[: len(common)]:
            self._table = {word: number for number, word in enumerate(known)}
            # The last one is for rows without a label, -1.
            self._numbers = np.append(np.arange(initial + len(words)), -1)

    def add(self, words: list[str]) -> list[str]:
        """Take in the words that a batch of the cache has first; return those new to the stream."""
        if self._table is None:
            new = words[len(self._known) - self._next :]
        else:
            new = [word for word in words if word not in self._table]
            self._table |= {word: number for number, word in enumerate(new, len(self._known))}
            numbers = [self._table[word] for word in words]
            self._numbers[self._next : self._next + len(words)] = numbers
        self._next += len(words)
        self._known += new
        return new

    def of(self, numbers: Integers) -> Integers:
        """Return the stream's numbers for those of the cache."""
        return numbers if self._table is None else self._numbers[numbers]


def _known_names(options: Options) -> list[str]:
    """Return the names of features that a stream knows when it is opened."""
    if options.features != "name":
        return []
    return list(options.names) if isinstance(options.names, list) else options.names.names()


def _batch(record: Any, entry: dict[str, Any], turn: int, files: list[str] | None) -> Batch:
    """Return a record batch of a cache as a batch, without names of files if there are none."""
    features = record.column("features")
    index, value = map(_numbers, features.values.flatten())
    indptr = _numbers(features.offsets) if len(record) else np.zeros(1, np.int64)
    first, last = indptr[[0, -1]].tolist()
    columns: dict[str, Any] = dict.fromkeys(ROW_COLUMNS)
    columns |= {
        name: _numbers(record.column(name))
        for name in ROW_COLUMNS
        if name in record.schema.names and (name != "weights" or entry["weighted"])
    }
    start, end = (Position(turn, *entry[name]) for name in ("start", "end"))
    file = "" if files is None else files[start.file]
    bad_rows: list[dict[str, Any]] = entry["bad"]
    return Batch(
        indptr=indptr - first if first else indptr,
        indices=index[first:last],
        values=value[first:last],
        **columns,
        tags=record.column("tags").to_pylist() if entry["tagged"] else None,
        named=False,
        new_names=entry["names"],
        new_labels=entry["labels"],
        first_name=0,
        first_label=0,
        start=start,
        end=end,
        bad=[
            BadRow(file=file, **bad | {"text": bad["text"].encode("latin-1")}) for bad in bad_rows
        ],
        unknown_features=entry["unknown"],
        keeper=record,
        file=file,
    )


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what is written about batches as that of one batch."""
    if len(parts) == 1:
        return parts[0]
    return {
        "rows": sum(part["rows"] for part in parts),
        "start": parts[0]["start"],
        "end": parts[-1]["end"],
        "done": parts[-1]["done"],
        "names": [name for part in parts for name in part["names"]],
        "labels": [label for part in parts for label in part["labels"]],
        "columns": dict(pair for part in parts for pair in part["columns"].items()),
        "unknown": sum(part["unknown"] for part in parts),
        "weighted": any(part["weighted"] for part in parts),
        "tagged": any(part["tagged"] for part in parts),
        "bad": [row for part in parts for row in part["bad"]],
    }


def _numbers(column: Any) -> NDArray[Any]:
    """Return an Arrow array as an array of the same memory; its own to_numpy imports pandas."""
    kind = np.dtype(_TYPES[str(column.type)])
    if not len(column):
        return np.empty(0, kind)
    if column.null_count:
        raise ValueError("a number is missing")
    start = column.offset * kind.itemsize
    return np.frombuffer(column.buffers()[1], kind, len(column), start)


def _checksum(batch: Batch) -> int:
    """Return a checksum of the rows of a batch."""
    checksum = zlib.crc32("\n".join(batch.tags or []).encode())
    for name in ("indptr", "indices", "values", *ROW_COLUMNS):
        numbers = getattr(batch, name)
        if numbers is not None and numbers.size:
            checksum = zlib.crc32(np.ascontiguousarray(numbers).data, checksum)
    return checksum


def _place(position: Position) -> list[int]:
    return [position.file, position.offset, position.line, position.rows]


def _digest(words: list[str]) -> str:
    return hashlib.blake2b(json.dumps(words).encode(), digest_size=16).hexdigest()


def _state_of(name: str) -> dict[str, Any] | None:
    """Return what changes if a file changes; None for what is not a file."""
    state = fingerprint(name)
    return None if state is None else state | {"changed": os.stat(name).st_mtime_ns}  # noqa: PTH116


def _difference(written: dict[str, Any], now: dict[str, Any]) -> str:
    """Return how the data or the options differ from those of a cache; "" if they do not."""
    if any(written[name] != now[name] for name in ("version", "sonline")):
        return "another version of sonline wrote it"
    if None in now["sources"]:
        return "pipes and URLs may have changed"
    if written["sources"] != now["sources"]:
        return "the data has changed"
    names = written["options"].keys() | now["options"].keys()
    other = [n for n in names if written["options"].get(n) != now["options"].get(n)]
    return f"it was written with other options ({', '.join(sorted(other))})" if other else ""
