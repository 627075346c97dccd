"""What a learner knows, read from the arrays that it saves, and written back.

The layout is that of cpp/sonline: a block of numbers a feature, ``[weights | Z | scale]``, with the
basis V = F Z and the weights w = w̄ + Vᵀβ (factored sketches) or w̄ + (Z; R)ᵀb (appended ones, whose
blocks are ``[weight | Z | epoch | scale]``, see missed.hpp).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sonline.errors import DivergenceError
from sonline.merging.features import Keys, Places
from sonline.parameters import Parameters

Floats: TypeAlias = NDArray[np.float64]
State: TypeAlias = dict[str, NDArray[Any]]

APPENDED = ("fd", "rfd")
COUNT_LIMIT = float(1 << 24)  # where the core stops to count the rows of a feature
FIRST_SQUARE = 0.1  # D₁ of the paper's diagonal adaptation
SCALE_NUMBERS = {"rms": 2, "gradient": 1, "none": 0}


def capacity(parameters: Parameters) -> int:
    """Return how many directions the sketch holds at most."""
    size = parameters.sketch_size
    if parameters.sketch in APPENDED:
        return max(size - 1, 0)
    return size if parameters.sketch in ("oja", "isotropic") else 0


def has_epoch(parameters: Parameters) -> bool:
    """Return whether the block of a feature says which epoch it is up to date with."""
    return parameters.sketch in APPENDED and capacity(parameters) > 0


@dataclass
class Knowledge:
    """A learner in the coordinates of its own scales, one column a feature.

    ``squares`` are the squared scales (0 for features without one yet) and ``counts`` the rows in
    which each feature was not zero (where scaling counts them, by a sample late in a stream).
    A = αI + Vᵀdiag(ev)V + `dense`, or, for AdaGrad, `gradients` is G.
    """

    keys: Keys
    numbers: dict[str, float]  # counters and means
    share: Floats  # of each expert
    weights: Floats  # a row per expert
    squares: Floats
    counts: Floats | None
    V: Floats
    ev: Floats
    dense: Floats | None = None
    gradients: Floats | None = None

    @property
    def rounds(self) -> float:
        """How many rows have been learnt."""
        return self.numbers["rounds"]

    @property
    def tail(self) -> float:
        """What the discarded directions add to alpha."""
        return self.numbers["sketch.tail"]


# Counters and means as the core saves them; not every sketch has the optional ones.
_SCALARS = (
    "rounds",
    "mean_energy",
    "label_low",
    "label_high",
    "ensemble.mean_loss",
    "ensemble.rounds",
)
_OPTIONAL = ("sketch.rebases", "sketch.tail", "sketch.total")


def rank_of(parameters: Parameters, state: State) -> int:
    """Return how many directions a saved state has."""
    return int(state["sketch.rank"]) if capacity(parameters) > 0 else 0


def read(
    parameters: Parameters,
    state: State,
    keys: Keys,
    places: Places | None = None,
    V: Floats | None = None,
) -> Knowledge:
    """Return what a saved state says, over its own features or over those of several learners.

    Parameters
    ----------
    parameters, state
        Of the learner.
    keys : array
        The features.
    places : array, optional
        Where its own are among them.
    V : array, optional
        Memory for its directions.
    """
    places = np.arange(keys.size) if places is None else places
    V = np.empty((rank_of(parameters, state), keys.size)) if V is None else V
    experts, m = len(parameters.experts), capacity(parameters)
    # Blocks are spread before anything else: a block is a cache line, a column would be one each.
    blocks = np.zeros((keys.size, state["blocks"].shape[1]))
    blocks[places] = state["blocks"]
    if "sketch.rest" in state:  # of the intercept, see factored.hpp
        blocks[0, : len(state["sketch.rest"])] += state["sketch.rest"]
    numbers = {name: float(state[name]) for name in _SCALARS}
    numbers |= {name: float(state[name]) if name in state else 0.0 for name in _OPTIONAL}
    counts: Floats | None = None
    at = {"adagrad": 2, "full": 1}.get(parameters.sketch, experts + m + has_epoch(parameters))
    squares = np.zeros(keys.size)
    if parameters.scaling == "rms":
        squares, counts = blocks[:, at : at + 2].T.copy()
    elif parameters.scaling == "gradient":
        squares[places] = FIRST_SQUARE + blocks[places, at]
    else:
        squares[places] = 1.0
    known = Knowledge(
        keys,
        numbers,
        state["ensemble.share"].astype(np.float64),
        blocks[:, :experts].T,
        squares,
        counts,
        V,
        np.zeros(0),
    )
    if parameters.sketch == "adagrad":
        known.gradients = blocks[:, 1].copy()
    elif parameters.sketch == "full":
        _read_full(known, state, places, pseudo=parameters.alpha == 0)
    elif m > 0:
        rank = len(V)
        known.ev = state["sketch.ev"][:rank].astype(np.float64)
        if parameters.sketch in APPENDED:
            _read_appended(known, state, _at_present(state, blocks, m), places)
        else:
            Z = blocks[:, experts : experts + rank].T
            np.matmul(state["sketch.F"][:rank, :rank], Z, out=V)
            known.weights = state["sketch.beta"][:, :rank] @ V
            known.weights += blocks[:, :experts].T
    return known


def _at_present(state: State, blocks: Floats, m: int) -> Floats:
    """Return the blocks with what they have missed: w̄ + b·z and F z by the map of their epoch."""
    epochs = blocks[:, 1 + m].astype(np.intp)
    columns = state["sketch.missed"][:, : 1 + m]
    maps = columns.reshape(len(columns) // m, m, 1 + m)
    order = np.argsort(epochs, kind="stable")
    cuts = np.searchsorted(epochs[order], np.arange(1, len(maps) + 1))
    # The last part is up to date.
    for those, map_of_epoch in zip(np.split(order, cuts), maps, strict=False):
        missed = blocks[those, 1 : 1 + m] @ map_of_epoch
        blocks[those, 0] += missed[:, 0]
        blocks[those, 1 : 1 + m] = missed[:, 1:]
    return blocks


def _read_appended(known: Knowledge, state: State, blocks: Floats, places: Places) -> None:
    """V = F (Z; R), w = w̄ + (Z; R)ᵀb, with the sparse rows R that wait for the next rebase."""
    import scipy.sparse as sp  # noqa: PLC0415 - slow to import, and only two sketches need it

    in_Z = int(state["sketch.rows_of_Z"])
    Z = blocks[:, 1 : 1 + in_Z].T
    bF = state["sketch.bF"][: 1 + len(known.V)]
    rows, slots = state["sketch.R.places"].reshape(-1, 2).T.astype(np.intp)
    values = state["sketch.R.values"].astype(np.float64)
    shape = (blocks.shape[0], int(state["sketch.R.rows"]))
    pending = sp.coo_array((values, (places[slots], rows)), shape=shape).tocsr()
    both = bF[:, :in_Z] @ Z + (pending @ bF[:, in_Z:].T).T
    known.weights = (blocks[:, 0] + both[0])[np.newaxis]
    known.V[:] = both[1:]


def _read_full(known: Knowledge, state: State, places: Places, pseudo: bool) -> None:
    size, d = known.keys.size, int(state["sketch.d"])
    own = places[:d]
    known.weights = np.zeros((1, size))
    known.weights[0, own] = state["sketch.w"]
    known.dense = np.zeros((size, size))
    if pseudo:
        rank = int(state["sketch.r"])
        half = np.tril(state["sketch.L"][:rank, :rank]).T @ state["sketch.Q"][:rank]
        known.dense[np.ix_(own, own)] = half.T @ half
    else:
        known.dense[np.ix_(own, own)] = state["sketch.C"]


def write(parameters: Parameters, known: Knowledge) -> State:
    """Return the state that a learner restores (without names)."""
    experts, m, slots = len(parameters.experts), capacity(parameters), known.keys.size
    single = parameters.dtype == "float32"
    own: State = {}
    columns = list(known.weights)
    if parameters.sketch == "adagrad":
        assert known.gradients is not None  # noqa: S101 - AdaGrad has them
        columns.append(known.gradients)
    elif parameters.sketch == "full":
        columns = [np.zeros(slots)]
        own = _write_full(known, pseudo=parameters.alpha == 0)
    else:
        unused = m - len(known.V) + has_epoch(parameters)
        columns += [*known.V, *[np.zeros(slots)] * unused]
    if parameters.scaling == "rms":
        assert known.counts is not None  # noqa: S101 - rms counts
        columns += [known.squares, known.counts]
    elif parameters.scaling == "gradient":
        columns.append(np.maximum(known.squares - FIRST_SQUARE, 0.0))
    # As padded_width of columns.hpp: whole vectors of four.
    width = len(columns) if len(columns) <= 2 else -(-len(columns) // 4) * 4
    blocks = np.zeros((slots, width), dtype=np.float32 if single else np.float64)
    with np.errstate(over="ignore"):
        for number, column in enumerate(columns):
            blocks[:, number] = column
    if not np.isfinite(blocks).all():
        raise DivergenceError("the merged weights are too large for the number type")
    if parameters.sketch not in ("adagrad", "full"):
        own = _write_sketch(parameters, known, blocks[:, experts : experts + len(known.V)])
    numbers = known.numbers
    return {
        **{name: np.array(numbers[name]) for name in _SCALARS[1:]},
        "rounds": np.array(int(numbers["rounds"]), dtype=np.int64),
        "ensemble.share": known.share,
        "ensemble.experts": _experts(parameters),
        "features": known.keys,
        "blocks": blocks,
        **own,
    }


def _experts(parameters: Parameters) -> Floats:
    """Return alpha, plain and constant of each expert."""
    numbers = [(alpha, plain, False) for alpha, plain in parameters.experts]
    if parameters.for_core()["constant"]:
        numbers[-1] = (*parameters.experts[-1], True)
    return np.array(numbers, dtype=np.float64).ravel()


def turned_round(parameters: Parameters, state: State) -> State:
    """Return the state of the learner that has met the opposite labels: losses are symmetric."""
    turned = {name: state[name].copy() for name in ("blocks", "label_low", "label_high")}
    turned["blocks"][:, : len(parameters.experts)] *= -1
    turned["label_low"], turned["label_high"] = -state["label_high"], -state["label_low"]
    for name in ("sketch.beta", "sketch.w"):
        if name in state:
            turned[name] = -state[name]
    if "sketch.rest" in state:
        turned["sketch.rest"] = state["sketch.rest"].copy()
        turned["sketch.rest"][: len(parameters.experts)] *= -1
    if "sketch.bF" in state:
        turned["sketch.bF"] = state["sketch.bF"].copy()
        turned["sketch.bF"][0] *= -1
        turned["sketch.missed"] = state["sketch.missed"].copy()
        turned["sketch.missed"][:, 0] *= -1
    return state | turned


def _write_sketch(parameters: Parameters, known: Knowledge, stored: NDArray[Any]) -> State:
    """Return the fields of a sketch; F takes away what rounding the basis costs."""
    m, rank = capacity(parameters), len(known.V)
    Z = stored.astype(np.float64)
    L: Floats = np.asarray(np.linalg.cholesky(Z.T @ Z)) if rank else np.zeros((0, 0))
    F: Floats = np.tril(np.asarray(np.linalg.inv(L))) if rank else L
    ev = np.zeros(m)
    ev[:rank] = known.ev
    own: State = {
        "sketch.rank": _integer(rank),
        "sketch.rebases": _integer(known.numbers["sketch.rebases"]),
    }
    if parameters.sketch in APPENDED:
        dtype = stored.dtype
        return own | {
            "sketch.ev": ev,
            "sketch.tail": np.array(known.tail),
            "sketch.rows_of_Z": _integer(rank),
            "sketch.debt": _integer(0),
            "sketch.debt_of_maps": _integer(0),
            "sketch.late": _integer(0),
            "sketch.epoch": _integer(0),
            "sketch.missed": np.zeros((0, -(-(1 + m) // 4) * 4)),
            "sketch.strain": np.array(0.0),
            "sketch.condition": np.array(1.0),
            "sketch.rest": np.zeros(1),
            "sketch.R.values": np.zeros(0, dtype=dtype),
            "sketch.R.places": np.zeros(0, dtype=np.uint64),
            "sketch.R.rows": _integer(0),
            "sketch.bF": np.vstack([np.zeros(rank), F]),
        }
    own |= {
        "sketch.work": _integer(0),
        "sketch.F": _padded(F, m),
        "sketch.beta": np.zeros((len(parameters.experts), m)),
        "sketch.rest": np.zeros(len(parameters.experts) + m),
    }
    if parameters.sketch == "oja":
        own |= {
            "sketch.ev": ev,
            "sketch.total": np.array(known.numbers["sketch.total"]),
            "sketch.growth": np.array(1.0),
        }
    elif parameters.sketch == "isotropic":
        own |= {
            "sketch.ev": ev,
            "sketch.tail": np.array(known.tail),
            "sketch.F_inverse": _padded(L, m),
        }
    return own


def _write_full(known: Knowledge, pseudo: bool) -> State:
    assert known.dense is not None  # noqa: S101 - the full matrix
    d = known.keys.size
    own: State = {"sketch.d": _integer(d), "sketch.w": known.weights[0]}
    empty = np.zeros((d, d))
    if not pseudo:
        return own | {
            "sketch.r": _integer(0),
            "sketch.factored_alpha": np.array(-1.0),
            "sketch.L": empty,
            "sketch.C": known.dense,
        }
    values, vectors = np.linalg.eigh(known.dense)
    kept = values > RANGE * max(values[-1], 0.0)
    rank = int(kept.sum())
    Q, L = empty.copy(), empty
    Q[:rank] = vectors[:, kept].T
    L[range(rank), range(rank)] = np.sqrt(values[kept])
    return own | {
        "sketch.r": _integer(rank),
        "sketch.factored_alpha": np.array(-1.0),
        "sketch.L": L,
        "sketch.Q": Q,
    }


RANGE = 1e-12  # eigenvalues below, relative to the largest, are rounding (relative length 1e-6)


def _integer(value: float) -> NDArray[np.int64]:
    return np.array(int(value), dtype=np.int64)


def _padded(square: Floats, size: int) -> Floats:
    wide = np.zeros((size, size))
    wide[: len(square), : len(square)] = square
    return wide
