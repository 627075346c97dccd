"""The parameters of the estimators and models, named as Spark names them."""

from __future__ import annotations

from typing import Any, Self

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasFeaturesCol, HasLabelCol, HasPredictionCol, HasWeightCol

from sonline.errors import ParameterError
from sonline.parameters import Parameters

# Spark's names of the learner's parameters.
LEARNER = {
    "loss": "loss",
    "sketch": "sketch",
    "sketchSize": "sketch_size",
    "sketchEvery": "sketch_every",
    "alpha": "alpha",
    "bound": "bound",
    "clip": "clip",
    "step": "step",
    "curvature": "curvature",
    "sigma": "sigma",
    "eta": "eta",
    "ojaStep": "oja_step",
    "scaling": "scaling",
    "fitIntercept": "intercept",
    "hashBits": "hash_bits",
    "dtype": "dtype",
    "seed": "seed",
    "quantile": "quantile",
}
ON_ERROR = ("stop", "skip")


def param(name: str, doc: str, converter: Any = None) -> Param[Any]:
    """Return a parameter of these classes."""
    return Param(Params._dummy(), name, doc, converter)  # noqa: SLF001 - Spark's own way


class SONParams(HasLabelCol, HasFeaturesCol, HasPredictionCol, HasWeightCol):
    """What estimators and models share; only those are public."""

    loss = param("loss", "the loss", TypeConverters.toString)
    sketch = param("sketch", "how the second-order matrix is kept", TypeConverters.toString)
    sketchSize = param("sketchSize", "number of directions", TypeConverters.toInt)  # noqa: N815
    sketchEvery = param("sketchEvery", "sketch one row of so many: a number or 'auto'")  # noqa: N815
    alpha = param("alpha", "regulariser: a number, 'relative:NUMBER' or 'auto'")
    bound = param("bound", "bound on predictions; None for none")
    clip = param("clip", "clip predictions to the labels seen", TypeConverters.toBoolean)
    step = param("step", "'implicit' or 'explicit'", TypeConverters.toString)
    curvature = param("curvature", "'auto', 'gradient' or 'hessian'", TypeConverters.toString)
    sigma = param("sigma", "curvature of the loss; None for what it guarantees")
    eta = param("eta", "added curvature: a number, 'convex' or None")
    ojaStep = param("ojaStep", "step of Oja's sketch: a number or 'scale-free'")  # noqa: N815
    scaling = param("scaling", "'rms', 'none' or 'gradient'", TypeConverters.toString)
    fitIntercept = param("fitIntercept", "add a constant feature", TypeConverters.toBoolean)  # noqa: N815
    hashBits = param("hashBits", "hash features into 2^hashBits; None keeps them")  # noqa: N815
    dtype = param("dtype", "'float32' or 'float64'", TypeConverters.toString)
    seed = param("seed", "chooses the hash function", TypeConverters.toInt)
    quantile = param("quantile", "level of the quantile loss", TypeConverters.toFloat)

    featureCols = param(  # noqa: N815
        "featureCols",
        "columns of numbers or text that are features by name, instead of featuresCol",
        TypeConverters.toListString,
    )
    format = param(
        "format", "'svmlight' or 'vw' if featuresCol holds lines of text", TypeConverters.toString
    )
    orderCol = param(  # noqa: N815
        "orderCol", "rows of a partition are learnt in the order of it", TypeConverters.toString
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

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        learner = {name: getattr(Parameters, field) for name, field in LEARNER.items()}
        self._setDefault(**learner, rounds=1, onError="stop", resume=False, verbose=False)

    def take(self, given: dict[str, Any]) -> Self:
        """Set parameters by name."""
        for name in given:
            if not self.hasParam(name):
                known = ", ".join(param.name for param in self.params)
                raise ParameterError(f"there is no parameter {name!r}; there are {known}")
        return self._set(**given)

    def learner_parameters(self) -> Parameters:
        """Return the learner's parameters, checked."""
        given = {field: self.getOrDefault(name) for name, field in LEARNER.items()}
        on_error, rounds = self.getOrDefault("onError"), self.getOrDefault("rounds")
        if on_error not in ON_ERROR:
            raise ParameterError(f"onError must be 'stop' or 'skip', got {on_error!r}")
        if rounds < 1:
            raise ParameterError(f"rounds must be at least 1, got {rounds}")
        if self.getOrDefault("resume") and not self.chosen("checkpointDir"):
            raise ParameterError("resume=True needs checkpointDir, where the checkpoints are")
        return Parameters(**given)

    def chosen(self, name: str) -> Any:
        """Return a parameter that need not be set; None without it, or if it is empty."""
        return (self.getOrDefault(name) or None) if self.isDefined(name) else None
