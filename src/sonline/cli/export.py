"""``sonline export``: write a model as ONNX."""

from __future__ import annotations

import json as jsonlib
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.cli.outputs import check_outputs
from sonline.errors import ParameterError
from sonline.model import Model

app = command_app()


@app.command()
def export(
    *,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write: NAME.onnx.", show_default=False)
    ],
    json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Write a model as ONNX, for other runtimes.

    The model takes one number per column, in the order that is printed: alphabetical, if it was
    trained on tables. Columns of text cannot be exported.

    Example: sonline export clicks.son -o clicks.onnx
    """
    if output.suffix.lower() != ".onnx":
        raise ParameterError(f"--output {output}: the name must end in .onnx")
    check_outputs([str(model)], output=output)
    estimator = _estimator(Model.load(model))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        onnx = estimator.to_onnx(output)
    for warning in [] if quiet else said:
        typer.echo(f"warning: {warning.message}", err=True)
    names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    width = onnx.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    if json:
        typer.echo(jsonlib.dumps({"model": str(output), "columns": names or width}, indent=1))
    elif not quiet:
        shown = f"the columns {', '.join(names)}" if names else f"{width:,} columns"
        typer.echo(f"{output}: X has {shown}")


def _estimator(model: Model) -> Any:
    """Return the estimator of a model, with the columns of the tables that it was trained on."""
    from sonline import SONClassifier, SONRegressor  # noqa: PLC0415 - scikit-learn is slow

    columns = sorted(model.reading.columns)  # files of models do not keep the order of tables
    kind: Any = SONRegressor if model.table is None else SONClassifier
    estimator = kind.from_model(model)
    if columns and not hasattr(estimator, "n_features_in_"):
        estimator.n_features_in_ = len(columns)
        estimator.feature_names_in_ = np.array(columns, dtype=object)
    return estimator
