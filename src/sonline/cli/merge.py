"""``sonline merge``: combine models that were trained on different rows."""

from __future__ import annotations

import hashlib
import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.cli.outputs import check_outputs
from sonline.errors import ParameterError
from sonline.merging import check_same_parameters
from sonline.model import Model

app = command_app()


@app.command()
def merge(
    *,
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL", help="Model files.", show_default=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File for the merged model.", show_default=False)
    ],
    start: Annotated[
        Path | None,
        typer.Option("--from", help="The model that all of them started from, if any."),
    ] = None,
    json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Merge models that were trained on different rows with the same parameters.

    Features are matched by name or index, classes by label. The order of the models changes only
    the last digits.

    Example: sonline merge monday.son tuesday.son -o both.son
    """
    if len(models) < 2:
        raise ParameterError("name two models or more")
    check_outputs([*map(str, models), *([] if start is None else [str(start)])], output=output)
    origin = None if start is None else Model.load(start)
    _refuse_same(models, 0 if origin is None else origin.stats()["rounds"])
    loaded = [Model.load(path) for path in models]
    for path, model in zip(models, loaded, strict=True):
        if model.only_predicts:
            raise ParameterError(f"{path} is a compact model, which only predicts")
    first, *others = loaded
    check_same_parameters(first.parameters, [other.parameters for other in others], models)
    merged = first.merge(others, origin)
    merged.save(output, {"name": "command line"})
    stats = merged.stats()
    result = {
        "model": str(output),
        "merged": [str(path) for path in models],
        "task": merged.task,
        "rounds": stats["rounds"],
        "features": stats["features"],
    }
    if json:
        typer.echo(jsonlib.dumps(result, indent=1))
    elif not quiet:
        rows, features = result["rounds"], result["features"]
        typer.echo(f"{output}: {len(models)} models, {rows:,} rows, {features:,} features")


def _refuse_same(paths: list[Path], learned: int) -> None:
    """Raise an error if two files hold the same model, and it has more rows than ``learned``."""
    seen: dict[bytes, Path] = {}
    for path in paths:
        if not path.is_file():
            continue
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "blake2b").digest()
        other = seen.setdefault(digest, path)
        if other is not path and Model.load(path).stats()["rounds"] > learned:
            raise ParameterError(
                f"{other} and {path} hold the same model: its rows would count twice"
            )
