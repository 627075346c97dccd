"""Bodies of requests and payloads of the log as rows: JSON and JSON lines.

Features, labels and weights follow the rules of the data path (`sonline.rows`, `sonline.labels`):
text is the feature ``name=text``, and a missing value (``null``) is absent or an error, as the
model says. Here only the shape of a body is checked.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
import numpy as np

from sonline.errors import InvalidInputError
from sonline.rows import Floats, row_weights
from sonline.service.explain import reason
from sonline.service.records import AS_LINES, NAME

Value: TypeAlias = float | str | bool | None
Features: TypeAlias = Annotated[
    dict[str, Value] | list[tuple[int, float]],
    msgspec.Meta(
        description="Features by name, or pairs of index and value. A text is the feature "
        "name=text with the number 1; null is absent."
    ),
]
Id: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Label: TypeAlias = int | float | str | bool
Weight: TypeAlias = Annotated[float, msgspec.Meta(extra_json_schema={"minimum": 0})]
Offset: TypeAlias = Annotated[
    float | None,
    msgspec.Meta(description="Of a regression: what is added to the raw prediction of the row."),
]
Seq: TypeAlias = Annotated[
    int, msgspec.Meta(description="The number of the (first) event in the log.")
]
Learner: TypeAlias = Annotated[
    dict[str, Any], msgspec.Meta(description="Parameters of OnlineLearner.")
]
Served: TypeAlias = dict[str, list[float]]


TASKS = ("binary", "regression", "classes")


class _Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    pass


class PredictRow(_Row):
    """A row to predict; with an id it is kept until its label arrives."""

    x: Features
    id: Id | None = None
    offset: Offset = None


class LabelRow(_Row):
    """The label of a row that was predicted."""

    id: Id
    y: Label
    weight: Weight = 1.0


class LearnRow(_Row):
    """A row with its label."""

    x: Features
    y: Label
    id: Id | None = None
    weight: Weight = 1.0
    offset: Offset = None


class LoggedRow(_Row):
    """A row of the log: to learn, or (without y) to keep; with the raw predictions served."""

    x: Features
    y: Label | None = None
    id: Id | None = None
    weight: float = 1.0
    offset: float | None = None
    served: Served | None = None


class NewModel(_Row):
    """A model to be created."""

    name: Annotated[str, msgspec.Meta(extra_json_schema={"pattern": f"^{NAME}$"})]
    task: Annotated[str, msgspec.Meta(extra_json_schema={"enum": [*TASKS]})] = TASKS[0]
    classes: list[str | int | float] = []
    parameters: Learner = {}


class NewVersion(_Row):
    """A shadow to be created, with other parameters."""

    parameters: Learner = {}


class Prediction(msgspec.Struct, omit_defaults=True):
    """The answer to a row that was predicted."""

    prediction: Label | None
    raw: list[float]
    version: int
    seq: Annotated[int, msgspec.Meta(description="The last event that the model has learned.")]
    id: Id | None = None
    probabilities: dict[str, float] | None = None
    interval: (
        Annotated[
            tuple[float | None, float | None],
            msgspec.Meta(description="With ?interval=: its ends; null where it has none."),
        ]
        | None
    ) = None
    wants_label: (
        Annotated[
            bool,
            msgspec.Meta(description="With ?wants_label=1: whether the label is worth asking for."),
        ]
        | None
    ) = None


class Learned(msgspec.Struct):
    """The answer to a row, or a label, that was learned."""

    seq: Seq
    duplicate: bool


class LearnedMany(msgspec.Struct):
    """The answer to lines of rows or labels."""

    learned: int
    duplicates: int
    unknown: list[str]  # ids
    seq: Seq


Kind = TypeVar("Kind", bound=_Row)
_DECODERS: dict[type[_Row], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in _Row.__subclasses__()
}
_FIELDS = {
    kind: {field.name: field.required for field in msgspec.structs.fields(kind)}
    for kind in _DECODERS
}
_UNUSABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Limits:
    """How large bodies may be."""

    body: int = 16 << 20  # bytes
    rows: int = 100_000
    features: int = 100_000  # of a row
    cells: int = 20_000_000  # rows times columns of an Arrow table


class TooLargeError(InvalidInputError):
    """A body exceeds a limit."""


class MediaTypeError(InvalidInputError):
    """A body of an unsupported type."""


class Rows(msgspec.Struct):
    """Rows of a body, and the body as it is written to the log."""

    x: Any  # a list of mappings, an Arrow table or a sparse matrix
    count: int
    ids: Sequence[str | None]
    y: Any = None
    weights: Floats | None = None
    offsets: Floats | None = None
    served: Sequence[Served | None] | None = None
    payload: bytes = b""
    encoding: int = AS_LINES
    interval: float | None = None  # to predict: what else is asked for
    wants_label: bool = False

    @property
    def identified(self) -> bool:
        """Whether any row has an id."""
        if self.count == 1:
            return self.ids[0] is not None
        return any(id_ is not None for id_ in self.ids)


# -- JSON ------------------------------------------------------------------------------------------


def decode_lines(body: bytes, kind: type[Kind], limits: Limits = Limits()) -> list[Kind]:
    """Return the rows of JSON lines."""
    if body.count(b"\n") >= limits.rows + 1:
        raise TooLargeError(f"at most {limits.rows} rows in a body; send several")
    try:
        rows: list[Kind] = _DECODERS[kind].decode_lines(body)
    except _UNUSABLE:
        number, line = _bad_line(body, kind)
        raise InvalidInputError(reason(line, _FIELDS[kind]), row=number) from None
    if _may_repeat(body, rows):
        for number, line in enumerate(line for line in body.split(b"\n") if line.strip()):
            _refuse_repeated(line, number)
    if not rows:
        raise InvalidInputError("the body has no rows")
    if len(rows) > limits.rows:
        raise TooLargeError(f"at most {limits.rows} rows in a body; send several")
    return rows


def decode_one(body: bytes, kind: type[Kind]) -> Kind:
    """Return the row of a JSON body."""
    try:
        row: Kind = _DECODERS[kind].decode(body)
    except _UNUSABLE:
        raise InvalidInputError(reason(body, _FIELDS[kind])) from None
    if _may_repeat(body, (row,)):
        _refuse_repeated(body)
    return row


def _may_repeat(body: bytes, rows: Sequence[_Row]) -> bool:
    """Return whether an object of a body may have a key twice, of which the last was taken.

    Each key has a colon, so a body with no more colons than keys has none. Rows of the log were
    checked when they came.
    """
    if rows and isinstance(rows[0], LoggedRow):
        return False
    colons, keys = body.count(b":"), 0
    for row in rows:
        if isinstance(row, LearnRow):
            keys += 3 if row.weight != 1.0 else 2  # x, y, weight
        elif isinstance(row, PredictRow):
            keys += 1
        else:
            return False
        keys += (row.id is not None) + (row.offset is not None)
        keys += len(row.x) if isinstance(row.x, dict) else 0
    return colons > keys


def _refuse_repeated(body: bytes, row: int | None = None) -> None:
    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInputError(f"{twice!r} occurs twice", row=row, field=twice)
        return found

    json.loads(body, object_pairs_hook=check)


def _bad_line(body: bytes, kind: type[_Row]) -> tuple[int, bytes]:
    """Return the number of the first row that cannot be decoded, counted from 0, and the row."""
    lines = [line for line in body.split(b"\n") if line.strip()]
    for number, line in enumerate(lines):
        try:
            _DECODERS[kind].decode(line)
        except _UNUSABLE:
            return number, line
    return 0, body


def features(x: Features, limit: int = Limits.features) -> dict[Any, Any]:
    """Return the features of a row as a mapping."""
    if len(x) > limit:
        raise TooLargeError(f"at most {limit} features in a row, got {len(x)}")
    if isinstance(x, dict):
        return x
    pairs: dict[Any, Any] = dict(x)
    if len(pairs) < len(x):
        raise InvalidInputError("x has an index twice")
    return pairs


def as_json(x: Any) -> list[Features]:
    """Return rows of any kind as JSON: features by index become pairs."""
    if isinstance(x, list):
        return [list(row.items()) if row and type(next(iter(row))) is int else row for row in x]
    if hasattr(x, "to_pylist"):
        rows: list[dict[str, Any]] = x.to_pylist()
        for name, kind in zip(x.schema.names, map(str, x.schema.types), strict=True):
            if kind.startswith(("decimal", "timestamp[ns")):  # JSON has neither
                as_value: Callable[[Any], Any] = float
                if kind.startswith("timestamp"):
                    as_value = datetime.isoformat
                for row in rows:
                    row[name] = None if row[name] is None else as_value(row[name])
        return list(rows)
    ends = x.indptr.tolist()
    pairs = list(zip(x.indices.tolist(), x.data.tolist(), strict=True))
    return [pairs[start:end] for start, end in itertools.pairwise(ends)]


def rows_to_learn(
    rows: Sequence[LearnRow | LoggedRow], payload: bytes, limit: int = Limits.features
) -> Rows:
    """Return decoded rows with labels."""
    if len(rows) == 1 and rows[0].weight == 1.0:
        row = rows[0]
        served = None if isinstance(row, LearnRow) else [row.served]
        x, offsets = [features(row.x, limit)], _offsets(rows)
        return Rows(x, 1, [row.id], [row.y], None, offsets, served, payload)
    weights = [row.weight for row in rows]
    plain = all(weight == 1.0 for weight in weights)
    return Rows(
        [features(row.x, limit) for row in rows],
        len(rows),
        [row.id for row in rows],
        [row.y for row in rows],
        None if plain else row_weights(weights, len(rows), "weight"),
        _offsets(rows),
        [row.served if isinstance(row, LoggedRow) else None for row in rows],
        payload,
    )


def rows_to_predict(rows: Sequence[PredictRow], limit: int = Limits.features) -> Rows:
    """Return decoded rows without labels."""
    x, ids = [features(row.x, limit) for row in rows], [row.id for row in rows]
    return Rows(x, len(rows), ids, offsets=_offsets(rows))


def _offsets(rows: Sequence[PredictRow | LearnRow | LoggedRow]) -> Floats | None:
    """Return the offsets of rows; 0 for those without one, None if no row has one."""
    if all(row.offset is None for row in rows):
        return None
    return np.array([row.offset or 0.0 for row in rows])


def one_line(body: bytes) -> bytes:
    """Return a JSON body without line breaks."""
    return msgspec.json.format(body, indent=-1) if b"\n" in body or b"\r" in body else body


def chosen_lines(payload: bytes, rows: Sequence[int]) -> bytes:
    """Return some rows of JSON lines."""
    lines = [line for line in payload.split(b"\n") if line.strip()]
    return b"\n".join(lines[row] for row in rows)
