"""The columns of features, label and weight of a data frame, checked against its schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sonline.distributed.spark.jobs import collected
from sonline.distributed.spark.lines import Label
from sonline.distributed.spark.params import SONParams
from sonline.distributed.spark.rows import (
    ARRAY,
    COLUMNS,
    TEXT,
    VECTOR,
    Layout,
    words_of,
)
from sonline.errors import ParameterError
from sonline.labels import label_or_none
from sonline.parameters import Parameters
from sonline.streams import Options
from sonline.streams.formats import text_formats

MANY_CLASSES = 1000
NUMBERS = (NumericType, BooleanType)
CELLS = (*NUMBERS, StringType)
DATES = (DateType, TimestampType, TimestampNTZType)


def layout_of(
    params: SONParams,
    parameters: Parameters,
    schema: StructType,
    known: Mapping[str, str] = MappingProxyType({}),
) -> Layout:
    """Return the checked layout of a data frame; its classes are not known yet.

    ``known`` are the types of columns that a model was trained on.
    """
    columns = params.chosen("featureCols")
    text = params.chosen("format")
    weight, offset = params.chosen("weightCol"), params.chosen("offsetCol")
    if offset and (text or parameters.binary):
        raise ParameterError(
            f"offsetCol={offset!r}: only regressions on columns have offsets, not classes or lines "
            "of text"
        )
    options = Options(
        format=text or "arrow",
        hash_bits=parameters.hash_bits,
        hash_seed=parameters.seed,
        dtype=parameters.dtype,
        missing=parameters.missing,
        tokens=bool(text) and parameters.binary,
        on_error=params.getOrDefault("onError"),
        label=params.getLabelCol(),
        weight=weight,
        offset=offset,
    )
    if text:
        if text not in text_formats() or columns:
            raise ParameterError(
                f"format={text!r}, featureCols={columns!r}: format is 'svmlight' or 'vw', for "
                "lines of text in featuresCol, and goes without featureCols"
            )
        name = params.getFeaturesCol()
        _typed(schema, name, (StringType,), "lines of text")
        features = "index" if text == "svmlight" else "name"
        options = replace(options, features="hash" if parameters.hash_bits else features)
        return Layout(TEXT, (name,), None, None, None, options)
    label = params.getLabelCol()
    names = tuple(columns or [params.getFeaturesCol()])
    used = [*names, label, *(name for name in (weight, offset) if name)]
    if len(set(used)) < len(used):
        raise ParameterError(f"columns are named twice: {used}")
    if columns:
        for name in names:
            _typed(schema, name, (*CELLS, *DATES), "numbers, text or dates")
        features = "hash" if parameters.hash_bits else "name"
        options = replace(options, features=features, columns=_types(schema, names, known))
        return Layout(COLUMNS, names, label, weight, None, options, offset)
    kind = _typed(schema, names[0], (VectorUDT, ArrayType), "vectors or arrays of numbers")
    if isinstance(kind, ArrayType) and not isinstance(kind.elementType, NumericType):
        raise ParameterError(f"column {names[0]!r} is an array of {kind.elementType}, no numbers")
    options = replace(options, features="index")
    shape = ARRAY if isinstance(kind, ArrayType) else VECTOR
    return Layout(shape, names, label, weight, None, options, offset)


def _types(schema: StructType, names: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the types of columns; texts are dates only if the model knows the column as dates."""
    types = {}
    for name in names:
        kind = schema[name].dataType
        types[name] = "date" if isinstance(kind, DATES) else "number"
        if isinstance(kind, StringType):
            types[name] = "date" if known.get(name) == "date" else "text"
    return types


def _typed(
    schema: StructType, name: str, kinds: tuple[type[DataType], ...], wanted: str
) -> DataType:
    if name not in schema.names:
        shown = ", ".join(map(repr, schema.names[:20]))
        raise ParameterError(f"there is no column {name!r} (there are {shown})")
    kind = schema[name].dataType
    if not isinstance(kind, kinds):
        raise ParameterError(
            f"column {name!r} has the type {kind.simpleString()}, expected {wanted}"
        )
    return kind


def prepared(params: SONParams, frame: DataFrame, layout: Layout) -> DataFrame:
    """Return the columns that are needed, in order, under names that Spark cannot misread."""
    order = params.chosen("orderCol")
    for name in (layout.label, layout.weight, layout.offset, order):
        if name is not None and name not in frame.columns:
            raise ParameterError(f"there is no column {name!r} (there are {frame.columns})")
    if layout.label:
        classes = params.learner_parameters().binary
        wanted = "numbers or text" if classes else "numbers"
        _typed(frame.schema, layout.label, CELLS if classes else NUMBERS, wanted)
    for name, what in ((layout.weight, "weights"), (layout.offset, "offsets")):
        if name:
            _typed(frame.schema, name, (NumericType,), f"numbers as {what}")
    if order:
        frame = frame.sortWithinPartitions(column(order))
    named = enumerate(layout.columns)
    return frame.select(*[column(name).alias(f"c{number}") for number, name in named])


def column(name: str) -> Column:
    """Return a column by its exact name, whatever characters are in it."""
    return F.col("`" + name.replace("`", "``") + "`")


def classes_of(frame: DataFrame, layout: Layout) -> tuple[Label, ...]:
    """Return the classes of a prepared frame, sorted; a pass over its labels."""
    classes: set[Label]
    if layout.kind == TEXT:
        quiet = replace(layout, options=replace(layout.options, on_error="skip"))

        def words(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"word": pa.array(words_of(quiet, batches), "string")})

        rows = collected(frame.mapInArrow(words, "word string").distinct().limit(MANY_CLASSES + 1))
        labels = [label for row in rows if (label := label_or_none(row["word"])) is not None]
        text = any(isinstance(label, str) for label in labels)
        classes = {row["word"] for row in rows} if text else set(labels)
    else:
        assert layout.label is not None  # noqa: S101 - by the kind
        column_name = f"c{len(layout.features)}"
        kind = frame.schema[column_name].dataType
        rows = collected(frame.select(column_name).distinct().limit(MANY_CLASSES + 1))
        labels = [row[0] for row in rows if row[0] is not None]
        text = isinstance(kind, StringType)
        classes = set(labels) if text else {float(v) + 0.0 for v in labels if float(v) == float(v)}
    if len(classes) > MANY_CLASSES:
        raise ParameterError(
            f"the labels have more than {MANY_CLASSES} different values; for numbers to be "
            "predicted take SONRegressor, otherwise name the classes: classes=[...]"
        )
    return tuple(sorted(classes))
