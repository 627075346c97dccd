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
that knows least would get the largest weight. There, and where there is no sketch (none, adagrad)
or one whose directions are still on their way (oja: its noise would decide), weights are averaged
feature by feature, by what each learner has seen of it. If that is the same for all, the merged
prediction is the mean of their predictions, and its loss, being convex, at most the mean of their
losses. A learner that has not seen a feature says nothing about it in any case.

With alpha="auto" each of the weight vectors (members) is merged by itself; plain ones and those
with a step per feature are averaged. One that failed has a small share in the mixture of its
learner, and little weight here. All others count alike: shares say which of them was a little
better over many rows, not how good they are.

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
from sonline.merging.state import (
    COUNT_LIMIT,
    COUNTERS,
    FIRST_SQUARE,
    MEAN_LOSSES,
    MEANS,
    RANGE,
    SHIFTS,
    Knowledge,
)
from sonline.parameters import Parameters
from sonline.rows import Floats

TRACKING = ("isotropic", "rfd", "full")  # alpha grows with the discarded directions: κ = K−1
# Weights are averaged by A_i; with other sketches, by how much each learner saw of a feature.
SOLVED = (*TRACKING, "fd")
SMALLEST = 1e-9  # share of a learner, so that a feature that only one learner saw is never lost
FAILED = 0.01  # a member with this share in the mixture of its learner counts half


def combined(
    parameters: Parameters,
    learners: Sequence[Knowledge],
    start: Knowledge | None,
    directions: Floats,
) -> Knowledge:
    """Return the merged knowledge of several learners over the same features.

    ``directions`` holds those of all learners, the start last; each V is a view of it.
    """
    fresh = start is None or start.rounds == 0
    zero = _nothing(learners[0]) if start is None else start
    centres = _common_centres([*learners, zero])
    for learner in (*learners, zero):
        _move_centres(learner, centres)
    numbers = _numbers(parameters, learners, zero)
    squares, counts = _scales(parameters, learners, zero)
    numbers["features"] = float(zero.keys.size - (not parameters.intercept))
    merged_scales = replace(zero, numbers=numbers, squares=squares, counts=counts, centres=centres)
    root = np.sqrt(merged_scales.effective)
    for learner in (*learners, zero):
        _move_offset(learner, numbers["label.offset"])
    models = [_rescaled(learner, root) for learner in learners]
    origin = zero if start is None else _rescaled(zero, root)
    evidence = _evidence(parameters, models, origin)
    merged = replace(
        origin,
        numbers=numbers,
        squares=squares,
        counts=counts,
        limits=np.max([learner.limits for learner in learners], axis=0),
        centres=centres,
        shares=_shares(learners, zero),
        seen=np.unique(np.concatenate([learner.seen for learner in learners])),
    )
    total = _Sum(parameters, models, origin, merged, evidence, _rows(learners, zero), fresh)
    if merged.gradients is not None:
        merged.gradients = total.gradients()
    if parameters.sketch == "adagrad":
        merged.weights = total.averaged(0)[np.newaxis]
        return merged
    if parameters.sketch == "full":
        return total.full()
    stack = Stack(directions, [*models, origin])
    merged.weights = np.array(
        [
            total.solved(number, stack)
            if _precise(parameters, merged.capacity) and _curved(parameters, merged, number)
            else total.averaged(number)
            for number in range(len(merged.weights))
        ]
    )
    # Each learner has counted the common start.
    return cut(parameters, merged, stack, np.r_[np.ones(len(models)), 1 - len(models)])


def _precise(parameters: Parameters, capacity: int) -> bool:
    """Return whether A_i is the precision of a learner in each direction."""
    if parameters.sketch not in SOLVED or not parameters.hessian:
        return False
    matrix = parameters.sketch == "full" or capacity > 0
    return matrix and parameters.scaling != "gradient"


def _curved(parameters: Parameters, merged: Knowledge, number: int) -> bool:
    """Return whether a member takes its steps by the sketch."""
    sketched = len(merged.weights) - len(parameters.diagonal)
    return number < sketched and parameters.members[number][1] > 0


def _nothing(like: Knowledge) -> Knowledge:
    """Return the knowledge of an untrained learner."""
    zeros = np.zeros(like.keys.size)
    return Knowledge(
        like.keys,
        dict.fromkeys(like.numbers, 0.0),
        like.shares,
        like.seen[:0],
        np.zeros_like(like.weights),
        zeros,
        None if like.counts is None else zeros,
        zeros,
        zeros,
        like.V[:0],
        like.ev[:0],
        None if like.dense is None else np.zeros_like(like.dense),
        None if like.gradients is None else zeros,
        like.automatic,
    )


def _beyond(values: Sequence[Floats], first: Floats) -> Floats:
    """Return ``first`` plus the differences of the values from it."""
    total, change = first.copy(), np.empty_like(first)
    for value in values:
        total += np.subtract(value, first, out=change)
    return total


def _total(values: Sequence[Floats]) -> Floats:
    """Return the sum; np.sum would copy all values into one array first."""
    total = values[0].copy()
    for value in values[1:]:
        total += value
    return total


# -- counters, scales and members ------------------------------------------------------------------


def _numbers(
    parameters: Parameters, learners: Sequence[Knowledge], zero: Knowledge
) -> dict[str, float]:
    learned = [learner for learner in learners if learner.rounds > 0] or list(learners)
    rows = _rows(learners, zero)

    def of(name: str, chosen: Sequence[Knowledge] = learners) -> list[float]:
        return [learner.numbers[name] for learner in chosen]

    def added(name: str) -> float:
        first = zero.numbers[name]
        return first + sum(number - first for number in of(name))

    def mean(name: str, count: str) -> float:
        first, counted = zero.numbers[count] * zero.numbers[name], added(count)
        new = (number * n - first for number, n in zip(of(name), of(count), strict=True))
        return (first + sum(new)) / counted if counted > 0 else 0.0

    numbers = {name: added(name) for name in COUNTERS}
    numbers |= {name: mean(name, count) for name, count in MEANS.items()}
    numbers |= {name: max(mean(name, count), 0.0) for name, count in MEAN_LOSSES.items()}
    numbers |= {name: float(rows @ of(name) / rows.sum()) for name in SHIFTS}
    numbers |= {name: max(of(name)) for name in ("wide", "label.unit")}
    return numbers | {
        "mean_energy": mean("mean_energy", "recent.rows" if parameters.half_life else "rounds"),
        "scales.unit": _unit(learned),
        "label.low": min(of("label.low", learned)),
        "label.high": max(of("label.high", learned)),
        "label.offset": _heaviest(learners).numbers["label.offset"],
        "tail": max(added("tail"), zero.tail),
        "capacity": learners[0].numbers["capacity"],
    }


def _unit(learners: Sequence[Knowledge]) -> float:
    """Return the mean of the common units, if most rows were learned with one."""
    rows = np.array([learner.rounds for learner in learners])
    units = np.array([learner.numbers["scales.unit"] for learner in learners])
    having = float(rows @ (units > 0))
    return float(rows @ units) / having if 2 * having > rows.sum() else 0.0


def _scales(
    parameters: Parameters, learners: Sequence[Knowledge], zero: Knowledge
) -> tuple[Floats, Floats | None]:
    """Return the squared scales and the counts over the rows of all learners."""
    if parameters.scaling == "gradient":
        first = np.maximum(zero.squares - FIRST_SQUARE, 0.0)
        sums = [np.maximum(learner.squares - FIRST_SQUARE, 0.0) for learner in learners]
        return FIRST_SQUARE + np.maximum(_beyond(sums, first), 0.0), None
    if zero.counts is None:
        return np.ones(zero.keys.size), None
    counts = [learner.counts for learner in learners if learner.counts is not None]
    n = _beyond(counts, zero.counts)
    sums = [count * learner.squares for count, learner in zip(counts, learners, strict=True)]
    squares = _beyond(sums, zero.counts * zero.squares)
    # Counts stop at a limit, outliers halve them, and differences of rounded sums may vanish: then
    # the plain mean.
    fewer = np.min(counts, axis=0) < zero.counts
    vague = np.flatnonzero(~((n > 0) & (squares > 0)) | fewer)
    n[vague] = np.max([count[vague] for count in counts], axis=0)
    squares /= np.maximum(n, 1.0)
    seen = np.sum([count[vague] for count in counts], axis=0)
    squares[vague] = np.sum([sums_of_one[vague] for sums_of_one in sums], axis=0) / np.maximum(
        seen, 1.0
    )
    return squares, np.minimum(n, COUNT_LIMIT, out=n)


def _rows(learners: Sequence[Knowledge], zero: Knowledge) -> Floats:
    """Return the rows that each learner has learned since the start, divided by their mean."""
    rows = np.array([max(learner.rounds - zero.rounds, 0.0) for learner in learners])
    return rows / rows.mean() if rows.any() else np.ones(rows.size)


def _shares(learners: Sequence[Knowledge], zero: Knowledge) -> dict[str, Floats]:
    """Return shares and factors, averaged by the rows that each learner has seen.

    A product, as of likelihoods, would follow the favourite member of a single learner. Merged
    weights are less noisy, which helps the other members more.
    """
    rows = _rows(learners, zero)
    rows = rows / rows.sum()
    return {
        name: np.asarray(rows @ np.array([learner.shares[name] for learner in learners]))
        for name in learners[0].shares
    }


def _heaviest(learners: Sequence[Knowledge]) -> Knowledge:
    return max(learners, key=lambda learner: learner.rounds)


def _common_centres(learners: Sequence[Knowledge]) -> Floats:
    """Return the centres of the heaviest learner, where all that know a feature have one."""
    centres = _heaviest(learners).centres.copy()
    for learner in learners:
        centres[(learner.squares > 0) & (learner.centres == 0)] = 0.0
    return centres


def _move_centres(knowledge: Knowledge, centres: Floats) -> None:
    """Express a learner by features with other centres, x̃' = x̃ - shift x̃₀.

    The old centre is taken for the mean of the feature.
    """
    moved = np.flatnonzero((knowledge.centres != centres) & (knowledge.squares > 0))
    before, distance = np.sqrt(knowledge.effective), centres - knowledge.centres
    shift = distance[moved] / before[moved] * before[0]
    knowledge.weights[:, 0] += knowledge.weights[:, moved] @ shift
    knowledge.V[:, moved] -= np.outer(knowledge.V[:, 0], shift)
    if knowledge.dense is not None:
        shear = np.eye(knowledge.keys.size)
        shear[moved, 0] = -shift
        knowledge.dense = shear @ knowledge.dense @ shear.T
    knowledge.squares[moved] += distance[moved] ** 2
    knowledge.limits[moved] = 0.0
    knowledge.centres = centres
    ratio = np.sqrt(knowledge.effective[moved]) / before[moved]
    knowledge.weights[:, moved] *= ratio
    knowledge.V[:, moved] /= ratio
    if knowledge.dense is not None:
        knowledge.dense[moved] /= ratio[:, np.newaxis]
        knowledge.dense[:, moved] /= ratio
    if knowledge.gradients is not None:
        knowledge.gradients[moved] /= ratio**2


def _move_offset(knowledge: Knowledge, offset: float) -> None:
    """Correct the weights of the intercept for another offset of the labels."""
    if knowledge.rounds > 0:
        scale = np.sqrt(knowledge.effective[0])
        knowledge.weights[:, 0] += (knowledge.numbers["label.offset"] - offset) * scale


def _rescaled(knowledge: Knowledge, root: Floats) -> Knowledge:
    """Return a learner in the coordinates of the scales ``root``; its squared scales become ρ²."""
    scales = np.sqrt(knowledge.effective)
    present = (scales > 0) & (root > 0)
    ratio = np.divide(scales, root, out=np.zeros_like(scales), where=present)
    inverse = np.divide(root, scales, out=np.zeros_like(scales), where=present)
    # In place, because allocating costs more than computing; the old values are not needed.
    return replace(
        knowledge,
        weights=np.multiply(knowledge.weights, inverse, out=knowledge.weights),
        squares=np.square(ratio, out=scales),
        V=np.multiply(knowledge.V, ratio, out=knowledge.V),
        dense=None if knowledge.dense is None else knowledge.dense * np.outer(ratio, ratio),
        gradients=None if knowledge.gradients is None else knowledge.gradients * ratio**2,
    )


# -- weights ---------------------------------------------------------------------------------------


def _evidence(
    parameters: Parameters, models: Sequence[Knowledge], origin: Knowledge
) -> list[Floats]:
    """Return how much each learner has seen of each feature since the start.

    Sums of squares where they are known, rows otherwise. Squared gradients do not measure it.
    """
    evidence = []
    for learner in models:
        if parameters.counts_rows:
            assert learner.counts is not None and origin.counts is not None  # noqa: S101, PT018 - rms
            amount = learner.counts * learner.squares
            amount -= origin.counts * origin.squares
        else:
            amount = np.full(learner.keys.size, learner.rounds - origin.rounds)
            amount[~_seen(learner)] = 0.0
        evidence.append(np.maximum(amount, 0.0, out=amount))
    silent = _total(evidence) == 0
    if silent.any():  # no learner saw it since the start: equal shares
        evidence = [
            np.where(silent, _seen(learner).astype(np.float64), amount)
            for learner, amount in zip(models, evidence, strict=True)
        ]
    return evidence


def _seen(knowledge: Knowledge) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    moved = np.any(knowledge.weights != 0, axis=0) | np.any(knowledge.V != 0, axis=0)
    return np.asarray(moved | (knowledge.squares > 0))


def _dispersion(numbers: dict[str, float]) -> float:
    """Return the unit of alpha with a log link, see targets.hpp."""
    return (2 * numbers["loss.mean"] * numbers["loss.rows"] + 16) / (numbers["loss.rows"] + 16)


@dataclass
class _Sum:
    """Learners in the merged coordinates, their common start, and the merged learner."""

    parameters: Parameters
    models: Sequence[Knowledge]
    origin: Knowledge
    merged: Knowledge  # its squares are the merged scales themselves
    evidence: Sequence[Floats]
    rows: Floats  # of each learner since the start, divided by their mean
    fresh: bool  # whether the start was untrained

    def credits(self, number: int) -> Floats:
        """Return the factor of a member in each learner; its mean over the rows is 1."""
        shares = [
            max(learner.shares["next.members"][number], learner.shares["later.members"][number])
            for learner in self.models
        ]
        share = np.maximum(shares, SMALLEST)
        credit = share / (share + FAILED)
        return np.asarray(credit * self.rows.sum() / (self.rows @ credit))

    def averaged(self, number: int) -> Floats:
        """Return the weights of a member, averaged feature by feature."""
        first = self.origin.weights[number]
        total, change = np.zeros(first.size), np.zeros(first.size)
        weighted, moved = np.empty(first.size), np.empty(first.size)
        for learner, credit, amount in zip(
            self.models, self.credits(number), self.evidence, strict=True
        ):
            total += np.multiply(credit, amount, out=weighted)
            weighted *= np.subtract(learner.weights[number], first, out=moved)
            change += weighted
        change /= np.where(total > 0, total, 1.0)
        change += first
        return change

    def solved(self, number: int, stack: Stack) -> Floats:
        """Return w₀ + A⁻¹ ΣA_i(w_i − w₀), A = D + Rᵀ(TᵀevT)R, by the Woodbury identity."""
        factors = self.credits(number) * (1.0 if self.fresh else self.rows)
        diagonals, D = self._diagonals(number, factors)
        T, ev = stack.spectrum(np.r_[factors, 0.0])  # the start is not among them
        first = self.origin.weights[number]
        right, along = np.zeros(first.size), []
        for learner, diagonal, factor in zip(self.models, diagonals, factors, strict=True):
            change = learner.weights[number] - first
            along.append(factor * learner.ev * (learner.V @ change))
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
        # The difference above cancels where ev is large; one refinement step restores the digits.
        right -= D * change
        right -= stack.back(half.T @ (half @ stack.times(change)))
        change += divided(right)
        change += first
        return change

    def full(self) -> Knowledge:
        """Return the merged learner with the whole matrix."""
        matrices = [learner.dense for learner in self.models if learner.dense is not None]
        merged, first = self.merged, self.origin.weights[0]
        assert self.origin.dense is not None  # noqa: S101 - the full matrix
        merged.dense = _beyond(matrices, self.origin.dense)
        if not _precise(self.parameters, self.merged.capacity):
            merged.weights = self.averaged(0)[np.newaxis]
            return merged
        diagonals, D = self._diagonals(0, np.ones(len(matrices)))
        right = np.zeros(first.size)
        for learner, matrix, diagonal in zip(self.models, matrices, diagonals, strict=True):
            change = learner.weights[0] - first
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

    def gradients(self) -> Floats:
        """G is summed, but it is not a precision: a learner that diverged has the largest G."""
        squares = [learner.gradients for learner in self.models if learner.gradients is not None]
        first = self.origin.gradients
        assert first is not None  # noqa: S101 - there are steps per feature
        return np.asarray(np.maximum(_beyond(squares, first), first))

    def _alpha(self, number: int, knowledge: Knowledge) -> float:
        """Return alpha of a member without the part that the sketch adds."""
        relative, _ = self.parameters.relative_alpha
        unit = knowledge.numbers["mean_energy"] if relative else 1.0
        if self.parameters.several:
            unit *= knowledge.unit_of_weights
        if self.parameters.log_link:
            unit *= _dispersion(knowledge.numbers)
        return self.parameters.members[number][0] * unit

    def _diagonals(self, number: int, factors: Floats) -> tuple[list[Floats], Floats]:
        """Return the diagonal part of each A_i, times a factor, and of the merged A."""
        if self.fresh and self.parameters.sketch not in TRACKING:
            # Alpha stands for data: its sum is divided among the learners that saw the feature.
            total = _total(self.evidence)
            observers = np.sum([amount > 0 for amount in self.evidence], axis=0)
            unit = np.divide(observers, total, out=np.zeros_like(total), where=total > 0)
            diagonals = [
                factor * self._alpha(number, learner) * unit * amount
                for learner, factor, amount in zip(self.models, factors, self.evidence, strict=True)
            ]
            return diagonals, _total(diagonals)
        diagonals = [
            factor * (self._alpha(number, learner) + learner.tail) * learner.squares
            for learner, factor in zip(self.models, factors, strict=True)
        ]
        if not self.fresh and self.parameters.sketch != "full":
            return diagonals, _total(diagonals)
        tails = [
            f * learner.tail * learner.squares
            for learner, f in zip(self.models, factors, strict=True)
        ]
        # Nothing has a tail at the start, or (full) ever.
        return diagonals, self._alpha(number, self.merged) + _total(tails)
