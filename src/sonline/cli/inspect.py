"""``sonline inspect``: show the content of a model."""

from __future__ import annotations

import html
import io
import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer

from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.cli.outputs import check_outputs, model_file
from sonline.display import number
from sonline.errors import ParameterError, require
from sonline.evaluate import Progress
from sonline.files import replacing
from sonline.learner import OnlineLearner
from sonline.model import Model
from sonline.parameters import Parameters

app = command_app()

SPECTRA = 10  # that are printed

PICTURES = (".png", ".svg", ".pdf", ".html")


@app.command()
def inspect(
    *,
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="Model file.", show_default=False)
    ] = None,
    named: Annotated[
        Path | None,
        typer.Option("--model", "-m", help="Model file, as in predict -m.", show_default=False),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Number of weights to show.")] = 20,
    plot: Annotated[
        Path | None,
        typer.Option(
            help=f"Plot loss, spectrum, weights and curves to this file ({', '.join(PICTURES)})."
        ),
    ] = None,
    json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Show the parameters, counters, spectrum and largest weights of a model.

    Example: sonline inspect clicks.son --top 10 --plot clicks.png
    """
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise ParameterError(f"--plot {plot}: the name must end in one of {', '.join(PICTURES)}")
    path = model or named
    if path is None or (model and named):
        raise ParameterError("name one model file: sonline inspect MODEL")
    check_outputs([model_file(path)], plot=plot)
    loaded = Model.load(path)
    facts = describe(loaded, path, top)
    if plot is not None:
        draw(loaded, plot, facts["file"], text_of(facts))
    if json:
        typer.echo(jsonlib.dumps(facts, indent=1))
    elif not quiet:
        typer.echo(text_of(facts))


def describe(model: Model, path: Path | None, top: int) -> dict[str, Any]:
    """Return the facts about a model, of a file or not saved, as values that JSON can hold."""
    stats = model.stats()
    classes = [] if model.table is None else model.table.sorted_labels()
    largest = []
    outputs = classes[1:] if len(classes) == 2 else [None] if len(classes) < 2 else classes
    for label in outputs:
        weights, scaled = model.weights_of(label), model.weights_of(label, scaled=True)
        for feature in sorted(scaled, key=lambda name: -abs(scaled[name]))[:top]:
            entry = {"feature": feature, "weight": weights[feature], "scaled": scaled[feature]}
            largest.append(entry | ({"class": label} if label is not None else {}))
    largest.sort(key=lambda entry: -abs(entry["scaled"]))
    run, progress = model.run, model.progress
    curves = {"loss": progress.loss, "error": progress.error}
    if run:
        held = Progress.from_dict(run["held"])
        curves |= {"holdout_loss": held.loss, "holdout_error": held.error}
    return {
        "file": "not saved" if path is None else str(path),
        "file_bytes": 0 if path is None else path.stat().st_size,
        "saved_by": model.face.get("name", ""),
        "task": model.task,
        "classes": classes,
        "features_by": model.reading.features or ("name" if model.core.name_count() else "index"),
        "parameters": model.parameters.as_dict(),
        "rounds": stats["rounds"],
        "sweeps": stats["sweeps"],
        "features": stats["features"],
        "alpha": stats["alpha"],
        "memory_bytes": stats["bytes"],
        "rows": run.get("rows", progress.loss.rows),
        "skipped": run.get("skipped", 0),
        "files": run.get("files", []),
        "position": run.get("position"),
        "progressive": {
            **{name: curve.average for name, curve in curves.items() if curve.weight > 0},
            "rows": sum(curve.rows for name, curve in curves.items() if name.endswith("loss")),
        },
        "spectrum": [spectrum.tolist() for spectrum in model.spectra()],
        "largest_weights": largest[:top],
        "curves": [
            {"feature": name, "importance": max(curve.importance for curve in found.values())}
            for name, found in (model.column_curves()[:top] if len(classes) <= SPECTRA else [])
        ],
    }


def text_of(facts: dict[str, Any]) -> str:
    """Return the facts about a model as text."""
    default = Parameters().as_dict()
    parameters = facts["parameters"]
    shown = [f"{k}={v}{'' if v != default[k] else ' (default)'}" for k, v in parameters.items()]
    out = [
        f"{facts['file']}: {facts['file_bytes']:,} bytes, {facts['memory_bytes']:,} in memory",
        f"task        {facts['task']}"
        + (f", classes {', '.join(map(str, facts['classes'][:20]))}" if facts["classes"] else ""),
        f"rows        {facts['rows']:,}"
        + (f" from {', '.join(facts['files'])}" if facts["files"] else ""),
        f"rounds      {facts['rounds']:,}",
        f"features    {facts['features']:,} by {facts['features_by']}",
        *(
            f"{name.replace('_', ' '):<12}{number(value)}"
            for name, value in facts["progressive"].items()
            if name != "rows"
        ),
        "parameters  " + "\n            ".join(shown),
    ]
    several = len(facts["spectrum"]) > 1
    for output, values in enumerate(facts["spectrum"][:SPECTRA]):
        whose = f"  (class {facts['classes'][output]})" if several else ""
        out.append("spectrum    " + " ".join(f"{value:.3g}" for value in values) + whose)
    if len(facts["spectrum"]) > SPECTRA:
        out.append(f"            and {len(facts['spectrum']) - SPECTRA} more, which --json shows")
    if facts["curves"]:
        parts = (
            f"{one_line(curve['feature'])} {curve['importance']:.3g}" for curve in facts["curves"]
        )
        out.append(f"curves      {', '.join(parts)}")
    if facts["largest_weights"]:
        out.append("largest weights: scaled to compare features, and for the values as they are")
    for entry in facts["largest_weights"]:
        whose = f"  (class {entry['class']})" if "class" in entry else ""
        out.append(
            f"{entry['scaled']:>14.6g} {entry['weight']:>14.6g}  "
            f"{one_line(entry['feature'])}{whose}"
        )
    return "\n".join(out)


def one_line(feature: object) -> str:
    r"""Return a name as a single line: a line break is shown as \n."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in str(feature)
    )


def draw(model: Model, path: Path, title: str, text: str) -> None:
    """Draw a model to a picture or, with a title and text, to a page of HTML in one file."""
    require("matplotlib", "plot")
    import matplotlib as mpl  # noqa: PLC0415 - an extra

    mpl.use("agg")
    from sonline import plots  # noqa: PLC0415 - needs matplotlib

    figure = plots.overview(OnlineLearner.from_model(model))
    if path.suffix.lower() != ".html":
        figure.savefig(path, dpi=150)
        return
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    svg = drawn.getvalue()
    page = (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        f"<title>{html.escape(title)}</title>\n"
        "<style>body{font-family:sans-serif;margin:2em} svg{max-width:100%;height:auto} "
        "pre{white-space:pre-wrap}</style>\n"
        f"<h1>{html.escape(title)}</h1>\n{svg[svg.index('<svg') :]}"
        f"<pre>{html.escape(text)}</pre>\n</html>\n"
    )
    with replacing(path) as file:
        file.write(page.encode())
