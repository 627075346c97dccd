"""How a `Model` learns: rows with targets go to the core, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline import _core
from sonline.errors import DivergenceError, InvalidInputError
from sonline.evaluate import Progress
from sonline.labels import ClassTable, Codes
from sonline.model.batches import batch_codes
from sonline.model.files import Reading
from sonline.model.predictions import LearnResult, class_counts
from sonline.parameters import Parameters
from sonline.rows import CoreRows, Floats, Rows
from sonline.rows.checks import number_reasons, warn_if_skewed


class Learning:
    """The part of a model that learns."""

    core: _core.Model
    parameters: Parameters
    table: ClassTable | None
    reading: Reading
    progress: Progress
    classes: int
    rows: Callable[..., CoreRows]
    targets: Callable[..., tuple[NDArray[Any], ClassTable | None]]
    offsets: Callable[..., Floats | None]
    means: Callable[..., Floats]
    measures: Callable[..., tuple[Floats, NDArray[np.bool_] | None]]
    refuse_if_compact: Callable[[], None]
    _set_labels: Callable[..., None]

    def learn(
        self,
        X: Rows,
        y: Any,
        weights: Floats | None = None,
        *,
        offset: Any = None,
        threads: int = 1,
    ) -> LearnResult:
        """Learn rows with labels, one after another.

        Parameters
        ----------
        X : rows of any kind
            As `sonline.rows.rows_of` takes them, or a batch of a stream.
        y : sequence of labels
            Numbers, or labels of the classes.
        weights : array of floats, optional
            Importance of each row, checked.
        offset : array of floats, optional
            What is added to the raw prediction of each row.
        threads : int, default=1
            How many threads may share the work of several outputs; the result does not depend on
            it.

        Raises
        ------
        InvalidInputError
            If anything cannot be used; then nothing has been learned.
        """
        targets, table = self.targets(y)
        offsets = self.offsets(offset, targets.size)
        rows = self.rows(X, add=True)
        return self.learn_targets(rows, targets, table, weights, threads, offsets=offsets)

    def learn_targets(
        self,
        rows: CoreRows,
        targets: NDArray[Any],
        table: ClassTable | None,
        weights: Floats | None = None,
        threads: int = 1,
        *,
        offsets: Floats | None = None,
    ) -> LearnResult:
        """Learn rows with targets as `targets` returned them, with the table.

        ``offsets`` are those that `offsets` returned.
        """
        try:
            learned = self._learn_targets(rows, targets, table, weights, threads, offsets=offsets)
        except InvalidInputError:
            raise
        except BaseException:  # some rows have been learned
            self._add_types(rows)
            raise
        self._add_types(rows)
        return learned

    def _learn_targets(
        self,
        rows: CoreRows,
        targets: NDArray[Any],
        table: ClassTable | None,
        weights: Floats | None,
        threads: int,
        *,
        offsets: Floats | None,
    ) -> LearnResult:
        self.refuse_if_compact()
        if rows.count != targets.size:
            raise InvalidInputError(f"X has {rows.count} rows, y has {targets.size} labels")
        if self.table is None or table is None:
            out = np.empty((1, rows.count))
            fresh = self.core.stats()["rounds"] == 0
            if fresh and self.parameters.loss == "squared":
                warn_if_skewed(targets)
            labels = targets
            if offsets is not None:
                labels, weights = self._without_offsets(targets, weights, offsets)
            learned = LearnResult(out, targets, [(0, 0)], fresh)
            with _interrupts(learned, self.core, offsets=offsets):
                rows.call(self.core, "learn", labels, weights, out)
            if offsets is not None:
                out += offsets
            return learned
        # No other thread may add classes meanwhile, or learn without the new ones.
        with self.core.hold(alone=True):
            return self._learn_classes(rows, *self._with_added(table, targets), weights, threads)

    def _without_offsets(
        self, targets: Floats, weights: Floats | None, offsets: Floats
    ) -> tuple[Floats, Floats]:
        """Return labels and weights of rows without offsets that tell the same.

        A count y of exposure e is, for the model, a rate of y / e with the weight e.
        """
        labels, factors = np.empty(targets.size), np.empty(targets.size)
        self.parameters.core_loss.without_offsets(targets, offsets, labels, factors)
        number_reasons("y", labels).raise_first()
        return labels, factors if weights is None else weights * factors

    def _with_added(self, table: ClassTable, codes: Codes) -> tuple[ClassTable, Codes]:
        """Return a table and its numbers with the classes that other threads have added since."""
        current = self.table
        assert current is not None  # noqa: S101 - it has classes
        if table.labels[: len(current)] == current.labels and table.undecided <= current.undecided:
            return table, codes
        labels = [table.labels[code] for code in codes.tolist()]
        current, codes = current.encode(np.array(labels, table.dtype) if table.dtype else labels)
        return current.decided_by(codes), codes

    def _learn_classes(
        self, rows: CoreRows, table: ClassTable, codes: Codes, weights: Floats | None, threads: int
    ) -> LearnResult:
        out = np.empty((1 if len(table) == 2 else len(table), rows.count))
        learned = LearnResult(out, codes, class_counts(codes, self.classes, len(table)))
        try:
            with _interrupts(learned, self.core, table):
                labels = codes.astype(np.float64)
                rows.call(
                    self.core, "learn", labels, weights, out, threads, len(table), table.growing
                )
        except InvalidInputError:  # nothing has been learned
            raise
        except DivergenceError as error:
            if table.signs and self.table is not None:  # it stops before the row
                table = self.table.decided_by(codes[: error.rows_learned])
            self._set_labels(table)
            raise
        except BaseException:
            self._set_labels(table)
            raise
        self._set_labels(table)
        return learned

    def _add_types(self, rows: CoreRows) -> None:
        """Store the types of columns that are new, so that streams read them alike."""
        if rows.types:
            self.reading = replace(self.reading, columns=rows.types | self.reading.columns)

    def learn_batch(
        self,
        batch: Any,
        weights: Floats | None = None,
        threads: int = 1,
        before: Callable[[CoreRows], None] | None = None,
    ) -> LearnResult:
        """Learn a batch of a stream.

        ``before`` is called with the rows before they are learned.
        """
        targets, table = self._batch_targets(batch)
        offsets = self.offsets(batch.offsets, targets.size)
        rows = self.rows(batch, add=True)
        if before is not None:
            before(rows)
        return self.learn_targets(rows, targets, table, weights, threads, offsets=offsets)

    def _batch_targets(self, batch: Any) -> tuple[NDArray[Any], ClassTable | None]:
        """Return the labels of a batch as `targets` does."""
        if batch.codes is not None and self.table is not None:
            return batch_codes(self.table, batch)
        if batch.labels is None:
            raise InvalidInputError(
                "this model predicts numbers, and the stream has words for labels; open it with "
                "tokens=False"
            )
        return self.targets(batch.labels)

    def update_progress(
        self,
        learned: LearnResult,
        weights: Floats | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Add the predictions made before rows were learned to measures, by default `progress`.

        The first row of a regression has no weight there: a model without labels predicts 0.
        """
        progress = self.progress if progress is None else progress
        loss, wrong = self.measures(learned)
        weights = learned.counted(weights)
        progress.update(loss, wrong, weights)
        if self.table is None:
            progress.r2.update(learned.targets, self.means(learned.raw[0]), weights)


@contextmanager
def _interrupts(
    result: LearnResult,
    core: _core.Model,
    table: ClassTable | None = None,
    *,
    offsets: Floats | None = None,
) -> Iterator[None]:
    """After Ctrl-C, or a row that cannot be learned, attach what was learned to the error."""
    before = core.stats()["rounds"]
    try:
        yield
    except BaseException as error:
        late = isinstance(error, KeyboardInterrupt) and core.stats()["rounds"] > before
        if late and not hasattr(error, "rows_done"):  # it came after the last check for Ctrl-C
            vars(error)["rows_done"] = len(result)
        if hasattr(error, "rows_done"):
            learned = result.head(getattr(error, "rows_learned", error.rows_done))
            if offsets is not None:
                learned.raw += offsets[: len(learned)]
            raw = learned.raw if table is None else table.in_order(learned.raw)
            predictions = raw[0] if len(raw) == 1 else raw.T
            vars(error).update(learned=learned, predictions=predictions)
        raise
