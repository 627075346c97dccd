"""`Oracle`: what a `sonline.model.Model` computes, in plain NumPy for dense rows: model_of.hpp."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from oracle.config import Config, Seen
from oracle.curves import COLUMNS, Curves
from oracle.diagonal import Diagonal
from oracle.inputs import Inputs
from oracle.output import NEVER, NUMBER, Output
from oracle.warm_up import WARM_UP_ROWS, Choices, choose
from sonline.paper.reference.sketches import Array
from sonline.parameters import Parameters

Row = tuple[Array, float, float]


class Oracle:
    """A model of numbers (``classes`` is None) or classes, whose labels are 0, 1, 2 and so on."""

    def __init__(
        self,
        parameters: Parameters,
        features: int,
        classes: int | None = None,
        growing: bool = False,
    ) -> None:
        self.config = Config.of(parameters)
        if classes is not None:  # only numbers have an offset and a unit
            self.config = replace(self.config, unit_free=False)
        self.d = features + self.config.intercept
        self.classes, self.growing = classes, growing
        self.first_rows: list[Row] | None = None
        if self.config.scaling == "auto" or self.config.diagonal:
            self.first_rows = []
        self.table = True  # whether all rows of the warm-up are those of tables
        self._start(Choices(0.0, np.zeros(self.d), False), Curves(self.d))

    def _start(self, choices: Choices, curves: Curves) -> None:
        self.curves = curves
        config = self.config if curves.on else replace(self.config, hat_members=())
        self.wide = choices.wide
        scaling = "none" if config.scaling == "gradient" else config.scaling
        self.inputs = Inputs(
            scaling,
            self.d,
            config.intercept,
            config.every,
            unit=choices.unit,
            centres=choices.centres,
            kept=config.kept,
        )
        self.seen = Seen()
        self.seen_classes: set[int] = set()
        targets = self._first_targets()
        self.outputs = [Output(config, self.d, target, curves.room) for target in targets]
        self.diagonal = Diagonal(config, len(targets), self.d)

    def _first_targets(self) -> list[int]:
        if self.classes is None:
            return [NUMBER]
        if self.classes <= 1:
            return [NEVER]
        targets = [1] if self.classes == 2 else list(range(self.classes))
        return targets + [NEVER] * self.growing

    @property
    def lines(self) -> int:
        return 1 if self.classes in (None, 2) else int(self.classes or 0)

    def add_class(self) -> None:
        """Add a class: a copy of the output of the class that no row has."""
        assert self.classes is not None
        added, self.classes = self.classes, self.classes + 1
        if added == 0:
            return
        if added == 2:  # until now one output says which of two classes it is
            first, never = self.outputs
            self.outputs = [first, first.copy(), never, never.copy()]
            self.outputs[0].mirror(0)
            self.diagonal.arranged([0, 0, 1, 1])
        else:
            last = len(self.outputs) - 1
            self.outputs.append(self.outputs[last].copy())
            self.diagonal.arranged([*range(last + 1), last])
        self.outputs[-2].target = added

    def learn(
        self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, table: bool = True
    ) -> Array:
        """Learn rows in order; return the predictions before each, a line per output."""
        self.table &= table or self.first_rows is None
        labels = np.asarray(y, dtype=float)
        while self.growing and self.classes is not None and self.classes <= labels.max(initial=-1):
            self.add_class()
        omega = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=float)
        made = [
            self._learn_row(x, label, weight) if weight > 0 else self._predict_row(x, "next")
            for x, label, weight in zip(self._rows(X), labels.tolist(), omega.tolist(), strict=True)
        ]
        return np.array(made).T

    def predict(self, X: ArrayLike) -> Array:
        """Predict later rows; a line per output."""
        return np.array([self._predict_row(x, "later") for x in self._rows(X)]).T

    def weights(self, line: int) -> Array:
        """Return the weights of unscaled features for later rows, the constant first."""
        k = min(line, len(self.outputs) - 1)
        later = self.diagonal.later(self.seen.count + 1)[k]
        weights = self.inputs.raw(self.outputs[k].weights(later))
        if self.config.intercept:
            weights[0] += self.outputs[k].constant
        return -weights if self._mirrored else weights

    def shares(self, line: int, use: str) -> Array:
        return self.outputs[min(line, len(self.outputs) - 1)].mixture.share(use)

    @property
    def _mirrored(self) -> bool:
        """A single class is the opposite of "never"."""
        return self.classes is not None and self.classes <= 1

    def _rows(self, X: ArrayLike) -> Array:
        rows = np.asarray(X, dtype=float)
        return np.hstack([np.ones((len(rows), 1)), rows]) if self.config.intercept else rows

    def _diagonal(self, k: int, row: int) -> dict[str, Array]:
        return {"next": self.diagonal.W[k], "later": self.diagonal.later(row)[k]}

    def _answers(self, margins: list[dict[str, Array]], use: str) -> list[float]:
        answers = [
            output.answer(own, use) for output, own in zip(self.outputs, margins, strict=True)
        ]
        sign = -1.0 if self._mirrored else 1.0
        return [sign * answer for answer in answers[: max(self.lines, 1)]]

    def _predict_row(self, row: Array, use: str) -> list[float]:
        x, number = self.inputs.apply(row), self.seen.count + 1
        hats = self.curves.expand(row - self.inputs.centres, x)
        margins = [
            output.predict(x, hats, self._diagonal(k, number))
            for k, output in enumerate(self.outputs)
        ]
        return self._answers(margins, use)

    def _learn_row(self, row: Array, label: float, weight: float) -> list[float]:
        answers = self._round(row, label, weight)
        if self.first_rows is not None:
            self.first_rows.append((row, label, weight))
            if len(self.first_rows) == WARM_UP_ROWS:
                self._start_again(self.first_rows)
                self.first_rows = None
        return answers

    def _start_again(self, rows: list[Row]) -> None:
        config, X = self.config, np.array([row for row, _, _ in rows])
        choices = choose(X, config.size, config.intercept, config.scaling)
        self._start(choices, self._chosen_curves(X, choices))
        for row in rows:
            self._round(*row)

    def _chosen_curves(self, X: Array, choices: Choices) -> Curves:
        curves, table = Curves(self.d, self.config.pairs), self.table and not choices.wide
        few = int((X != 0).any(axis=0)[1:].sum()) <= COLUMNS
        if self.config.curves == "on" or (self.config.curves == "auto" and table and few):
            curves.start(X - choices.centres)
        return curves if curves.on else Curves(self.d)

    def _stop_holding(self) -> None:
        """From the third class on, members are judged on the next row only."""
        self.diagonal.holds = False
        for output in self.outputs:
            output.hold_nothing()
            if self.wide and self.config.diagonal:
                output.drop_sketch()

    def _round(self, row: Array, label: float, weight: float) -> list[float]:
        if self.classes is not None:
            self.seen_classes.add(int(label))
        if len(self.seen_classes) > 2:
            self._stop_holding()
        times, before = self.inputs.times(), self.seen
        x = self.inputs.take(row)
        self.inputs.count(row, x)
        self.seen = before.with_row(
            self.inputs.mean_norm2, self.inputs.features, weight, self.config.kept
        )
        number = self.seen.count
        hats = self.curves.expand(row - self.inputs.centres, x)
        of_hats_before = replace(before, mean_energy=self.curves.mean_energy)
        self.curves.mean_energy += (float(hats @ hats) - self.curves.mean_energy) / self.seen.rows
        of_hats = replace(
            self.seen,
            mean_energy=self.curves.mean_energy,
            features=self.seen.features + self.curves.hats,
        )
        margins = [
            output.begin(x, hats, self._diagonal(k, number), before, of_hats_before)
            for k, output in enumerate(self.outputs)
        ]
        answers = self._answers(margins, "next")
        targets = [output.target for output in self.outputs]
        labels = [output.label(label) for output in self.outputs]
        learned = [
            output.take_label(own, y, weight, self.seen)
            for output, own, y in zip(self.outputs, margins, labels, strict=True)
        ]
        self.diagonal.learn(
            x,
            [y for y, _ in learned],
            output=targets.index(int(label)) if label in targets else 0,
            weight=weight,
            pull=self.outputs[0].targets.pull,
            unit_of_g=1.0 if self.classes else self.outputs[0].targets.unit_of_gradients,
            classes=len(self.seen_classes),
            seen=self.seen,
        )
        for output, of_output, (y, base) in zip(self.outputs, margins, learned, strict=True):
            output.learn(
                x,
                hats,
                of_output,
                y,
                base,
                weight=weight,
                times=times,
                seen=self.seen,
                of_hats=of_hats,
                squares=self.diagonal.squares[self.outputs.index(output)],
            )
        self.inputs.commit()
        if self.curves.on:
            code = int(label > answers[0]) if self.classes is None else int(label)
            self.curves.commit(row - self.inputs.centres, code)
        return answers
