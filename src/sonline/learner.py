"""`OnlineLearner`: a linear model that is trained on a stream, row by row."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sonline.constructors import LearnerConstructor, documented
from sonline.errors import DivergenceError, InvalidInputError
from sonline.evaluate import Progress
from sonline.labels import label_array
from sonline.learner_files import LearnsFiles
from sonline.model import Model, to_merge
from sonline.model.asking import Asking
from sonline.model.face import Face, Feature, Intervals, Sets
from sonline.model.views import LearnerView
from sonline.parameters import Parameters
from sonline.persistence import Tensors
from sonline.rows import (
    LABEL_ADVICE,
    LARGEST,
    LARGEST_WEIGHT,
    UNIT,
    CoreRows,
    Floats,
    Rows,
    one_number,
    row_weights,
    vector,
)

if TYPE_CHECKING:
    from sonline.streams import Batch


@documented
class OnlineLearner(LearnsFiles, LearnerView, Asking, Intervals, Sets, Face, LearnerConstructor):
    """Linear model for streams: classification or regression, row by row, in one pass.

    Features need no scaling, and there is no learning rate to tune. A row takes time in proportion
    to its non-zero features, however many features there are in all. `learn` predicts each row
    before it trains on it, and returns these predictions: an honest estimate of the error without a
    test set (progressive validation).

    Parameters
    ----------
    {parameters}

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

    def _start(self, arguments: dict[str, Any]) -> None:
        dtype = arguments["dtype"]
        arguments["dtype"] = dtype if isinstance(dtype, str) else str(np.dtype(dtype))
        self._take(Model.for_labels(Parameters(**arguments)))

    def _take(self, model: Model) -> None:
        """Use a model from now on."""
        self._model = model
        self._core = model.core
        # Numbers and -1 or +1 go straight to the core: `learn_one` is called for every row.
        self._plain = model.table is None or model.table.signs
        self._learns = self._plain and not model.only_predicts
        self._binary = model.table is not None
        self._log_link = model.parameters.log_link
        self._positive = model.parameters.least_label == "above 0"
        self._negative: Any = None  # 0 or -1: the label that is not 1, once it is known
        if model.table is not None and model.table.signs and not model.table.undecided:
            self._negative = model.table.labels[0]

    @property
    def params(self) -> dict[str, Any]:
        """The parameters, by name."""
        return self._model.parameters.as_dict()

    @property
    def classes(self) -> list[Any] | None:
        """The labels, sorted, in the order of `predict_proba`; None if numbers are predicted."""
        table = self._model.table
        return None if table is None else table.sorted_labels()

    @property
    def progress(self) -> Progress:
        """Progressive loss and mistakes of `learn_stream`."""
        return self._model.progress

    # -- learning --------------------------------------------------------------------------------

    def learn(
        self,
        X: Rows | Batch,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Floats:
        """Train on rows, one after another, and return the predictions made before each of them.

        Parameters
        ----------
        X : array, sparse matrix, data frame, sequence of mappings, or Batch; n rows
            Zeros count as absent. New features may appear at any time. Columns of data frames
            (pandas, polars, Arrow) are features by name, in any order; a text in a column is the
            feature ``column=text``. Integer names of columns are indices, as keys of mappings are.
        y : array of n numbers
            Labels: -1 and +1 (or 0 and 1) for the losses of classification; the labels of its
            classes for a learner that was loaded from a classifier. A `Batch` has its own.
        sample_weight : array of n numbers, optional
            How much each row counts. The model predicts a row of weight 0, but does not train on
            it.
        offset : array of n numbers, optional
            For numbers: what is added to the raw prediction of each row. With the losses "poisson",
            "gamma" and "tweedie", whose raw prediction is a logarithm, it is the logarithm of the
            exposure: how long, or how large, what was counted is.

        Returns
        -------
        predictions : array of n floats
            The prediction for each row, made before the model was trained on it. For classes it is
            the raw prediction: of two, that of the second of `classes`; of more there is a column
            for each.

        Raises
        ------
        InvalidInputError
            If anything in the batch cannot be used; the model is then unchanged.
        DivergenceError
            If the weights overflow; the message names the row. The rows before it are learned. Its
            ``rows_done`` is where training can go on, ``predictions`` are those of learned rows.
        KeyboardInterrupt
            After Ctrl-C. Its ``rows_done`` is the number of rows learned so far, ``predictions``
            are theirs.
        """
        model = self._model
        if y is None:
            if not hasattr(X, "indptr") or not hasattr(X, "new_names"):
                raise InvalidInputError("y is missing: only a Batch of a stream has labels")
            if offset is not None:
                raise InvalidInputError("offset: a Batch of a stream has its own")
            return self._shaped(self._learn_batch(X, sample_weight))
        try:
            labels: Any = vector("y", y) if self._plain else label_array(y)
            weights = row_weights(sample_weight, len(labels))
            learned = model.learn(X, labels, weights, offset=offset)
        except (DivergenceError, KeyboardInterrupt) as error:
            if not hasattr(error, "learned"):  # it came before the first row
                vars(error).update(rows_done=0, predictions=np.empty(0))
            elif self._log_link:
                vars(error)["predictions"] = model.means(error.learned.raw[0])
            raise
        finally:
            self._settle()
        return self._shaped(learned.raw)

    def _learn_batch(self, batch: Any, sample_weight: ArrayLike | None) -> Floats:
        from sonline.training import fitting  # noqa: PLC0415 - streams are not always wanted

        weights = batch.weights
        if sample_weight is not None:
            weights = row_weights(sample_weight, len(batch))
        model = self._model
        if batch.codes is not None and not model.stats()["rounds"]:
            model = fitting(model, batch.label_values())
        try:
            learned = model.learn_batch(batch, weights)
        except (DivergenceError, KeyboardInterrupt):  # the rows before it are learned
            self._take(model)
            raise
        self._take(model)
        return learned.raw

    def _settle(self) -> None:
        """Store which of 0 and -1 is the other label, once it is known."""
        table = self._model.table
        if self._negative is None and table is not None and table.signs and not table.undecided:
            self._negative = table.labels[0]

    def _shaped(self, raw: Floats) -> Floats:
        if self._log_link:
            return self._model.means(raw[0])
        raw = self._model.in_order(raw)
        return raw[0] if raw.shape[0] == 1 else raw.T

    def learn_one(
        self,
        x: Mapping[Feature, float | str],
        y: Any,
        w: float = UNIT,
        offset: float | None = None,
    ) -> Any:
        """Train on one row given as a mapping, and return the prediction made before.

        Parameters
        ----------
        x : mapping
            From feature (string or integer) to number. A string value makes the feature
            ``"key=value"`` with the number 1.
        y : float
            The label.
        w : float, default=1
            How much the row counts.
        offset : float, optional
            What is added to the raw prediction; see `learn`.
        """
        if not self._learns or offset is not None:
            return self._learn_one_checked(x, y, w, offset)
        if type(y) is not float and type(y) is not int:
            y = one_number("y", y, LABEL_ADVICE)
        if self._binary:
            if y != 1:
                if y != self._negative:
                    self._model.targets([y])
                    return self._learn_one_checked(x, y, w)
                y = 0.0
        elif not -LARGEST <= y <= LARGEST or (self._log_link and y <= 0):
            self._model.targets([y])
        if w is not UNIT:
            if type(w) is not float and type(w) is not int:
                w = one_number("w", w, "it is the importance of the row")
            if not 0 <= w <= LARGEST_WEIGHT:
                row_weights([w], 1)
        raw = self._core.learn_one(x, y, w)
        return self._model.mean_one(raw) if self._log_link else raw

    def _learn_one_checked(
        self, x: Mapping[Feature, float | str], y: Any, w: float, offset: Any = None
    ) -> Any:
        weights = row_weights(w, 1, "w")
        targets, table = self._model.targets([y])
        offsets = self._model.offsets(offset, 1)
        rows = CoreRows("rows", ([x],), 1)
        learned = self._model.learn_targets(rows, targets, table, weights, offsets=offsets)
        self._settle()
        return self._shaped_one(learned.raw)

    def _shaped_one(self, raw: Floats) -> Any:
        if self._log_link:
            return self._model.mean_one(float(raw[0, 0]))
        ordered = self._model.in_order(raw)[:, 0]
        return float(ordered[0]) if ordered.size == 1 else ordered

    # -- predicting ------------------------------------------------------------------------------

    def predict(
        self,
        X: Rows | Batch,
        offset: ArrayLike | None = None,
        *,
        return_std: bool = False,
        interval: float | None = None,
    ) -> Any:
        """Return the prediction for each row; changes nothing.

        It is the raw prediction ``w.x``. With the losses "poisson", "gamma" and "tweedie" it is the
        predicted number, whose logarithm is the raw prediction.

        Parameters
        ----------
        X : array, sparse matrix, data frame, sequence of mappings, or Batch
            Features that the model has never seen are ignored.
        offset : array of n numbers, optional
            What is added to the raw prediction of each row; see `learn`.
        return_std : bool, default=False
            Whether to return the standard deviation of each prediction, too: of a number that of
            the label about the prediction, of classes that of the raw prediction.
        interval : float, optional
            Between 0 and 1: return an interval for each number that holds the label so often, too.

        Returns
        -------
        predictions : array of n floats
        std : array of n floats
            If ``return_std``.
        intervals : array of shape (n, 2)
            With ``interval``: the lower and the upper end. If each row is predicted and then
            learned, the part of the labels inside is as wanted on any stream, up to
            ``10 / (1 - interval)`` rows that are outside or inside too often (for intervals of 0.5,
            0.8, 0.9, 0.95 and 0.99; those in between are interpolated).
        """
        if not return_std and interval is None:
            return self._shaped(self._model.predict(X, offset=offset))
        raw, *others = self._model.predicted(X, return_std, interval, offset)
        if return_std:
            others[0] = np.abs(self._shaped(others[0]))
        return self._shaped(raw), *others

    def predict_one(self, x: Mapping[Feature, float | str], offset: float | None = None) -> Any:
        """Return the prediction for one row given as a mapping, as `predict`; changes nothing."""
        if self._plain and not self._log_link and offset is None:
            return self._core.predict_number(x)
        raw = np.array(self._model.predict_one(x))[:, np.newaxis]
        if offset is not None:
            raw = raw + self._model.offsets(offset, 1)
        return self._shaped_one(raw)

    def predict_proba(self, X: Rows | Batch) -> Floats:
        """Return the probability of each class, a column for each of `classes`.

        Needs ``loss="logistic"``. With more than two classes, it is proportional to
        ``p / sqrt(1 - p)``, p the probability of "this class or not".

        Parameters
        ----------
        X : array, sparse matrix, data frame, sequence of mappings, or Batch
            The rows.
        """
        self._model.check_probabilistic()
        with self._core.hold():  # no other thread may add a class
            raw = self._model.in_order(self._model.predict(X))
            return self._model.probabilities(raw).T

    def predict_proba_one(self, x: Mapping[Feature, float | str]) -> dict[Any, float]:
        """Return the probability of each label for one row given as a mapping."""
        return self._model.probabilities_one(x)

    def compact(self) -> Self:
        """Return a learner that only predicts and needs less memory.

        It is several times smaller; predictions are the same up to rounding.

        Examples
        --------
        >>> import numpy as np
        >>> from sonline import OnlineLearner
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(2000, 50))
        >>> learner = OnlineLearner()
        >>> before = learner.learn(X, np.sign(X[:, 0]))
        >>> small = learner.compact()
        >>> bool(np.allclose(small.predict(X), learner.predict(X), atol=1e-4))
        True
        """
        return type(self).from_model(self._model.compact())

    # -- merging ---------------------------------------------------------------------------------

    def merge(self, others: Iterable[Self], start: Self | None = None) -> Self:
        """Return one learner that combines this one and the others.

        For learners that were trained on different rows, with the same parameters and from the same
        start. Weights are averaged by their precision, or by the number of rows if the sketch is
        not a precision (docs/distributed.md); sketches are added and cut to size; named features
        are matched by name. The result is exact for ``sketch="full"`` with the squared loss,
        Hessian curvature and no scaling. This learner does not change; the result can be trained
        further, saved or merged again.

        Parameters
        ----------
        others : iterable of OnlineLearner
            Merged with this one in groups of four, then the results in groups of four, and so on.
            The same learners in the same order give the same bits.
        start : OnlineLearner, optional
            The learner that all of them started from, if they did not start empty. It is counted
            once.

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
        merged = type(self).__new__(type(self))
        models = [other._model for other in to_merge(others, start)]
        merged._take(self._model.merge(models, None if start is None else start._model))
        return merged

    # -- inspection ------------------------------------------------------------------------------

    @property
    def bias(self) -> Any:
        """The weight of the constant feature, 0 without one; an array with several outputs."""
        bias = self._model.in_order(self._model.weights())[:, 0]
        return float(bias[0]) if bias.size == 1 else bias

    def spectrum(self) -> Floats:
        """Return the eigenvalues of the sketch, largest first.

        It is empty for ``sketch="none"`` and ``"adagrad"``, which have no directions, and for
        ``"full"``, which keeps a Cholesky factor of the whole matrix and no eigenvalues.
        """
        return self.spectra()[0]

    def shares(self, later: bool = True) -> Floats:
        """Return the share of each member of the mixture (``alpha="auto"``) in a prediction.

        Those over the sketch come first, in the order of their alphas, then those with a step per
        feature. With several classes, they are those of the first one.

        Parameters
        ----------
        later : bool, default=True
            True: in what `predict` returns, for later rows. False: in what `learn` returns, for the
            next row.
        """
        return self._core.shares(0, later)

    def basis(self) -> Floats:
        """Return the directions of the sketch as orthonormal rows, in the order of `spectrum`.

        The first column is the intercept (absent without one), the others are those of `features`,
        all in scaled coordinates.
        """
        rows = self._core.basis()
        return rows if self._model.parameters.intercept else rows[:, 1:]

    # -- files -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the complete state to a file; a loaded learner continues training exactly."""
        self._model.save(path, {"name": "OnlineLearner"})

    @classmethod
    def from_model(cls, model: Model) -> Self:
        """Return a learner that uses a `Model`."""
        learner = cls.__new__(cls)
        model.face = {}
        learner._take(model)
        return learner

    def __getstate__(self) -> tuple[dict[str, Any], Tensors]:
        return self._model.__getstate__()

    def __setstate__(self, state: tuple[dict[str, Any], Tensors]) -> None:
        model = Model.__new__(Model)
        model.__setstate__(state)
        self._take(model)
