"""`fit_stream` of the two scikit-learn estimators: training on files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from sonline.errors import ParameterError

if TYPE_CHECKING:
    from sonline.model import Model
    from sonline.parameters import Parameters


class FitsFiles:
    """The part of an estimator that trains on files."""

    max_iter: int
    n_iter_: int
    _model: Model

    if TYPE_CHECKING:

        def _parameters(self) -> Parameters: ...

        def _begin(self, model: Model) -> None: ...

    def fit_stream(
        self,
        source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        label: str | None = None,
        **options: Any,
    ) -> Self:
        r"""Train on files in bounded memory, ``max_iter`` times, in the order of their rows.

        Parameters
        ----------
        source : name or sequence of names
            Files (plain or compressed), globs, folders, URLs, or "-" for standard input.
        label : str, optional
            The column of the label; by default "label".
        **options
            Options of `OnlineLearner.learn_stream`, such as ``weight`` or ``checkpoint``.

        Returns
        -------
        self : estimator
            The fitted estimator. After an error it is as it was before.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from sonline import SONClassifier
        >>> file = pathlib.Path(tempfile.mkdtemp(), "rows.csv")
        >>> _ = file.write_text("size,label\n" + "1,small\n9,large\n" * 50)
        >>> SONClassifier().fit_stream(file).predict([{"size": 1}, {"size": 9}]).tolist()
        ['small', 'large']
        """
        from sonline.learner import OnlineLearner  # noqa: PLC0415 - only for this method

        weights = getattr(self, "class_weight", None)
        if weights == "balanced":
            raise ParameterError(
                "class_weight='balanced' needs all labels at once, as fit has them; for fit_stream "
                "name the weight of each class: class_weight={label: weight, ...}"
            )
        learner = OnlineLearner(**self._parameters().as_dict())
        given: dict[str, Any] = {"passes": self.max_iter, "class_weight": weights} | options
        learner.learn_stream(source, label=label, **given)
        model = learner.model
        model.check_task(classes=hasattr(self, "class_weight"))
        for name in ("n_features_in_", "feature_names_in_"):
            vars(self).pop(name, None)
        self._begin(model)
        self.n_iter_ = int(given["passes"])
        return self
