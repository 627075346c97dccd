"""``sonline explain``: what each feature adds to the prediction of each row."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any

import typer

from sonline import streams
from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.cli.inspect import one_line
from sonline.cli.outputs import model_file
from sonline.cli.predict import rows_to_predict
from sonline.labels import label_of
from sonline.model import Model
from sonline.read_options import ReadOptions
from sonline.rows import NAMED
from sonline.streams import Batch

app = command_app()


@app.command()
def explain(
    *,
    data: shared.Data,
    model: shared.ModelFile,
    top: Annotated[int, typer.Option(min=1, help="Features to show for each row.")] = 10,
    of_class: Annotated[
        str | None,
        typer.Option(
            "--class",
            help="Explain the prediction of this class [default: the second of two classes in "
            "sorted order, the predicted one of more].",
            show_default=False,
        ),
    ] = None,
    label: shared.OtherLabelColumn = None,
    tag: shared.TagColumn = None,
    format: shared.Format = "auto",  # noqa: A002 - the name of the option
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
    quiet: shared.Terse = False,
) -> None:
    """Show what each feature adds to the prediction of each row.

    The largest parts come first; with those that --top leaves out they are the raw prediction.

    Example: sonline explain new.csv -m clicks.son --top 5
    """
    loaded = Model.load(model_file(model))
    reading = rows_to_predict(loaded, label, tag) | {"format": str(format)}
    chosen = None if of_class is None else label_of(of_class)
    if chosen is not None or loaded.outputs == 1:
        loaded.output_of(chosen)  # raises an error about an unknown class
    explained = Explanations(loaded, chosen)
    with streams.open(data, **reading) as stream:
        stream.refuse_columns_of_text(ReadOptions(tag=tag))
        if not (quiet or json):
            typer.echo(stream.description, err=True)
        for batch in stream:
            for row, (output, raw, parts) in enumerate(explained.of(batch)):
                name = "" if batch.tags is None else batch.tags[row]
                shown = dict([*parts.items()][:top])
                typer.echo(_object(output, raw, name, shown) if json else _text(raw, name, shown))


class Explanations:
    """Explains the rows of batches: the prediction of a class, or of the predicted one."""

    def __init__(self, model: Model, label: Any) -> None:
        self._model = model
        if label is None and model.classes == 2 and model.table is not None:
            label = model.table.sorted_labels()[1]
        self._label = label
        names = [feature for feature in model.features() if isinstance(feature, str)]
        keys = model.core.name_keys(names, False).tolist()
        self._names: dict[int, str] = dict(zip(keys, names, strict=True))
        self._explainers: dict[Any, Callable[[Mapping[Any, Any]], dict[Any, float]]] = {}

    def of(self, batch: Batch) -> Iterator[tuple[Any, float, dict[Any, float]]]:
        """Yield the class that is explained, its raw prediction and its parts, row by row."""
        model, label = self._model, self._label
        raw = model.predict(batch)
        several = label is None and model.table is not None
        labels = model.labels(raw) if several else [label] * len(batch)
        for row, x in enumerate(self._mappings(batch)):
            of = labels[row]
            if of not in self._explainers:
                self._explainers[of] = model.explainer(of)
            output, sign = model.output_of(of)
            parts = self._explainers[of](x)
            if batch.offsets is not None:
                parts["(offset)"] = float(batch.offsets[row])
                parts = dict(sorted(parts.items(), key=lambda part: -abs(part[1])))
            yield of, sign * float(raw[output, row]), parts

    def _mappings(self, batch: Batch) -> Iterator[dict[Any, float]]:
        """Yield the rows of a batch as mappings from the features of the model to their values."""
        values, indices, indptr = self._model.rows(batch, add=False).arguments
        for first, end in pairwise(indptr.tolist()):
            row: dict[Any, float] = {}
            stored = zip(indices[first:end].tolist(), values[first:end].tolist(), strict=True)
            for key, value in stored:
                feature = self._names.get(key, key)
                if not (isinstance(feature, int) and feature >= int(NAMED)):
                    row[feature] = row.get(feature, 0.0) + value
            yield row


def _object(label: Any, raw: float, tag: str, parts: dict[Any, float]) -> str:
    words = {"class": label} if label is not None else {}
    words |= {"raw": raw} | ({"tag": tag} if tag else {})
    return jsonlib.dumps(words | {"parts": {str(name): part for name, part in parts.items()}})


def _text(raw: float, tag: str, parts: dict[Any, float]) -> str:
    shown = "".join(f"\t{one_line(name)} {part:+.6g}" for name, part in parts.items())
    return f"{raw:.6g}{' ' if tag else ''}{tag}{shown}"
