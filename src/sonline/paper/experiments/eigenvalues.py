"""How well the eigenvalues of a sketch are those of the matrix that it sketches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from sonline.paper.datasets.contents import Floats
from sonline.paper.experiments.cells import Cell, Source
from sonline.paper.experiments.conventions import Method, Rows, make

SCALE_START = 0.1  # of scaling="gradient"
CHUNK = 2048


def eigenvalue_cell(
    source: Source, method: Method, alpha: float | str, marks: Sequence[int] = ()
) -> Cell:
    """Return the cell of `eigenvalue_errors` of a method, by default at the end of the rows."""
    settings = method.settings(alpha)

    def compute() -> list[float]:
        rows = source.rows()
        return eigenvalue_errors(rows.X, rows.y, settings, marks or [rows.y.size])

    key = {"what": "eigenvalues", **source.key, "settings": settings, "marks": list(marks)}
    return Cell(key, f"{source.label} eigenvalues {method.label}", compute)


def eigenvalue_errors(
    X: Rows, y: Floats, settings: Mapping[str, Any], marks: Sequence[int], count: int = 10
) -> list[float]:
    """Return the largest relative error among the top eigenvalues after each number of rows.

    The exact matrix is the sum of the outer products of what the learner sketches, which follows
    from the predictions that it returns: ``sqrt(sigma + eta) (z - y) x`` for the squared loss with
    curvature="gradient", features scaled as the learner scales them.

    Parameters
    ----------
    X, y
        Rows and labels.
    settings : mapping
        Parameters of `sonline.OnlineLearner`.
    marks : sequence of int
        Numbers of rows, rising.
    count : int
        How many eigenvalues.
    """
    learner = make(settings)
    width = X.shape[1] + 1  # the constant feature
    exact = np.zeros((width, width))
    scale = np.full(width, SCALE_START)
    root = math.sqrt(settings["sigma"] + settings["eta"])
    errors, start = [], 0
    for mark in marks:
        while start < mark:
            end = min(start + CHUNK, mark)
            part, labels = X[start:end], y[start:end]
            slopes = (learner.learn(part, labels) - labels)[:, None]
            dense = part.toarray() if sp.issparse(part) else np.asarray(part)
            gradients = slopes * np.hstack([np.ones((end - start, 1)), dense])
            if settings["scaling"] == "gradient":
                scales = scale + np.cumsum(gradients**2, axis=0)
                scale = scales[-1].copy()
                gradients /= np.sqrt(scales)
            exact += root**2 * gradients.T @ gradients
            start = end
        true = np.linalg.eigvalsh(exact)[::-1][:count]
        estimated = np.zeros(true.size)
        spectrum = learner.spectrum()[: true.size]
        estimated[: spectrum.size] = spectrum
        some = true > 1e-12 * true[0]  # fewer rows than eigenvalues: the others are 0
        errors.append(float(np.max(np.abs(estimated - true)[some] / true[some])))
    return errors
