"""`Face`: what the classes that users call have in common."""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sonline import persistence
from sonline.model.curves import Curve
from sonline.model.features import check_features
from sonline.model.model import Model
from sonline.model.pairs import Pair
from sonline.rows import Floats, is_frame
from sonline.rows.columns import each_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Feature: TypeAlias = str | int


class Face:
    """A class with a `Model` behind it: opens files, and looks inside."""

    _model: Model
    _later: ClassVar[bool] = True  # whether predictions are for later rows, or for the next one

    @property
    def model(self) -> Model:
        """The `Model` behind it, which all estimators of sonline use."""
        return self._model

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that any class of sonline, or the command line, saved.

        Raises
        ------
        ModelFileError
            If the file is damaged, was not written by sonline, or predicts numbers instead of
            classes, or classes instead of numbers.
        """
        with persistence.reading(path):
            return cls.from_model(Model.load(path))

    @classmethod
    @abstractmethod
    def from_model(cls, model: Model) -> Self:
        """Make one that uses a `Model`."""

    def compact(self) -> Self:
        """Return a copy that only predicts and needs less memory."""
        small = copy.copy(self)
        small._model = self.model.compact()  # noqa: SLF001 - of the same class
        return small

    def features(self) -> list[Feature]:
        """Return the features seen, in the order of their appearance: names, or indices."""
        return self.model.features()

    def weights(self, label: Any = None, *, scaled: bool = False) -> dict[Feature, float]:
        """Return the weight of each feature seen.

        In a model with curves (parameter ``curves``) they are the linear part: `curve` returns all
        that a column adds. Predictions are linear in other features once they have occurred 16
        times. Until then the scale includes the row that is predicted (`scaling` "auto" and "rms").

        Parameters
        ----------
        label : optional
            The class. Not needed for numbers, nor for two classes, where it is the second in sorted
            order.
        scaled : bool, default=False
            False: weights of the raw features. True: weights of the features divided by their root
            mean square, which you can compare even if features have different units.
        """
        return self.model.weights_of(label, scaled)

    def curve(self, feature: Feature, label: Any = None) -> Curve:
        """Return what a column adds to a prediction, as a function of its value.

        Parameters
        ----------
        feature : str or int
            The name of the column, or its index.
        label : optional
            The class that is predicted; needed if there are more than two.

        Returns
        -------
        Curve
            Its knots (``values``), what the column adds there to the raw prediction
            (``contributions``, less their mean) and the number of ``rows`` in each piece.

        Examples
        --------
        >>> import numpy as np
        >>> from sonline import OnlineLearner
        >>> x = np.random.default_rng(0).normal(size=(2000, 1))
        >>> learner = OnlineLearner(loss="squared")
        >>> predictions = learner.learn(x, x[:, 0] ** 2)
        >>> low, zero, high = learner.curve(0).at([-1.5, 0.0, 1.5])
        >>> bool(zero < low and zero < high)
        True
        """
        return self.model.curve(feature, label)

    def all_curves(self, label: Any = None) -> list[Curve]:
        """Return the curves of all columns that have one, the most important first.

        Parameters
        ----------
        label : optional
            The class that is predicted; needed if there are more than two.
        """
        return self.model.curves(label)

    def all_pairs(self, label: Any = None) -> list[Pair]:
        """Return the pairs of columns (``curves="pairs"``), the most important first.

        Parameters
        ----------
        label : optional
            The class that is predicted; needed if there are more than two.

        Examples
        --------
        >>> import numpy as np
        >>> from sonline import OnlineLearner
        >>> X = np.random.default_rng(0).normal(size=(2000, 3))
        >>> learner = OnlineLearner(loss="squared", curves="pairs")
        >>> predictions = learner.learn(X, X[:, 0] * X[:, 2])
        >>> learner.all_pairs()[0].features
        (0, 2)
        """
        return self.model.pairs(label)

    def plot_curves(self, label: Any = None, *, count: int = 12) -> Figure:
        """Draw the curves of the most important columns, each over the density of its rows.

        Needs matplotlib (``pip install "sonline[plot]"``); see `sonline.plots.curves`.

        Parameters
        ----------
        label : optional
            The class. Without it, curves of all classes are drawn if there are up to ten.
        count : int, default=12
            How many columns.
        """
        from sonline import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.curves(self, label, count=count)

    def explain_one(self, x: Mapping[Any, Any], label: Any = None) -> dict[Feature, float]:
        """Return what each feature of a row adds to its raw prediction, largest first.

        The intercept is the part ``"(intercept)"``. The sum of all parts is the prediction, as long
        as ``bound`` and ``clip`` do not cut it. A value far beyond the usual size of its feature
        counts as large as its limit, as in the prediction (see ``scaling``).

        Parameters
        ----------
        x : mapping
            From feature to number or text.
        label : optional
            The class, as in `weights`.

        Examples
        --------
        >>> from sonline import OnlineLearner
        >>> learner = OnlineLearner(loss="squared")
        >>> for _ in range(20):
        ...     before = learner.learn_one({"rooms": 3, "city": "Oslo"}, 5.0)
        >>> parts = learner.explain_one({"rooms": 3, "city": "Oslo", "new": 1})
        >>> sorted(parts)
        ['(intercept)', 'city=Oslo', 'rooms']
        >>> abs(sum(parts.values()) - learner.predict_one({"rooms": 3, "city": "Oslo"})) < 1e-5
        True
        """
        return self.model.explain(x, label)

    def explain_many(self, X: Any, label: Any = None) -> list[dict[Feature, float]]:
        """Return what `explain_one` returns for each of several rows.

        Parameters
        ----------
        X : data frame, array, sparse matrix, or sequence of mappings
            The rows.
        label : optional
            The class, as in `weights`.

        Examples
        --------
        >>> from sonline import OnlineLearner
        >>> learner = OnlineLearner(loss="squared")
        >>> for _ in range(20):
        ...     before = learner.learn_one({"rooms": 3}, 5.0)
        >>> [sorted(parts) for parts in learner.explain_many([{"rooms": 3}, {"rooms": 4}])]
        [['(intercept)', 'rooms'], ['(intercept)', 'rooms']]
        """
        # Estimators that know names of columns take arrays by position.
        if is_frame(X) or not hasattr(self, "feature_names_in_"):
            check_features(self.model, X, add=False)
        explain = self.model.explainer(label)
        return [explain(self._mapping(row)) for row in each_row(X)]

    def _rows(self, X: Any) -> Any:
        """Return rows as the model takes them."""
        return X

    def _mapping(self, row: Any) -> Any:
        """Return one row as a mapping; a row of an array or of a sparse matrix by index."""
        if hasattr(row, "tocsr"):
            return dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        return dict(enumerate(row)) if isinstance(row, (list, tuple, np.ndarray)) else row

    def spectra(self) -> list[Floats]:
        """Return the eigenvalues of the sketch of each output, largest first."""
        return self.model.spectra()

    def stats(self) -> dict[str, Any]:
        """Return counters: rows learned (``rounds``), features, bytes, current alpha, and upkeep.

        The sketch is kept exact by ``folds`` and ``generations``, which touch no feature when they
        happen; ``caught_up`` counts the features that caught up with them when a row had them
        next. ``sweeps`` over all features restore orthonormality from time to time.
        """
        return self.model.stats()


class Intervals(Face):
    """How far off the prediction for one row may be; of faces that predict numbers."""

    def std_one(self, x: Mapping[Any, Any]) -> Any:
        """Return the standard deviation of the prediction for one row.

        Of a number it is that of the label about the prediction, in the unit of the label; it is
        infinite before the second label. Of classes it is that of the raw prediction.

        Parameters
        ----------
        x : mapping
            From feature to number or text.

        Examples
        --------
        >>> from sonline import OnlineLearner
        >>> learner = OnlineLearner(loss="squared")
        >>> for number in range(100):
        ...     before = learner.learn_one({"rooms": number % 7}, number % 7 + number % 2)
        >>> 0.3 < learner.std_one({"rooms": 3}) < 0.7
        True
        """
        sizes = self._model.sized_one(x, self._later)[1][:, np.newaxis]
        of_classes = np.abs(self._model.in_order(sizes))[:, 0]
        return float(of_classes[0]) if of_classes.size == 1 else of_classes

    def interval_one(self, x: Mapping[Any, Any], interval: float = 0.9) -> tuple[float, float]:
        """Return the ends of an interval for the label of one row.

        Parameters
        ----------
        x : mapping
            From feature to number or text.
        interval : float, default=0.9
            The part of the labels that are to be inside, whatever the stream is: see `predict` of
            `sonline.OnlineLearner`.

        Examples
        --------
        >>> from sonline import OnlineLearner
        >>> learner = OnlineLearner(loss="squared")
        >>> for number in range(100):
        ...     before = learner.learn_one({"rooms": number % 7}, number % 7 + number % 2)
        >>> low, high = learner.interval_one({"rooms": 3})
        >>> low < 3 and 4 < high
        True
        """
        with self._model.core.hold():
            raw, sizes = self._model.sized_one(x, self._later)
            ends = self._model.intervals(raw[:, np.newaxis], sizes[:, np.newaxis], interval,
                                         self._later)  # fmt: skip
        low, high = ends[0].tolist()
        return low, high


class Sets(Face):
    """Which classes are possible; of faces that predict classes."""

    def predict_set(self, X: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Return which classes are possible for each row, a column for each class, sorted.

        Parameters
        ----------
        X : array, sparse matrix, data frame, sequence of mappings, or Batch
            The rows.
        coverage : float, default=0.9
            The part of the rows of each class whose label is to be among them, at least. It is
            learned from the predictions made before each row was learned. The most likely class is
            always among them.
        """
        model = self.model
        rows = model.rows(self._rows(X), add=False)
        with model.core.hold():  # no other thread may add a class
            raw = model.predict(rows, later=self._later)
            return model.sets(raw, coverage, self._later).T

    def predict_set_one(self, x: Mapping[Any, Any], coverage: float = 0.9) -> set[Any]:
        """Return the labels that are possible for one row.

        Parameters
        ----------
        x : mapping
            From feature to number or text.
        coverage : float, default=0.9
            The part of the rows of each class whose label is to be in the set, at least.

        Examples
        --------
        >>> from sonline import OnlineLearner
        >>> learner = OnlineLearner()
        >>> for number in range(200):
        ...     before = learner.learn_one({"red": number % 2}, number % 2)
        >>> learner.predict_set_one({"red": 1})
        {1}
        """
        return self.model.set_one(self._mapping(x), coverage, self._later)
