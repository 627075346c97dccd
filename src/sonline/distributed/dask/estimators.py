"""The estimators of scikit-learn over Dask collections."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, Self, cast

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed
from distributed import Client

from sonline.arguments import check_choice
from sonline.distributed.checkpoints import Checkpoints
from sonline.distributed.dask.runner import DaskRunner, worker_name
from sonline.distributed.dask.tokens import token_of
from sonline.distributed.partition import train_arrays
from sonline.distributed.rounds import Task, train_rounds
from sonline.distributed.shards import Shard
from sonline.distributed.watching import watching
from sonline.errors import InvalidInputError
from sonline.estimators.base import OnlineEstimator
from sonline.estimators.classifier import SONClassifier as LocalClassifier
from sonline.estimators.regressor import SONRegressor as LocalRegressor
from sonline.evaluate import R2, Mean
from sonline.rows.checks import is_missing
from sonline.streams import ON_ERROR


def _train(model: Any, number: int, settings: dict[str, Any], *arrays: Any) -> Shard:
    return train_arrays(model, number, worker_name(), *arrays, **settings)


class _OverPartitions(OnlineEstimator):
    """Fits and predicts Dask collections by partition, other input as the local estimator."""

    _measured: Callable[..., Any]  # the metric of `score` for a partition
    _empty: Any  # the predictions for no rows

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        classes: Any = None,
        on_error: str = "stop",
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        verbose: bool = False,
        client: Client | None = None,
    ) -> Self:
        """Learn from partitions.

        Parameters
        ----------
        X : dask array, dask data frame, or list of delayed arrays or frames
            The rows. An array that is chunked by columns, too, is rechunked.
        y : dask array or series, list of delayed ones, or str
            The labels, in the same partitions, or the name of their column in the frame.
        sample_weight : like y, optional
            Importance of each row.
        offset : like y, optional
            What is added to the raw prediction of each row of a regression, or the name of its
            column.
        classes : array, optional
            The labels of a classifier; by default they are collected from y first. With
            ``discover_classes``, each partition discovers its own.
        on_error : {"stop", "skip"}, default="stop"
            Whether a row with missing or infinite numbers is an error that names partition and
            row, or is skipped and counted.
        checkpoint : path-like, optional
            Folder for finished partitions, on the calling machine.
        resume : bool, default=False
            Use the finished partitions of an earlier call.
        verbose : bool, default=False
            Show partitions as they are finished, with rows and progressive loss, on standard
            error: as a bar on a terminal, as lines elsewhere.
        client : distributed.Client, optional
            The cluster; by default the one in use, or else Dask's local scheduler.
        """
        if not is_collection(X):
            given = {} if offset is None else {"offset": offset}
            return cast(Self, self._local().fit(self, X, y, sample_weight, **given))
        if offset is not None and issubclass(self._local(), LocalClassifier):
            raise InvalidInputError("an offset needs a regressor")
        check_choice("on_error", on_error, ON_ERROR)
        with self._as_before_on_error():
            X, y, sample_weight, offset = by_name(X, y, sample_weight, offset)
            if classes is None:
                classes = self._declared_classes(y, client)
            parameters = self._parameters()
            continuing = self.warm_start and self.__sklearn_is_fitted__()
            if continuing:
                self._check_same_parameters()
            blocks = partitions(X, y, sample_weight, offset)
            settings = {"classes": classes, "on_error": on_error}
            tasks = [
                Task(number, f"partition {number}", _train, (number, settings, *block))
                for number, block in enumerate(blocks)
            ]
            checkpoints = None
            if checkpoint is not None:
                description = {
                    "parameters": parameters.as_dict(),
                    "partitions": len(tasks),
                    "rounds": self.max_iter,
                    "data": token_of(
                        part for block in blocks for part in block if part is not None
                    ),
                    "offset": offset is not None,
                    "rows_before": self.progress_.rows if continuing else 0,
                }
                checkpoints = Checkpoints(checkpoint, type(self), description, resume)
            model = self if continuing else type(self)(**self.get_params(deep=False))
            with watching(verbose, len(tasks)) as watch:
                rounds = train_rounds(
                    DaskRunner(client),
                    tasks,
                    model,
                    continuing=continuing,
                    rounds=self.max_iter,
                    checkpoints=checkpoints,
                    watch=watch,
                )
            arguments = self.get_params(deep=False)
            self.__dict__.update(rounds[-1].model.__dict__)
            self.set_params(**arguments)
            self.n_iter_ = self.max_iter
            self.rounds_ = rounds
            for shard in self.rounds_:
                shard.model = None  # only the figures are public
        return self

    def predict(self, X: Any, *arguments: Any, offset: Any = None, **options: Any) -> Any:
        """Return the prediction for each row; lazily for a Dask collection.

        Other arguments are those of the local estimator, for rows that are no Dask collection.
        """
        given = {} if offset is None else {"offset": offset}
        if not is_collection(X):
            return self._local().predict(self, X, *arguments, **given, **options)
        if arguments or options:
            raise InvalidInputError(
                "the predictions of a Dask collection come without standard deviations and "
                "intervals: predict its partitions, as arrays or frames"
            )
        return self._by_partition("predict", X, self._empty, **given)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of classes, R² of numbers."""
        if not is_collection(X):
            return float(self._local().score(self, X, y, sample_weight))
        X, y, sample_weight, _ = by_name(X, y, sample_weight)
        model = dask.delayed(self._plain(), pure=False, traverse=False)
        measure = dask.delayed(self._measured)
        blocks = partitions(X, y, sample_weight)
        first, *others = dask.compute(*(measure(model, *block[:3]) for block in blocks))
        return float(first.merge(others).value)

    def _declared_classes(self, y: Any, client: Client | None) -> Any:
        """Return the classes for `partial_fit` of a partition; None for numbers."""
        return None

    def _by_partition(self, method: str, X: Any, meta: Any, offset: Any = None) -> Any:
        """Return a lazy collection: a method of the fitted estimator, applied to each block."""
        self._fitted()
        call = partial(_call, self._plain(), method, meta)
        if isinstance(X, da.Array):
            X = _whole_rows(X)
            if meta.ndim == 1:
                # Blocks of the offsets are columns, as wide as those of the rows.
                others = [] if offset is None else [offset[:, np.newaxis]]
                return X.map_blocks(call, *others, dtype=meta.dtype, drop_axis=1, meta=meta)
            chunks = (X.chunks[0], (meta.shape[1],))
            return X.map_blocks(call, dtype=meta.dtype, chunks=chunks, meta=meta)
        others = [] if offset is None else [offset]
        return X.map_partitions(call, *others, meta=_frame(meta))

    def _plain(self) -> Any:
        """Return the local estimator, without the figures of the training."""
        local = self._local().__new__(self._local())
        local.__dict__.update({k: v for k, v in self.__dict__.items() if k != "rounds_"})
        return local

    @classmethod
    def _local(cls) -> Any:
        """Return the class of the estimator for arrays and frames."""
        return LocalClassifier if issubclass(cls, LocalClassifier) else LocalRegressor


class SONClassifier(_OverPartitions, LocalClassifier):
    """`sonline.SONClassifier` for Dask arrays, data frames and lists of delayed partitions.

    Each partition trains a model on its worker, and the models are merged in a tree of fixed shape,
    so the result does not depend on the workers. There are ``max_iter`` rounds, each from the
    merged model of the last; ``shuffle`` has no effect.

    Parameters are those of `sonline.SONClassifier`.

    Attributes
    ----------
    rounds_ : list of sonline.distributed.shards.Shard
        For each round the figures of the partitions: rows, progressive loss, time, worker.

    Examples
    --------
    >>> import dask.array as da
    >>> from sonline.distributed.dask import SONClassifier
    >>> rng = da.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 5), chunks=(1000, 5))
    >>> y = (X.sum(axis=1) > 0).astype(int)
    >>> model = SONClassifier().fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def _declared_classes(self, y: Any, client: Client | None) -> Any:
        return None if self.discover_classes else distinct(y, client)

    def decision_function(self, X: Any) -> Any:
        """Return the raw predictions; lazily for a Dask collection."""
        if not is_collection(X):
            return super().decision_function(X)
        size = self.classes_.size
        return self._by_partition(
            "decision_function", X, np.zeros(0) if size == 2 else np.zeros((0, size))
        )

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class; lazily for a Dask collection."""
        if not is_collection(X):
            return super().predict_proba(X)
        return self._by_partition("predict_proba", X, np.zeros((0, self.classes_.size)))

    @property
    def _empty(self) -> Any:
        return self.classes_[:0]

    @staticmethod
    def _measured(model: Any, X: Any, y: Any, weights: Any = None) -> Mean:
        metric = Mean()
        if X.shape[0]:
            metric.add(model.predict(X) == np.asarray(y), weights)
        return metric


class SONRegressor(_OverPartitions, LocalRegressor):
    """`sonline.SONRegressor` for Dask arrays, data frames and lists of delayed partitions.

    Examples
    --------
    >>> import dask.array as da
    >>> from sonline.distributed.dask import SONRegressor
    >>> rng = da.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 5), chunks=(1000, 5))
    >>> y = X.sum(axis=1)
    >>> model = SONRegressor().fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _empty = np.zeros(0)

    @staticmethod
    def _measured(model: Any, X: Any, y: Any, weights: Any = None) -> R2:
        metric = R2()
        if X.shape[0]:
            metric.update(np.asarray(y), model.predict(X), weights)
        return metric


# -- collections -----------------------------------------------------------------------------------


def is_collection(X: Any) -> bool:
    """Return whether X is a Dask collection or a list of delayed partitions."""
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(isinstance(part, Delayed) for part in X)
    return bool(dask.is_dask_collection(X))


def by_name(X: Any, y: Any, sample_weight: Any, offset: Any = None) -> tuple[Any, Any, Any, Any]:
    """Return X without the columns that the others name, and the others."""
    others = {"y": y, "sample_weight": sample_weight, "offset": offset}
    names = {name: value for name, value in others.items() if isinstance(value, str)}
    if names:
        first = next(iter(names))
        if not _is_frame(X):
            raise InvalidInputError(
                f"{first}={names[first]!r} names a column, but X is no Dask data frame"
            )
        unknown = [name for name in names.values() if name not in X.columns]
        if unknown:
            raise InvalidInputError(
                f"X has no column {unknown[0]!r}; it has {', '.join(map(str, X.columns))}"
            )
        others |= {name: X[column] for name, column in names.items()}
        X = X.drop(columns=list(names.values()))
    return X, others["y"], others["sample_weight"], others["offset"]


def partitions(X: Any, y: Any, sample_weight: Any, offset: Any = None) -> list[tuple[Any, ...]]:
    """Return the blocks of rows, each with its labels, weights and offsets, all delayed."""
    given = {"X": X, "y": y, "sample_weight": sample_weight, "offset": offset}
    given = {name: values for name, values in given.items() if values is not None}
    return [
        (block["X"], block["y"], block.get("sample_weight"), block.get("offset"))
        for block in _blocks(given)
    ]


def _blocks(given: dict[str, Any]) -> list[dict[str, Any]]:
    X, *others = collections = list(given.values())
    if all(map(_is_frame, collections)):
        _check_counts({name: values.npartitions for name, values in given.items()})
        # In one expression: separately, y would get fewer partitions than X, and Dask would compute
        # their common source twice.
        together = X.map_partitions(
            _as_tuple,
            *others,
            meta=("rows", object),
            align_dataframes=False,
            enforce_metadata=False,
        )
        return [
            {name: block[number] for number, name in enumerate(given)}
            for block in together.to_delayed()
        ]
    columns = [_delayed(name, values) for name, values in given.items()]
    _check_counts(dict(zip(given, map(len, columns), strict=True)))
    return [dict(zip(given, block, strict=True)) for block in zip(*columns, strict=True)]


def _as_tuple(*blocks: Any) -> Any:
    return blocks


def _is_frame(values: Any) -> bool:
    """Return whether values are a Dask data frame or a series of one."""
    return hasattr(values, "map_partitions") and hasattr(values, "to_delayed")


def _check_counts(counts: dict[str, int]) -> None:
    for name, count in counts.items():
        if count != counts["X"]:
            raise InvalidInputError(
                f"X has {counts['X']} partitions, {name} has {count}; rechunk or repartition it "
                "like X"
            )


def _delayed(name: str, values: Any) -> list[Any]:
    if isinstance(values, (list, tuple)):
        return list(values)
    if isinstance(values, da.Array):
        values = _whole_rows(values) if values.ndim == 2 else values
        return list(values.to_delayed().ravel())
    if hasattr(values, "to_delayed"):
        return list(values.to_delayed())
    raise InvalidInputError(
        f"{name} must be a Dask collection or a list of delayed partitions as X is, got "
        f"{type(values).__name__}"
    )


def _whole_rows(X: da.Array) -> da.Array:
    if X.ndim != 2:
        raise InvalidInputError(f"X must have two dimensions, got {X.ndim}")
    return X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X


def distinct(y: Any, client: Client | None = None) -> Any:
    """Return the labels that occur, sorted."""
    parts = [dask.delayed(_distinct_in)(part) for part in _delayed("y", y)]
    parts_labels = dask.compute(*parts) if client is None else client.gather(client.compute(parts))
    return np.unique(np.concatenate(parts_labels))


def _distinct_in(labels: Any) -> Any:
    values = np.asarray(labels)
    if values.dtype.kind == "f":
        values = values[np.isfinite(values)]
    elif values.dtype.kind == "O":
        values = np.array([value for value in values if not is_missing(value)])
    return np.unique(values)


def _call(model: Any, method: str, empty: Any, block: Any, offset: Any = None) -> Any:
    """Return the result of a method for a block; ``empty`` for one without rows."""
    result = empty
    if block.shape[0]:
        given = {} if offset is None else {"offset": np.ravel(offset)}
        result = getattr(model, method)(block, **given)
    return _frame(result, block.index) if hasattr(block, "iloc") else result


def _frame(values: Any, index: Any = None) -> Any:
    import pandas as pd  # noqa: PLC0415 - there are frames

    return (pd.Series if values.ndim == 1 else pd.DataFrame)(values, index=index)
