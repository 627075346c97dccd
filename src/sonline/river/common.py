"""Shared by the two estimators for River."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self

from river import base

from sonline.arguments import check_loss
from sonline.errors import InvalidInputError, ModelFileError
from sonline.labels import ClassTable, plain
from sonline.model import Model, to_merge
from sonline.model.face import Face
from sonline.parameters import Parameters
from sonline.rows import row_weights
from sonline.rows.columns import each_row

if TYPE_CHECKING:
    import pandas as pd


class RiverEstimator(Face):
    """Base class of `SONClassifier` and `SONRegressor`; only they are public."""

    face: str  # the name of this class in model files
    losses: ClassVar[tuple[str, ...]]
    loss: str
    _later = False

    def _start(self, arguments: dict[str, Any]) -> None:
        check_loss(self.loss, self.losses)
        table = ClassTable(growing=True) if isinstance(self, base.Classifier) else None
        self._model = Model(Parameters(**arguments), table)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the complete state to a file; a loaded estimator continues training exactly.

        Parameters
        ----------
        path
            The file. All classes of sonline, and the command line, can open it.

        """
        params = self._get_params()  # type: ignore[attr-defined]  # River's
        arguments = {name: plain(value) for name, value in params.items()}
        self._model.save(path, {"name": self.face, "arguments": arguments})

    @classmethod
    def from_model(cls, model: Model) -> Self:
        """Return an estimator that uses a `Model`.

        Parameters
        ----------
        model
            A model of any class of sonline, with classes for a classifier.

        """
        model.check_task(classes=issubclass(cls, base.Classifier))
        parameters = model.parameters.as_dict()
        if model.face.get("name") == cls.face:
            estimator = cls(**model.face["arguments"])
            for name, value in estimator._model.parameters.as_dict().items():
                if value != parameters[name]:
                    raise ModelFileError(
                        f"{name} is {value!r} for the estimator and {parameters[name]!r} for its "
                        "model"
                    )
        else:
            names = [name for name in inspect.signature(cls).parameters if name in parameters]
            estimator = cls(**{name: parameters[name] for name in names})
        model.face = {}
        estimator._model = model
        return estimator

    def merge(self, others: Iterable[Self], start: Self | None = None) -> Self:
        """Return one estimator out of several that were trained on different rows.

        Classes are matched by label, in whatever order each estimator saw them.

        Parameters
        ----------
        others
            With the same parameters; see `sonline.OnlineLearner.merge`.
        start
            The estimator that all of them started from, if they did not start empty.

        """
        merged: Self = self.clone()  # type: ignore[attr-defined]  # River's
        estimators = (self, *to_merge(others, start))
        if models := [each._model for each in estimators if each._model.knows_labels]:
            origin = None if start is None or not start._model.knows_labels else start._model
            merged._model = models[0].merge(models[1:], origin)
        return merged

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: float | pd.Series = 1.0) -> None:
        """Train on rows, one after another: the same as a loop over `learn_one`.

        Parameters
        ----------
        X
            The rows; columns are features.
        y
            Their labels.
        w
            Their weights, one number for all or one for each.

        """
        if rows := self._records(X):
            self._learn(rows, y.tolist() if hasattr(y, "tolist") else list(y), w)

    def _learn(self, rows: list[Any], labels: list[Any], w: Any) -> None:
        """Train on rows, given as mappings."""
        self._model.learn(rows, labels, row_weights(w, len(rows), "w"))

    def _records(self, X: pd.DataFrame) -> list[dict[Any, Any]]:
        """Return the rows of a frame as mappings that the core takes."""
        if not hasattr(X, "isna"):
            kind = f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}"
            raise InvalidInputError(f"X must be a pandas DataFrame, got {kind}; use to_pandas()")
        columns = X.columns.tolist()
        if len(set(columns)) < len(columns):
            raise InvalidInputError(f"X has columns of the same name: {columns}")
        return list(each_row(X))

    @property
    def _raw_memory_usage(self) -> int:
        return int(super()._raw_memory_usage + self._model.stats()["bytes"])  # type: ignore[misc]  # River's
