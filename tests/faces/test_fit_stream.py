"""`fit_stream`: estimators train on files as the command line does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sonline import OnlineLearner, SONClassifier, SONRegressor
from sonline.errors import ModelFileError, ParameterError


def table(path: Path, numbers: bool) -> Path:
    labels = [str(i % 5) if numbers else ("no", "yes")[i % 2] for i in range(120)]
    rows = (f"{i % 7 - 3},{'ab'[i % 2]},{labels[i]}\n" for i in range(120))
    path.write_text(f"size,colour,label\n{''.join(rows)}")
    return path


@pytest.mark.parametrize("kind", [SONClassifier, SONRegressor])
def test_it_is_the_model_of_learn_stream(kind, tmp_path: Path) -> None:
    file = table(tmp_path / "d.csv", kind is SONRegressor)
    estimator = kind(max_iter=2).fit_stream(file)
    loss = "squared" if kind is SONRegressor else "logistic"
    learner = OnlineLearner(loss=loss)
    learner.learn_stream(file, passes=2)
    rows = [{"size": 2, "colour": "a"}, {"size": -1, "colour": "b"}]
    assert estimator.n_iter_ == 2
    margins = estimator.predict(rows) if kind is SONRegressor else estimator.decision_function(rows)
    np.testing.assert_array_equal(margins, learner.predict(rows))
    estimator.save(tmp_path / "m.son")
    assert kind.load(tmp_path / "m.son").weights() == learner.weights()


def test_errors_change_nothing(tmp_path: Path) -> None:
    file = table(tmp_path / "d.csv", numbers=False)
    estimator = SONClassifier().fit_stream(file)
    before = estimator.weights()
    with pytest.raises(ParameterError, match="no option"):
        estimator.fit_stream(file, lable="x")
    with pytest.raises(ParameterError, match="name the weight of each class"):
        SONClassifier(class_weight="balanced").fit_stream(file)
    with pytest.raises((ModelFileError, ValueError)):
        SONRegressor().fit_stream(file)
    assert estimator.weights() == before
    assert list(estimator.classes_) == ["no", "yes"]
