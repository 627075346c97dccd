"""`Stream`: the rows of several files, read and parsed ahead by a thread."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from sonline import _core
from sonline.arguments import check_choice, check_integer, refuse_unknown_names
from sonline.errors import InvalidInputError, ParameterError, flag_of
from sonline.parameters import MISSING
from sonline.read_options import ReadOptions
from sonline.streams.batch import Batch, Position
from sonline.streams.formats import FORMATS, Reader
from sonline.streams.rows import LABEL_WEIGHTS
from sonline.streams.sources import (
    STDIN,
    Source,
    expand,
    format_of_name,
    guess_format,
    is_remote,
    open_source,
)

FEATURES = ("index", "name", "hash")
ON_ERROR = ("stop", "skip")
_AHEAD = 3  # batches that are parsed ahead at most

# A batch with the bytes read up to its end, an error to raise, or the end.
_Item = tuple[Batch, int] | BaseException | None


@dataclass(frozen=True, kw_only=True)
class Options(ReadOptions):
    """How a stream is read: `ReadOptions`, and what the model or the command decides.

    Parameters
    ----------
    hash_bits, hash_seed : int
        ``hash_bits`` and ``seed`` of `OnlineLearner`.
    dtype : str
        Type of the values.
    missing : {"absent", "mark", "refuse"}
        Whether a missing cell of a table is an absent feature or makes its row a bad row.
    tokens : bool
        Whether labels are words (classes) rather than numbers.
    unlabelled : bool
        Whether rows may have no label.
    frozen : bool
        Whether features with unknown names are left out and counted.
    names : list of str, or a model of the core
        Names that are already known, in the order of their ids.
    label_names : list of str
        Labels that are already known, in the order of their codes.
    columns : dict
        Tables: the type of each column ("number", "text" or "date"), if it is already known.
    """

    hash_bits: int | None = None
    hash_seed: int = 0
    dtype: str = "float32"
    missing: str = "absent"
    tokens: bool = False
    unlabelled: bool = False
    frozen: bool = False
    names: list[str] | _core.Model = field(default_factory=list)
    label_names: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def name_count(self) -> int:
        """How many names are known already."""
        return self.names.name_count() if isinstance(self.names, _core.Model) else len(self.names)


class Stream:
    """An iterator of batches; `sonline.streams.open` makes one.

    Attributes
    ----------
    files : list of str
        The names of the files, with globs expanded.
    options : Options
        The options, with format and features detected.
    description : str
        Format and compression of the files, and how they were detected.
    columns : dict
        The type of each column of tables seen so far.
    absent_columns : list of str
        JSON lines, at the end of the stream: columns that options name and that no row had.
    missing_columns : list of str
        Tables, at the end of the stream: columns in ``Options.columns`` that no file had.
    """

    def __init__(
        self,
        files: list[str],
        options: Options,
        start: Position | None,
        passes: int,
    ) -> None:
        if passes > 1 and STDIN in files:
            raise ParameterError(
                "standard input can be read only once, so several passes (--passes) need files: "
                "write its rows to a file before, such as with sonline convert - -o rows.arrow"
            )
        self.files = files
        self._start = start or Position()
        self._passes = passes
        if self._start.file >= len(files):
            self._start = Position(turn=self._start.turn + 1)
        first = min(self._start.file, len(files) - 1)
        self._first: Source | None = open_source(files[first])
        try:
            kind, self.description = self._decide(self._first, options.format, options.columns)
            if options.format == "auto":
                self._check_names(kind)
            self.options = replace(options, format=kind, features=_features(options, kind))
            self.columns: dict[str, str] = dict(options.columns)
            self._sizes = [os.path.getsize(name) if os.path.isfile(name) else 0 for name in files]  # noqa: PTH113, PTH202
        except BaseException:
            self._first.close()
            raise
        self.absent_columns: list[str] = []
        self.missing_columns: list[str] = []
        self._done = sum(self._sizes) * self._start.turn + sum(self._sizes[: self._start.file])
        if self._first.seekable:
            self._done += min(self._start.offset, self._sizes[first])
        self._queue: queue.Queue[_Item] = queue.Queue(_AHEAD)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @staticmethod
    def _decide(source: Source, format_name: str, columns: Collection[str] = ()) -> tuple[str, str]:
        """Return the format of a source, and a sentence about it."""
        packed = f", {source.compression}" if source.compression else ""
        if format_name != "auto":
            if format_name not in FORMATS:
                raise ParameterError(
                    f"format must be 'auto' or one of {', '.join(FORMATS)}; got {format_name!r}"
                )
            return format_name, f"{source.name}: {format_name}{packed}"
        kind, origin = guess_format(source, columns)
        return kind, f"{source.name}: {kind}{packed} (by its {origin})"

    def _format_found(self) -> str:
        """Return the description as part of a sentence: "a.csv is csv (by its name)"."""
        first = self.files[min(self._start.file, len(self.files) - 1)]
        return f"{first} is {self.description.removeprefix(f'{first}: ')}"

    def _check_names(self, kind: str) -> None:
        """Raise an error about a file with the suffix of another format than the stream's."""
        for name in self.files:
            named = format_of_name(name)
            if named not in (None, kind):
                raise ParameterError(
                    f"{name} is {named} (by its name), but {self._format_found()}; all files must "
                    "have the same format: convert them, or set it with format=NAME (--format NAME)"
                )

    def refuse_columns_of_text(self, options: ReadOptions) -> None:
        """Raise an error if options name columns and the data has none."""
        kind = self.options.format
        if FORMATS[kind].table:
            return
        if kind == "svmlight" and options.weight == LABEL_WEIGHTS:
            options = replace(options, weight=None)
        for name in ("label", "weight", "offset", "tag", "text", "amounts", "ngrams", "ignore"):
            if getattr(options, name) and not (name in ("ignore", "ngrams") and kind == "vw"):
                detected = self.description.endswith("(by its content)")
                if (name, kind) == ("weight", "svmlight"):
                    hint = (
                        'use weight="label" (--weight label) if weights follow the labels, as in '
                        "1:0.5 3:2"
                    )
                elif detected:
                    hint = 'if it is a table, set its format: format="csv" (--format csv)'
                else:
                    hint = "leave it out"
                raise ParameterError(
                    f"{name} ({flag_of(name)}) names a column, but {self._format_found()}, which "
                    f"has no columns: {hint}"
                )

    def share(self) -> float | None:
        """Return the fraction of the input up to the end of the last batch.

        None if the size of the input is not known.
        """
        total = sum(self._sizes) * self._passes
        return min(1.0, self._done / total) if total else None

    def stop(self) -> None:
        """End the iteration after the batch that is being read; safe in a signal handler."""
        self._stop.set()

    def __iter__(self) -> Iterator[Batch]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._produce, daemon=True)
            self._thread.start()
        while True:
            try:
                item = self._queue.get(timeout=0.1)
            except queue.Empty:
                if self._stop.is_set():
                    return
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            batch, self._done = item
            failed = self.options.on_error == "stop" and batch.bad
            if len(batch) or not failed:
                yield batch
            if failed:
                raise batch.bad[0].error()
            if self._stop.is_set():
                return

    def close(self) -> None:
        """Stop reading and close the files."""
        self._stop.set()
        if self._thread is not None:
            # A thread that waits for a pipe cannot be stopped; it is a daemon and owns nothing.
            self._thread.join(timeout=0.5 if any(map(_is_pipe, self.files)) else None)
        if self._first is not None:
            self._first.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _produce(self) -> None:
        last: BaseException | None = None
        try:
            for item in self._batches():
                if not self._put(item):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again in the other thread
            last = error
        self._put(last)

    def _put(self, item: _Item) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def _batches(self) -> Iterator[tuple[Batch, int]]:
        """Yield the batches, each with the number of bytes of the files up to its end."""
        position = self._start
        reader: Reader | None = None
        for turn in range(position.turn, self._passes):
            from_start, read = position == Position(turn=turn), False
            reader = reader or FORMATS[self.options.format].open(self.options, self.columns)
            with closing(self._parsed(reader, position)) as items:
                for batch, done in items:
                    read = read or len(batch) > 0 or bool(batch.bad)
                    yield batch, done
                    if batch.bad and self.options.on_error == "stop":
                        return
            if from_start and not read:  # the next pass would be empty, too
                return
            position = Position(turn=turn + 1)

    def _parsed(self, reader: Reader, position: Position) -> Generator[tuple[Batch, int]]:
        """Yield the batches of one pass, from a position on."""
        turn = position.turn
        for number in range(position.file, len(self.files)):
            source = self._first or open_source(self.files[number])
            self._first = None
            try:
                before = sum(self._sizes) * turn + sum(self._sizes[:number])
                for batch in reader.read(source, replace(position, file=number)):
                    yield batch, before + min(source.consumed(), self._sizes[number])
            finally:
                source.close()
            position = Position(turn=turn, file=number + 1)
        if hasattr(reader, "absent_columns"):
            self.absent_columns = reader.absent_columns()
        if hasattr(reader, "seen_columns"):
            seen = reader.seen_columns()
            self.missing_columns = [name for name in self.options.columns if name not in seen]


def open(  # noqa: A001 - as gzip.open is called
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    start: Position | None = None,
    passes: int = 1,
    **options: Any,
) -> Stream:
    """Open files, globs, URLs or standard input ("-") as one stream of rows.

    Parameters
    ----------
    sources : name or sequence of names
        All of one format.
    start : Position, optional
        Where to start: the ``end`` of a batch of an earlier stream over the same files.
    passes : int, default=1
        Number of passes over the files.
    **options
        The fields of `ReadOptions` and `Options`.

    Returns
    -------
    Stream
        Close it, or use it in a ``with`` statement.
    """
    refuse_unknown_names("there is no option", options, [field.name for field in fields(Options)])
    if options.get("missing", "absent") not in MISSING:
        raise ParameterError(
            f"missing must be 'absent', 'mark' or 'refuse', got {options['missing']!r}; words that "
            "stand for a missing cell are na_values"
        )
    check_choice("on_error", options.get("on_error", "stop"), ON_ERROR)
    check_integer("passes", passes, 1)
    return Stream(expand(listed(sources)), Options(**options), start, passes)


def listed(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
) -> Sequence[str | os.PathLike[str]]:
    """Return the names of sources as a sequence, even if there is only one."""
    if isinstance(sources, (str, os.PathLike)):
        return [sources]
    for source in sources if isinstance(sources, (list, tuple)) else [sources]:
        if not isinstance(source, (str, os.PathLike)):
            raise InvalidInputError(
                f"a stream needs names of files, got {type(source).__name__}; learn takes rows"
            )
    return sources


def _is_pipe(name: str) -> bool:
    """Return whether reading may block: the source is neither a file nor a URL."""
    return name == STDIN or not (is_remote(name) or os.path.isfile(name))  # noqa: PTH113 - as above


def _features(options: Options, kind: str) -> str:
    hashed = options.features == "hash" or (
        options.features == "auto" and options.hash_bits is not None
    )
    for name in ("interactions", "ngrams"):
        if getattr(options, name) and not FORMATS[kind].table and (kind != "vw" or not hashed):
            raise ParameterError(
                f"{name} need columns (tables, JSON lines), or Vowpal Wabbit text and hash_bits "
                "(--hash-bits)"
            )
    if options.features == "auto":
        return "hash" if hashed else "index" if kind == "svmlight" else "name"
    if options.features not in FEATURES:
        raise ParameterError(
            f"features must be 'auto' or one of {', '.join(FEATURES)}; got {options.features!r}"
        )
    if options.features == "hash" and options.hash_bits is None:
        raise ParameterError("features='hash' needs hash_bits")
    return options.features
