"""`learn_stream` of `OnlineLearner`: training on files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sonline.evaluate import Progress
from sonline.model import Model


class LearnsFiles:
    """The part of a learner that trains on files."""

    _model: Model

    def _take(self, model: Model) -> None:
        """Use a model from now on."""
        raise NotImplementedError

    def learn_stream(
        self,
        source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        label: str | None = None,
        weight: str | None = None,
        offset: str | None = None,
        passes: int = 1,
        shuffle: int = 0,
        classes: str | Sequence[Any] = "auto",
        class_weight: Mapping[Any, float] | None = None,
        progress: bool = False,
        validation: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        patience: int = 3,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int | str | None = None,
        resume: bool = False,
        **options: Any,
    ) -> Progress:
        r"""Train on files, globs, URLs or standard input, in bounded memory.

        The same as ``sonline train``, to the last bit.

        Parameters
        ----------
        source : name or sequence of names
            Files (plain or compressed), globs, URLs, or "-" for standard input.
        label, weight, offset : str, optional
            Columns of tables: the label (default "label"), the weight of each row, and what is
            added to its raw prediction.
        passes : int, default=1
            Number of passes over the files.
        shuffle : int, default=0
            Shuffle the rows within blocks of this many rows, anew in each pass.
        classes : {"auto", "binary", "multi"} or sequence, default="auto"
            How labels are understood in the first call: "auto" looks at the first rows.
        class_weight : mapping, optional
            From label to the weight of its rows; other labels have 1. A label that cannot occur is
            an error, one that has not occurred is named in a warning.
        progress : bool, default=False
            Show rows, loss and speed on standard error.
        validation : name or sequence of names, optional
            Files to evaluate after each pass. The model becomes that of the best pass.
        patience : int, default=3
            With ``validation``: stop after this many passes without improvement.
        checkpoint : path-like, optional
            A file in which model and position are saved during training; none that is read.
        checkpoint_every : int or str, optional
            Rows (100000) or seconds ("60s") between checkpoints; 30 seconds by default.
        resume : bool, default=False
            Continue from the checkpoint if there is one.
        **options
            How the files are read (fields of `sonline.streams.Options`): format, features, tag,
            text, ignore, delimiter, header, na_values, ngrams, interactions, on_error.

        Returns
        -------
        progress : Progress
            Progressive loss and mistakes of the last pass. The first row of a regression is not
            counted, because a model without labels has nothing to predict from.

        Raises
        ------
        DataFormatError
            If a row cannot be parsed (unless ``on_error="skip"``). A learner that had no rows is
            empty again; one that had some is trained on the rows before it.
        KeyboardInterrupt
            After Ctrl-C. Rows that the model was trained on stay trained on.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from sonline import OnlineLearner
        >>> file = pathlib.Path(tempfile.mkdtemp(), "tiny.csv")
        >>> _ = file.write_text("age,plan,left\n" + "31,free,1\n45,paid,0\n" * 50)
        >>> learner = OnlineLearner()
        >>> learner.learn_stream(file, label="left").loss.rows
        100
        >>> learner.features()
        ['age', 'plan=free', 'plan=paid']
        """
        from sonline.training import learn_stream  # noqa: PLC0415 - streams are not always wanted

        before = self._model
        try:
            model, interrupted = learn_stream(
                before,
                source,
                options={"label": label, "weight": weight, "offset": offset, **options},
                passes=passes,
                shuffle=shuffle,
                classes=classes,
                class_weight=class_weight,
                progress=progress,
                validation=validation,
                patience=patience,
                checkpoint=checkpoint,
                checkpoint_every=checkpoint_every,
                resume=resume,
                prepare=self._take,
            )
        except Exception:
            self._take(before)
            raise
        self._take(model)
        if interrupted:
            raise KeyboardInterrupt
        return model.progress
