"""``sonline convert``: rows from one format to another."""

from __future__ import annotations

import io
import json as jsonlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

import typer

from sonline import streams
from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.cli.outputs import check_outputs
from sonline.cli.watching import watched
from sonline.errors import DataFormatError, ParameterError
from sonline.files import is_replaced, replacing
from sonline.labels import label_of
from sonline.streams import FORMATS, Batch
from sonline.streams.sources import compressed, compression_of_name, format_of_name
from sonline.training.outputs import STDOUT, GrowingFiles, open_output

app = command_app()

MOST_COLUMNS = 20_000
_VW_QUOTES = str.maketrans({c: f"%{ord(c):02X}" for c in [*map(chr, range(33)), *":|\x7f"]})


class Row(NamedTuple):
    """A row of any format."""

    label: str | None
    weight: float
    tag: str
    offset: float | None
    features: list[tuple[Any, float]]


@app.command()
@shared.with_reading
def convert(
    *,
    data: shared.Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Output file, or - for standard output.")
    ],
    to: Annotated[
        str,
        typer.Option(help=f"Format of the output: {', '.join(FORMATS)}, or auto (from its name)."),
    ] = "auto",
    names: Annotated[
        Path | None,
        typer.Option(help="svmlight: number the features and write their names to this file."),
    ] = None,
    reading: dict[str, Any],
    bad_rows: shared.BadRows = None,
    json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Convert rows between svmlight, Vowpal Wabbit text, JSON lines and tables.

    Tables (CSV, TSV, Parquet, Arrow) get a column for each feature, so their input is read twice
    and cannot be a pipe. Names in Vowpal Wabbit text cannot have spaces, colons and bars; these
    become %20 and so on, so such features have other names there. A file name that ends in .gz,
    .bz2, .xz or .zst compresses the output. The output file appears when it is complete.

    Example: sonline convert clicks.svm.gz -o clicks.vw.zst
    """
    check_outputs(data, output=output, names=names, bad_rows=bad_rows)
    target = format_of_name(output.name) if to == "auto" else to
    if target is None:
        raise ParameterError(
            f"--output {output}: the name does not say the format; set it with --to "
            f"({', '.join(FORMATS)})"
        )
    if target not in FORMATS:
        raise ParameterError(f"--to must be one of {', '.join(FORMATS)}; got {to!r}")
    options = reading | {
        "features": "name",
        "dtype": "float64",
        "tokens": True,
        "unlabelled": True,
    }
    counts = {"rows": 0, "skipped": 0}
    renamed: dict[str, None] = {}
    tabular = target not in ("svmlight", "vw", "jsonl")
    if tabular and ("-" in data or str(output) == "-"):
        raise ParameterError(f"{target} needs files: its columns must be known before the rows")
    if target in ("parquet", "arrow") and compression_of_name(output.name):
        raise ParameterError(f"--output {output}: {target} needs a plain file")
    files = GrowingFiles({"bad_rows": bad_rows}, lambda text: typer.echo(text, err=True))
    with files, _output(output) as file:
        shown = not quiet and (str(output) != STDOUT or not sys.stdout.isatty())
        rows = _rows(data, options, counts, files, shown)
        if tabular:
            _write_table(data, options, rows, target, file)
        else:
            lines = io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True)
            _write_lines(rows, target, lines, names, renamed)
            lines.detach()
    if json and str(output) != "-":
        typer.echo(jsonlib.dumps({"output": str(output), "format": target, **counts}))
    elif not quiet:
        if renamed:
            name = next(iter(renamed))
            typer.echo(
                f"vw cannot hold {len(renamed)} of the names: {name!r} is "
                f"{name.translate(_VW_QUOTES)!r} there, and so it is for a model that reads it",
                err=True,
            )
        bad = f", {counts['skipped']} bad, skipped" if counts["skipped"] else ""
        typer.echo(f"{output}: {target}, {counts['rows']} rows{bad}", err=True)


@contextmanager
def _output(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears when it is complete; - is standard output."""
    if str(path) == STDOUT or not is_replaced(path):
        try:
            with open_output(path) as file:
                yield file
        except BrokenPipeError:  # the reader closed the pipe
            return
        return
    with replacing(path) as raw:
        packed = compressed(raw, compression_of_name(path.name))
        yield packed
        if packed is not raw:
            packed.close()


def _batches(data: list[str], options: dict[str, Any], *, shown: bool = False) -> Iterator[Batch]:
    with streams.open(data, **options) as stream:
        stream.refuse_columns_of_text(stream.options)
        with watched(stream, shown=shown) as batches:
            yield from batches


def _rows(
    data: list[str],
    options: dict[str, Any],
    counts: dict[str, int],
    files: GrowingFiles,
    shown: bool,
) -> Iterator[Row]:
    """Yield the rows, with features by name, and count them."""

    def counted() -> Iterator[Batch]:
        for batch in _batches(data, options, shown=shown):
            counts["rows"] += len(batch)
            counts["skipped"] += batch.skipped
            files.write("bad_rows", batch.bad_text())
            yield batch

    return rows_of(counted())


def rows_of(batches: Iterable[Batch]) -> Iterator[Row]:
    """Yield the rows of batches with labels as words and features by name."""
    features: list[str] = []
    labels: list[str | None] = []
    for batch in batches:
        features += batch.new_names
        labels += batch.new_labels
        assert batch.codes is not None  # noqa: S101 - labels are words
        ends = batch.indptr.tolist()
        ids, values = batch.indices.tolist(), batch.values.tolist()
        for row, code in enumerate(batch.codes.tolist()):
            stored = range(ends[row], ends[row + 1])
            yield Row(
                labels[code] if code >= 0 else None,
                1.0 if batch.weights is None else float(batch.weights[row]),
                "" if batch.tags is None else batch.tags[row],
                None if batch.offsets is None else float(batch.offsets[row]),
                [(features[ids[i]], values[i]) for i in stored],
            )


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _write_lines(
    rows: Iterator[Row], kind: str, file: IO[str], names: Path | None, renamed: dict[str, None]
) -> None:
    """Write rows; ``renamed`` gets the names that Vowpal Wabbit text cannot hold."""
    quoted: dict[str, str] = {}
    numbers: dict[str, int] = {}
    for row in rows:
        _check_row(kind, row)
        label, weight, tag, offset, features = row
        if kind == "vw":
            head = [label] if label is not None else []
            head += [_number(weight)] if weight != 1 else []
            mark = f" '{tag.translate(_VW_QUOTES)}" if tag else ""
            for name, _ in features:
                if name not in quoted:
                    quoted[name] = name.translate(_VW_QUOTES)
                    renamed |= {} if quoted[name] == name else {name: None}
            pairs = [_vw_pair(quoted[name], value) for name, value in features]
            file.write(f"{' '.join(head)}{mark} | {' '.join(pairs)}\n".lstrip())
        elif kind == "jsonl":
            cells: dict[str, Any] = {} if label is None else {"label": label_of(label)}
            cells |= {"weight": weight} if weight != 1 else {}
            cells |= {"tag": tag} if tag else {}
            cells |= {} if offset is None else {"offset": offset}
            file.write(jsonlib.dumps(cells | dict(features)) + "\n")
        else:
            indexed = sorted((_index(name, numbers, names), value) for name, value in features)
            pairs = [f"{index}:{_number(value)}" for index, value in indexed]
            note = [f"# {tag.translate(_VW_QUOTES)}"] if tag else []
            file.write(" ".join([*([label] if label is not None else []), *pairs, *note]) + "\n")
    if names is not None:
        with replacing(names) as written:
            written.write("".join(f"{i} {n}\n" for n, i in numbers.items()).encode())


def _check_row(kind: str, row: Row) -> None:
    """Raise an error about a row that the format cannot hold."""
    label, weight, features = row.label, row.weight, row.features
    if kind == "jsonl":
        taken = ["label", "weight", "tag", *([] if row.offset is None else ["offset"])]
        for name, _ in features:
            if name in taken:
                raise ParameterError(
                    f"a feature has the name {name!r}, which is also a column of the output"
                )
        return
    if row.offset is not None:
        raise DataFormatError(f"{kind} cannot hold the offset {row.offset:g} of a row")
    if kind == "svmlight" and weight != 1:
        raise DataFormatError(f"svmlight cannot hold the weight {weight:g} of a row")
    if kind == "vw":
        if label is None and weight != 1:
            raise DataFormatError(f"vw cannot hold the weight {weight:g} of a row without a label")
        if any(name == "" for name, _ in features):
            raise DataFormatError("vw cannot hold a feature without a name")
    if label is not None and (label == "" or any(c.isspace() or c in ":|#'" for c in label)):
        raise DataFormatError(f"{kind} cannot hold the label {label!r}")


def _vw_pair(quoted: str, value: float) -> str:
    return quoted if value == 1 else f"{quoted}:{_number(value)}"


def _index(name: str, numbers: dict[str, int], names: Path | None) -> int:
    if names is not None:
        return numbers.setdefault(name, len(numbers) + 1)
    if not (name.isascii() and name.isdigit()):
        raise ParameterError(
            f"svmlight needs indices and there is a feature {name!r}: number the features with "
            "--names FILE"
        )
    return int(name)


def _write_table(
    data: list[str], options: dict[str, Any], rows: Iterator[Row], kind: str, file: IO[bytes]
) -> None:
    """Write rows, after a first pass that collects the columns."""
    from sonline.streams import tables  # noqa: PLC0415 - needs an extra

    arrow = tables.arrow()
    columns: dict[str, None] = {}
    special = {"label": False, "weight": False, "tag": False, "offset": False}
    words = False
    for batch in _batches(data, options):
        columns |= dict.fromkeys(batch.new_names)
        special["label"] |= bool(batch.new_labels)
        special["weight"] |= batch.weights is not None
        special["tag"] |= batch.tags is not None
        special["offset"] |= batch.offsets is not None
        words |= any(isinstance(label_of(token), str) for token in batch.new_labels)
        if len(columns) > MOST_COLUMNS:
            raise ParameterError(
                f"more than {MOST_COLUMNS} features are too many columns; use jsonl, vw or svmlight"
            )
    ordered = list(columns)
    if all(name.isascii() and name.isdigit() for name in columns):
        ordered.sort(key=int)  # in the order of svmlight, so that sums over a row keep their order
    kinds = {"label": arrow.string() if words else arrow.float64(), "tag": arrow.string()}
    used = [name for name, present in special.items() if present]
    clash = [name for name in used if name in columns]
    if clash:
        raise ParameterError(
            f"a feature has the name {clash[0]!r}, which is also a column of the output"
        )
    fields = [(name, kinds.get(name, arrow.float64())) for name in used]
    schema = arrow.schema(fields + [(name, arrow.float64()) for name in ordered])
    with _table_writer(arrow, kind, file, schema) as writer:
        piece: list[dict[str, Any]] = []
        for row in rows:
            head = row._asdict()
            if row.label is not None and not words:
                head["label"] = label_of(row.label)
            piece.append({name: head[name] for name in used} | dict(row.features))
            if len(piece) == 4096:
                writer.write_table(arrow.Table.from_pylist(piece, schema))
                piece.clear()
        writer.write_table(arrow.Table.from_pylist(piece, schema))


def _table_writer(arrow: Any, kind: str, file: IO[bytes], schema: Any) -> Any:
    if kind == "parquet":
        from pyarrow import parquet  # noqa: PLC0415 - slow to import

        return parquet.ParquetWriter(file, schema)
    if kind == "arrow":
        return arrow.ipc.new_file(file, schema)
    from pyarrow import csv  # noqa: PLC0415 - slow to import

    return csv.CSVWriter(
        file, schema, write_options=csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
    )
