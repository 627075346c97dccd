"""Inspection of a model: weights, contributions, spectra, counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sonline import _core
from sonline.errors import InvalidInputError
from sonline.labels import ClassTable
from sonline.model.curves import Curve, curve_of
from sonline.model.pairs import Pair, pair_of
from sonline.parameters import Parameters
from sonline.rows import Floats
from sonline.rows.columns import MISSING_WORD
from sonline.rows.mappings import features_of
from sonline.rows.sides import Sides

COUNTING = ("auto", "rms")  # ways of scaling by the mean square of the values
PROBABILISTIC = "logistic"  # the loss whose predictions are logarithms of odds
INTERCEPT = "(intercept)"  # its name among the parts of a prediction


class Inspection:
    """The part of `Model` that only looks at its learners."""

    CLASSES_SHOWN = 10  # of a model whose curves are shown without naming a class

    parameters: Parameters
    table: ClassTable | None
    core: _core.Model
    predict_one: Callable[..., list[float]]
    reading: Any

    @property
    def text_columns(self) -> set[str]:
        """The columns whose texts are categories, also if they are dates."""
        return {name for name, kind in self.reading.columns.items() if kind == "text"}

    @property
    def classes(self) -> int:
        """How many classes there are so far; 0 for numbers."""
        return 0 if self.table is None else len(self.table)

    @property
    def knows_labels(self) -> bool:
        """Whether a model of classes has any; True for numbers."""
        return self.table is None or self.classes > 0

    @property
    def growing(self) -> bool:
        """Whether new classes may appear."""
        return self.table is not None and self.table.growing

    @property
    def outputs(self) -> int:
        """How many raw predictions a row has: one for numbers and two classes, else one each."""
        return 1 if self.table is None or self.classes == 2 else self.classes

    def in_order(self, lines: Floats) -> Floats:
        """Return lines, one per output, in the order of the sorted labels."""
        return lines if self.table is None else self.table.in_order(lines)

    def features(self) -> list[str | int]:
        """Return the features seen, in the order of their appearance."""
        return self.core.features()

    def weights(self, scaled: bool = False) -> Floats:
        """Return the weights, a line per output, a column per feature, the intercept's first.

        They are for the raw features or, if ``scaled``, for features divided by their root
        mean square: what a feature of its usual size adds to a prediction. With scaling="none" or
        "gradient" the root mean squares are not known, and both are the same.
        """
        lines = np.array([self.core.weights(line) for line in range(self.outputs)])
        lines = lines.reshape(self.outputs, -1)
        return lines * self.core.scales() if scaled else lines

    def limits(self) -> tuple[Floats, Floats]:
        """Return, for each feature, the values beyond which it is cut, the intercept's first."""
        centres = self.centres()
        limits: Floats = self.core.limits()
        return centres - limits, centres + limits

    def young(self) -> NDArray[np.bool_]:
        """Return which features, the intercept first, have occurred fewer than 16 times.

        The scale of such a feature includes the row that is predicted, so predictions are not
        linear in it, unless all its values have the same size. Other ways of scaling are linear.
        """
        if self.parameters.scaling not in COUNTING:
            return np.zeros(self.centres().size, np.bool_)
        limits: Floats = self.core.limits()
        limits[0] = 0
        return np.isinf(limits)

    def centres(self) -> Floats:
        """Return what is subtracted from the values of each feature, the intercept's first."""
        return np.asarray(self.core.centres())

    def output_of(self, label: Any = None) -> tuple[int, float]:
        """Return the output that predicts a class, and 1, or -1 if it predicts the other class.

        Without a label it is the only output, of numbers, or the second of two sorted classes.
        """
        if self.table is None and label is not None:
            raise InvalidInputError(
                f"this model predicts numbers, so label={label!r} means nothing"
            )
        if label is None and self.classes == 2:
            label = cast(ClassTable, self.table).sorted_labels()[1]
        if self.table is None or (label is None and self.outputs == 1):
            return 0, 1.0
        if label is None or label not in self.table.numbers:
            shown = self.table.sorted_labels()[:20]
            raise InvalidInputError(f"label must be one of {shown}, got {label!r}")
        number = self.table.numbers[label]
        return (0, 1.0 if number == 1 else -1.0) if self.classes == 2 else (number, 1.0)

    def weights_of(self, label: Any = None, scaled: bool = False) -> dict[str | int, float]:
        """Return the weight of each feature seen for a class, or for the only output."""
        if not self.knows_labels:
            return {}
        output, sign = self.output_of(label)
        weights = (sign * self.weights(scaled)[output, 1:]).tolist()
        # Another thread may have added features since.
        return dict(zip(self.features(), weights, strict=False))

    def hats(self, output: int) -> dict[int, tuple[Floats, Floats]]:
        """Return knots of each column with a curve, and what the curve adds there to its line.

        Columns are known by their position among the weights, in which the intercept is first.
        """
        return {slot: (knots, values) for slot, knots, values, _ in self.core.curves(output)}

    def curves(self, label: Any = None) -> list[Curve]:
        """Return the curves of all columns that have one, the most important first."""
        if not self.knows_labels:
            return []
        output, sign = self.output_of(label)
        drawn = self.core.curves(output)
        if not drawn:
            return []
        weights = sign * self.weights()[output]
        centres, limits = self.centres(), self.core.limits()
        features, counts = [INTERCEPT, *self.features()], self._counts()
        rounds = self.stats()["rounds"]
        positions = {feature: slot for slot, feature in enumerate(features)}
        curves = []
        for slot, knots, values, rows in drawn:
            centre, limit, feature = centres[slot], limits[slot], features[slot]
            line = weights[slot] * np.clip(knots - centre, -limit, limit)
            marked = (
                counts[positions[mark]]
                if (mark := f"{feature}={MISSING_WORD}") in positions
                else 0.0
            )
            curves.append(
                curve_of(
                    feature,
                    knots,
                    line + sign * values,
                    rows,
                    slope=float(weights[slot]),
                    zeros=rounds - float(rows.sum()) - float(marked),
                    limits=(float(centre - limit), float(centre + limit)),
                )
            )
        return sorted(curves, key=lambda curve: -curve.importance)

    def maps(
        self, output: int
    ) -> list[tuple[tuple[int, int], tuple[Sides, Sides], Floats, Floats]]:
        """Return columns and sides of each pair, and weight and rows for each two sides."""
        return [
            ((a, b), (Sides(of_a, few_a), Sides(of_b, few_b)), weights, rows)
            for a, of_a, few_a, b, of_b, few_b, weights, rows in self.core.pairs(output)
        ]

    def pairs(self, label: Any = None) -> list[Pair]:
        """Return the pairs of columns, the most important first."""
        if not self.knows_labels:
            return []
        output, sign = self.output_of(label)
        features = [INTERCEPT, *self.features()]
        pairs = [
            pair_of((features[a], features[b]), sides, sign * weights, rows)
            for (a, b), sides, weights, rows in self.maps(output)
        ]
        return sorted(pairs, key=lambda pair: -pair.importance)

    def curve(self, feature: Any, label: Any = None) -> Curve:
        """Return the curve of a column; a line through two points if it has none."""
        for curve in self.curves(label):
            if curve.feature == feature:
                return curve
        features = self.features()
        if feature not in features:
            raise InvalidInputError(f"the model knows no feature {feature!r}")
        output, sign = self.output_of(label)
        slot, rounds = features.index(feature) + 1, self.stats()["rounds"]
        slope, centre = sign * float(self.weights()[output, slot]), float(self.centres()[slot])
        size = float(self.core.scales()[slot]) or 1.0
        limit = float(self.core.limits()[slot])
        # All that is known is how often it occurred, and its root mean square then.
        count = min(float(self._counts()[slot]), rounds)
        values = np.array([centre - size if centre else 0.0, centre + size])
        rows = np.array([count / 2, 0.0, count / 2] if centre else [0.0, 0.0, count])
        return curve_of(
            feature,
            values,
            slope * (values - centre),
            rows,
            slope=slope,
            zeros=rounds - count,
            limits=(centre - limit, centre + limit),
        )

    def column_curves(self, label: Any = None) -> list[tuple[Any, dict[Any, Curve]]]:
        """Return the curves of each column by their classes, the most important column first.

        Without a label there are those of all classes, or those of the only output.
        """
        labels: list[Any] = [label]
        if label is None and self.outputs > 1:
            labels = cast(ClassTable, self.table).sorted_labels()
        elif label is None and self.classes == 2:
            labels = cast(ClassTable, self.table).sorted_labels()[1:]
        columns: dict[Any, dict[Any, Curve]] = {}
        for one in labels if self.outputs else []:
            for curve in self.curves(one):
                columns.setdefault(curve.feature, {})[one] = curve
        most = {
            name: max(curve.importance for curve in found.values())
            for name, found in columns.items()
        }
        return sorted(columns.items(), key=lambda item: -most[item[0]])

    @staticmethod
    def span(columns: list[tuple[Any, dict[Any, Curve]]]) -> tuple[float, float]:
        """Return the lowest and the highest contribution in a picture of columns; 0 is within."""
        parts = [curve.line()[1] for _, curves in columns for curve in curves.values()]
        every = np.concatenate([[0.0], *parts])
        return float(every.min()), float(every.max())

    def unit(self, label: Any = None) -> str:
        """Return what contributions to a raw prediction are measured in."""
        if self.table is None:
            log = self.parameters.log_link
            return "in the logarithm of the target" if log else "in the unit of the target"
        if label is None and self.classes == 2:
            label = self.table.sorted_labels()[1]
        what = "log odds" if self.parameters.loss == PROBABILISTIC else "raw prediction"
        return f"in {what}" + ("" if label is None else f" of {label}")

    def _counts(self) -> Floats:
        """Return in how many rows each feature was there, the intercept first."""
        return np.asarray(self.core.knowledge()["counts"], dtype=np.float64)

    def explain(self, x: Mapping[Any, Any], label: Any = None) -> dict[Any, float]:
        """Return what the intercept and each feature add to a raw prediction, largest first."""
        return self.explainer(label)(x)

    def explainer(self, label: Any = None) -> Callable[[Mapping[Any, Any]], dict[Any, float]]:
        """Return a function that explains rows by the model as it is now.

        The parts have the names of the row, also if the model knows them by their hashes.
        Values beyond their limit are cut, as they are for the prediction. A feature that is
        centred counts by its distance from the centre, and the intercept is the prediction there.
        """
        if not self.knows_labels:
            return lambda x: {}
        output, sign = self.output_of(label)
        bias, *weights = (sign * self.weights()[output]).tolist()
        limits = self.core.limits()[1:].tolist()
        centres = self.core.centres()[1:].tolist()
        hats = self.hats(output)
        drawn = [hats.get(slot + 1) for slot in range(len(weights))]
        pairs = self.pairs(label)
        features = zip(weights, limits, centres, self.young()[1:].tolist(), drawn, strict=False)
        # Another thread may have added features since.
        known = dict(zip(self.features(), features, strict=False))
        bias += sum(weight * centre for weight, _, centre, _, _ in known.values())
        intercept = INTERCEPT
        while intercept in known:
            intercept = f"({intercept})"
        absent = {feature: 0.0 for feature, (_, _, centre, _, _) in known.items() if centre}
        bounded = self.parameters.bound is not None or self.parameters.clip

        def explain(x: Mapping[Any, Any]) -> dict[Any, float]:
            self.predict_one(x)  # raises the errors about rows that cannot be used
            x = features_of(x, self.text_columns, self.parameters.missing)
            parts: dict[Any, float] = {intercept: bias} if self.parameters.intercept else {}
            given: dict[Any, tuple[Any, float]] = {}  # names and values, but 0
            for name, value in (absent | x).items():
                feature = f"{name}={value}" if isinstance(value, str) else name
                key = self._hashed(feature)
                if key not in known:
                    continue
                number = 1.0 if isinstance(value, str) else float(value)
                weight, limit, centre, young, curve = known[key]
                if number != centre:
                    given[key] = feature, number
                if young and centre == 0 and not bounded:  # its scale depends on the value
                    alone = self.predict_one({name: value})[output] - self.predict_one({})[output]
                    parts[feature] = sign * alone
                else:
                    parts[feature] = weight * min(max(number - centre, -limit), limit)
                    if curve is not None:
                        parts[feature] += sign * float(np.interp(number, *curve))
            for pair in pairs:
                if all(feature in given for feature in pair.features):
                    (a, x_a), (b, x_b) = (given[feature] for feature in pair.features)
                    parts[f"{a} × {b}"] = float(pair.at(np.array([x_a]), np.array([x_b]))[0])
            return dict(sorted(parts.items(), key=lambda item: -abs(item[1])))

        return explain

    def _hashed(self, feature: Any) -> Any:
        """Return a feature as `features` has it: its hash, if names are hashed."""
        if self.parameters.hash_bits is None or not isinstance(feature, str):
            return feature
        return int(self.core.name_keys([feature], False)[0])

    def spectra(self) -> list[Floats]:
        """Return the eigenvalues of the sketch of each output, largest first; sorted by class."""
        outputs = list(range(self.outputs))
        if self.classes > 2:
            outputs = cast(ClassTable, self.table).order.tolist()
        return [np.sort(self.core.spectrum(line))[::-1] for line in outputs]

    def ranges(self) -> Floats:
        """Return the lowest and the highest raw prediction of each output, as two lines."""
        bound = np.inf if self.parameters.bound is None else float(self.parameters.bound)
        ends = np.array([-bound, bound])
        low, high = self.core.label_range()
        if self.parameters.clip and low <= high:
            if self.parameters.log_link:
                low, high = np.log(np.maximum([low, high], 1e-300))
            ends = np.clip([low, high], -bound, bound)
        return np.repeat(ends[:, np.newaxis], max(self.outputs, 1), axis=1)

    def stats(self) -> dict[str, Any]:
        """Return counters; bytes and the upkeep of sketches over all outputs."""
        return self.core.stats()
