"""Rows of Arrow IPC streams from untrusted clients."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from sonline.errors import InvalidInputError, require
from sonline.rows import Floats, row_weights
from sonline.service.bodies import Limits, MediaTypeError, Rows, TooLargeError
from sonline.service.records import AS_ARROW

SPECIAL = ("id", "y", "weight", "offset")  # columns that are not features
PAIRS = ("indices", "values")  # columns with features by index
_EXPANDED = 256 << 20  # bytes of the words of a column if each row held a copy


def read(body: bytes, labelled: bool, limits: Limits = Limits()) -> Rows:  # noqa: B008 - frozen
    """Return the rows of an Arrow IPC stream.

    Columns ``y``, ``id``, ``weight`` and ``offset`` hold labels, ids, weights and offsets. All
    others are features, or there are two columns of lists, ``indices`` and ``values``.
    """
    try:
        require("pyarrow", "arrow")
    except ModuleNotFoundError as error:
        raise MediaTypeError(f"this service cannot read Arrow: {error}") from None
    try:
        return _arrow_rows(body, labelled, limits)
    except InvalidInputError:
        raise
    except _STREAM_ERRORS as error:
        raise InvalidInputError(f"this Arrow IPC stream cannot be read: {error}") from None


# A damaged or forged stream may raise any of these, which include the errors of Arrow.
_STREAM_ERRORS = (
    ArithmeticError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    TypeError,
    ValueError,
    struct.error,
)


def _arrow_rows(body: bytes, labelled: bool, limits: Limits) -> Rows:
    table = _arrow_table(body, limits)
    count = table.num_rows
    if not count:
        raise InvalidInputError("the body has no rows")
    names = table.column_names
    ids: Sequence[str | None] = [None] * count
    if "id" in names:
        ids = _ids(table.column("id"))
    y = weights = offsets = None
    if "offset" in names:
        offsets = _numbers(table.column("offset"), "offset")
    if labelled:
        if "y" not in names:
            raise InvalidInputError("the labels are missing: column 'y'")
        y = _labels(table.column("y"))
        if "weight" in names:
            weights = row_weights(_numbers(table.column("weight"), "weight"), count, "weight")
    rest = [name for name in names if name not in SPECIAL]
    if not labelled and ("y" in names or "weight" in names):
        raise InvalidInputError("columns 'y' and 'weight' are for /learn; leave them out")
    x = _pairs(table) if tuple(sorted(rest)) == PAIRS else table.select(rest)
    return Rows(x, count, ids, y, weights, offsets, None, body, AS_ARROW)


def _arrow_table(body: bytes, limits: Limits) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an extra

    batches: list[Any] = []
    rows = 0
    _refuse_compressed(body)
    with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
        schema = reader.schema
        if len(schema.names) != len({*schema.names}):
            raise InvalidInputError("two columns have the same name")
        for batch in reader:
            rows += batch.num_rows
            if rows > limits.rows or rows * len(schema) > limits.cells:
                raise TooLargeError(
                    f"at most {limits.rows} rows and {limits.cells} cells in a body; send several"
                )
            batch.validate(full=True)
            batches.append(batch)
    table = pa.Table.from_batches(batches, schema).combine_chunks()
    for name, column in zip(table.column_names, table.columns, strict=True):
        _refuse_expansion(name, column, rows)
    if len(table.column_names) > limits.features + len(SPECIAL):
        raise TooLargeError(f"at most {limits.features} features in a row")
    return table


def _refuse_expansion(name: str, column: Any, rows: int) -> None:
    """Raise an error about a column whose words would fill the memory when written out."""
    import pyarrow as pa  # noqa: PLC0415 - an extra
    import pyarrow.compute as pc  # noqa: PLC0415

    if pa.types.is_run_end_encoded(column.type) or str(column.type) == "string_view":
        raise InvalidInputError(f"column {name!r} has the type {column.type}; send plain columns")
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            words = chunk.dictionary
            if not (pa.types.is_string(words.type) or pa.types.is_large_string(words.type)):
                raise InvalidInputError(f"column {name!r}: a dictionary must hold text")
            longest = pc.max(pc.binary_length(words)).as_py() or 0
            if longest * rows > _EXPANDED:
                raise TooLargeError(f"column {name!r}: its words are too long")


def _refuse_compressed(body: bytes) -> None:
    """Raise an error about a stream with compressed buffers: they may unpack to anything.

    The head of each message is a flatbuffer. Only one of its fields is read; see Message.fbs and
    Schema.fbs of Arrow.
    """
    offset = 0
    while offset + 8 <= len(body):
        marker, length = struct.unpack_from("<II", body, offset)
        if marker != 0xFFFFFFFF:
            raise InvalidInputError("not an Arrow IPC stream (a file has another form)")
        if length == 0:
            return
        head = body[offset + 8 : offset + 8 + length]
        (root,) = struct.unpack_from("<I", head, 0)
        kind_at, table_at, size_at = (_field(head, root, number) for number in (1, 2, 3))
        kind = head[kind_at] if kind_at else 0
        size = struct.unpack_from("<q", head, size_at)[0] if size_at else 0
        if kind in (2, 3) and table_at:
            table = table_at + struct.unpack_from("<I", head, table_at)[0]
            if kind == 2:  # a dictionary: its batch is a field of it
                data = _field(head, table, 1)
                table = data + struct.unpack_from("<I", head, data)[0] if data else table
            if _field(head, table, 3):
                raise InvalidInputError("compressed Arrow buffers are not supported")
        if size < 0:
            raise InvalidInputError("not an Arrow IPC stream: a negative length")
        offset += 8 + length + size


def _field(data: bytes, table: int, number: int) -> int:
    """Return the offset of a field of a flatbuffer's table; 0 if it is not there."""
    (back,) = struct.unpack_from("<i", data, table)
    directory = table - back
    if directory < 0:
        raise IndexError("a flatbuffer points before its start")
    (size,) = struct.unpack_from("<H", data, directory)
    at = 4 + 2 * number
    if at + 2 > size:
        return 0
    (offset,) = struct.unpack_from("<H", data, directory + at)
    return table + int(offset) if offset else 0


def _numbers(column: Any, name: str) -> Floats:
    if column.null_count:
        raise InvalidInputError(f"column {name!r} has rows without a value")
    import pyarrow as pa  # noqa: PLC0415 - an extra

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InvalidInputError(f"column {name!r} must hold numbers, has {column.type}")
    return np.asarray(column.cast("float64", safe=False).to_numpy(), np.float64)


def _labels(column: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an extra

    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numbers(column, "y")
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind):
        if column.null_count:
            raise InvalidInputError("column 'y' has rows without a label")
        return column.to_pylist()
    raise InvalidInputError(f"column 'y' must hold numbers or text, has {kind}")


def _ids(column: Any) -> list[str | None]:
    import pyarrow as pa  # noqa: PLC0415 - an extra

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise InvalidInputError(f"column 'id' must hold text, has {column.type}")
    ids: list[str | None] = column.to_pylist()
    if any(name is not None and not 1 <= len(name) <= 200 for name in ids):
        raise InvalidInputError("an id has 1 to 200 characters")
    return ids


def _pairs(table: Any) -> Any:
    """Return a sparse matrix of two columns of lists."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - slow to import

    indices, values = (table.column(name).combine_chunks() for name in PAIRS)
    for name, column in zip(PAIRS, (indices, values), strict=True):
        if "list" not in str(column.type) or column.null_count or column.flatten().null_count:
            raise InvalidInputError(f"column {name!r} must hold lists without gaps")
    ends = np.asarray(indices.value_lengths().to_numpy(zero_copy_only=False), np.int64)
    if not np.array_equal(ends, values.value_lengths().to_numpy(zero_copy_only=False)):
        raise InvalidInputError("'indices' and 'values' must have the same lengths")
    indptr = np.concatenate([[0], np.cumsum(ends)])
    flat_indices = np.asarray(indices.flatten().to_numpy(zero_copy_only=False))
    if flat_indices.size and (flat_indices.dtype.kind not in "iu" or flat_indices.min() < 0):
        raise InvalidInputError("'indices' must hold integers of 0 or more")
    width = int(flat_indices.max()) + 1 if flat_indices.size else 1
    data = np.asarray(values.flatten().to_numpy(zero_copy_only=False), np.float64)
    return csr_matrix((data, flat_indices.astype(np.int64), indptr), shape=(indptr.size - 1, width))


def chosen(payload: bytes, rows: Sequence[int]) -> bytes:
    """Return some rows of an Arrow IPC stream."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    with pa.ipc.open_stream(pa.BufferReader(payload)) as reader:
        table = reader.read_all().take(pa.array(rows))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
