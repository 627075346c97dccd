"""``sonline inspect``: what is in a model."""

from __future__ import annotations

import html
import io
import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.cli.judge import Metrics
from sonline.cli.progress import number
from sonline.cli.trained import Trained
from sonline.errors import ParameterError
from sonline.evaluate import Curve
from sonline.parameters import Parameters
from sonline.streams.learners import ManyOutputs

app = command_app()

SPECTRA = 10  # that are printed

PICTURES = (".png", ".svg", ".pdf", ".html")


@app.command()
def inspect(
    *,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model.", show_default=False)],
    top: Annotated[int, typer.Option(min=0, help="How many of the largest weights to show.")] = 20,
    plot: Annotated[
        Path | None,
        typer.Option(help=f"Draw loss, spectrum and weights ({', '.join(PICTURES)})."),
    ] = None,
    json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Show what a model holds: parameters, counters, spectrum, largest weights.

    Example: sonline inspect clicks.son --top 10 --plot clicks.png
    """
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise ParameterError(f"--plot {plot}: the name must end in one of {', '.join(PICTURES)}")
    trained = Trained.load(model)
    facts = describe(trained, model, top)
    if plot is not None:
        _draw(trained, facts, plot)
    if json:
        typer.echo(jsonlib.dumps(facts, indent=1))
    elif not quiet:
        typer.echo(_text(facts))


class _View:
    """A model as `sonline.plots` looks at it."""

    def __init__(self, trained: Trained) -> None:
        self._trained = trained
        metrics = Metrics.from_dict(trained.run["metrics"])
        self.progress_: Curve | None = metrics.loss if metrics.loss.points else None
        if trained.task == "classes":
            self.classes_ = np.array(trained.labels, dtype=object)

    def spectra(self) -> list[Any]:
        learner = self._trained.learner
        return learner.spectra() if isinstance(learner, ManyOutputs) else [learner.spectrum()]

    def weights(self, label: Any = None) -> dict[Any, float]:
        learner = self._trained.learner
        if not isinstance(learner, ManyOutputs):
            return learner.weights()
        line = 0 if label is None else self._trained.labels.index(label)
        weights = learner.weights()[line, 1:].tolist()
        return dict(zip(learner.features(), weights, strict=True))


def describe(trained: Trained, path: Path, top: int) -> dict[str, Any]:
    """Return what there is to know, as values that JSON can hold."""
    view = _View(trained)
    stats = trained.learner.stats()
    names: list[Any] = [None] if len(trained.classes()) <= 2 else list(trained.labels)
    largest = []
    for label in names:
        weights = view.weights(label)
        order = sorted(weights.items(), key=lambda item: -abs(item[1]))[:top]
        for feature, weight in order:
            entry: dict[str, Any] = {"feature": feature, "weight": weight}
            largest.append(entry | ({"class": label} if label is not None else {}))
    largest.sort(key=lambda entry: -abs(entry["weight"]))
    run = trained.run
    metrics = Metrics.from_dict(run["metrics"]).summary()
    return {
        "file": str(path),
        "file_bytes": path.stat().st_size,
        "task": trained.task,
        "classes": trained.classes(),
        "features_by": trained.features,
        "parameters": trained.parameters.as_dict(),
        "rounds": stats["rounds"],
        "sweeps": stats["sweeps"],
        "features": stats["features"],
        "alpha": stats["alpha"],
        "memory_bytes": stats["bytes"],
        "rows": run["rows"],
        "skipped": run["skipped"],
        "files": run["files"],
        "position": run["position"],
        "progressive": {k: v for k, v in metrics.items() if v == v},  # noqa: PLR0124 - no NaN
        "spectrum": [spectrum.tolist() for spectrum in view.spectra()],
        "largest_weights": largest[:top],
    }


def _text(facts: dict[str, Any]) -> str:
    default = Parameters().as_dict()
    given = facts["parameters"]
    shown = [f"{k}={v}{'' if v != default[k] else ' (default)'}" for k, v in given.items()]
    out = [
        f"{facts['file']}: {facts['file_bytes']:,} bytes, {facts['memory_bytes']:,} in memory",
        f"task        {facts['task']}"
        + (f", classes {', '.join(map(str, facts['classes'][:20]))}" if facts["classes"] else ""),
        f"rows        {facts['rows']:,} from {', '.join(facts['files'])}",
        f"rounds      {facts['rounds']:,} ({facts['sweeps']:,} sweeps)",
        f"features    {facts['features']:,} by {facts['features_by']}",
        *(
            f"{name.replace('_', ' '):<12}{number(value)}"
            for name, value in facts["progressive"].items()
            if name != "rows"
        ),
        "parameters  " + "\n            ".join(shown),
    ]
    several = len(facts["spectrum"]) > 1
    for place, values in enumerate(facts["spectrum"][:SPECTRA]):
        whose = f"  (class {facts['classes'][place]})" if several else ""
        out.append("spectrum    " + " ".join(f"{value:.3g}" for value in values) + whose)
    if len(facts["spectrum"]) > SPECTRA:
        out.append(f"            and {len(facts['spectrum']) - SPECTRA} more, which --json shows")
    if facts["largest_weights"]:
        out.append("largest weights")
    for entry in facts["largest_weights"]:
        whose = f"  (class {entry['class']})" if "class" in entry else ""
        out.append(f"{entry['weight']:>14.6g}  {entry['feature']}{whose}")
    return "\n".join(out)


def _draw(trained: Trained, facts: dict[str, Any], path: Path) -> None:
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra
    except ImportError:
        raise ParameterError('--plot needs matplotlib: pip install "sonline[plot]"') from None
    mpl.use("agg")
    from sonline import plots  # noqa: PLC0415 - needs matplotlib

    figure = plots.report(_View(trained))
    if path.suffix.lower() != ".html":
        figure.savefig(path, dpi=150)
        return
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg")
    svg = drawn.getvalue()
    path.write_text(
        "<!doctype html><meta charset='utf-8'>"
        f"<title>{html.escape(facts['file'])}</title>\n{svg[svg.index('<svg') :]}"
        f"<pre>{html.escape(_text(facts))}</pre>\n",
        encoding="utf-8",
    )
