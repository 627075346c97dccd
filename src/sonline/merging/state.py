"""The knowledge of an output, as returned by `_core.Model.knowledge` and taken by `set_knowledge`.

The core returns weights, scales, directions and eigenvalues in a form that does not depend on the
sketch (cpp/sonline/knowledge.hpp): fields of the inputs, and with the prefix ``"k."`` those of
output k. Here a `State` has both, for one output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sonline.merging.features import Positions, State
from sonline.parameters import Parameters
from sonline.persistence import NAMES
from sonline.rows import Floats, Keys

COUNT_LIMIT = float(1 << 24)  # the core counts the rows of a feature up to this
FIRST_SQUARE = 0.1  # D₁ of the paper's diagonal adaptation
RANGE = 1e-12  # eigenvalues below, relative to the largest, are rounding (relative length 1e-6)
COMMON = 4.0  # times the mean count: see scales.hpp
ALIKE, NOT_ALIKE = 16.0, 64.0  # times the common unit, of squares: the same
CENTRED = 4.0  # squared scales of centred features, in mean squares: the same

# Numbers of a learner: sums over its rows, and means with the sum that they are divided by.
COUNTERS = (
    *("rounds", "nonzeros", "weights.sum", "weights.squares"),
    *("recent.rows", "recent.values"),  # with a half-life: what is left of rows and values
    *("label.weight", "label.positives", "loss.rows", "later.loss.rows", "base.loss.rows"),
    *("next.curvature", "later.curvature", "total"),
)
MEANS = {"label.mean": "label.weight", "label.gap": "label.weight"}
MEAN_LOSSES = {f"{of}loss.mean": f"{of}loss.rows" for of in ("", "later.", "base.")}
SHIFTS = ("next.shift", "later.shift")
_OTHERS = (
    *("mean_energy", "scales.unit", "wide", "tail", "capacity"),
    *("label.low", "label.high", "label.offset", "label.unit"),
)
NUMBERS = (*COUNTERS, *MEANS, *MEAN_LOSSES, *SHIFTS, *_OTHERS)
_COUNTS = ("rounds", "nonzeros", "wide", "capacity")  # whole numbers
SHARES = ("next.members", "next.factors", "later.members", "later.factors")
# What an output knows about its errors: see intervals.hpp.
OF_ERRORS = ("intervals.alphas", "intervals.counts", "spread")
# All fields of the inputs.
INPUT_FIELDS = (
    *("rounds", "mean_energy", "nonzeros", "scales.unit", "weights.sum", "weights.squares"),
    *("wide", "recent.rows", "recent.values"),
    *("scales.limited", "scales.limits", "scales.centres"),
    *("features", "squares", "counts", "classes.seen", "diagonal.squares"),
)


def outputs_of(knowledge: State) -> list[State]:
    """Return the state of each output; the first has the names."""
    common = {name: knowledge[name] for name in INPUT_FIELDS if name in knowledge}
    common |= {name: knowledge[name] for name in knowledge if name.startswith("curves")}
    states: list[State] = []
    while f"{len(states)}.weights" in knowledge:
        prefix = f"{len(states)}."
        own = {
            name.removeprefix(prefix): field
            for name, field in knowledge.items()
            if name.startswith(prefix)
        }
        states.append(common | own)
    states[0] |= {name: knowledge[name] for name in NAMES}
    return states


def together(states: Sequence[State]) -> State:
    """Return what `outputs_of` has taken apart."""
    curves = [name for name in states[0] if name.startswith("curves")]
    knowledge = {
        name: states[0][name] for name in (*INPUT_FIELDS, *NAMES, *curves) if name in states[0]
    }
    for number, state in enumerate(states):
        # These are of the inputs, but for the paper's diagonal adaptation.
        also = ("squares", "mean_energy")
        own = {name: state[name] for name in state if name not in INPUT_FIELDS or name in also}
        own = {name: own[name] for name in own if not name.startswith("curves")}
        knowledge |= {f"{number}.{name}": own[name] for name in own if name not in NAMES}
    return knowledge


@dataclass
class Knowledge:
    """A learner in the coordinates of its scales, one column per feature.

    ``squares`` are the squared scales (0 for features without one yet) and ``counts`` the rows in
    which each feature was not zero (where scaling counts them, by a sample late in a stream).
    ``limits`` are the squares up to which values count as they are, 0 where that follows from the
    scale. Both are those of x - centre. A = αI + Vᵀdiag(ev)V + `dense`; where there are steps per
    feature, `gradients` is G.
    """

    keys: Keys
    numbers: dict[str, float]  # counters and means
    shares: dict[str, Floats]  # and factors of the members, for both uses: see mixture.hpp
    seen: NDArray[np.int64]  # classes that rows have had
    weights: Floats  # a row per member, those with a step per feature last
    squares: Floats
    counts: Floats | None
    limits: Floats
    centres: Floats  # what is subtracted from the values of a feature, 0 for most
    V: Floats
    ev: Floats
    dense: Floats | None = None
    gradients: Floats | None = None
    automatic: bool = False  # whether scales depend on frequencies and on a common unit

    @property
    def rounds(self) -> float:
        """Number of rows learned."""
        return self.numbers["rounds"]

    @property
    def unit_of_weights(self) -> float:
        """The weight of one effective row, see rows_seen.hpp."""
        squares = self.numbers["weights.squares"]
        normal = np.finfo(np.float64).tiny <= squares < np.inf
        return squares / self.numbers["weights.sum"] if normal else 1.0

    @property
    def effective(self) -> Floats:
        """The squared scales as they are used, see scales.hpp."""
        if self.counts is None or not self.automatic:
            return self.squares
        squares = in_unit(self.squares, self.numbers["scales.unit"])
        squares[0] = self.squares[0]  # the intercept has no unit
        centred = self.centres != 0
        squares[centred] = CENTRED * self.squares[centred]
        values = self.numbers["recent.values"] or self.numbers["nonzeros"]
        mean_count = values / max(self.numbers["features"], 1.0)
        if mean_count == 0:
            return squares
        relative = self.counts / (COMMON * mean_count)
        return np.asarray(squares * np.sqrt(np.maximum(relative, 1.0)))

    @property
    def tail(self) -> float:
        """The part of alpha that comes from discarded directions."""
        return self.numbers["tail"]

    @property
    def capacity(self) -> int:
        """The largest number of directions of the sketch."""
        return int(self.numbers["capacity"])


def in_unit(squares: Floats, unit: float) -> Floats:
    """Return squared scales: ``unit`` if they are close to it, interpolated, or unchanged."""
    if unit == 0:
        return squares.copy()
    large = squares > unit
    with np.errstate(divide="ignore"):
        ratio = np.where(large, squares / unit, unit / squares)
        line = (NOT_ALIKE - 1) / (NOT_ALIKE - ALIKE) * (ratio - ALIKE) + 1
        factor = np.maximum(1.0, np.minimum(ratio, line))
    return np.asarray(np.where(large, unit * factor, unit / factor))


def rank_of(state: State) -> int:
    """Return the number of directions of a learner."""
    return len(state["directions"])


def read(
    parameters: Parameters,
    state: State,
    keys: Keys,
    positions: Positions | None = None,
    V: Floats | None = None,
) -> Knowledge:
    """Return the knowledge of a learner over the features ``keys``, which include its own.

    ``positions`` are the positions of its features among them, and V is memory for its directions.
    """
    positions = np.arange(keys.size) if positions is None else positions
    V = np.empty((rank_of(state), keys.size)) if V is None else V

    def spread(rows: Floats, out: Floats | None = None) -> Floats:
        out = np.empty((len(rows), keys.size)) if out is None else out
        out[:] = 0.0
        out[:, positions] = rows
        return out

    # Not every sketch and loss has all of them.
    numbers = {name: float(state.get(name, 0.0)) for name in NUMBERS}
    numbers["features"] = float(len(state["features"]) - (not parameters.intercept))
    knowledge = Knowledge(
        keys,
        numbers,
        {name: _in_order(state, name) for name in SHARES},
        state["classes.seen"],
        spread(np.concatenate([state["weights"], state["diagonal"]])),
        spread(state["squares"][np.newaxis])[0],
        spread(state["counts"][np.newaxis])[0] if parameters.counts_rows else None,
        spread(_limits(state)[np.newaxis])[0],
        spread(_centres(state)[np.newaxis])[0],
        spread(state["directions"], V),
        state["ev"] if "ev" in state else np.zeros(0),
        automatic=parameters.scaling == "auto",
    )
    if "gradients" in state:
        knowledge.gradients = spread(state["gradients"])[0]
    elif len(state["diagonal"]):
        knowledge.gradients = spread(state["diagonal.squares"][np.newaxis])[0]
    if "dense" in state:
        columns = positions[: len(state["dense"])]
        knowledge.dense = np.zeros((keys.size, keys.size))
        knowledge.dense[np.ix_(columns, columns)] = state["dense"]
    return knowledge


def _in_order(state: State, name: str) -> Floats:
    """Return shares or factors in the order of the weights: with curves, those of hats are last."""
    shares = state[name].astype(np.float64)
    curved = len(state["curved.weights"]) if "curved.weights" in state else 0
    if not curved:
        return shares
    first = len(state["weights"])
    return np.concatenate([shares[:first], shares[first + curved :], shares[first:][:curved]])


def _limits(state: State) -> Floats:
    limits = np.zeros(len(state["features"]))
    limits[state["scales.limited"].astype(np.intp)] = state["scales.limits"]
    return limits


def _centres(state: State) -> Floats:
    centres = np.zeros(len(state["features"]))
    stored = state["scales.centres"]
    centres[: stored.size] = stored
    return centres


def write(parameters: Parameters, knowledge: Knowledge) -> State:
    """Return the argument of `_core.Model.set_knowledge`, without names."""
    state: State = {name: np.array(knowledge.numbers[name]) for name in NUMBERS}
    for name in _COUNTS:
        state[name] = np.array(int(knowledge.numbers[name]), dtype=np.int64)
    limited = np.flatnonzero(knowledge.limits)
    sketched = len(knowledge.weights) - len(parameters.diagonal)
    zeros = np.zeros(knowledge.keys.size)
    state |= knowledge.shares
    for name in SHARES:
        shares = knowledge.shares[name]
        curved = shares[len(knowledge.weights) :]  # not in the order of `read`
        state[name] = np.concatenate(
            [shares[:sketched], curved, shares[sketched : len(knowledge.weights)]]
        )
    state["curves"] = np.array(0, dtype=np.int64)
    state |= {
        "scales.limited": limited.astype(np.uint64),
        "scales.limits": knowledge.limits[limited],
        "scales.centres": np.trim_zeros(knowledge.centres, "b"),
        "classes.seen": knowledge.seen,
        "features": knowledge.keys,
        "weights": np.ascontiguousarray(knowledge.weights[:sketched]),
        "diagonal": np.ascontiguousarray(knowledge.weights[sketched:]),
        "diagonal.squares": zeros,
        "directions": np.ascontiguousarray(knowledge.V),
        "ev": knowledge.ev,
        "squares": knowledge.squares,
        "counts": zeros if knowledge.counts is None else knowledge.counts,
    }
    if knowledge.gradients is not None and parameters.diagonal:
        state["diagonal.squares"] = knowledge.gradients
    elif knowledge.gradients is not None:
        state["gradients"] = knowledge.gradients[np.newaxis]
    if knowledge.dense is not None:
        state["dense"] = knowledge.dense
        if parameters.alpha == 0:
            values, vectors = np.linalg.eigh(knowledge.dense)
            positive = values > RANGE * max(values[-1], 0.0)
            state["root"] = np.sqrt(values[positive])[:, np.newaxis] * vectors[:, positive].T
    return state


def averaged(states: Sequence[State]) -> State:
    """Return what outputs know about their errors, averaged by their rows: see intervals.hpp."""
    rows = [float(state["rounds"]) for state in states]
    if not sum(rows):
        rows = [1.0] * len(rows)
    average = {
        name: np.average([state[name] for state in states], axis=0, weights=rows)
        for name in OF_ERRORS
        if name in states[0]
    }
    if "intervals.counts" in average:
        average["intervals.counts"] = np.floor(average["intervals.counts"] + 0.5).astype(np.uint32)
    return average


def forgotten(state: State, kept: float) -> State:
    """Return the knowledge of a learner whose rows count ``kept`` times as much."""
    sums = set(COUNTERS) - {"rounds", "nonzeros", "label.positives"}
    sums |= {"counts", "ev", "dense", "tail", "curved.ev", "curved.tail"}
    powers = dict.fromkeys(sums, 1) | {"gradients": 2, "diagonal.squares": 2}
    less = {name: kept**power * state[name] for name, power in powers.items() if name in state}
    return state | less


def with_opposite_labels(state: State) -> State:
    """Return the knowledge of an output of the same rows with opposite labels."""
    halves = (name for name in OF_ERRORS if name.startswith("intervals.") and name in state)
    state = state | {name: np.roll(state[name], len(state[name]) // 2) for name in halves}
    if "curved.weights" in state:
        state = state | {"curved.weights": -state["curved.weights"]}
    return state | {
        "weights": -state["weights"],
        "diagonal": -state["diagonal"],
        "diagonal.later": -state["diagonal.later"],
        "label.low": -state["label.high"],
        "label.high": -state["label.low"],
        "label.mean": -state["label.mean"],
        "next.shift": -state["next.shift"],
        "later.shift": -state["later.shift"],
    }


def without_sketch(state: State) -> State:
    """Return the knowledge of an output with steps per feature only, see Output::drop_sketch."""
    members = len(state["diagonal"])
    shares = state["next.members"][-members:]
    shares = shares / shares.sum()
    slots = state["features"].size
    nothing = {"weights": np.zeros((0, slots)), "directions": np.zeros((0, slots))}
    dropped = state | nothing | {"next.members": shares, "later.members": shares}
    factors = state["next.factors"][-members:] if members > 1 else np.ones(1)
    dropped |= {"next.factors": factors, "later.factors": factors}
    dropped |= {f"later.{name}": state[f"next.{name}"] for name in ("shift", "curvature")}
    dropped["curves"] = np.array(0, dtype=np.int64)
    return {
        name: dropped[name]
        for name in dropped
        if name not in ("ev", "tail", "total", "capacity")
        and not name.startswith(("curved.", "curves."))
    }
