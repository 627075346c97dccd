"""`OnlineLearner`: a linear model that learns from a stream by Sketched Online Newton."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from sonline import _core, persistence
from sonline.errors import InvalidInputError, ModelFileError
from sonline.inputs import (
    LARGEST,
    Floats,
    Rows,
    check_finite,
    check_same_length,
    csr_arrays,
    dense_array,
    is_mappings,
    is_sparse,
    one_number,
    row_weights,
    vector,
)
from sonline.merging import check_same_parameters, merge_learners
from sonline.parameters import Parameters

Feature: TypeAlias = str | int
KIND = "learner"


class OnlineLearner:
    """Learn a linear model from rows as they come, in time that depends on their non-zeros only.

    Every row is predicted first and learnt then, so the predictions that `learn` returns are an
    honest estimate of the error (progressive validation).

    Parameters
    ----------
    loss : str, default="logistic"
        "squared" (half the squared error), "logistic", "hinge", "squared_hinge", "quantile".
    sketch : str, default="isotropic"
        How the second-order matrix A is kept: "isotropic" (top directions, the rest spread
        evenly), "oja" and "fd" (the paper's two), "rfd" (robust FD), "full" (all of A, small
        dimensions only), "adagrad" (its diagonal, the baseline) or "none" (gradient descent).
    sketch_size : int, default=10
        m, the number of directions.
    alpha : float or str, default="auto"
        The regulariser, 1 / step size. "relative:c" is c times the running mean of the squared
        norm of the (scaled) rows, which makes it free of units; for "adagrad", of its root.
        "auto" runs several at once over one sketch, with and without a step that decays, and
        blends them by how well they have predicted lately. 0 is for sketch="full" only, where
        the pseudo-inverse makes the learner invariant.
    bound : float, optional
        C: before each prediction the weights are projected onto ``|w.x| <= C``.
    clip : bool, default=False
        Clip predictions to the range of the labels seen, and take the gradient there.
    step : {"implicit", "explicit"}, default="implicit"
        How the weights move. "implicit" takes the gradient where the step ends: it cannot
        overshoot, whatever alpha is. "explicit" is the paper's step, which can diverge when
        alpha is small; it needs a number for alpha.
    curvature : {"auto", "gradient", "hessian"}, default="auto"
        What is sketched: ``sqrt(sigma + eta) l' x`` as in the paper, or ``sqrt(l'') x``. "auto" is
        the second where the loss has one.
    sigma : float, optional
        Curvature of Assumption 2; None takes what the loss guarantees for ``bound`` (for C = 1
        without a bound).
    eta : float or "convex", optional
        Added curvature; "convex" is the paper's schedule for losses that have none. None is 0 if
        the loss has curvature and "convex" otherwise.
    oja_step : float or "scale-free", default="scale-free"
        c of Oja's step c/t, or the step m / sum of the squared norms, which needs no units.
    sketch_every : int or "auto", default="auto"
        The sketch takes in one row, drawn at random, of so many, and counts it as often; all rows
        are learnt. RMS scales are learnt from the same sample, and from whatever is far beyond
        them. "auto" is 1 where alpha is given; with alpha="auto" it is 1 for the first 1,024 rows,
        then 2, 4, 8, 16 and, from 16,384 rows on, 32 (docs/defaults.md has the cost).
    scaling : {"rms", "none", "gradient"}, default="rms"
        Divide each feature by its running root mean square over the rows where it is not zero, by
        nothing, or by the root of its summed squared gradients (the paper's diagonal adaptation).
    intercept : bool, default=True
        Whether a constant feature is added.
    hash_bits : int, optional
        Hash features into 2^hash_bits. None keeps them exact.
    dtype : {"float32", "float64"}, default="float32"
        Type of the per-feature numbers. Small matrices are always double.
    seed : int, default=0
        Chooses the hash function of ``hash_bits``. Nothing else is random.
    quantile : float, default=0.5
        Level of the quantile loss.

    Examples
    --------
    >>> import numpy as np
    >>> from sonline import OnlineLearner
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> y = np.where(X @ [1, -2, 0, 0, 3] > 0, 1, -1)
    >>> learner = OnlineLearner()
    >>> before = learner.learn(X, y)  # predictions made before each update
    >>> bool(np.mean(np.sign(before) != y) < 0.05)
    True
    >>> OnlineLearner().learn_one({"height": 1.5, "colour": "red"}, 1)
    0.0
    """

    def __init__(  # noqa: PLR0917 - the algorithm has as many parameters
        self,
        loss: str = Parameters.loss,
        sketch: str = Parameters.sketch,
        sketch_size: int = Parameters.sketch_size,
        alpha: float | str = Parameters.alpha,
        bound: float | None = Parameters.bound,
        clip: bool = Parameters.clip,
        step: str = Parameters.step,
        curvature: str = Parameters.curvature,
        sigma: float | None = Parameters.sigma,
        eta: float | str | None = Parameters.eta,
        oja_step: float | str = Parameters.oja_step,
        sketch_every: int | str = Parameters.sketch_every,
        scaling: str = Parameters.scaling,
        intercept: bool = Parameters.intercept,
        hash_bits: int | None = Parameters.hash_bits,
        dtype: str = Parameters.dtype,
        seed: int = Parameters.seed,
        quantile: float = Parameters.quantile,
    ) -> None:
        self._start(
            Parameters(
                loss=loss,
                sketch=sketch,
                sketch_size=sketch_size,
                alpha=alpha,
                bound=bound,
                clip=clip,
                step=step,
                curvature=curvature,
                sigma=sigma,
                eta=eta,
                oja_step=oja_step,
                sketch_every=sketch_every,
                scaling=scaling,
                intercept=intercept,
                hash_bits=hash_bits,
                dtype=str(np.dtype(dtype)) if not isinstance(dtype, str) else dtype,
                seed=seed,
                quantile=quantile,
            )
        )

    def _start(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._binary = parameters.binary
        self._negative: float | None = None  # which of 0 and -1 the other label is
        self._model = _core.Model(parameters.for_core(), parameters.dtype == "float32")

    @property
    def params(self) -> dict[str, Any]:
        """The parameters, by name."""
        return self._parameters.as_dict()

    def learn(self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Floats:
        """Learn from rows, one after another.

        Parameters
        ----------
        X : array, sparse matrix or sequence of mappings, n rows
            Zeros count as absent. Features may appear at any time.
        y : array of n numbers
            Labels: -1 and +1 (or 0 and 1) for the losses of classification.
        sample_weight : array of n numbers, optional
            Importance of each row. A row of weight 0 is only predicted.

        Returns
        -------
        predictions : array of n floats
            The raw prediction for each row, made before it was learnt.

        Raises
        ------
        InvalidInputError
            If anything in the batch cannot be used; nothing has been learnt then.
        DivergenceError
            If the numbers leave the finite range, with the row. The rows before have been learnt.
        KeyboardInterrupt
            By Ctrl-C, within a moment. ``rows_done`` of it says how many rows have been learnt,
            ``predictions`` has those of these rows.
        """
        labels, negative = self._labels(y)
        weights = None if sample_weight is None else row_weights(sample_weight, labels.size)
        out = np.empty(labels.size)
        try:
            if is_mappings(X):
                check_same_length(len(X), labels.size)
                self._model.learn_rows(X, labels, weights, out)
            elif is_sparse(X):
                values, indices, indptr = csr_arrays(X)
                check_same_length(indptr.size - 1, labels.size)
                self._model.learn_csr(values, indices, indptr, labels, weights, out)
            else:
                dense = dense_array(X)
                check_same_length(dense.shape[0], labels.size)
                self._model.learn_dense(dense, labels, weights, out)
        except BaseException as error:
            if hasattr(error, "rows_done"):  # an interrupt: what has been done is not lost
                vars(error)["predictions"] = out[: error.rows_done]
                self._negative = negative
            raise
        self._negative = negative
        return out

    def predict(self, X: Rows) -> Floats:
        """Return the raw prediction ``w.x`` for each row; changes nothing.

        Parameters
        ----------
        X : array, sparse matrix or sequence of mappings
            Features never seen count as absent.
        """
        if is_mappings(X):
            out = np.empty(len(X))
            self._model.predict_rows(X, out)
        elif is_sparse(X):
            values, indices, indptr = csr_arrays(X)
            out = np.empty(indptr.size - 1)
            self._model.predict_csr(values, indices, indptr, out)
        else:
            dense = dense_array(X)
            out = np.empty(dense.shape[0])
            self._model.predict_dense(dense, out)
        return out

    def learn_one(self, x: Mapping[Feature, float | str], y: float, w: float = 1.0) -> float:
        """Learn from one row given as a mapping; the prediction made before.

        Parameters
        ----------
        x : mapping
            From feature (string or integer) to number. A string value makes the feature
            ``"key=value"`` with the number 1.
        y : float
            The label.
        w : float, default=1
            Importance of the row.
        """
        if type(y) is not float and type(y) is not int:
            y = one_number("y", y, "labels of text and other classes are for SONClassifier")
        if type(w) is not float and type(w) is not int:
            w = one_number("w", w, "it is the importance of the row")
        negative = self._negative
        if self._binary and y != 1:
            if y != negative:
                negative = self._labels([y])[1]
            y = -1.0
        elif not -LARGEST <= y <= LARGEST:
            self._labels([y])
        if not 0 <= w <= LARGEST:
            row_weights([w], 1)
        prediction = self._model.learn_one(x, y, w)
        self._negative = negative
        return prediction

    def predict_one(self, x: Mapping[Feature, float | str]) -> float:
        """Return the raw prediction for one row given as a mapping; changes nothing."""
        return self._model.predict_one(x)

    def merge(self, others: Iterable[Self], start: Self | None = None) -> Self:
        """Return one learner that knows what this one and the others have learnt.

        For learners that were trained on different rows, each with the same parameters and from
        the same start. Weights are averaged by their precision, or by what was seen where the
        sketch is no precision (docs/distributed.md); sketches are added and cut to size; features
        with names are matched by name. It is exact for
        ``sketch="full"`` with squared loss and Hessian curvature, unscaled. Nothing here is
        changed; the result can go on learning, be saved, or be merged again.

        Parameters
        ----------
        others : iterable of OnlineLearner
            Merged with this one in groups of four, and the results likewise: always in the same
            shape, so that the same learners in the same order give the same bits.
        start : OnlineLearner, optional
            What all of them began with, if they did not begin empty: it is counted once.

        Raises
        ------
        ParameterError
            If the parameters are not the same.

        Examples
        --------
        >>> import numpy as np
        >>> from sonline import OnlineLearner
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(4000, 20))
        >>> y = np.sign(X @ rng.normal(size=20))
        >>> shards = [OnlineLearner() for _ in range(4)]
        >>> for number, learner in enumerate(shards):
        ...     before = learner.learn(X[number::4], y[number::4])
        >>> merged = shards[0].merge(shards[1:])
        >>> merged.stats()["rounds"]
        4000
        """
        every = [self, *others]
        common = [] if start is None else [start]
        check_same_parameters(self._parameters, [one._parameters for one in every[1:] + common])
        negatives = {one._negative for one in every + common} - {None}
        if len(negatives) > 1:
            raise InvalidInputError(
                "some of the learners to be merged had the labels 0 and 1, others -1 and 1; use "
                "the same labels for all shards"
            )
        if len(every) == 1:
            return copy.deepcopy(self)
        origin = None if start is None else [start._model.knowledge()]
        known = [[one._model.knowledge()] for one in every]
        (state,) = merge_learners(self._parameters, known, origin)
        merged = type(self)(**self.params)
        merged._negative = next(iter(negatives), None)
        merged._model.adopt(state)
        return merged

    def features(self) -> list[Feature]:
        """Return the features seen, in the order of their appearance."""
        return self._model.features()

    def weights(self) -> dict[Feature, float]:
        """Return the weight of each feature seen, for features as they come (scale taken out)."""
        weights = self._model.weights()[1:].tolist()
        # Another thread may have added features since.
        return dict(zip(self.features(), weights, strict=False))

    @property
    def bias(self) -> float:
        """The weight of the constant feature; 0 without one."""
        return float(self._model.weights()[0])

    def spectrum(self) -> Floats:
        """Return the eigenvalues that the sketch holds, largest first."""
        return np.sort(self._model.spectrum())[::-1]

    def basis(self) -> Floats:
        """Return the directions of the sketch as orthonormal rows, in the order of `spectrum`.

        The first column is the intercept (absent without one), the others are those of `features`,
        all in scaled coordinates.
        """
        rows = self._model.basis()
        return rows if self._parameters.intercept else rows[:, 1:]

    def stats(self) -> dict[str, Any]:
        """Return counters: rounds, features, bytes, the alpha in force, and the sketch's upkeep.

        The sketch is kept exact by ``folds`` and ``generations``, which touch no feature when they
        happen; ``caught_up`` counts the features that caught up with them when a row had them
        next. ``sweeps`` over all features restore orthonormality from time to time.
        """
        return self._model.stats()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file; `load` goes on bit for bit as if it had never stopped."""
        document, tensors = self.__getstate__()
        persistence.write(path, KIND, document, tensors)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a learner that `save` wrote.

        Raises
        ------
        ModelFileError
            If the file is damaged or not one of ours.
        """
        state = persistence.read(path, KIND)
        learner = cls.__new__(cls)
        with persistence.reading(path):
            learner.__setstate__(state)
        return learner

    def __getstate__(self) -> tuple[dict[str, Any], persistence.Tensors]:
        document = {"parameters": self.params, "negative_label": self._negative}
        return document, self._model.save()

    def __setstate__(self, state: tuple[dict[str, Any], persistence.Tensors]) -> None:
        document, tensors = state
        self._start(Parameters(**document["parameters"]))
        self._negative = document["negative_label"]
        if self._negative not in (None, 0, -1):
            raise ModelFileError(f"negative_label must be 0, -1 or None, got {self._negative!r}")
        self._model.restore(tensors)

    def __repr__(self) -> str:
        default = Parameters().as_dict()
        changed = [f"{k}={v!r}" for k, v in self.params.items() if v != default[k]]
        return f"OnlineLearner({', '.join(changed)})"

    def _labels(self, y: ArrayLike) -> tuple[Floats, float | None]:
        """Return the labels as the core wants them, and the number for the negative one."""
        labels = vector("y", y)
        if not self._binary:
            check_finite("y", labels)
            return labels, None
        positive = labels == 1
        others = np.unique(labels[~positive])
        allowed = [0.0, -1.0] if self._negative is None else [self._negative]
        bad = ~positive & ~np.isin(labels, allowed)
        if others.size > 1 and not bad.any():
            bad = labels == others[0]  # both -1 and 0
        if bad.any():
            row = int(np.argmax(bad))
            raise InvalidInputError(
                f"y: label {labels[row]:g} in row {row}; loss={self._parameters.loss!r} takes "
                "+1 and -1 (or 1 and 0, but not all three)"
            )
        negative = float(others[0]) if others.size else self._negative
        return np.where(positive, 1.0, -1.0), negative


def begin_label_range(learner: OnlineLearner, low: float, high: float) -> None:
    """Let the range of labels that ``clip`` keeps to begin with these two, as in Vowpal Wabbit."""
    document, tensors = learner.__getstate__()
    for name, label in (("label_low", low), ("label_high", high)):
        tensors[name] = np.full_like(tensors[name], label)
    learner.__setstate__((document, tensors))
