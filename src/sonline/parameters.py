"""The parameters of a learner: their defaults, their checks, and their form in the core.

Names of losses and sketches come from the core's registries, so that a new one appears here, in
the messages and on the command line by itself.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from numbers import Integral
from typing import Any

from sonline import _core
from sonline.arguments import check_choice, check_integer, check_loss, check_number, python_scalar
from sonline.errors import ParameterError

if _core.in_subinterpreter():  # it would hang in the first batch that releases the GIL
    raise ImportError("sonline cannot be used in a sub-interpreter; use threads or processes")

SKETCHES: tuple[str, ...] = tuple(_core.sketch_names())
LOSSES: dict[str, dict[str, Any]] = {info["name"]: info for info in _core.loss_info()}
CLASSIFICATION_LOSSES = (*(name for name, info in LOSSES.items() if info["binary"]), "squared")
REGRESSION_LOSSES = tuple(name for name, info in LOSSES.items() if not info["binary"])
SCALINGS = ("auto", "rms", "none", "gradient")
CURVATURES = ("auto", "gradient", "hessian")
DTYPES = ("float32", "float64")
RELATIVE = "relative"
AUTO = "auto"
PAIRS = "pairs"  # curves as with "auto", and pairs of columns
SCALE_FREE = "scale-free"
CONVEX = "convex"
STEPS = ("implicit", "explicit")
MISSING = ("absent", "mark", "refuse")
DEFAULT_RELATIVE_ALPHA = 0.1
# alpha="auto": the members that are mixed. Over the sketch: (relative alpha, memory in rows, use).
# With a memory, steps keep their size once the stream is longer than it; 0 is plain gradient
# descent. "next" members predict the next row only, "later" ones rows that come later
# (docs/decisions/one-mixture.md has the evidence).
ALL_ROWS = math.inf
MEMBERS = (
    (1e-4, ALL_ROWS, "both"),
    (1e-2, ALL_ROWS, "both"),
    (1e-2, 100.0, "next"),
    (0.1, 0.0, "next"),
    (1e-2, 100.0, "later"),
)
# The same for losses of means (docs/decisions/knowing-more.md).
MEMBERS_OF_MEANS = ((0.1, ALL_ROWS, "both"), (1.0, ALL_ROWS, "both"), *MEMBERS[2:])
# The same over a sketch of the rows with curves (docs/decisions/curves.md).
CURVED = ((1e-2, ALL_ROWS, "both"), (0.1, ALL_ROWS, "both"))
# Relative alpha of the members with a step per feature.
DIAGONAL = (0.25,)
DIAGONAL_OF_MEANS = (0.5,)
PLAIN_MEMBERS = tuple((alpha, 0.0, "both") for alpha in (0.02, 0.1, 0.5, 2.0))
# Sketches that hold one weight vector only; "auto" is this relative alpha there.
SINGLE = {"adagrad": 0.5, "fd": 1.0, "rfd": 0.1, "full": 0.1}
# Sketches that must not miss a row.
EXACT = ("adagrad", "full")
MAX_SKETCH_SIZE = 1024
MAX_SKETCH_EVERY = 2**20
MAX_HASH_BITS = 62
SHAPES = ("quantile", "power", "delta", "epsilon")  # of single losses
_AS_THEY_ARE = ("loss", "sketch", "sketch_size", "clip", "scaling", "intercept", "missing")
LEAST_HALF_LIFE = 16  # rows: scales and typical losses rest on as many


def _parameter(
    default: Any, kind: str | tuple[str, ...], text: str, but: tuple[Any, ...] = (), **limits: Any
) -> Any:
    """Return a field with its text for all faces.

    ``kind`` is a type, or the values that it may have; ``limits`` are those of `check_integer` or
    `check_number`, which the values ``but`` need not keep.
    """
    choices = () if isinstance(kind, str) else kind
    shown = kind if isinstance(kind, str) else "{" + ", ".join(f'"{value}"' for value in kind) + "}"
    facts = {"kind": shown, "choices": choices, "text": text, "but": but, "limits": limits}
    return field(default=default, metadata=facts)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The parameters of an `OnlineLearner`: defaults, checks, and the text for all classes."""

    loss: str = _parameter(
        "logistic",
        "str",
        "The loss to minimise: " + ", ".join(f'"{name}"' for name in LOSSES) + ". Use "
        '"logistic" for classification with probabilities, "squared" for regression, "quantile" '
        'for medians and other quantiles, "poisson" for counts, "gamma" for amounts above 0, '
        '"tweedie" for amounts that are often 0, "huber" for labels with outliers, "hinge" or '
        '"squared_hinge" for classification without probabilities.',
    )
    sketch: str = _parameter(
        "isotropic",
        "str",
        'How the model stores which features are correlated. "isotropic" keeps the strongest '
        'directions and treats all others as equally strong. "oja" (cheaper) and "fd" (Frequent'
        ' Directions, with a regret bound) are the paper\'s two sketches; "rfd" is robust '
        'Frequent Directions. "full" stores the whole matrix, for a few hundred features at '
        'most. "adagrad" stores one number per feature, and "none" stores nothing (gradient '
        "descent). In formulas, the sketch approximates the matrix A.",
    )
    sketch_size: int = _parameter(
        11,
        "int",
        "Number of directions that the sketch keeps: by default ten, and one for the intercept."
        " Increase it if many features are correlated; time and memory grow with it. More than "
        "two classes do without sketches if rows are wide, as texts are. The "
        "paper calls it m.",
        low=0,
        high=MAX_SKETCH_SIZE,
    )
    alpha: float | str = _parameter(
        AUTO,
        'float, "auto" or "relative:NUMBER"',
        'Size of the first steps: a larger alpha means smaller steps. "auto" trains weight '
        "vectors with several values side by side and blends them by how well they predict; "
        'keep it unless you want a single weight vector. "relative:c" is c times the mean '
        "squared length of the (scaled) rows so far, which does not depend on units (for "
        '"adagrad": c times the square root of it). 0 is allowed for sketch="full" only. In '
        "formulas, alpha is the regulariser, the curvature that every direction starts with.",
    )
    bound: float | None = _parameter(
        None,
        "float",
        "Keep all predictions between -bound and bound. Only needed for the paper's guarantees:"
        " before each prediction the weights are projected onto ``|w.x| <= bound``. The paper "
        "calls it C.",
        but=(None,),
        above=0,
        instead="None for no bound",
    )
    clip: bool = _parameter(
        False,
        "bool",
        "Keep predictions within the range of the labels seen so far. The gradient is taken at "
        "the clipped prediction.",
    )
    step: str = _parameter(
        "implicit",
        STEPS,
        'Where the gradient of a step is computed. "implicit": at the end of the step, so a '
        'step cannot overshoot, whatever alpha is. "explicit": at its start, as in the paper; '
        "this can diverge if alpha is small, and needs a number for alpha.",
    )
    curvature: str = _parameter(
        "auto",
        CURVATURES,
        "The vector that a row adds to the sketch. \"hessian\": ``sqrt(l'') x``, from the second "
        'derivative of the loss. "gradient": ``sqrt(sigma + eta) l\' x``, from the gradient, as '
        'in the paper. "auto" is "hessian" if the loss has a second derivative.',
    )
    sigma: float | None = _parameter(
        None,
        "float",
        'With curvature="gradient": lower bound on the second derivative of the loss, relative '
        "to its squared slope. None uses the value that holds for predictions within ``bound`` "
        "(within 1 if there is no bound).",
        but=(None,),
        least=0,
        instead="None for what the loss guarantees",
    )
    eta: float | str | None = _parameter(
        None,
        'float or "convex"',
        'With curvature="gradient": added to ``sigma``, for losses without curvature. "convex" '
        "is the paper's schedule, which decreases with the number of rows. None is 0 if "
        '``sigma`` is above 0, and "convex" otherwise.',
        but=(None, CONVEX),
        least=0,
        instead="'convex' or None",
    )
    oja_step: float | str = _parameter(
        SCALE_FREE,
        'float or "scale-free"',
        'With sketch="oja": how fast the directions turn towards new rows. A number c gives the'
        ' step c/t in row t, as in the paper. "scale-free" is sketch_size divided by the sum of'
        " the squared lengths of the rows, which does not depend on units.",
        but=(SCALE_FREE,),
        above=0,
        instead="'scale-free'",
    )
    sketch_every: int | str = _parameter(
        AUTO,
        'int or "auto"',
        "With n, only one row in n updates the sketch, with weight n; every row updates the "
        'weights. A larger n is faster. "auto" is 1 if you set alpha. With alpha="auto" it is 1'
        " for the first 1,024 rows, then 2, 4, 8, 16, and 32 from row 16,384 on. The RMS scales"
        " are updated by the same rows, and by every value that is far beyond its scale.",
        but=(AUTO,),
        low=1,
        high=MAX_SKETCH_EVERY,
        instead="'auto'",
    )
    scaling: str = _parameter(
        AUTO,
        SCALINGS,
        'What each feature is divided by. "rms": its typical size, the root mean square so far '
        'over the rows in which it is not zero. "auto" does the same if features have different'
        " units. If nearly all features of the first 16 rows have a similar size, it divides "
        "these by one common size and so keeps their relative sizes; features that are far more"
        ' frequent than others are divided by a little more. "none" does not scale. "gradient":'
        " the square root of the summed squared gradients, as in the paper.",
    )
    intercept: bool = _parameter(
        True,
        "bool",
        "Whether to add a constant feature.",
    )
    hash_bits: int | None = _parameter(
        None,
        "int",
        "Hash features into 2^hash_bits slots, to limit memory. Features in the same slot share"
        " a weight, and their names are lost. None stores every feature separately.",
        but=(None,),
        low=1,
        high=MAX_HASH_BITS,
    )
    dtype: str = _parameter(
        "float32",
        DTYPES,
        "Precision of the numbers stored per feature. Small matrices are always float64.",
    )
    seed: int = _parameter(
        0,
        "int",
        "Seed of the hash function for ``hash_bits``, and of the order if a stream is shuffled.",
        low=0,
        high=2**63 - 1,
    )
    quantile: float = _parameter(
        0.5,
        "float",
        'With loss="quantile": the quantile to predict; 0.5 is the median. With loss="expectile": '
        "the expectile; 0.5 is the mean.",
        above=0,
        below=1,
    )
    power: float = _parameter(
        1.5,
        "float",
        'With loss="tweedie": the variance of a label grows like its mean to this power, which '
        "lies between 1 (counts) and 2 (amounts above 0).",
        above=1,
        below=2,
    )
    delta: float = _parameter(
        1.345,
        "float",
        'With loss="huber": from which size on errors count like their size instead of its square, '
        'relative to the typical error with alpha="auto", otherwise in the unit of the label.',
        above=0,
    )
    epsilon: float = _parameter(
        0.1,
        "float",
        'With loss="epsilon_insensitive": the size of errors that do not count, in the unit of the '
        "label.",
        least=0,
    )
    missing: str = _parameter(
        "absent",
        MISSING,
        "What a missing value in a data frame, a table, JSON or a dictionary does. "
        '"absent": the row has no such feature, as if it were 0. "mark": the row has the feature '
        '"name=(missing)" instead, which gets its own weight. "refuse": the row is an error that '
        "names it.",
    )
    curves: bool | str = _parameter(
        AUTO,
        'bool, "auto" or "pairs"',
        "Whether columns of numbers may have curves instead of straight lines: beside the linear "
        "weight vectors, one learns a weight for each of several knots of a column. They are "
        'blended by how well they predict. "auto": for the rows of tables (arrays, frames, '
        "mappings, CSV, Parquet) with up to 256 features, not for sparse matrices, svmlight and "
        'VW files, and words. "pairs": in the same rows, there are pairs of columns, too, chosen '
        "by the rows, which learn what two columns (one may be a category) do together. Only "
        'alpha="auto" with the default sketch and scaling, an '
        "intercept and no hashing can have them.",
    )
    half_life: float | None = _parameter(
        None,
        "float",
        "Forget old rows: a row counts half as much after half_life rows, a quarter after twice as "
        "many, and so on, in the sketch, the scales, the base rate and what the weight vectors "
        "are judged by. At least 16. For streams whose rule changes; alpha is not forgotten. None "
        "forgets nothing.",
        but=(None,),
        least=LEAST_HALF_LIFE,
        instead="None to forget nothing",
    )

    def __post_init__(self) -> None:
        self._check_each()
        check_loss(self.loss, tuple(LOSSES))
        check_choice("sketch", self.sketch, SKETCHES)
        if self.sketch_every not in (1, AUTO) and self.sketch in EXACT:
            raise ParameterError(
                f"sketch={self.sketch!r} takes in every row: sketch_every must be 1 or "
                f"{AUTO!r}, got {self.sketch_every!r}"
            )
        if self.half_life is not None and self.scaling == "gradient":
            raise ParameterError(
                "half_life needs scaling='auto', 'rms' or 'none': the sums of scaling='gradient' "
                "are the paper's and forget nothing"
            )
        relative, alpha = self.relative_alpha
        if alpha == 0 and (self.sketch != "full" or relative):
            raise ParameterError(
                "alpha=0 needs sketch='full', which has the pseudo-inverse; "
                f"sketch={self.sketch!r} needs alpha > 0"
            )
        if self.step == "explicit" and self.several:
            raise ParameterError(
                "step='explicit' needs a number for alpha (or 'relative:NUMBER'): the weight "
                "vectors that alpha='auto' blends take implicit steps"
            )
        if self.curvature == "hessian" and not LOSSES[self.loss]["hessian"]:
            smooth = ", ".join(repr(name) for name, info in LOSSES.items() if info["hessian"])
            raise ParameterError(
                f"curvature='hessian' needs a loss with a second derivative ({smooth}), got "
                f"loss={self.loss!r}; use curvature='gradient' or 'auto'"
            )
        self._check_curves()

    def _check_curves(self) -> None:
        if self.curves in (0, 1):
            object.__setattr__(self, "curves", bool(self.curves))
        elif self.curves not in (AUTO, PAIRS):
            raise ParameterError(
                f"curves must be True, False, {AUTO!r} or {PAIRS!r}, got {self.curves!r}"
            )
        if self.curves is True and self._why_no_curves:
            raise ParameterError(f"curves=True needs {self._why_no_curves}; or use curves='auto'")

    @property
    def _why_no_curves(self) -> str:
        """What a model with curves must have and this one has not."""
        if not self.several or self.sketch != "isotropic" or self.sketch_size == 0:
            return "alpha='auto' and sketch='isotropic', whose weight vectors are blended"
        if self.scaling != AUTO:
            return "scaling='auto'"
        if not self.intercept:
            return "an intercept"
        return "" if self.hash_bits is None else "features that are not hashed (hash_bits=None)"

    def _check_each(self) -> None:
        """Check each parameter by itself."""
        object.__setattr__(self, "dtype", str(self.dtype))
        for parameter in fields(self):
            name, facts = parameter.name, parameter.metadata
            value = python_scalar(name, getattr(self, name))
            object.__setattr__(self, name, value)
            if facts["choices"]:
                check_choice(name, value, facts["choices"])
            elif facts["kind"] == "bool":
                if not isinstance(value, (bool, int)):
                    raise ParameterError(f"{name} must be True or False, got {value!r}")
                object.__setattr__(self, name, bool(value))
            elif facts["limits"] and value not in facts["but"]:
                check = check_integer if "low" in facts["limits"] else check_number
                check(name, value, **facts["limits"])

    @property
    def binary(self) -> bool:
        """Whether the labels are -1 and +1 rather than any number."""
        return bool(LOSSES[self.loss]["binary"])

    @property
    def log_link(self) -> bool:
        """Whether raw predictions are logarithms of the predicted numbers."""
        return bool(LOSSES[self.loss]["log_link"])

    @property
    def least_label(self) -> str:
        """What labels must be for a loss of means above 0; empty for other losses."""
        if not self.log_link:
            return ""
        return "above 0" if LOSSES[self.loss]["positive"] else "0 or more"

    @property
    def core_loss(self) -> _core.Loss:
        """The loss with its parameter, as the core has it."""
        return _core.Loss(self.loss, *(float(getattr(self, name)) for name in SHAPES))

    @property
    def hessian(self) -> bool:
        """Whether the second derivative of the loss is sketched."""
        if self.curvature == "auto":
            return bool(LOSSES[self.loss]["hessian"])
        return self.curvature == "hessian"

    @property
    def relative_alpha(self) -> tuple[bool, float]:
        """Whether alpha is in units of the mean squared norm of the rows, and its number."""
        if self.alpha == AUTO:
            return True, SINGLE.get(self.sketch, DEFAULT_RELATIVE_ALPHA)
        if isinstance(self.alpha, str):
            word, _, factor = self.alpha.partition(":")
            if word != RELATIVE:
                raise ParameterError(
                    f"alpha must be a number, 'relative:NUMBER' (in units of the mean squared norm "
                    f"of the rows) or 'auto', got {self.alpha!r}"
                )
            try:
                number = float(factor) if factor else DEFAULT_RELATIVE_ALPHA
            except ValueError:
                raise ParameterError(f"alpha={self.alpha!r}: {factor!r} is not a number") from None
            check_number("alpha", number, above=0)
            return True, number
        check_number("alpha", self.alpha, least=0, instead="'relative:NUMBER'")
        return False, float(self.alpha)

    @property
    def members(self) -> tuple[tuple[float, float, str], ...]:
        """Alpha, memory in rows and use of each weight vector over the sketch."""
        if not self.several:
            return ((self.relative_alpha[1], ALL_ROWS, "both"),)
        if self.sketch == "none":
            return PLAIN_MEMBERS
        return MEMBERS_OF_MEANS if self.log_link else MEMBERS

    @property
    def diagonal(self) -> tuple[float, ...]:
        """Alpha of each weight vector with a step per feature."""
        if not self.several or self.sketch == "none" or self.clip:
            return ()
        return DIAGONAL_OF_MEANS if self.log_link else DIAGONAL

    @property
    def counts_rows(self) -> bool:
        """Whether the scales count the rows of each feature."""
        return self.scaling in (AUTO, "rms")

    @property
    def several(self) -> bool:
        """Whether several weight vectors are blended."""
        return self.alpha == AUTO and self.sketch not in SINGLE

    @property
    def _curves_for_core(self) -> str:
        if self._why_no_curves or self.curves is False:
            return "off"
        return "on" if self.curves is True else AUTO

    def for_core(self) -> dict[str, Any]:
        """Return the parameters in the form that the core takes."""
        bound = math.inf if self.bound is None else float(self.bound)
        sigma = self.sigma
        if sigma is None:
            sigma = self.core_loss.sigma(1.0 if self.bound is None else bound)
        eta = self.eta
        if eta is None:
            eta = 0.0 if sigma > 0 else CONVEX
        # 0 where the core chooses: the steps of a lone weight vector need each row in A.
        every = int(not self.several) if self.sketch_every == AUTO else int(self.sketch_every)
        return {
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
            **{name: float(getattr(self, name)) for name in SHAPES},
            "members": list(self.members),
            "diagonal": list(self.diagonal),
            "curved": list(CURVED),
            "curves": self._curves_for_core,
            "pairs": self.curves == PAIRS,
            "relative": self.relative_alpha[0],
            "root": self.sketch == "adagrad",
            "bound": bound,
            "unit_free": not self.binary and self.alpha == AUTO and self.bound is None,
            "explicit_step": self.step == "explicit",
            "hessian": self.hessian,
            "sigma": float(sigma),
            "eta": 0.0 if eta == CONVEX else float(eta),
            "eta_convex": eta == CONVEX,
            "sketch_every": every,
            "oja_step": 1.0 if self.oja_step == SCALE_FREE else float(self.oja_step),
            "scale_free": self.oja_step == SCALE_FREE,
            "half_life": 0.0 if self.half_life is None else float(self.half_life),
            "hash_bits": -1 if self.hash_bits is None else int(self.hash_bits),
            "hash_seed": int(self.seed),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters as plain values that JSON can hold."""
        plain = asdict(self)
        for name, value in plain.items():
            if isinstance(value, bool) or value is None or isinstance(value, str):
                continue
            plain[name] = int(value) if isinstance(value, Integral) else float(value)
        return plain

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all parameters, in their order."""
        return tuple(field.name for field in fields(cls))
