"""`LabelSampler`: which rows are worth a label, by River's interface."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from river.active.base import ActiveLearningClassifier

from sonline.model.asking import CAUTION, EXPLORE
from sonline.river.classifier import SONClassifier


class LabelSampler(ActiveLearningClassifier):
    """Asks for the labels of rows whose class is still in doubt; see `river.active`.

    `predict_one` and `predict_proba_one` return a pair: the prediction, and whether the label of
    the row is worth asking for.

    Parameters
    ----------
    classifier
        The classifier that learns.
    caution
        How unsure the sign of a prediction must be; more asks for more labels.
    explore
        The share of the other rows whose labels are asked for as well.

    Examples
    --------
    >>> from river import datasets, metrics
    >>> from sonline.river import LabelSampler, SONClassifier
    >>> model = LabelSampler(SONClassifier())
    >>> accuracy, asked = metrics.Accuracy(), 0
    >>> for x, y in datasets.Phishing():
    ...     predicted, ask = model.predict_one(x)
    ...     accuracy.update(y, predicted)
    ...     if ask:
    ...         asked += 1
    ...         model.learn_one(x, y)
    >>> asked < 625  # half of them
    True

    """

    def __init__(
        self, classifier: SONClassifier, caution: float = CAUTION, explore: float = EXPLORE
    ) -> None:
        super().__init__(classifier)
        self.caution = caution
        self.explore = explore

    def predict_one(self, x: Any, **_: Any) -> Any:
        """Predict the class of `x`, None before the first label, and say whether to ask for it."""
        predicted = cast("SONClassifier", self.classifier).predict_one(x)
        return predicted, self._ask_for_label(x, predicted)

    def _ask_for_label(self, x: Any, y_pred: Any) -> bool:
        sampled = cast("SONClassifier", self.classifier)
        return sampled.wants_label(x, caution=self.caution, explore=self.explore)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": SONClassifier()}
