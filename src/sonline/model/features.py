"""Whether rows have the features that a model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sonline.errors import InvalidInputError
from sonline.read_options import ReadOptions
from sonline.rows import Rows, is_frame, names_of

if TYPE_CHECKING:
    from sonline.model.model import Model


def check_features(model: Model, X: Rows, add: bool) -> None:
    """Raise an error if the features of X cannot be those that the model was trained on."""
    if is_frame(X):
        columns = set(names_of(X))
        for used, message in file_columns(model.reading.table):
            if columns.issuperset(used):
                raise InvalidInputError(message)
    if add and type(X) is np.ndarray and not model.core.name_count():
        return
    frame = is_frame(X)
    if not (frame or hasattr(X, "shape")):
        return
    named = frame and any(isinstance(name, str) for name in names_of(X))
    refuse_other_features(
        model,
        named,
        "X has names; pass X.to_numpy() with the columns in the order of the training",
        "X has none; pass a data frame or mappings",
    )


def check_stream_features(model: Model, named: bool, names: Sequence[str] = ()) -> None:
    """Raise an error if the features of a stream cannot be those that the model was trained on.

    ``names`` are those that are new in the stream.
    """
    if names and model.reading.columns:
        _check_types(model.reading.columns, names)
    refuse_other_features(
        model,
        named,
        "the stream has names; read it with features='index' if its names are these numbers",
        "the stream has indices; read it with features='name' if these are the names",
    )


def refuse_other_features(model: Model, named: bool, names: str, indices: str) -> None:
    """Raise an error if rows have features by name and a model knows them by index, or vice versa.

    ``names`` and ``indices`` say what the rows have, and what to do about it.
    """
    if model.parameters.hash_bits is not None:
        return
    if named and known_by(model) == "index":
        raise InvalidInputError(f"this model knows its features by index, {names}")
    if not named and only_names(model):
        raise InvalidInputError(f"this model knows its features by name, {indices}")


def _check_types(columns: dict[str, str], names: Sequence[str]) -> None:
    """Raise an error if a column of a stream was read as another type than a model has for it."""
    texts = tuple(f"{name}=" for name, kind in columns.items() if kind == "text")
    for name in names:
        column = name if name in columns else name.partition("=")[0]
        kind = columns.get(column)
        if kind == "text" and column == name:
            raise InvalidInputError(
                f"column {column!r} was read as numbers, but the model was trained with text in "
                f"it; open the stream with text=[{column!r}]"
            )
        if kind == "number" and column != name and not name.startswith(texts):
            raise InvalidInputError(
                f"column {column!r} was read as text, but the model was trained with numbers in it"
            )


def known_by(model: Model) -> str:
    """Return how a model knows its features: by "name" or "index", or "" before the first one."""
    if model.core.name_count():
        return "name"
    return "index" if model.core.stats()["features"] > 1 else ""  # the first is the intercept


def file_columns(table: ReadOptions) -> list[tuple[list[str], str]]:
    """Return groups of columns that only streams split into words or multiply.

    With each comes the error about other rows that have them.
    """
    groups = []
    for option, separator in (("ngrams", ":"), ("interactions", "*")):
        for each in getattr(table, option):
            used = each.split(separator)
            message = (
                f"this model was trained on files with {option}=[{each!r}], which applies to "
                "files, not to data frames or mappings; pass batches of sonline.streams.open "
                "with the same options, or use sonline predict"
            )
            groups.append((used[:1] if option == "ngrams" else used, message))
    return groups


def only_names(model: Model) -> bool:
    """Return whether all features of a model, and there are some, have names."""
    count = model.core.name_count()
    if not count or model.core.stats()["features"] > 1 + count:  # without a search
        return False
    features = model.features()
    return bool(features) and not any(isinstance(name, int) for name in features)
