"""`SONClassifier` and `SONRegressor` for `pyspark.ml`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

from pyspark.ml.base import Predictor
from pyspark.ml.classification import ProbabilisticClassifier
from pyspark.ml.param import TypeConverters
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable
from pyspark.sql import DataFrame

from sonline.arguments import check_choice
from sonline.distributed.spark.layout import classes_of, layout_of, prepared
from sonline.distributed.spark.lines import Label
from sonline.distributed.spark.models import SONClassificationModel, SONRegressionModel
from sonline.distributed.spark.params import SONParams, param
from sonline.distributed.spark.rows import Layout
from sonline.distributed.spark.training import train
from sonline.errors import InvalidInputError, ParameterError
from sonline.labels import ClassTable
from sonline.parameters import CLASSIFICATION_LOSSES, REGRESSION_LOSSES


class _Estimator(SONParams):
    """Shared by both estimators."""

    _losses: ClassVar[tuple[str, ...]]
    _kind: ClassVar[type[SONClassificationModel | SONRegressionModel]]

    def setParams(self, **values: Any) -> Self:  # noqa: N802 - Spark's name
        """Set parameters by name."""
        return self.take(values)

    def _fit(self, dataset: DataFrame) -> Any:
        return self._learn(dataset, None)

    def fitFrom(self, dataset: DataFrame, start: Any) -> Any:  # noqa: N802 - as Spark spells names
        """Continue training a model with more rows, and return the new model.

        Parameters
        ----------
        dataset : DataFrame
            Rows that the model has not seen.
        start : SONClassificationModel or SONRegressionModel
            With the same parameters and classes. Each partition continues from it, and merging
            counts it once. It does not change.
        """
        if type(start) is not self._kind:
            raise InvalidInputError(
                f"start must be a {self._kind.__name__}, got {type(start).__name__}"
            )
        return self._learn(dataset, start)

    def _learn(self, dataset: DataFrame, start: Any) -> Any:
        parameters = self.learner_parameters()
        check_choice("loss", parameters.loss, self._losses)
        known = {} if start is None else start.model.reading.columns
        layout = layout_of(self, parameters, dataset.schema, known)
        frame = prepared(self, dataset, layout)
        table = self._classes(frame, layout) if start is None else start.model.table
        layout = replace(layout, table=table)
        model, rounds, width = train(self, parameters, frame, layout, start)
        fitted = self._kind.of(model, rounds, width)
        return self._copyValues(fitted._resetUid(self.uid))  # noqa: SLF001 - Spark's own way

    def _classes(self, frame: DataFrame, layout: Layout) -> ClassTable | None:
        """Return the classes of a prepared frame; None for numbers."""
        return None


class SONClassifier(
    _Estimator,
    ProbabilisticClassifier,
    DefaultParamsReadable["SONClassifier"],
    DefaultParamsWritable,
):
    """Linear classifier for `pyspark.ml`, in one pass, without scaling or a learning rate.

    Each partition of the data frame trains a model on its executor, in the order of its rows. Then
    the models are merged in a tree of fixed shape, whichever executor finished first. Two
    classes are one learner; more are one learner per class over the same pass. Features need no
    scaling, and there is no step size.

    Parameters
    ----------
    featuresCol : str, default="features"
        A column of vectors (dense, sparse or both), of arrays of numbers, or, with ``format``, of
        lines of text.
    featureCols : list of str, optional
        Instead of it: columns of numbers, text or dates. A text becomes the feature "column=text";
        null and NaN are absent, marked or bad rows, as ``missing`` says.
    labelCol, weightCol : str
        The label (numbers or text) and the importance of each row (all 1 without).
    predictionCol, rawPredictionCol, probabilityCol : str
        Columns that the model adds; an empty name leaves one out. Predictions are labels as in the
        data: doubles or text. Probabilities need ``loss="logistic"``.
    thresholds : list of float, optional
        As everywhere in `pyspark.ml`: the class with the largest probability / threshold wins.
    classes : list, optional
        All labels; by default they are collected in a pass over the labels.
    format : {"svmlight", "vw"}, optional
        ``featuresCol`` holds lines in this format, label included, as `spark.read.text` gives them.
    orderCol : str, optional
        The rows of each partition are learned in the order of this column.
    rounds : int, default=1
        Number of passes over the data, each from the merged model of the last.
    onError : {"stop", "skip"}, default="stop"
        Whether a bad row (no label, a number that is not finite, ...) is an error that names
        partition and row, or is skipped and counted. With "skip", its predictions are null.
    checkpointDir : str, optional
        Folder for the models of finished partitions, which all executors can access.
    resume : bool, default=False
        Use the finished partitions in ``checkpointDir``.
    verbose : bool, default=False
        Show rows, loss, time and worker of each partition on standard error after each round.
        While a round runs, Spark's console and web pages show how far it is.
    loss, sketch, sketchSize, alpha, fitIntercept, missing, ...
        All parameters of `sonline.OnlineLearner` with its defaults, spelled as Spark does.

    Examples
    --------
    Start a Spark session first.

    >>> from sonline.distributed.spark import SONClassifier
    >>> classifier = SONClassifier(labelCol="clicked", sketchSize=5)
    >>> classifier.getOrDefault("sketchSize")
    5
    """

    _losses = tuple(name for name in CLASSIFICATION_LOSSES if name != "squared")
    _kind = SONClassificationModel
    classes = param("classes", "all labels", TypeConverters.toList)

    def __init__(self, **values: Any) -> None:
        super().__init__()
        self.take(values)

    def _classes(self, frame: DataFrame, layout: Layout) -> ClassTable:
        declared: list[Label] | None = self.chosen("classes")
        classes = classes_of(frame, layout) if declared is None else _declared(declared)
        if len(classes) < 2:
            raise InvalidInputError(
                f"at least two classes are needed, the labels have {len(classes)}: {list(classes)}"
            )
        return ClassTable(classes)


class SONRegressor(
    _Estimator,
    Predictor[SONRegressionModel],
    DefaultParamsReadable["SONRegressor"],
    DefaultParamsWritable,
):
    """Linear regression for `pyspark.ml`, in one pass, without scaling or a learning rate.

    See `SONClassifier` for how it works.

    Parameters
    ----------
    featuresCol, featureCols, labelCol, weightCol, format, orderCol, rounds, onError, \
    checkpointDir, resume, verbose
        As of `SONClassifier`; labels are numbers.
    predictionCol : str
        The column that the model adds.
    offsetCol : str, optional
        A column that is added to the raw predictions: with the losses "poisson", "gamma" and
        "tweedie" the logarithm of the exposure. The model reads it, too.
    loss : str, default="squared"
        "squared" (half the squared error), "quantile", or one for counts and amounts: "poisson",
        "gamma" or "tweedie".
    sketch, sketchSize, alpha, fitIntercept, missing, quantile, ...
        All other parameters of `sonline.OnlineLearner` with its defaults, spelled as Spark does.

    Examples
    --------
    >>> from sonline.distributed.spark import SONRegressor
    >>> SONRegressor(labelCol="price").getOrDefault("loss")
    'squared'
    """

    _losses = REGRESSION_LOSSES
    _kind = SONRegressionModel

    def __init__(self, **values: Any) -> None:
        super().__init__()
        self._setDefault(loss="squared")
        self.take(values)


def _declared(labels: list[Label]) -> tuple[Label, ...]:
    """Return the classes from the parameter, sorted."""
    text = [isinstance(label, str) for label in labels]
    if any(text) and not all(text):
        raise ParameterError(f"classes must be all text or all numbers, got {labels!r}")
    return tuple(sorted(set(labels) if any(text) else {float(label) for label in labels}))
