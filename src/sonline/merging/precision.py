"""The sum of several learners: precision-weighted, through the stacked sketches.

Everything happens in the coordinates of the merged scales s̄: a learner with scales s_i becomes
ρ_i = s_i / s̄, weights w_i / ρ_i and directions V_i ρ_i, so that A_i is diagonal plus low rank:
α_i ρ_i² + V_iᵀ diag(ev_i) V_i.

How much of the prior is taken away (κ of docs/distributed.md) depends on the sketch. Where alpha
grows with the curvature that the sketch has discarded (isotropic, rfd) or nothing is discarded
(full), alpha I in A_i is the prior, and all but one are subtracted: κ = K−1. With fd, alpha is all
that the matrix knows about most directions and stands for data there: κ = 0, each learner counts by
the sum of the squares that it has seen of a feature. Where there is no sketch (none, adagrad), or
one whose directions are still on their way (oja: its noise would decide), this is the whole weight.
A learner that has not seen a feature says nothing about it in any case.

With a start that has learnt before (a further round), counters, scales and sketches count it once.
The weights do so with the full matrix only: what a sketch has lost of the start cannot be taken
away again, and the differences, K of them added up, would overshoot. There each learner counts by
A_i times its share in the new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sonline.merging.state import (
    COUNT_LIMIT,
    FIRST_SQUARE,
    RANGE,
    Floats,
    Knowledge,
    capacity,
)
from sonline.parameters import Parameters

TRACKING = ("isotropic", "rfd", "full")  # alpha tracks what the sketch discards: κ = K−1
AVERAGED = ("none", "oja")  # weights by the squares seen, not by the sketch
NEGLIGIBLE = 1e-14  # eigenvalues below, relative to the largest, are dropped, as the core does
PIECE = 4096  # features at a time: some 40 rows of them stay in the cache
PARALLEL = 1e-12  # squared length below which a direction is a combination of the others


def combined(
    parameters: Parameters, each: Sequence[Knowledge], start: Knowledge | None
) -> Knowledge:
    """Return what several learners over the same features know together."""
    fresh = start is None or start.rounds == 0
    zero = _nothing(each[0]) if start is None else start
    numbers = _numbers(each, zero)
    squares, counts = _scales(parameters, each, zero)
    root = np.sqrt(squares)
    models = [_rescaled(one, root) for one in each]
    origin = _rescaled(zero, root)
    told = _evidence(parameters, models, origin)
    merged = replace(
        origin, numbers=numbers, squares=squares, counts=counts, share=_shares(each, zero)
    )
    rows = np.array([max(one.rounds - zero.rounds, 0.0) for one in each])
    share = rows / rows.mean() if rows.any() else np.ones(rows.size)
    together = _Sum(parameters, models, origin, merged, told, None if fresh else share)
    if parameters.sketch == "adagrad":
        return together.adagrad()
    if parameters.sketch == "full":
        return together.full()
    stack = _Stack(models, np.ones(len(models)))
    solving = stack if fresh else _Stack(models, share)
    storing = (
        stack if fresh else _Stack([*models, origin], np.r_[np.ones(len(models)), 1 - len(models)])
    )
    weigh = solving.spectrum()
    merged.weights = np.array(
        [
            together.averaged(number)
            if plain or parameters.sketch in AVERAGED
            else together.solved(number, solving, *weigh)
            for number, (_, plain) in enumerate(parameters.experts)
        ]
    )
    return _cut(parameters, merged, storing, *(weigh if fresh else storing.spectrum()))


def _nothing(like: Knowledge) -> Knowledge:
    """Return the learner that has not seen anything."""
    zeros = np.zeros(like.keys.size)
    return Knowledge(
        like.keys,
        dict.fromkeys(like.numbers, 0.0),
        like.share,
        np.zeros_like(like.weights),
        zeros,
        None if like.counts is None else zeros,
        like.V[:0],
        like.ev[:0],
        None if like.dense is None else np.zeros_like(like.dense),
        None if like.gradients is None else zeros,
    )


def _beyond(values: Sequence[Floats], first: Floats) -> Floats:
    """Return ``first`` and what each of the values has on top of it."""
    total = first.copy()
    for value in values:
        total += value - first
    return total


# -- counters, scales and experts ------------------------------------------------------------------


def _numbers(each: Sequence[Knowledge], zero: Knowledge) -> dict[str, float]:
    def added(name: str) -> float:
        first = zero.numbers[name]
        return first + sum(one.numbers[name] - first for one in each)

    def mean(name: str, count: str) -> float:
        total = zero.numbers[count] * zero.numbers[name]
        total += sum(one.numbers[count] * one.numbers[name] - total for one in each)
        return max(total, 0.0) / max(added(count), 1.0)

    learnt = [one for one in each if one.rounds > 0] or list(each)
    return {
        "rounds": added("rounds"),
        "mean_energy": mean("mean_energy", "rounds"),
        "label_low": min(one.numbers["label_low"] for one in learnt),
        "label_high": max(one.numbers["label_high"] for one in learnt),
        "ensemble.mean_loss": mean("ensemble.mean_loss", "ensemble.rounds"),
        "ensemble.rounds": added("ensemble.rounds"),
        "sketch.rebases": added("sketch.rebases"),
        "sketch.tail": max(added("sketch.tail"), zero.tail),
        "sketch.total": added("sketch.total"),
    }


def _scales(
    parameters: Parameters, each: Sequence[Knowledge], zero: Knowledge
) -> tuple[Floats, Floats | None]:
    """Return the squared scales, and the counts, over all rows that any of them has seen."""
    if parameters.scaling == "gradient":
        first = np.maximum(zero.squares - FIRST_SQUARE, 0.0)
        sums = [np.maximum(one.squares - FIRST_SQUARE, 0.0) for one in each]
        return FIRST_SQUARE + np.maximum(_beyond(sums, first), 0.0), None
    if zero.counts is None:
        return np.ones(zero.keys.size), None
    counts = [one.counts for one in each if one.counts is not None]
    n = _beyond(counts, zero.counts)
    sums = [count * one.squares for count, one in zip(counts, each, strict=True)]
    total = _beyond(sums, zero.counts * zero.squares)
    # Counts stop at a limit, and differences of rounded sums may vanish: then the plain mean.
    vague = ~((n > 0) & (total > 0))
    n = np.where(vague, np.max(counts, axis=0), n)
    plain = np.sum(sums, axis=0) / np.maximum(np.sum(counts, axis=0), 1.0)
    squares = np.where(vague, plain, total / np.maximum(n, 1.0))
    return squares, np.minimum(n, COUNT_LIMIT)


def _shares(each: Sequence[Knowledge], zero: Knowledge) -> Floats:
    """Return the experts' shares, averaged by the rows that each learner has seen.

    A product, as of likelihoods, would bet everything on what a single learner liked best; merged
    weights are less noisy, and other experts gain more from that.
    """
    rows = np.array([max(one.rounds - zero.rounds, 0.0) for one in each])
    rows = rows if rows.any() else np.ones(rows.size)
    share = rows @ np.array([one.share for one in each])
    return np.asarray(share / share.sum())


def _rescaled(known: Knowledge, root: Floats) -> Knowledge:
    """Return a learner in the coordinates of the scales ``root``; its own become ρ²."""
    own = np.sqrt(known.squares)
    there = (own > 0) & (root > 0)
    ratio = np.divide(own, root, out=np.zeros_like(own), where=there)
    inverse = np.divide(root, own, out=np.zeros_like(own), where=there)
    return replace(
        known,
        weights=known.weights * inverse,
        squares=ratio**2,
        V=np.multiply(known.V, ratio, out=known.V),  # the largest part, and not needed as it was
        dense=None if known.dense is None else known.dense * np.outer(ratio, ratio),
        gradients=None if known.gradients is None else known.gradients * ratio**2,
    )


# -- weights ---------------------------------------------------------------------------------------


def _evidence(
    parameters: Parameters, models: Sequence[Knowledge], origin: Knowledge
) -> list[Floats]:
    """Return how much each learner has seen of each feature since the start: sums of squares."""
    told = []
    for one in models:
        if parameters.scaling == "rms":
            assert one.counts is not None and origin.counts is not None  # noqa: S101, PT018 - rms
            own = one.counts * one.squares - origin.counts * origin.squares
        elif parameters.scaling == "gradient":
            own = one.squares - origin.squares
        else:
            own = np.full(one.keys.size, one.rounds - origin.rounds)
            own[~_seen(one)] = 0.0
        told.append(np.maximum(own, 0.0))
    silent = np.sum(told, axis=0) == 0
    if silent.any():  # nothing new: all count alike
        told = [
            np.where(silent, _seen(one).astype(np.float64), own)
            for one, own in zip(models, told, strict=True)
        ]
    return told


def _seen(known: Knowledge) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    moved = np.any(known.weights != 0, axis=0) | np.any(known.V != 0, axis=0)
    return np.asarray(moved | (known.squares > 0))


@dataclass
class _Sum:
    """Learners in the merged coordinates, what they began with, and what they make together."""

    parameters: Parameters
    models: Sequence[Knowledge]
    origin: Knowledge
    merged: Knowledge  # its squares are the merged scales themselves
    told: Sequence[Floats]
    share: Floats | None  # of each in the rows since the start, if there is one

    def averaged(self, number: int) -> Floats:
        """Return the weights of an expert, averaged feature by feature."""
        total = np.sum(self.told, axis=0)
        first = self.origin.weights[number]
        change = np.zeros(first.size)
        for one, own in zip(self.models, self.told, strict=True):
            change += own * (one.weights[number] - first)
        return np.asarray(first + change / np.where(total > 0, total, 1.0))

    def solved(self, number: int, stack: _Stack, T: Floats, ev: Floats) -> Floats:
        """Return w₀ + A⁻¹ ΣA_i(w_i − w₀), A = D + Rᵀ(TᵀevT)R, by the Woodbury identity."""
        own, D = self._diagonals(number)
        first = self.origin.weights[number]
        right = np.zeros(first.size)
        factors = np.ones(len(own)) if self.share is None else self.share
        for one, diagonal, factor in zip(self.models, own, factors, strict=True):
            change = one.weights[number] - first
            right += diagonal * change + one.V.T @ (factor * one.ev * (one.V @ change))
        # A feature without any curvature has no right side either.
        D = np.where(D > 0, D, 1.0)
        half = np.sqrt(ev)[:, np.newaxis] * T
        inner = np.eye(ev.size) + half @ stack.gram(1 / D) @ half.T

        def inverse(vector: Floats) -> Floats:
            plain = vector / D
            small = np.linalg.solve(inner, half @ stack.times(plain))
            return np.asarray(plain - stack.back(half.T @ small) / D)

        change = inverse(right)
        # The difference above cancels where ev is large; a step of refinement restores the digits.
        change += inverse(right - D * change - stack.back(half.T @ (half @ stack.times(change))))
        return np.asarray(first + change)

    def full(self) -> Knowledge:
        """Return the merged learner with the whole matrix."""
        matrices = [one.dense for one in self.models if one.dense is not None]
        merged, first = self.merged, self.origin.weights[0]
        assert self.origin.dense is not None  # noqa: S101 - the full matrix
        merged.dense = _beyond(matrices, self.origin.dense)
        own, D = self._diagonals(0)
        right = np.zeros(first.size)
        for one, matrix, diagonal in zip(self.models, matrices, own, strict=True):
            change = one.weights[0] - first
            right += diagonal * change + matrix @ change
        A = merged.dense + np.diag(D)
        if self.parameters.alpha == 0:
            change = np.linalg.pinv(A, rcond=RANGE, hermitian=True) @ right
        else:
            idle = np.diag(A) == 0
            A[idle, idle] = 1.0
            change = np.linalg.solve(A, right)
        merged.weights = (first + change)[np.newaxis]
        return merged

    def adagrad(self) -> Knowledge:
        """G adds up; it is no precision, though: a learner that went astray has the largest."""
        squares = [one.gradients for one in self.models if one.gradients is not None]
        first = self.origin.gradients
        assert first is not None  # noqa: S101 - AdaGrad has them
        self.merged.weights = self.averaged(0)[np.newaxis]
        self.merged.gradients = np.maximum(_beyond(squares, first), first)
        return self.merged

    def _alpha(self, number: int, known: Knowledge) -> float:
        """Return alpha of an expert without what the sketch adds."""
        relative, _ = self.parameters.relative_alpha
        unit = known.numbers["mean_energy"] if relative else 1.0
        return self.parameters.experts[number][0] * unit

    def _diagonals(self, number: int) -> tuple[list[Floats], Floats]:
        """Return the diagonal part of each A_i and of the merged A."""
        each = [(self._alpha(number, one) + one.tail) * one.squares for one in self.models]
        if self.share is not None and self.parameters.sketch != "full":
            own = [factor * diagonal for factor, diagonal in zip(self.share, each, strict=True)]
            return own, np.asarray(np.sum(own, axis=0))
        if self.parameters.sketch not in TRACKING:
            total = np.sum(self.told, axis=0)
            speakers = np.sum([own > 0 for own in self.told], axis=0)
            factor = np.divide(speakers, total, out=np.zeros_like(total), where=total > 0)
            own = [
                self._alpha(number, one) * factor * said
                for one, said in zip(self.models, self.told, strict=True)
            ]
            return own, np.asarray(np.sum(own, axis=0))
        alpha, origin, squares = self._alpha(number, self.merged), self.origin, self.merged.squares
        if self.parameters.scaling == "gradient":
            # The scales are sums over the data: only D₁ = 0.1 is prior.
            first = FIRST_SQUARE * alpha / squares
            if origin.rounds > 0:
                first = (self._alpha(number, origin) + origin.tail) * origin.squares
            return each, np.asarray(first + sum(np.maximum(own - first, 0.0) for own in each))
        tails = [one.tail * one.squares for one in self.models]
        return each, alpha + np.maximum(_beyond(tails, origin.tail * origin.squares), 0.0)


# -- sketches --------------------------------------------------------------------------------------


class _Stack:
    """The directions of several learners, one below the other: R.

    They are never copied into one matrix; sums over features run piece by piece, in the cache.

    Parameters
    ----------
    models : sequence of Knowledge
        Whose directions.
    factors : array
        What the eigenvalues of each are multiplied by; negative for what is taken away.
    """

    def __init__(self, models: Sequence[Knowledge], factors: Floats) -> None:
        self.parts = [one.V for one in models]
        self.values = np.concatenate(
            [one.ev * factor for one, factor in zip(models, factors, strict=True)]
        )
        self.cuts = np.cumsum([len(part) for part in self.parts])[:-1]

    def gram(self, weights: Floats | None = None) -> Floats:
        """Return R diag(weights) Rᵀ."""
        total = np.zeros((self.values.size, self.values.size))
        for first in range(0, self.parts[0].shape[1], PIECE):
            rows = np.vstack([part[:, first : first + PIECE] for part in self.parts])
            other = rows if weights is None else rows * weights[first : first + PIECE]
            total += other @ rows.T
        return total

    def times(self, vector: Floats) -> Floats:
        """Return R v."""
        return np.concatenate([part @ vector for part in self.parts])

    def back(self, small: Floats) -> Floats:
        """Return Rᵀ c, or C R for a matrix."""
        parts = zip(self.parts, np.split(small, self.cuts, axis=-1), strict=True)
        return np.asarray(sum(own @ part for part, own in parts))

    def spectrum(self) -> tuple[Floats, Floats]:
        """Return T and ev, largest first: V = T R are the eigenvectors of Rᵀ diag(values) R."""
        gram = self.gram()
        lengths = np.sqrt(np.diag(gram))
        there = np.flatnonzero(lengths)
        T = np.zeros((0, lengths.size))
        if not there.size:
            return T, np.zeros(0)
        lengths = lengths[there]
        # Unit rows have a Gram matrix that says which of them are combinations of the others.
        size, mix = np.linalg.eigh(gram[np.ix_(there, there)] / np.outer(lengths, lengths))
        own = size > PARALLEL * there.size
        basis = (mix[:, own] / np.sqrt(size[own])).T
        inside = (mix[:, own] * np.sqrt(size[own])).T
        values = self.values[there] * lengths**2
        eigenvalues, turn = np.linalg.eigh((inside * values) @ inside.T)
        # What the start had and no learner has any more is 0, not less.
        kept = np.flatnonzero(eigenvalues > NEGLIGIBLE * max(eigenvalues[-1], 0.0))[::-1]
        T = np.zeros((kept.size, self.values.size))
        T[:, there] = (turn[:, kept].T @ basis) / lengths
        return T, eigenvalues[kept]


def _cut(
    parameters: Parameters, merged: Knowledge, stack: _Stack, T: Floats, ev: Floats
) -> Knowledge:
    """Sketch the sum again with as many directions as one learner has."""
    m = capacity(parameters)
    left, merged.ev = ev[m:], ev[:m].copy()
    if left.size and parameters.sketch == "isotropic":
        seen = merged.keys.size - (not parameters.intercept)
        merged.numbers["sketch.tail"] += float(left.sum()) / max(seen - m, 1.0)
    elif left.size and parameters.sketch in ("fd", "rfd"):
        merged.ev -= left[0]
        if parameters.sketch == "rfd":
            merged.numbers["sketch.tail"] += float(left[0]) / 2
        merged.ev = merged.ev[merged.ev > NEGLIGIBLE * ev[0]]  # they fall: the last ones go
    merged.V = stack.back(T[: merged.ev.size])
    return merged
