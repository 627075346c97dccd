"""The fitted models: columns of predictions, figures of the training, files."""

from __future__ import annotations

import itertools
import os
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from pyspark.ml.base import PredictionModel
from pyspark.ml.classification import ProbabilisticClassificationModel
from pyspark.ml.linalg import DenseVector, SparseVector, Vector, VectorUDT
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import DataType, DoubleType, StringType, StructField, StructType

from sonline import persistence
from sonline.distributed.shards import Figures, Shard
from sonline.distributed.spark.jobs import collected
from sonline.distributed.spark.layout import column, layout_of
from sonline.distributed.spark.lines import Label
from sonline.distributed.spark.params import LEARNER, SONParams
from sonline.distributed.spark.prediction import (
    Outputs,
    Prediction,
    class_probabilities,
    class_scores,
    predicted,
)
from sonline.distributed.spark.rows import check_features, check_width
from sonline.errors import InvalidInputError, ModelFileError
from sonline.learner import OnlineLearner
from sonline.model import Model
from sonline.rows import Floats

M = TypeVar("M", "SONClassificationModel", "SONRegressionModel")
PIECE = 1 << 24  # bytes of a model in one row of its table


class _Fitted(SONParams, MLWritable):
    """Shared by both models."""

    _data: bytes  # a model file
    _model: Model
    _classes: tuple[Label, ...] | None
    _width: int  # of the vectors learned; -1 if it is not known, as in models of other faces
    rounds_: list[Shard]

    @classmethod
    def of(cls, model: Model, rounds: Sequence[Shard], width: int) -> Self:
        """Make a model of pyspark.ml."""
        model.face = {
            "name": f"spark.{cls.__name__}",
            "rounds": [[part.as_dict() for part in shard.figures] for shard in rounds],
            "width": width,
        }
        return cls._from_bytes(model.to_bytes())

    @property
    def width(self) -> int:
        """The size of the vectors that it has learned; -1 if it is not known."""
        return self._width

    def copyOfModel(self) -> Model:  # noqa: N802 - as Spark spells names
        """Return a copy of the model."""
        return Model.from_bytes(self._data)

    @classmethod
    def _from_bytes(cls, data: bytes) -> Self:
        fitted = cls()
        model = Model.from_bytes(data)
        face = model.face
        with persistence.reading("the model"):
            width = face.get("width", face.get("n_features_in"))
            fitted._width = -1 if width is None or model.core.name_count() else int(width)
            fitted.rounds_ = [
                Shard(None, [Figures.from_dict(part) for part in parts])
                for parts in face.get("rounds", [])
            ]
        fitted._data, fitted._model = data, model
        fitted._classes = None if model.table is None else tuple(model.table.sorted_labels())
        return fitted

    @property
    def model(self) -> Model:
        """The `Model` that this estimator uses."""
        return self._model

    def saveModel(self, path: str) -> None:  # noqa: N802 - as Spark spells names
        """Write a model file that all faces of sonline can open, on the driver's disk."""
        self._model.save(path)

    @classmethod
    def loadModel(cls, path: str | os.PathLike[str]) -> Self:  # noqa: N802 - as Spark spells names
        """Read a model file that any face of sonline, or the command line, wrote."""
        with persistence.reading(path):
            return cls.fromModel(Model.load(path))

    @classmethod
    def fromModel(cls, model: Model) -> Self:  # noqa: N802 - as Spark spells names
        """Return a `Model` as a model of pyspark.ml."""
        model.check_task(classes=cls is SONClassificationModel)
        fitted = cls._from_bytes(model.to_bytes())
        parameters = model.parameters.as_dict()
        fitted._set(**{name: parameters[field] for name, field in LEARNER.items()})
        return fitted

    def toOnlineLearner(self) -> OnlineLearner:  # noqa: N802 - as Spark spells names
        """Return a copy of the model as an `OnlineLearner`, to continue without Spark."""
        return OnlineLearner.from_model(self.copyOfModel())

    def weights(self, label: Label | None = None, *, scaled: bool = False) -> dict[Any, float]:
        """Return the weight of each feature seen, by name, or by position in the vectors.

        Parameters
        ----------
        label : optional
            For which class; may be left out for numbers and for two classes, where it is
            ``classes[1]``.
        scaled : bool, default=False
            False: weights of the raw features. True: weights of the features divided by their root
            mean square.
        """
        return self._model.weights_of(label, scaled)

    def merge(self, others: Iterable[Self]) -> Self:
        """Return one model that combines this one and the others.

        For models of different data frames with the same parameters and classes; features with
        names are matched by name. See `sonline.OnlineLearner.merge`. This estimator does not
        change.
        """
        models = [self, *others]
        for other in models[1:]:
            if type(other) is not type(self):
                raise InvalidInputError(
                    f"a {type(self).__name__} cannot be merged with a {type(other).__name__}"
                )
            if self._classes != other._classes:
                raise InvalidInputError(
                    "the models to be merged differ in their classes: "
                    f"{self._classes} and {other._classes}"
                )
            check_width(self._width, other._width, "the models to be merged differ")
        turns = itertools.zip_longest(*(other.rounds_ for other in models))
        rounds = [
            Shard(None, [figures for shard in turn if shard for figures in shard.figures])
            for turn in turns
        ]
        model = self._model.merge([other._model for other in models[1:]])
        width = max(other._width for other in models)
        return self._copyValues(type(self).of(model, rounds, width))

    @property
    def numFeatures(self) -> int:  # noqa: N802 - Spark's name
        """The size of the vectors, or the number of features seen where they have names."""
        return self._width if self._width >= 0 else len(self._model.features())

    @property
    def progressiveLoss(self) -> float:  # noqa: N802 - as Spark spells names
        """Mean loss of the predictions made in the first round before each row was learned."""
        return self.rounds_[0].loss if self.rounds_ else self._model.progress.loss.average

    def write(self) -> MLWriter:
        """Return the writer for `save`."""
        return _Writer(self)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        types = self._model.reading.columns
        layout = layout_of(self, self.learner_parameters(), dataset.schema, types)
        check_features(self._model, layout.options.features == "name")
        outputs = self._outputs()
        for name in outputs.names:
            if name in dataset.columns:
                raise InvalidInputError(f"the data frame has a column {name!r} already")
        skips = self.getOrDefault("onError") == "skip"
        layout = layout.unlabelled()
        work = Prediction(self._data, layout, outputs, self._width, skips)
        columns = [column(name) for name in layout.columns]
        argument = F.struct(*columns) if layout.is_struct else columns[0]
        temporary = f"{self.uid}_predictions"
        result = dataset.withColumn(temporary, work.function(self._schema())(argument))
        for name in outputs.names:
            result = result.withColumn(name, F.col(temporary)[name])
        return result.drop(temporary)

    @abstractmethod
    def _outputs(self) -> Outputs:
        """Return the columns that `transform` makes."""

    def _schema(self) -> StructType:
        outputs = self._outputs()
        words = self._classes is not None and isinstance(self._classes[0], str)
        label: DataType = StringType() if words else DoubleType()
        kinds = [
            (outputs.prediction, label),
            (outputs.raw, VectorUDT()),
            (outputs.probability, VectorUDT()),
        ]
        return StructType([StructField(name, kind) for name, kind in kinds if name])

    def _raw(self, value: Vector) -> Floats:
        """Return the raw predictions of one row, a number per output."""
        check_features(self._model, by_name=False)
        check_width(self._width, len(value), "the model and the vector differ")
        row: Any = np.asarray(value.toArray())[np.newaxis]
        if isinstance(value, SparseVector):
            ends = np.array([0, value.indices.size])
            row = sp.csr_array((value.values, value.indices, ends), shape=(1, value.size))
        return predicted(self._model, row).reshape(-1)


class SONClassificationModel(
    _Fitted, ProbabilisticClassificationModel, MLReadable["SONClassificationModel"]
):
    """The model that `SONClassifier` fits.

    It adds the columns ``prediction`` (the label as in the data), ``rawPrediction`` and, for the
    logistic loss, ``probability`` (vectors in the order of ``classes``).

    Attributes
    ----------
    classes : list
        The labels, sorted.
    numClasses, numFeatures : int
        How many there are.
    progressiveLoss, progressiveError : float
        Mean loss and share of mistakes of the predictions made before each row was learned.
    rounds_ : list of Shard
        Of each round: its ``loss`` and ``error``, and the ``figures`` of its partitions.
    """

    @property
    def classes(self) -> list[Label]:
        """The labels, sorted."""
        return list(self._classes or ())

    @property
    def numClasses(self) -> int:  # noqa: N802 - Spark's name
        """How many classes there are."""
        return len(self.classes)

    @property
    def progressiveError(self) -> float:  # noqa: N802 - as Spark spells names
        """Share of mistakes among the predictions made before each row was learned."""
        return self.rounds_[0].error if self.rounds_ else self._model.progress.error.average

    def predict(self, value: Vector) -> Any:
        """Return the label of one row."""
        outputs = self._outputs()
        return outputs.labels(self._raw(value)[:, np.newaxis])[0]

    def predictRaw(self, value: Vector) -> Vector:  # noqa: N802 - Spark's name
        """Return the raw predictions of one row, one per class."""
        return DenseVector(class_scores(self._raw(value)[:, np.newaxis])[0])

    def predictProbability(self, value: Vector) -> Vector:  # noqa: N802 - Spark's name
        """Return the probabilities of the classes for one row."""
        return DenseVector(class_probabilities(self._raw(value)[:, np.newaxis])[0])

    @classmethod
    def read(cls) -> MLReader[SONClassificationModel]:
        """Return the reader for `load`."""
        return _Reader(cls)

    def _outputs(self) -> Outputs:
        logistic = self.getOrDefault("loss") == "logistic"
        return Outputs(
            self.getPredictionCol(),
            self.getRawPredictionCol(),
            self.getProbabilityCol() if logistic else "",
            self._classes,
            tuple(self.chosen("thresholds") or ()) if logistic else (),
        )


class SONRegressionModel(_Fitted, PredictionModel[Vector], MLReadable["SONRegressionModel"]):
    """The model that `SONRegressor` fits; it adds the column ``prediction``.

    Attributes
    ----------
    numFeatures : int
        How many features there are.
    progressiveLoss : float
        Mean loss of the predictions made before each row was learned.
    rounds_ : list of Shard
        Of each round: its ``loss`` and ``error``, and the ``figures`` of its partitions.
    """

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(loss="squared")

    def predict(self, value: Vector) -> float:
        """Return the prediction for one row."""
        return float(self._raw(value)[0])

    @classmethod
    def read(cls) -> MLReader[SONRegressionModel]:
        """Return the reader for `load`."""
        return _Reader(cls)

    def _outputs(self) -> Outputs:
        return Outputs(self.getPredictionCol(), "", "", None, ())


# -- files ----------------------------------------------------------------------------------------


class _Writer(MLWriter):
    """Writes parameters as Spark does, and beside them a table with the bytes of a model file."""

    def __init__(self, model: _Fitted) -> None:
        super().__init__()
        self._model = model

    def saveImpl(self, path: str) -> None:  # noqa: N802 - Spark's name
        spark = self.sparkSession
        DefaultParamsWriter.saveMetadata(self._model, path, spark)
        data = self._model._data
        pieces = [
            (number, bytearray(data[first : first + PIECE]))
            for number, first in enumerate(range(0, len(data), PIECE))
        ]
        table = spark.createDataFrame(pieces, "number int, piece binary")
        table.coalesce(1).write.parquet(f"{path}/data")


class _Reader(MLReader[M], Generic[M]):
    def __init__(self, kind: type[M]) -> None:
        super().__init__()
        self._kind: type[M] = kind

    def load(self, path: str) -> M:
        spark = self.sparkSession
        expected = f"{self._kind.__module__}.{self._kind.__name__}"
        metadata = DefaultParamsReader.loadMetadata(path, spark)
        if metadata["class"] != expected:
            raise ModelFileError(f"{path}: holds a {metadata['class']}, expected a {expected}")
        rows = collected(spark.read.parquet(f"{path}/data").orderBy("number"))
        try:
            model: M = self._kind._from_bytes(b"".join(row["piece"] for row in rows))
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from error
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model
