"""Rows of users as the core takes them: `columns`, `cells`, `arrays`, all checked by `checks`."""

from sonline.rows.arrays import (
    LABEL_ADVICE,
    contiguous,
    one_number,
    refuse_unusable,
    row_offsets,
    row_weights,
    vector,
)
from sonline.rows.checks import LARGEST, LARGEST_VALUES, LARGEST_WEIGHT, check_class_weights
from sonline.rows.columns import Column, has_names, is_frame, names_of
from sonline.rows.core import UNIT, CoreRows, Rows, pieces, rows_of
from sonline.rows.types import NAMED, UNKNOWN, Floats, Indices, Keys

__all__ = [
    "LABEL_ADVICE",
    "LARGEST",
    "LARGEST_VALUES",
    "LARGEST_WEIGHT",
    "NAMED",
    "UNIT",
    "UNKNOWN",
    "Column",
    "CoreRows",
    "Floats",
    "Indices",
    "Keys",
    "Rows",
    "check_class_weights",
    "contiguous",
    "has_names",
    "is_frame",
    "names_of",
    "one_number",
    "pieces",
    "refuse_unusable",
    "row_offsets",
    "row_weights",
    "rows_of",
    "vector",
]
