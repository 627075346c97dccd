"""`SONClassifier`: the classifier for River."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from river import base

from sonline.constructors import RiverClassifierConstructor, documented
from sonline.errors import InvalidInputError
from sonline.labels import ClassTable, plain
from sonline.model import PROBABILISTIC
from sonline.model.asking import Asking
from sonline.model.face import Sets
from sonline.parameters import CLASSIFICATION_LOSSES
from sonline.river.common import RiverEstimator
from sonline.rows import LARGEST_WEIGHT, UNIT, row_weights

if TYPE_CHECKING:
    import pandas as pd


@documented
class SONClassifier(
    Sets, RiverEstimator, Asking, RiverClassifierConstructor, base.MiniBatchClassifier
):
    """Linear classifier for River, without feature scaling or a learning rate.

    Labels can be any dictionary keys and can appear at any time: the result is the same, bit for
    bit, as if all of them had been known from the start. If the first label is True or False, there
    are only these two classes, which takes less time.

    Parameters
    ----------
    loss
        "logistic", "hinge", "squared_hinge", or "squared" on labels -1 and +1. Probabilities need
        "logistic".
    {parameters}
    dtype
        Precision of the numbers stored per feature. "float64", so that the order of the features in
        a dictionary makes no visible difference.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from sonline.river import SONClassifier
    >>> evaluate.progressive_val_score(datasets.Phishing(), SONClassifier(), metrics.Accuracy())
    Accuracy: ...%

    """

    face = "river.SONClassifier"
    losses = CLASSIFICATION_LOSSES

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = UNIT) -> None:
        """Learn from one row.

        Parameters
        ----------
        x
            From feature to number or text.
        y
            The label.
        w
            Importance of the row.

        """
        model = self._model
        try:
            number = model.numbers[y]
        except (KeyError, TypeError):  # new, or not hashable, which is an error in what follows
            self._learn([x], [y], w)
            return
        if w is not UNIT and (type(w) is not float or not 0.0 <= w <= LARGEST_WEIGHT):
            w = float(row_weights([w], 1, "w")[0])  # type: ignore[index]  # not None
        learn = model.learn_one  # not a method, and slow to call in the same line
        learn(x, number, w)

    def _learn(self, rows: list[Any], labels: list[Any], w: Any) -> None:
        table = self._model.table
        try:
            first = [plain(label) for label in labels[:1]]
            {label: None for label in labels}  # noqa: C420 - must be hashable
        except TypeError as error:
            raise InvalidInputError(f"y: a label must be a number or a text: {error}") from error
        if first and isinstance(first[0], bool) and not table:
            both, codes = ClassTable((False, True)).encode(labels)
            weights = row_weights(w, len(rows), "w")
            self._model.learn_targets(self._model.rows(rows, add=True), codes, both, weights)
        else:
            super()._learn(rows, labels, w)

    def predict_one(self, x: Mapping[Any, Any]) -> Any:  # type: ignore[override]  # no kwargs
        """Return the most likely label; None before the first label.

        Parameters
        ----------
        x
            From feature to number or text.

        """
        model = self._model
        number = model.choose_one(x, False)
        labels = model.known_labels
        return labels[number] if labels else None

    def predict_proba_one(  # type: ignore[override]  # no kwargs
        self, x: Mapping[Any, Any]
    ) -> dict[Any, float]:
        """Return the probability of each label seen so far.

        Parameters
        ----------
        x
            From feature to number or text.

        """
        self._refuse_without_probabilities()
        return self._model.probabilities_one(x, later=False)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the most likely label of each row.

        Parameters
        ----------
        X
            The rows; columns are features.

        """
        import pandas as pd  # noqa: PLC0415 - River itself does without it

        return pd.Series([self.predict_one(row) for row in self._records(X)], index=X.index)

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the probability of each label, a column for each, for every row.

        Parameters
        ----------
        X
            The rows; columns are features.

        """
        import pandas as pd  # noqa: PLC0415 - River itself does without it

        self._refuse_without_probabilities()
        table = self._model.table
        labels = [] if table is None else table.sorted_labels()
        rows = [self.predict_proba_one(row) for row in self._records(X)]
        chances = [[row[label] for label in labels] for row in rows]
        return pd.DataFrame(chances, index=X.index, columns=labels, dtype=np.float64)

    def _refuse_without_probabilities(self) -> None:
        """Raise the error that River's classifiers without probabilities raise."""
        if self.loss != PROBABILISTIC:
            raise NotImplementedError(
                f"probabilities need loss={PROBABILISTIC!r}, this is loss={self.loss!r}"
            )
