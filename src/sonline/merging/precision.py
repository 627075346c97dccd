"""The sum of several learners: precision-weighted, through the stacked sketches.

Everything happens in the coordinates of the merged scales s̄: a learner with scales s_i becomes
ρ_i = s_i / s̄, weights w_i / ρ_i and directions V_i ρ_i, so that A_i is diagonal plus low rank:
α_i ρ_i² + V_iᵀ diag(ev_i) V_i.

How much of the prior is taken away (κ of docs/distributed.md) depends on the sketch. Where alpha
grows with the curvature that the sketch has discarded (isotropic, rfd) or nothing is discarded
(full), alpha I in A_i is the prior, and all but one are subtracted: κ = K−1. With fd, alpha is all
that the matrix knows about most directions and stands for data there: κ = 0, each learner counts by
the sum of the squares that it has seen of a feature.

A_i is a precision only if it adds up second derivatives, in coordinates that stand still. Squares
of gradients are largest where a learner went astray, and scales that grow with them
(scaling="gradient") make the first rows count for more than all later ones; either way the learner
that knows least would speak loudest. There, and where there is no sketch (none, adagrad) or one
whose directions are still on their way (oja: its noise would decide), weights are averaged feature
by feature, by what each learner has seen of it. If that is the same for all, the merged prediction
is the mean of their predictions, and its loss, being convex, at most the mean of their losses. A
learner that has not seen a feature says nothing about it in any case.

Of several weight vectors (alpha="auto") each is merged by itself. One that failed has lost its
share in the blend of its learner, and its say here; all others count alike, since shares tell which
of them was a little better over many rows, not how good they are.

With a start that has learned before (a further round), counters, scales and sketches count it once.
The weights do so with the full matrix only: what a sketch has lost of the start cannot be taken
away again, and the differences, K of them added up, would overshoot. There each learner counts by
A_i times its share in the new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sonline.merging.stack import Stack, cut
from sonline.merging.state import COUNT_LIMIT, FIRST_SQUARE, RANGE, Floats, Knowledge
from sonline.parameters import Parameters

TRACKING = ("isotropic", "rfd", "full")  # alpha tracks what the sketch discards: κ = K−1
SOLVED = (*TRACKING, "fd")  # weights by A_i; the others by what has been seen of each feature
SMALLEST = 1e-9  # share: what one learner alone has seen of a feature is never lost
FAILED = 0.01  # a share in a blend at which a weight vector has lost half its say


def combined(
    parameters: Parameters,
    each: Sequence[Knowledge],
    start: Knowledge | None,
    directions: Floats,
) -> Knowledge:
    """Return what several learners over the same features know together.

    ``directions`` are those of all, the start's last, in the memory that their V are views of.
    """
    fresh = start is None or start.rounds == 0
    zero = _nothing(each[0]) if start is None else start
    numbers = _numbers(each, zero)
    squares, counts = _scales(parameters, each, zero)
    numbers["features"] = float(zero.keys.size - (not parameters.intercept))
    root = np.sqrt(replace(zero, numbers=numbers, squares=squares, counts=counts).effective)
    for one in (*each, zero):
        _move_offset(one, numbers["label_offset"])
    models = [_rescaled(one, root) for one in each]
    origin = zero if start is None else _rescaled(zero, root)
    told = _evidence(parameters, models, origin)
    merged = replace(
        origin, numbers=numbers, squares=squares, counts=counts, share=_shares(each, zero)
    )
    together = _Sum(parameters, models, origin, merged, told, _rows(each, zero), fresh)
    if parameters.sketch == "adagrad":
        return together.adagrad()
    if parameters.sketch == "full":
        return together.full()
    stack = Stack(directions, [*models, origin])
    merged.weights = np.array(
        [
            together.solved(number, stack)
            if _precise(parameters, merged.capacity)
            else together.averaged(number)
            for number in range(len(parameters.experts))
        ]
    )
    # What all began with has been counted by each of them.
    return cut(parameters, merged, stack, np.r_[np.ones(len(models)), 1 - len(models)])


def _precise(parameters: Parameters, capacity: int) -> bool:
    """Return whether A_i says how much a learner knows in each direction."""
    if parameters.sketch not in SOLVED or not parameters.hessian:
        return False
    matrix = parameters.sketch == "full" or capacity > 0
    return matrix and parameters.scaling != "gradient"


def _nothing(like: Knowledge) -> Knowledge:
    """Return the learner that has not seen anything."""
    zeros = np.zeros(like.keys.size)
    return Knowledge(
        like.keys,
        dict.fromkeys(like.numbers, 0.0),
        like.share,
        like.experts,
        np.zeros_like(like.weights),
        zeros,
        None if like.counts is None else zeros,
        like.V[:0],
        like.ev[:0],
        None if like.dense is None else np.zeros_like(like.dense),
        None if like.gradients is None else zeros,
        like.automatic,
    )


def _beyond(values: Sequence[Floats], first: Floats) -> Floats:
    """Return ``first`` and what each of the values has on top of it."""
    total, change = first.copy(), np.empty_like(first)
    for value in values:
        total += np.subtract(value, first, out=change)
    return total


def _total(values: Sequence[Floats]) -> Floats:
    """Return the sum, without the copy of all values that np.sum makes of a list."""
    total = values[0].copy()
    for value in values[1:]:
        total += value
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

    learned = [one for one in each if one.rounds > 0] or list(each)
    return {
        "rounds": added("rounds"),
        "mean_energy": mean("mean_energy", "rounds"),
        "label_low": min(one.numbers["label_low"] for one in learned),
        "label_high": max(one.numbers["label_high"] for one in learned),
        "label_offset": _heaviest(each).numbers["label_offset"],
        "nonzeros": added("nonzeros"),
        "scales.unit": _unit(learned),
        "follower.margin": 0.0,
        "ensemble.mean_loss": mean("ensemble.mean_loss", "ensemble.rounds"),
        "ensemble.rounds": added("ensemble.rounds"),
        "tail": max(added("tail"), zero.tail),
        "total": added("total"),
        "capacity": each[0].numbers["capacity"],
    }


def _unit(each: Sequence[Knowledge]) -> float:
    """Return the mean of the units, if most rows were learned with one."""
    rows = np.array([one.rounds for one in each])
    units = np.array([one.numbers["scales.unit"] for one in each])
    having = float(rows @ (units > 0))
    return float(rows @ units) / having if 2 * having > rows.sum() else 0.0


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
    squares = _beyond(sums, zero.counts * zero.squares)
    # Counts stop at a limit, outliers halve them, and differences of rounded sums may vanish: then
    # the plain mean.
    fewer = np.min(counts, axis=0) < zero.counts
    vague = np.flatnonzero(~((n > 0) & (squares > 0)) | fewer)
    n[vague] = np.max([count[vague] for count in counts], axis=0)
    squares /= np.maximum(n, 1.0)
    seen = np.sum([count[vague] for count in counts], axis=0)
    squares[vague] = np.sum([own[vague] for own in sums], axis=0) / np.maximum(seen, 1.0)
    return squares, np.minimum(n, COUNT_LIMIT, out=n)


def _rows(each: Sequence[Knowledge], zero: Knowledge) -> Floats:
    """Return how many rows each has learned since the start, in units of their mean."""
    rows = np.array([max(one.rounds - zero.rounds, 0.0) for one in each])
    return rows / rows.mean() if rows.any() else np.ones(rows.size)


def _shares(each: Sequence[Knowledge], zero: Knowledge) -> Floats:
    """Return the experts' shares, averaged by the rows that each learner has seen.

    A product, as of likelihoods, would bet everything on what a single learner liked best; merged
    weights are less noisy, and other experts gain more from that.
    """
    share = _rows(each, zero) @ np.array([one.share for one in each])
    return np.asarray(share / share.sum())


def _heaviest(each: Sequence[Knowledge]) -> Knowledge:
    return max(each, key=lambda one: one.rounds)


def _move_offset(known: Knowledge, offset: float) -> None:
    """Let the weights of the intercept make up for another offset of the labels."""
    if known.rounds > 0:
        scale = np.sqrt(known.effective[0])
        known.weights[:, 0] += (known.numbers["label_offset"] - offset) * scale


def _rescaled(known: Knowledge, root: Floats) -> Knowledge:
    """Return a learner in the coordinates of the scales ``root``; its own become ρ²."""
    own = np.sqrt(known.effective)
    there = (own > 0) & (root > 0)
    ratio = np.divide(own, root, out=np.zeros_like(own), where=there)
    inverse = np.divide(root, own, out=np.zeros_like(own), where=there)
    # In place: new memory costs more than the numbers, and nobody needs what was there.
    return replace(
        known,
        weights=np.multiply(known.weights, inverse, out=known.weights),
        squares=np.square(ratio, out=own),
        V=np.multiply(known.V, ratio, out=known.V),
        dense=None if known.dense is None else known.dense * np.outer(ratio, ratio),
        gradients=None if known.gradients is None else known.gradients * ratio**2,
    )


# -- weights ---------------------------------------------------------------------------------------


def _evidence(
    parameters: Parameters, models: Sequence[Knowledge], origin: Knowledge
) -> list[Floats]:
    """Return how much each learner has seen of each feature since the start.

    Sums of squares where they are known, rows otherwise. Squared gradients are no measure of it.
    """
    told = []
    for one in models:
        if parameters.counts_rows:
            assert one.counts is not None and origin.counts is not None  # noqa: S101, PT018 - rms
            own = one.counts * one.squares
            own -= origin.counts * origin.squares
        else:
            own = np.full(one.keys.size, one.rounds - origin.rounds)
            own[~_seen(one)] = 0.0
        told.append(np.maximum(own, 0.0, out=own))
    silent = _total(told) == 0
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
    rows: Floats  # of each since the start, in units of their mean
    fresh: bool  # the start had not learned anything

    def voices(self, number: int) -> Floats:
        """Return how far an expert of each learner counts, in units of the mean over the rows."""
        share = np.maximum([one.share[number] for one in self.models], SMALLEST)
        voice = share / (share + FAILED)
        return np.asarray(voice * self.rows.sum() / (self.rows @ voice))

    def averaged(self, number: int) -> Floats:
        """Return the weights of an expert, averaged feature by feature."""
        first = self.origin.weights[number]
        total, change = np.zeros(first.size), np.zeros(first.size)
        own, beyond = np.empty(first.size), np.empty(first.size)
        for one, voice, said in zip(self.models, self.voices(number), self.told, strict=True):
            total += np.multiply(voice, said, out=own)
            own *= np.subtract(one.weights[number], first, out=beyond)
            change += own
        change /= np.where(total > 0, total, 1.0)
        change += first
        return change

    def solved(self, number: int, stack: Stack) -> Floats:
        """Return w₀ + A⁻¹ ΣA_i(w_i − w₀), A = D + Rᵀ(TᵀevT)R, by the Woodbury identity."""
        factors = self.voices(number) * (1.0 if self.fresh else self.rows)
        own, D = self._diagonals(number, factors)
        T, ev = stack.spectrum(np.r_[factors, 0.0])  # the start is not among them
        first = self.origin.weights[number]
        right, along = np.zeros(first.size), []
        for one, diagonal, factor in zip(self.models, own, factors, strict=True):
            change = one.weights[number] - first
            along.append(factor * one.ev * (one.V @ change))
            right += np.multiply(diagonal, change, out=change)
        right += stack.back(np.concatenate([*along, np.zeros(self.origin.ev.size)]))
        D[~(D > 0)] = 1.0  # a feature without any curvature has no right side either
        half = np.sqrt(ev)[:, np.newaxis] * T
        inner = np.eye(ev.size) + half @ stack.gram(1 / D) @ half.T

        def divided(vector: Floats) -> Floats:
            """Return A⁻¹ v in the memory of v."""
            vector /= D
            small = np.linalg.solve(inner, half @ stack.times(vector))
            other = stack.back(half.T @ small)
            other /= D
            vector -= other
            return vector

        change = divided(right.copy())
        # The difference above cancels where ev is large; a step of refinement restores the digits.
        right -= D * change
        right -= stack.back(half.T @ (half @ stack.times(change)))
        change += divided(right)
        change += first
        return change

    def full(self) -> Knowledge:
        """Return the merged learner with the whole matrix."""
        matrices = [one.dense for one in self.models if one.dense is not None]
        merged, first = self.merged, self.origin.weights[0]
        assert self.origin.dense is not None  # noqa: S101 - the full matrix
        merged.dense = _beyond(matrices, self.origin.dense)
        if not _precise(self.parameters, self.merged.capacity):
            merged.weights = self.averaged(0)[np.newaxis]
            return merged
        own, D = self._diagonals(0, np.ones(len(matrices)))
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

    def _diagonals(self, number: int, factors: Floats) -> tuple[list[Floats], Floats]:
        """Return the diagonal part of each A_i, times a factor, and of the merged A."""
        if self.fresh and self.parameters.sketch not in TRACKING:
            # Alpha stands for data: in all as much as before, but by who has seen the feature.
            total = _total(self.told)
            speakers = np.sum([own > 0 for own in self.told], axis=0)
            unit = np.divide(speakers, total, out=np.zeros_like(total), where=total > 0)
            own = [
                factor * self._alpha(number, one) * unit * said
                for one, factor, said in zip(self.models, factors, self.told, strict=True)
            ]
            return own, _total(own)
        own = [
            factor * (self._alpha(number, one) + one.tail) * one.squares
            for one, factor in zip(self.models, factors, strict=True)
        ]
        if not self.fresh and self.parameters.sketch != "full":
            return own, _total(own)
        tails = [f * one.tail * one.squares for one, f in zip(self.models, factors, strict=True)]
        # Nothing has a tail at the start, or (full) ever.
        return own, self._alpha(number, self.merged) + _total(tails)
