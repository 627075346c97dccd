"""The document of a model file: what may be in it (docs/model-files.md)."""

from __future__ import annotations

from typing import Any

from sonline import persistence
from sonline.evaluate import Progress
from sonline.persistence import COUNT
from sonline.read_options import ReadOptions

CURVE = {"points": list, "rows": COUNT, "total": object, "weight": object, "last": list}
MEASURES = {"loss": CURVE, "error": CURVE, "r2": dict}
DOCUMENT: dict[str, Any] = {
    "parameters": dict,
    "classes": (None, dict),
    "reading": {
        "features": {"", "index", "name", "hash"},
        "columns": {...: {"number", "text", "date"}},
        "table": ReadOptions.SCHEMA,
    },
    "only_predicts": bool,
    "progress": MEASURES,
    "run": dict,
    "face": dict,
}
RUN: dict[str, Any] = {
    "files": [str],
    "contents": [(None, {"size": COUNT, "digest": str})],
    "format": str,
    "position": dict.fromkeys(("turn", "file", "offset", "line", "rows"), COUNT),
    "passes": COUNT,
    "holdout": COUNT,
    "shuffle": COUNT,
    "validation": (
        None,
        {
            "files": [str],
            "loss": (None, float),
            "worse": COUNT,
            "passes": COUNT,
            "best_pass": COUNT,
        },
    ),
    "class_weights": [{"label": object, "weight": float}],
    "options": ReadOptions.SCHEMA,
    "rows": COUNT,
    "turn_rows": COUNT,
    "skipped": COUNT,
    "held": MEASURES,
    "past": [{...: float}],
    "lengths": {...: COUNT},
}


def check_document(document: dict[str, Any]) -> None:
    """Raise an error if the document of a file is not what `Model.document` could return."""
    persistence.check("document", document, DOCUMENT)
    measures = [document["progress"]]
    if document["run"]:
        persistence.check("run", document["run"], RUN)
        measures.append(document["run"]["held"])
    for progress in map(Progress.from_dict, measures):
        progress.loss.check()
        progress.error.check()
    persistence.check("face.name", document["face"].get("name", ""), str)
