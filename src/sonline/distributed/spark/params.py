"""The parameters of the estimators and models, with names in the style of Spark."""

from __future__ import annotations

from typing import Any, Self

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasFeaturesCol, HasLabelCol, HasPredictionCol, HasWeightCol

from sonline.arguments import check_choice, check_integer
from sonline.constructors import first_sentence
from sonline.errors import ParameterError
from sonline.parameters import Parameters
from sonline.streams import ON_ERROR


def _spark_name(name: str) -> str:
    first, *more = ("fit_" + name if name == "intercept" else name).split("_")
    return first + "".join(word.capitalize() for word in more)


# Spark's names of the learner's parameters.
LEARNER = {_spark_name(name): name for name in Parameters.names()}


def param(name: str, doc: str, converter: Any = None) -> Param[Any]:
    """Return a parameter of these classes."""
    return Param(Params._dummy(), name, doc, converter)  # noqa: SLF001 - Spark's own way


class SONParams(HasLabelCol, HasFeaturesCol, HasPredictionCol, HasWeightCol):
    """Shared by estimators and models, which are public."""

    featureCols = param(  # noqa: N815
        "featureCols",
        "columns of numbers or text that are features by name, instead of featuresCol",
        TypeConverters.toListString,
    )
    offsetCol = param(  # noqa: N815
        "offsetCol",
        "what is added to the raw prediction of each row, of regressions",
        TypeConverters.toString,
    )
    format = param(
        "format", "'svmlight' or 'vw' if featuresCol holds lines of text", TypeConverters.toString
    )
    orderCol = param(  # noqa: N815
        "orderCol", "rows of a partition are learned in the order of it", TypeConverters.toString
    )
    rounds = param("rounds", "passes over the data, with a merge after each", TypeConverters.toInt)
    onError = param("onError", "what a bad row does: 'stop' or 'skip'", TypeConverters.toString)  # noqa: N815
    checkpointDir = param(  # noqa: N815
        "checkpointDir",
        "folder, seen by all executors, for the models of finished partitions",
        TypeConverters.toString,
    )
    resume = param(
        "resume", "take finished partitions from checkpointDir", TypeConverters.toBoolean
    )
    verbose = param(
        "verbose", "show the figures of all partitions after each round", TypeConverters.toBoolean
    )

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        learner = {name: getattr(Parameters, field) for name, field in LEARNER.items()}
        self._setDefault(**learner, rounds=1, onError="stop", resume=False, verbose=False)

    def take(self, values: dict[str, Any]) -> Self:
        """Set parameters by name."""
        for name in values:
            if not self.hasParam(name):
                listed = ", ".join(param.name for param in self.params)
                raise ParameterError(f"there is no parameter {name!r}; there are {listed}")
        return self._set(**values)

    def learner_parameters(self) -> Parameters:
        """Return the learner's parameters, checked."""
        values = {field: self.getOrDefault(name) for name, field in LEARNER.items()}
        check_choice("onError", self.getOrDefault("onError"), ON_ERROR)
        check_integer("rounds", self.getOrDefault("rounds"), 1)
        if self.getOrDefault("resume") and not self.chosen("checkpointDir"):
            raise ParameterError("resume=True needs checkpointDir, where the checkpoints are")
        return Parameters(**values)

    def chosen(self, name: str) -> Any:
        """Return a parameter that need not be set; None without it, or if it is empty."""
        return (self.getOrDefault(name) or None) if self.isDefined(name) else None


def _converter(default: Any) -> Any:
    """Return the type converter of a parameter for Spark; None if it may have several types."""
    return {int: TypeConverters.toInt, bool: TypeConverters.toBoolean}.get(type(default))


for _name, _field in LEARNER.items():
    _param = param(_name, first_sentence(_field), _converter(getattr(Parameters, _field)))
    setattr(SONParams, _name, _param)
