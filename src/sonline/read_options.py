"""How files are read: the same from the command line to a stream, to the model file and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from sonline.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How a user wants files to be read; a model keeps all that decides what a row holds.

    Parameters
    ----------
    format : str
        One of `sonline.streams.FORMATS`; "auto" detects it from the file name or the content.
    features : str
        "index" (feature names must be integers), "name" (exact names) or "hash". "auto" is hash if
        ``hash_bits`` is given, otherwise index for svmlight and name for all other formats.
    on_error : {"stop", "skip"}
        Whether a bad row stops the stream with an error, or is skipped and counted.
    label, weight, offset, tag : str, optional
        Tables: the columns of the label, the sample weight, the offset (what is added to the raw
        prediction) and the name of each row.
    text : sequence of str
        Tables: columns to treat as categories, even if they look like numbers.
    ignore : sequence of str
        Tables: columns to leave out. Vowpal Wabbit text: first letters of namespaces.
    delimiter : str, optional
        CSV: the delimiter; by default it is detected from the first lines.
    header : bool
        CSV, TSV: whether the first row has the column names; otherwise they are c1, c2, ...
    na_values : sequence of str
        CSV, TSV: more markers of missing cells, in addition to ?, NA, NaN, null and so on.
    amounts : sequence of str
        Tables: columns of text that are numbers with separators, signs of currencies or per cent,
        such as "1,234.50 €" or "12 %".
    ngrams : sequence of str
        Text columns to split into words, with the largest number of words per feature:
        "review:2". For hashed Vowpal Wabbit text, first letters of namespaces, or "*" for all:
        "a:2", or "a:2:1" for n-grams that may skip one feature.
    interactions : sequence of str
        Pairs of columns whose features are multiplied, such as "a*b"; for hashed Vowpal Wabbit
        text, pairs of first letters of namespaces, such as "ab".

    Examples
    --------
    >>> ReadOptions(label="y", text=["zip"], on_error="skip").of_rows()
    {'label': 'y', 'text': ['zip']}
    """

    format: str = "auto"
    features: str = "auto"
    on_error: str = "stop"
    label: str | None = None
    weight: str | None = None
    offset: str | None = None
    tag: str | None = None
    text: Sequence[str] = ()
    ignore: Sequence[str] = ()
    delimiter: str | None = None
    header: bool = True
    na_values: Sequence[str] = ()
    amounts: Sequence[str] = ()
    ngrams: Sequence[str] = ()
    interactions: Sequence[str] = ()

    LISTS: ClassVar = ("text", "ignore", "na_values", "amounts", "ngrams", "interactions")
    COLUMNS: ClassVar = ("label", "weight", "offset", "tag")
    OF_A_RUN: ClassVar = ("format", "features", "on_error")  # a model does not keep these
    SCHEMA: ClassVar[dict[str, Any]] = {  # of `of_rows` in a model file
        "header?": bool,
        **{f"{name}?": str for name in (*COLUMNS, "delimiter")},
        **{f"{name}?": [str] for name in LISTS},
    }

    def __post_init__(self) -> None:
        for name in self.COLUMNS:
            value = getattr(self, name)
            if not isinstance(value, (str, type(None))):
                raise ParameterError(
                    f"{name} must be the name of a column, got {value!r}; without a header "
                    "(header=False) columns are called c1, c2, ..."
                )
        if self.offset is not None and self.offset == (self.label or "label"):
            raise ParameterError(
                f"offset={self.offset!r} (--offset) is the column of the label: predictions would "
                "contain what they predict"
            )
        for name in self.LISTS:
            value = getattr(self, name)
            if isinstance(value, str):
                raise ParameterError(
                    f"{name} must be a sequence of names, such as [{value!r}], got {value!r}"
                )
            object.__setattr__(self, name, tuple(value or ()))

    def chosen(self) -> dict[str, Any]:
        """Return the options that are not the default."""
        every = {entry.name: getattr(self, entry.name) for entry in fields(ReadOptions)}
        default = {entry.name: entry.default for entry in fields(ReadOptions)}
        return {name: value for name, value in every.items() if value != default[name]}

    def of_rows(self) -> dict[str, Any]:
        """Return the chosen options that decide what a row holds, as values for JSON."""
        return {
            name: list(value) if name in self.LISTS else value
            for name, value in self.chosen().items()
            if name not in self.OF_A_RUN
        }

    @classmethod
    def from_rows(cls, options: ReadOptions) -> Self:
        """Return only what `of_rows` returns of other options."""
        return cls(**options.of_rows())
