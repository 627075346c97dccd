"""What a new user may try: it works, or the message says what to do."""

from __future__ import annotations

import copy
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sonline import OnlineLearner, SONClassifier, SONRegressor
from sonline.errors import InvalidInputError, ParameterError
from sonline.river import SONClassifier as RiverClassifier
from sonline.river import SONRegressor as RiverRegressor

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": RNG.normal(size=40), "b": RNG.normal(size=40)})
Y = (FRAME.a > FRAME.b).astype(int)
ESTIMATORS = [SONClassifier, SONRegressor]


def test_decimals_are_numbers_also_zero() -> None:
    pa = pytest.importorskip("pyarrow")
    values = [Decimal(0), Decimal("1.5"), None] * 2
    frames = [
        pd.DataFrame({"price": values}),
        pa.table({"price": pa.array(values, pa.decimal128(10, 2))}),
        pytest.importorskip("polars").DataFrame({"price": values}),
    ]
    predictions = []
    for frame in frames:
        learner = OnlineLearner()
        learner.learn(frame, [0, 1] * 3)
        assert learner.features() == ["price"]
        predictions.append(learner.predict(frame).tolist())
    assert predictions[0] == predictions[1] == predictions[2]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_rows_that_scikit_learn_does_not_take(kind) -> None:
    rows = FRAME.to_dict("records")
    with pytest.raises(
        InvalidInputError, match=r"X is a list of dictionaries; pass pandas.DataFrame"
    ):
        kind().fit(rows, Y)
    fitted = kind().fit(FRAME, Y)
    assert fitted.predict(rows).tolist() == fitted.predict(FRAME).tolist()
    with pytest.raises(InvalidInputError, match="X has two columns 'a'; rename one"):
        kind().fit(FRAME.set_axis(["a", "a"], axis=1), Y)
    with pytest.raises(InvalidInputError, match="X has no columns"):
        kind().fit(FRAME[[]], Y)
    for names in ([("u", "v"), ("u", "w")], ["a", 3]):
        with pytest.raises(InvalidInputError, match="the name of a column must be text, got"):
            kind().fit(FRAME.set_axis(names, axis=1), Y)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_text_without_column_names(kind) -> None:
    fitted = kind().fit([[1.0], [2.0]] * 3, Y[:6])
    for text in (np.array([[1.0, "x"], [2.0, "y"]], dtype=object), ["good phone", "bad phone"]):
        with pytest.raises(InvalidInputError, match=r"X has text .*columns=.*Vectorizer"):
            kind().fit(text, Y[:2])
        with pytest.raises(InvalidInputError, match="X has text"):
            fitted.predict(text)


@pytest.mark.parametrize(
    "option", [{"ngrams": ["note:2"]}, {"interactions": ["age*note"]}], ids=["ngrams", "products"]
)
def test_frames_for_a_model_of_split_or_multiplied_columns(option, tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [20.0, 30.0] * 9, "note": ["good phone", "bad phone"] * 9})
    file = tmp_path / "rows.csv"
    frame.assign(label=[1, 0] * 9).to_csv(file, index=False)
    learner = OnlineLearner()
    learner.learn_stream(file, **option)
    learner.save(tmp_path / "model.son")
    estimator = SONClassifier.load(tmp_path / "model.son")
    message = r"trained on files with (ngrams|interactions)=.*not to data frames.*sonline predict"
    for call in (learner.predict, learner.predict_proba, estimator.predict):
        with pytest.raises(InvalidInputError, match=message):
            call(frame)
    with pytest.raises(InvalidInputError, match=message):
        learner.learn(frame, [1, 0] * 9)
    assert learner.predict(frame[["age"]]).shape == (18,)
    rows = frame.to_dict("records")
    river = RiverClassifier.load(tmp_path / "model.son")
    for model in (learner, OnlineLearner.load(tmp_path / "model.son"), copy.deepcopy(river)):
        with pytest.raises(InvalidInputError, match=message):
            model.learn_one(rows[0], 1)
        with pytest.raises(InvalidInputError, match=message):
            model.predict_one(rows[0])
        model.predict_one({"age": 20.0})
    for call in (learner.predict, estimator.predict):
        with pytest.raises(InvalidInputError, match=message):
            call(rows)


def test_streams_of_other_things(tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    FRAME.assign(label=Y).to_csv(data, index=False)
    learner = OnlineLearner()
    with pytest.raises(InvalidInputError, match="names of files, got DataFrame; learn takes rows"):
        learner.learn_stream(FRAME)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="names of files, got float"):
        learner.learn_stream([1.0])  # type: ignore[list-item]
    with pytest.raises(ParameterError, match=r"no option 'lable'; did you mean 'label'\?"):
        learner.learn_stream(data, lable="x")
    for passes in (0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="passes must be an integer of at least 1, got"):
            learner.learn_stream(data, passes=passes)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="'auto', 'binary', 'multi' or two or more different"):
        learner.learn_stream(data, classes="nonsense")
    assert learner.stats()["rounds"] == 0


def test_explanations_of_rows_that_cannot_be_predicted() -> None:
    learner = OnlineLearner(missing="refuse")
    learner.learn(FRAME, Y)
    for row in ({"a": float("nan")}, {"a": None}, {"a": [1.0]}, {"a": float("inf")}, [1.0]):
        with pytest.raises(InvalidInputError) as wanted:
            learner.predict_one(row)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError) as error:
            learner.explain_one(row)  # type: ignore[arg-type]
        assert str(error.value) == str(wanted.value)


def test_river_takes_frames_of_pandas() -> None:
    river = pytest.importorskip("sonline.river")
    polars = pytest.importorskip("polars")
    for model in (river.SONRegressor(), river.SONClassifier()):
        for call in (lambda X, m=model: m.learn_many(X, Y), model.predict_many):
            with pytest.raises(InvalidInputError, match=r"pandas DataFrame.*got polars.*to_pandas"):
                call(polars.from_pandas(FRAME))


@pytest.mark.parametrize(
    "kind", [OnlineLearner, SONClassifier, SONRegressor, RiverClassifier, RiverRegressor]
)
def test_an_unknown_parameter_names_the_class(kind) -> None:
    message = rf"^{kind.__name__}\.__init__\(\) got an unexpected keyword argument 'learning_rate'"
    with pytest.raises(TypeError, match=message):
        kind(learning_rate=1)


@pytest.mark.parametrize(("name", "same"), [("log_loss", "logistic"), ("squared_error", "squared")])
def test_names_of_losses_in_scikit_learn(name, same) -> None:
    for kind in (OnlineLearner, RiverClassifier):
        with pytest.raises(ParameterError, match=f"scikit-learn's '{name}' is '{same}' here"):
            kind(loss=name)
    with pytest.raises(ParameterError, match="loss must be one of") as error:
        OnlineLearner(loss="mse")
    assert "scikit-learn" not in str(error.value)


def test_a_row_that_is_a_sequence() -> None:
    for row in ([1.0, 2.0], np.array([1.0, 2.0])):
        for call in (lambda x: OnlineLearner().learn_one(x, 1), OnlineLearner().predict_one):
            with pytest.raises(
                InvalidInputError, match=r"must be a mapping .*learn\(\[row\], .*predict"
            ):
                call(row)


def test_rows_of_text_without_columns() -> None:
    for call in (lambda x: OnlineLearner().learn(x, [0, 1]), OnlineLearner().predict):
        for rows in (["good phone", "bad phone"], pd.Series(["good", "bad"])):
            with pytest.raises(InvalidInputError, match=r"X has text.*Vectorizer"):
                call(rows)


def test_options_of_streams_are_those_that_users_set(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("a,label\n1,0\n2,1\n")
    with pytest.raises(ParameterError, match="no option 'lable'; did you mean 'label'") as error:
        OnlineLearner().learn_stream(file, lable="label")
    with pytest.raises(ParameterError, match="no option 'holdout'; there are") as error:
        OnlineLearner().learn_stream(file, holdout=10)
    for hidden in ("hash_seed", "tokens", "frozen", "label_names", "names"):
        assert f" {hidden}," not in str(error.value)
    for name in ("on_error", "ignore", "text", "interactions", "label", "passes", "checkpoint"):
        assert name in str(error.value)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_no_rows(kind) -> None:
    for rows in (FRAME[:0], FRAME[:0].to_numpy()):
        with pytest.raises(ValueError, match=r"0 sample|no rows"):
            kind().fit(rows, Y[:0])


def test_explanations_of_rows_with_other_features() -> None:
    named, numbered = OnlineLearner(), OnlineLearner()
    named.learn(FRAME, Y)
    numbered.learn(FRAME.to_numpy(), Y)
    for model, rows in (
        (named, FRAME.to_numpy()),
        (numbered, FRAME),
        (SONClassifier().fit(FRAME.to_numpy(), Y), FRAME),
    ):
        with pytest.raises(InvalidInputError, match="this model knows its features by"):
            model.explain_many(rows)
    by_position = SONClassifier().fit(FRAME, Y)
    assert by_position.explain_many(FRAME.to_numpy()) == by_position.explain_many(FRAME)


def test_questions_to_a_river_classifier_without_rows() -> None:
    model = RiverClassifier()
    assert model.predict_set_one({"a": 1.0}) == set()
    assert model.wants_label({"a": 1.0})
    assert (model.all_curves(), model.all_pairs(), model.explain_many([{"a": 1.0}])) == (
        [],
        [],
        [{}],
    )
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        model.predict_set_one({"a": 1.0}, 2)


def test_which_labels_are_wanted_cannot_be_asked() -> None:
    learner = OnlineLearner()
    learner.learn(FRAME, Y)
    for name in ("caution", "explore"):
        with pytest.raises(ParameterError, match=f"{name} must be"):
            learner.wants_labels(FRAME, **{name: "much"})
    for call in (learner.compact().wants_labels, learner.compact().wants_label):
        with pytest.raises(InvalidInputError, match="compact model, which does not know how"):
            call(FRAME[:1])
