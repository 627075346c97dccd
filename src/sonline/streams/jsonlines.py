"""JSON lines, read by the native parser: an object per line, from column to value.

A number is a feature with the name of its column, text is the feature ``column=value`` with value
1. Nested objects have the columns ``column.key``, the elements of arrays ``column.0``,
``column.1``, ...; an array of words has the features ``column=word``, with their counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sonline import _core
from sonline.errors import DataFormatError, as_option
from sonline.rows.checks import no_value
from sonline.streams.batch import BadRow
from sonline.streams.interactions import split_pair
from sonline.streams.rows import ngram_columns, not_a_date, not_indices, too_large
from sonline.streams.text import TextReader

if TYPE_CHECKING:
    from sonline.streams.stream import Options

_TOO_LARGE = ("not_finite", "overflow", "overflow_float32", "value_too_large")
_KINDS = {"[": "an array", "{": "an object", '"': "text", "n": "null"}


class JsonReader(TextReader):
    """Reads files of JSON lines."""

    def __init__(self, options: Options, columns: dict[str, str]) -> None:
        super().__init__(options, columns)
        self._label = options.label or "label"
        roles = dict.fromkeys(options.ignore, "ignored")
        named = {
            options.tag: "tag",
            options.weight: "weight",
            options.offset: "offset",
            self._label: "label",
        }
        self._roles = roles | {name: role for name, role in named.items() if name is not None}
        self._parser.set_json_columns(
            self._roles,
            dict.fromkeys(options.amounts, "amount")
            | {name: kind for name, kind in columns.items() if kind == "date"},
            [*options.text, *(name for name, kind in columns.items() if kind == "text")],
            ngram_columns(options.ngrams),
            [split_pair(words) for words in options.interactions],
        )

    def absent_columns(self) -> list[str]:
        """Return the columns that options name and that no row had."""
        options = self._options
        named = (*options.ignore, *options.text, *ngram_columns(options.ngrams))
        return sorted({*named} - {*self._parser.columns})

    def seen_columns(self) -> set[str]:
        """Return the columns that rows had."""
        return {*self._parser.columns}

    def _bad(self, error: _core.TextError, name: str) -> BadRow:
        word = error.word.decode("utf-8", "replace")
        column = error.name.decode()
        if error.kind == "name_not_index":
            raise DataFormatError(
                f"feature {word!r} is not an index; {not_indices(self._options)}",
                file=name,
                line=error.line,
            )
        reason, shown = error.reason, word
        if error.kind == "label_missing":
            reason = f"no label: column {self._label!r} is missing; name another, label=NAME "
            reason += "(--label NAME)"
            shown = ""
        elif error.kind == "cell_missing":
            reason, shown = no_value(column), ""
        elif error.kind == "json_twice":
            reason, shown = f"column {column!r} occurs twice", ""
        elif error.kind == "json_kind":
            number = self._roles.get(column) in ("weight", "offset") or not self._options.tokens
            expected = "a number" if number else "text or a number"
            reason = f"column {column!r} holds {_KINDS[word[0]]}, expected {expected}"
        elif error.kind == "json_nested":
            here = _KINDS.get(word[0], "a number")
            reason = (
                f"column {column!r} holds {here}, and another kind of value in earlier rows; give "
                f"one of them another name, or leave it out with {as_option('ignore', column)}"
            )
        elif error.kind == "not_a_date":
            reason = not_a_date(column)
        elif error.kind == "not_a_number":
            reason = f"column {column!r}: not a number"
        elif error.kind == "negative_weight":
            reason = "a weight must be 0 or more"
        elif error.kind in _TOO_LARGE:
            reason, shown = too_large(column, word, self._options), ""
        return BadRow(name, error.line, error.column, error.offset, reason, shown, error.text)
