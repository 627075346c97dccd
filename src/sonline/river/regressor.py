"""`SONRegressor`: the regressor for River."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from river import base

from sonline import persistence
from sonline.learner import Feature, OnlineLearner
from sonline.parameters import Parameters
from sonline.river.common import parameters_of, records_of, values_of, weights_of, write

if TYPE_CHECKING:
    import pandas as pd

KIND = "river-regressor"  # of the file that `save` writes


class SONRegressor(base.MiniBatchRegressor):
    """Regressor that learns by Sketched Online Newton.

    Parameters
    ----------
    loss
        "squared" (half the squared error) or "quantile".
    sketch
        As of `sonline.OnlineLearner`, like the parameters that follow.
    sketch_size
        Number of directions that the sketch keeps.
    alpha
        The regulariser, 1 / step size.
    bound
        Largest size of a prediction.
    clip
        Whether predictions are clipped to the range of the labels seen.
    step
        "implicit", or "explicit" as in the paper.
    curvature
        What is sketched.
    sigma
        Curvature that the loss guarantees.
    eta
        Added curvature.
    oja_step
        Step of Oja's sketch.
    sketch_every
        The sketch takes in one row of so many.
    scaling
        How features are scaled.
    intercept
        Whether a constant feature is added.
    hash_bits
        Hash the features into 2^hash_bits. None keeps their names.
    dtype
        Type of the numbers kept per feature. "float64", so that the order of the features in a
        dictionary does not show.
    seed
        Chooses the hash function of ``hash_bits``. Nothing else is random.
    quantile
        Level of the quantile loss.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from sonline.river import SONRegressor
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), SONRegressor(), metrics.MAE())
    MAE: 0...

    """

    def __init__(  # noqa: PLR0917 - the algorithm has as many parameters
        self,
        loss: str = "squared",
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
        dtype: str = "float64",
        seed: int = Parameters.seed,
        quantile: float = Parameters.quantile,
    ) -> None:
        self.loss = loss
        self.sketch = sketch
        self.sketch_size = sketch_size
        self.alpha = alpha
        self.bound = bound
        self.clip = clip
        self.step = step
        self.curvature = curvature
        self.sigma = sigma
        self.eta = eta
        self.oja_step = oja_step
        self.sketch_every = sketch_every
        self.scaling = scaling
        self.intercept = intercept
        self.hash_bits = hash_bits
        self.dtype = dtype
        self.seed = seed
        self.quantile = quantile
        self._learning = OnlineLearner(**parameters_of(self, binary=False).as_dict())

    def learn_one(self, x: Mapping[Any, Any], y: float, w: float = 1.0) -> None:
        """Learn from one row.

        Parameters
        ----------
        x
            From features to numbers or texts.
        y
            The label.
        w
            Importance of the row.

        """
        self._learning.learn_one(x, y, w)

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Return the prediction for one row.

        Parameters
        ----------
        x
            From features to numbers or texts.

        """
        return self._learning.predict_one(x)

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: float | pd.Series = 1.0) -> None:
        """Learn from rows, one after another: the same as a loop over `learn_one`.

        Parameters
        ----------
        X
            The rows; columns are features.
        y
            Their labels.
        w
            Their importance, one number for all or one for each.

        """
        if len(X):
            self._learning.learn(records_of(X), values_of(y), weights_of(w, len(X)))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the prediction for each row.

        Parameters
        ----------
        X
            The rows; columns are features.

        """
        import pandas as pd  # noqa: PLC0415 - River itself does without it

        rows = records_of(X)
        return pd.Series(self._learning.predict(rows) if rows else [], index=X.index, dtype=float)

    def weights(self) -> dict[Feature, float]:
        """Return the weight of each feature seen."""
        return self._learning.weights()

    def merge(self, others: Iterable[Self], start: Self | None = None) -> Self:
        """Return one regressor out of several that learnt from different rows.

        Parameters
        ----------
        others
            With the same parameters; see `sonline.OnlineLearner.merge`.
        start
            What all of them went on from, if they were not new.

        """
        merged: Self = self.clone()
        learners = [one._learning for one in others]
        merged._learning = self._learning.merge(
            learners, None if start is None else start._learning
        )
        return merged

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file; `load` goes on bit for bit as if it had never stopped."""
        write(self, KIND, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a regressor that `save` wrote; ModelFileError if the file is damaged."""
        document, tensors = persistence.read(path, KIND)
        with persistence.reading(path):
            model = cls(**document["arguments"])
            model._learning.__setstate__((document["learner"], tensors))
        return model

    @property
    def _raw_memory_usage(self) -> int:
        return int(super()._raw_memory_usage + self._learning.stats()["bytes"])
