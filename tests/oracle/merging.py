"""Merging of learners with dense matrices: the oracle of `sonline.OnlineLearner.merge`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sonline.paper.reference.sketches import Array


def merged_weights(
    matrices: Sequence[Array],
    weights: Sequence[Array],
    prior: Array,
    first: Array,
    subtracted: int,
) -> Array:
    """Return (ΣA_i − κA₀)⁻¹(ΣA_iw_i − κA₀w₀).

    Parameters
    ----------
    matrices, weights : sequences of arrays
        A_i and w_i.
    prior, first : array
        A₀ and w₀, with which all of them began.
    subtracted : int
        κ, how many priors are taken away.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.eye(1)
    >>> merged_weights([2 * one, 4 * one], [np.ones(1), np.ones(1)], one, np.zeros(1), 1)
    array([1.2])
    """
    A = sum(matrices, np.zeros_like(prior)) - subtracted * prior
    right = sum((A_i @ w for A_i, w in zip(matrices, weights, strict=True)), np.zeros_like(first))
    return np.asarray(np.linalg.solve(A, right - subtracted * prior @ first))


def merged_sketch(
    sketch: str, size: int, sketches: Sequence[Array], prior: Array
) -> tuple[Array, float]:
    """Return Σ(S_i − S₀) + S₀ cut to the size of one sketch, and what that adds to alpha.

    Parameters
    ----------
    sketch : {"oja", "fd", "rfd", "isotropic"}
        Which one.
    size : int
        m.
    sketches : sequence of arrays
        V_iᵀ diag(ev_i) V_i.
    prior : array
        Of the start.
    """
    total = prior + sum((S_i - prior for S_i in sketches), np.zeros_like(prior))
    values, vectors = np.linalg.eigh(total)
    order: Any = np.argsort(values)[::-1]
    values, V = np.maximum(values[order], 0.0), vectors[:, order].T
    rank = size - 1 if sketch in ("fd", "rfd") else size
    cut = float(values[rank]) if rank < values.size and sketch in ("fd", "rfd") else 0.0
    tail = 0.0
    if sketch == "isotropic":
        tail = float(values[rank:].sum()) / max(values.size - size, 1)
    elif sketch == "rfd":
        tail = cut / 2
    return np.asarray((V[:rank].T * (values[:rank] - cut)) @ V[:rank]), tail
