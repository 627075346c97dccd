"""Whether rows have the features that a model was trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sonline.errors import InvalidInputError
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
    if model.parameters.hash_bits is not None:
        return
    if add and type(X) is np.ndarray and not model.core.name_count():
        return
    frame = is_frame(X)
    if not (frame or hasattr(X, "shape")):
        return
    known = known_by(model)
    if frame and known == "index" and any(isinstance(name, str) for name in names_of(X)):
        raise InvalidInputError(
            "this model knows its features by index, X has names; pass X.to_numpy() with the "
            "columns in the order of the training"
        )
    if not frame and known == "name" and model.features() and not _has_indices(model):
        raise InvalidInputError(
            "this model knows its features by name, X has none; pass a data frame or mappings"
        )


def known_by(model: Model) -> str:
    """Return how a model knows its features: by "name" or "index", or "" before the first one."""
    if model.core.name_count():
        return "name"
    return "index" if model.core.stats()["features"] > 1 else ""  # the first is the intercept


def file_columns(table: dict[str, Any]) -> list[tuple[list[str], str]]:
    """Return groups of columns that only streams split into words or multiply.

    With each comes the error about other rows that have them.
    """
    groups = []
    for option, separator in (("ngrams", ":"), ("interactions", "*")):
        for each in table.get(option, []):
            used = each.split(separator)
            message = (
                f"this model was trained on files with {option}=[{each!r}], which applies to "
                "files, not to data frames or mappings; pass batches of sonline.streams.open "
                "with the same options, or use sonline predict"
            )
            groups.append((used[:1] if option == "ngrams" else used, message))
    return groups


def _has_indices(model: Model) -> bool:
    """Return whether some features have indices, although others have names."""
    if model.core.stats()["features"] > 1 + model.core.name_count():  # true without a search
        return True
    return any(isinstance(name, int) for name in model.features())
