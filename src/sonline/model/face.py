"""`Face`: what the classes that users call have in common."""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self, TypeAlias

from sonline import persistence
from sonline.model.model import Model
from sonline.rows import Floats

Feature: TypeAlias = str | int


class Face:
    """A class with a `Model` behind it: opens files, and looks inside."""

    _model: Model

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

        Predictions are linear in a feature once it has occurred 16 times. Until then its scale
        includes the row that is predicted (`scaling` "auto" and "rms").

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
        X : sequence of mappings, or a data frame
            The rows; the columns of a data frame are features.
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
        explain = self.model.explainer(label)
        rows = X.to_dict("records") if hasattr(X, "iloc") else X
        return [explain(row) for row in rows]

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
