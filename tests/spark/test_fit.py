"""Estimators and models in a real session: training, columns of predictions, files."""

from pathlib import Path

import numpy as np
import pytest
from pyspark.errors import PythonException
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import Vectors
from pyspark.ml.tuning import ParamGridBuilder
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from sonline import OnlineLearner
from sonline.distributed.spark import (
    SONClassificationModel,
    SONClassifier,
    SONRegressionModel,
    SONRegressor,
    training,
)
from sonline.errors import (
    DataFormatError,
    DivergenceError,
    InvalidInputError,
    ModelFileError,
    ParameterError,
)
from sonline.labels import ClassTable
from sonline.model import Model
from sonline.parameters import Parameters

ROWS, COLUMNS, PARTITIONS = 600, 4, 5
WEIGHTS = np.array([1.0, -2.0, 0.0, 3.0])


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, COLUMNS)) * [1, 100, 1, 0.01]
    X[rng.random(X.shape) < 0.3] = 0
    return X, X @ (WEIGHTS / [1, 100, 1, 0.01])


def vector(row, number):
    """Return a row as a vector, dense and sparse in turn."""
    if number % 2:
        return Vectors.dense(row)
    return Vectors.sparse(COLUMNS, {int(j): float(row[j]) for j in np.flatnonzero(row)})


@pytest.fixture(scope="module")
def frame(spark):
    """Rows in order, in partitions of equal size: binary, words, numbers, weights."""
    X, z = rows()
    table = [
        (
            float(z[i] > 0),
            ["low", "mid", "höher"][int(np.digitize(z[i], [-1, 1]))],
            float(z[i]),
            1.0 + i % 3,
            vector(X[i], i),
            X[i].tolist(),
            *X[i].tolist(),
        )
        for i in range(ROWS)
    ]
    names = ["label", "word", "number", "weight", "features", "array", "größe", "b c", "x`y", "d.e"]
    made = spark.createDataFrame(spark.sparkContext.parallelize(table, PARTITIONS), names)
    return made.cache()


def shards(order=range(ROWS)):
    """Return the rows of each partition, as `frame` cuts them."""
    return np.array_split(np.asarray(order), PARTITIONS)


def test_the_page_begins_with_three_lines_that_work(frame, capsys):
    page = Path(__file__).parents[2] / "docs" / "spark.md"
    code = page.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    assert len([line for line in code.splitlines() if line]) == 3
    exec(code, {"frame": frame})  # noqa: S102 - our own page
    assert "probability" in capsys.readouterr().out


def test_a_regression_is_the_merge_of_its_partitions(frame):
    X, z = rows()
    learners = [OnlineLearner(loss="squared") for _ in range(PARTITIONS)]
    for learner, part in zip(learners, shards(), strict=True):
        learner.learn(X[part], z[part], 1.0 + part % 3)
    expected = learners[0].merge(learners[1:])
    model = SONRegressor(labelCol="number", weightCol="weight").fit(frame)
    assert np.array_equal(model.model.predict(X).squeeze(), np.squeeze(expected.predict(X)))
    output = np.array(model.transform(frame).select("prediction").collect())[:, 0]
    assert np.array_equal(output, np.squeeze(expected.predict(X)))
    assert model.predict(Vectors.dense(X[0])) == output[0]
    assert model.numFeatures == COLUMNS
    (only,) = model.rounds_
    assert [entry.rows for entry in only.figures] == [len(part) for part in shards()]
    # The measures leave out the first row of each partition: nothing was known before it.
    assert only.total("weight") == sum((1.0 + part[1:] % 3).sum() for part in shards())
    assert 0 < model.progressiveLoss < np.mean(z**2) / 4


def test_classes_are_the_merge_of_their_partitions(frame):
    X, _ = rows()
    words = [row.word for row in frame.select("word").collect()]
    classes = sorted(set(words))
    codes = np.array([classes.index(word) for word in words])
    learners = [Model(Parameters(), ClassTable((0, 1, 2))) for _ in range(PARTITIONS)]
    for learner, part in zip(learners, shards(), strict=True):
        learner.learn(X[part], codes[part])
    expected = learners[0].merge(learners[1:])
    model = SONClassifier(labelCol="word").fit(frame)
    assert model.classes == classes == ["höher", "low", "mid"]
    assert np.array_equal(model.model.predict(X).squeeze(), np.squeeze(expected.predict(X)))
    made = model.transform(frame).collect()
    raw = np.array([row.rawPrediction.toArray() for row in made])
    assert np.array_equal(raw, expected.predict(X).T)
    assert [row.prediction for row in made] == [classes[code] for code in raw.argmax(axis=1)]
    chances = np.array([row.probability.toArray() for row in made])
    assert np.allclose(chances.sum(axis=1), 1)
    assert np.mean([row.prediction == row.word for row in made]) > 0.7
    assert 0 < model.progressiveError < 0.5


def test_every_way_to_hold_features_gives_the_same_model(frame):
    vectors = SONClassifier(curves=False).fit(frame)
    arrays = SONClassifier(featuresCol="array", curves=False).fit(frame)
    names = ["größe", "b c", "x`y", "d.e"]
    columns = SONClassifier(featureCols=names, curves=False).fit(frame)
    pairs = [F.format_string(f"{j}:%s", F.col("array")[j]) for j in range(COLUMNS)]
    text = frame.select(F.concat_ws(" ", "label", *pairs).alias("value"))
    lines = SONClassifier(featuresCol="value", format="svmlight", curves=False).fit(text)
    expected = [row.rawPrediction for row in vectors.transform(frame).collect()]
    for model, options in ((arrays, frame), (columns, frame), (lines, text)):
        made = model.transform(options).collect()
        assert [row.rawPrediction for row in made] == expected
        assert {row.prediction for row in made} == {0.0, 1.0}
    assert set(columns.model.features()) == {"größe", "b c", "x`y", "d.e"}


def test_partitions_are_shown_after_each_round(frame, capsys):
    model = SONRegressor(labelCol="number", rounds=2, verbose=True).fit(frame)
    output = capsys.readouterr().err.splitlines()
    for turn, shard in enumerate(model.rounds_):
        for entry in shard.figures:
            wanted = f"round {turn + 1}: partition {entry.partition}: {entry.rows} rows, loss"
            assert sum(line.startswith(wanted) for line in output) == 1


def test_rounds_begin_with_the_merged_model(frame):
    X, z = rows()
    start = None
    for _ in range(3):
        learners = [OnlineLearner(loss="squared") for _ in range(PARTITIONS)]
        for learner, part in zip(learners, shards(), strict=True):
            if start is not None:
                learner.__setstate__(start.__getstate__())
            learner.learn(X[part], z[part])
        start = learners[0].merge(learners[1:], start)
    model = SONRegressor(labelCol="number", rounds=3).fit(frame)
    assert np.array_equal(model.model.predict(X).squeeze(), np.squeeze(start.predict(X)))
    losses = [entry.loss for entry in model.rounds_]
    assert losses[0] > losses[1]


def test_merging_on_the_executors_gives_the_same_bits(frame, monkeypatch):
    estimator = SONClassifier(labelCol="word", featureCols=["größe", "b c", "word2"], rounds=2)
    words = frame.withColumn("word2", F.concat("word", F.spark_partition_id()))
    here = estimator.fit(words)
    monkeypatch.setattr(training, "ON_DRIVER", 0)
    there = estimator.fit(words)
    first, second = (model.model.tensors() for model in (here, there))
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_pipeline_is_tuned_saved_and_loaded(frame, tmp_path):
    frame = frame.withColumnRenamed("d.e", "e")  # VectorAssembler would look for e in d
    assembler = VectorAssembler(inputCols=["größe", "b c", "e"], outputCol="assembled")
    estimator = SONClassifier(featuresCol="assembled", loss="hinge", alpha=0.5)
    pipeline = Pipeline(stages=[assembler, estimator])
    pipeline.write().overwrite().save(str(tmp_path / "pipeline"))
    pipeline = Pipeline.load(str(tmp_path / "pipeline"))
    assert pipeline.getStages()[1].getOrDefault("loss") == "hinge"
    assert pipeline.getStages()[1].getOrDefault("alpha") == 0.5
    grid = ParamGridBuilder().addGrid(estimator.sketchSize, [1, 3]).build()
    small, large = pipeline.fit(frame, grid)
    assert small.stages[1].getOrDefault("sketchSize") == 1
    evaluator = BinaryClassificationEvaluator()
    assert min(evaluator.evaluate(entry.transform(frame)) for entry in (small, large)) > 0.6
    model = large
    model.write().overwrite().save(str(tmp_path / "model"))
    again = PipelineModel.load(str(tmp_path / "model"))
    assert "probability" not in again.transform(frame).columns  # hinge has none
    expected = model.transform(frame).select("rawPrediction", "prediction").collect()
    assert again.transform(frame).select("rawPrediction", "prediction").collect() == expected
    assert again.stages[1].rounds_ == model.stages[1].rounds_
    with pytest.raises(ModelFileError, match="expected a"):
        SONRegressionModel.load(str(tmp_path / "model" / "stages" / f"1_{again.stages[1].uid}"))


def test_columns_are_added_as_spark_users_know_them(frame):
    model = SONClassifier(predictionCol="said", rawPredictionCol="", probabilityCol="p").fit(frame)
    made = model.transform(frame)
    assert made.columns == [*frame.columns, "said", "p"]
    usual = [row.said for row in made.collect()]
    model.setThresholds([1.0, 0.001])
    assert sum(row.said for row in model.transform(frame).collect()) > sum(usual)
    with pytest.raises(InvalidInputError, match="'said' already"):
        model.transform(made)
    row = frame.first()
    assert model.predictProbability(row.features)[1] == pytest.approx(made.first().p[1])
    assert model.predictRaw(row.features)[0] == -model.predictRaw(row.features)[1]
    assert model.predict(row.features) in (0.0, 1.0)
    assert model.numClasses == 2


def test_text_is_predicted_line_by_line(spark):
    lines = [("1 |a x y:2",), ("-1 |a z",), ("",), ("1 |a x",), (None,)] * 20
    frame = spark.createDataFrame(lines, "text string").coalesce(1)
    model = SONClassifier(featuresCol="text", format="vw").fit(frame)
    output = [row.prediction for row in model.transform(frame).collect()]
    assert output == [1.0, -1.0, None, 1.0, None] * 20
    assert set(model.model.features()) == {"a^x", "a^y", "a^z"}


def test_libsvm_files_both_ways(spark, tmp_path):
    """By Spark's reader, which counts from 0, and as lines, which sonline takes as they are."""
    X, z = rows()
    X, y = X.astype(np.float32).astype(np.float64), np.where(z > 0, 1, -1)
    path = tmp_path / "rows.svm"
    with path.open("w", encoding="utf-8") as file:
        for row, label in zip(X, y, strict=True):
            pairs = " ".join(f"{j + 1}:{float(row[j])!r}" for j in np.flatnonzero(row))
            file.write(f"{label} {pairs}\n")
    vectors = spark.read.format("libsvm").option("numFeatures", COLUMNS).load(str(path))
    lines = spark.read.text(str(path))
    expected = Model(Parameters(curves=False), ClassTable((0, 1)))
    expected.learn(X, (y > 0).astype(np.int64))
    by_vectors = SONClassifier(curves=False).fit(vectors.coalesce(1))
    by_lines = SONClassifier(featuresCol="value", format="svmlight").fit(lines.coalesce(1))
    assert by_vectors.classes == by_lines.classes == [-1, 1]
    assert np.array_equal(by_vectors.model.predict(X).squeeze(), np.squeeze(expected.predict(X)))
    from_one = np.c_[np.zeros(ROWS), X]
    assert np.array_equal(
        by_lines.model.predict(from_one).squeeze(), np.squeeze(expected.predict(X))
    )


def test_order_column(spark):
    X, z = rows()
    order = np.random.default_rng(1).permutation(ROWS)
    table = [(int(i), X[i].tolist(), float(z[i])) for i in order]
    frame = spark.createDataFrame(table, ["time", "features", "label"]).coalesce(1)
    model = SONRegressor(orderCol="time").fit(frame)
    learner = OnlineLearner(loss="squared")
    learner.learn(X, z)
    assert np.array_equal(model.model.predict(X).squeeze(), np.squeeze(learner.predict(X)))


# -- frames that are hard to take ------------------------------------------------------------------


def test_bad_rows_stop_with_partition_and_row_or_are_skipped(spark):
    good = [(1.0, Vectors.dense(1, 2)), (0.0, Vectors.sparse(2, [0], [3.0]))] * 10
    bad = [
        (None, Vectors.dense(1, 2)),
        (1.0, None),
        (1.0, Vectors.dense(np.nan, 1)),
        (1.0, Vectors.dense(1, 2, 3)),
        (float("nan"), Vectors.dense(1, 2)),
    ]
    table = spark.sparkContext.parallelize([*good, *good[:3], *bad], 2)
    frame = spark.createDataFrame(table, ["label", "features"])
    with pytest.raises(DataFormatError, match="partition 1: row 10: no class in the label column"):
        SONClassifier().fit(frame)
    model = SONClassifier(onError="skip").fit(frame)
    assert [(entry.rows, entry.skipped) for entry in model.rounds_[0].figures] == [(14, 0), (9, 5)]
    output = [row.prediction for row in model.transform(frame).collect()]
    assert [position for position, entry in enumerate(output) if entry is None] == [24, 25, 26]
    model.set(model.onError, "stop")
    with pytest.raises(PythonException, match="partition 1: row 11: no vector"):
        model.transform(frame).collect()


@pytest.mark.parametrize("features", [["a", "b"], "array", "vector"])
def test_counts_with_exposure(spark, features):
    rng = np.random.default_rng(0)
    X, offset = rng.normal(size=(400, 2)), rng.uniform(-1, 1, 400)
    y = rng.poisson(np.exp(0.5 * X[:, 0] + offset)).astype(float)
    cells = [
        (float(y[i]), float(offset[i]), *X[i].tolist(), X[i].tolist(), Vectors.dense(X[i]))
        for i in range(400)
    ]
    names = ["label", "exposed", "a", "b", "array", "vector"]
    made = spark.createDataFrame(spark.sparkContext.parallelize(cells, 2), names).cache()
    named = isinstance(features, list)
    chosen = {"featureCols": features} if named else {"featuresCol": features}
    model = SONRegressor(loss="poisson", offsetCol="exposed", **chosen).fit(made)
    rows = [dict(zip("ab", row.tolist(), strict=True)) for row in X] if named else X
    parts = []
    for first in (0, 200):
        learner = OnlineLearner(loss="poisson")
        part = slice(first, first + 200)
        learner.learn(rows[part], y[part], offset=offset[part])
        parts.append(learner)
    expected = parts[0].merge(parts[1:]).predict(rows, offset=offset)
    predicted = [row["prediction"] for row in model.transform(made).collect()]
    np.testing.assert_allclose(predicted, expected, rtol=1e-5)
    with pytest.raises(ParameterError, match="only regressions"):
        SONClassifier(offsetCol="exposed", **chosen).fit(made)
    with pytest.raises(ParameterError, match="there is no column 'gone'"):
        SONRegressor(offsetCol="gone", **chosen).fit(made)


@pytest.mark.parametrize(("loss", "value"), [("poisson", -1.0), ("gamma", 0.0), ("squared", 1e200)])
def test_labels_that_a_loss_does_not_allow(spark, loss, value):
    cells = [(1.0 + i % 3, [float(i % 5)]) for i in range(40)]
    cells[25] = (value, [1.0])
    made = spark.createDataFrame(
        spark.sparkContext.parallelize(cells, 2), ["label", "features"]
    ).cache()
    with pytest.raises(DataFormatError, match=r"partition 1: row 6: the label"):
        SONRegressor(loss=loss).fit(made)
    model = SONRegressor(loss=loss, onError="skip").fit(made)
    assert [part.skipped for part in model.rounds_[0].figures] == [0, 1]
    assert model.toOnlineLearner().stats()["rounds"] == 39


def test_partitions_without_rows_with_one_class_and_more_than_rows(spark):
    table = [(0.0, [1.0, 0.0]), (0.0, [2.0, 0.0]), (1.0, [0.0, 1.0]), (1.0, [0.0, 3.0])]
    for parts in (2, 9):
        frame = spark.createDataFrame(
            spark.sparkContext.parallelize(table, parts), ["label", "features"]
        )
        model = SONClassifier().fit(frame)
        output = [row.prediction for row in model.transform(frame).collect()]
        assert output == [0.0, 0.0, 1.0, 1.0]
        assert model.rounds_[0].total("rows") == 4


def test_no_rows_one_class_numbers_for_classes(spark):
    schema = "label double, features array<double>"
    empty = spark.createDataFrame([], schema)
    with pytest.raises(InvalidInputError, match="at least two classes are needed"):
        SONClassifier().fit(empty)
    with pytest.raises(InvalidInputError, match="no rows to learn from"):
        SONRegressor().fit(empty)
    with pytest.raises(InvalidInputError, match=r"the labels have 1: \[1.0\]"):
        SONClassifier().fit(spark.createDataFrame([(1.0, [1.0])], schema))
    numbers = spark.range(1200).selectExpr("cast(id as double) label", "array(1d) features")
    with pytest.raises(ParameterError, match="take SONRegressor"):
        SONClassifier().fit(numbers)
    few = spark.createDataFrame([(1.0, [1.0]), (2.0, [-1.0])], schema)
    model = SONClassifier(classes=[1, 2, 3]).fit(few)
    assert model.numClasses == 3
    with pytest.raises(DataFormatError, match="row 1: no class in the label column"):
        SONClassifier(classes=[2, 3]).fit(few.coalesce(1))
    added = model.transform(few.limit(0))
    assert added.collect() == []


def test_vectors_of_one_size_in_each_partition_but_not_in_all(spark):
    table = [(float(i % 2), [1.0] * (2 if i < 10 else 3)) for i in range(20)]
    frame = spark.createDataFrame(
        spark.sparkContext.parallelize(table, 2), "label double, features array<double>"
    )
    with pytest.raises(
        InvalidInputError, match="partition 1 have the size 3, those of partition 0"
    ):
        SONClassifier().fit(frame)


def test_invalid_settings_are_refused_before_any_work(frame):
    for options, message in [
        ({"featuresCol": "nothing"}, "there is no column 'nothing'"),
        ({"featuresCol": "weight"}, "'weight' has the type double, expected vectors or arrays"),
        ({"featureCols": ["features"]}, "expected numbers, text or dates"),
        ({"featureCols": ["b c", "label"]}, "named twice"),
        ({"labelCol": "what"}, "there is no column 'what'"),
        ({"labelCol": "array"}, "'array' has the type array<double>, expected numbers or text"),
        ({"weightCol": "word"}, "expected numbers as weights"),
        ({"orderCol": "what"}, "there is no column 'what'"),
        ({"format": "csv", "featuresCol": "word"}, "format is 'svmlight' or 'vw'"),
        ({"onError": "shout"}, "onError must be one of 'stop', 'skip'"),
        ({"rounds": 0}, "rounds must be an integer of at least 1"),
        ({"resume": True}, "resume=True needs checkpointDir"),
        ({"loss": "squared"}, "loss must be one of"),
        ({"sketchSize": -1}, "sketch_size must be"),
        ({"classes": [1, "a"]}, "all text or all numbers"),
    ]:
        with pytest.raises(ParameterError, match=message):
            SONClassifier(**options).fit(frame)
    with pytest.raises(ParameterError, match="there is no parameter 'sketch_size'"):
        SONClassifier(sketch_size=3)
    with pytest.raises(ParameterError, match="expected numbers"):
        SONRegressor(labelCol="word").fit(frame)


def test_divergence_has_its_own_error(spark):
    table = [(1e30 * (-1) ** i, [1e30 * (i + 1)]) for i in range(40)]
    frame = spark.createDataFrame(table, "label double, features array<double>").coalesce(1)
    settings = {"sketch": "none", "alpha": 1e-30, "scaling": "none", "step": "explicit"}
    estimator = SONRegressor(dtype="float64", **settings)
    with pytest.raises(DivergenceError, match="partition 0"):
        estimator.fit(frame)


def test_models_of_other_kinds_are_refused(spark, tmp_path):
    table = [(1.0, [1.0]), (2.0, [-1.0])]
    model = SONRegressor().fit(spark.createDataFrame(table, "label double, features array<double>"))
    model.save(str(tmp_path / "model"))
    assert SONRegressionModel.load(str(tmp_path / "model"))._data == model._data
    with pytest.raises(ModelFileError, match="holds a sonline"):
        SONClassificationModel.load(str(tmp_path / "model"))


def test_a_regression_continues_without_spark(frame):
    model = SONRegressor(labelCol="number").fit(frame)
    learner = model.toOnlineLearner()
    X, z = rows()
    wanted = [row["prediction"] for row in model.transform(frame).select("prediction").collect()]
    np.testing.assert_array_equal(learner.predict(X), wanted)
    assert model.weights() == learner.weights()
    learner.learn(X, z)
    assert model.toOnlineLearner().stats()["rounds"] == ROWS  # it is a copy


def test_weights_and_learners_of_classes(frame):
    two = SONClassifier().fit(frame)
    X = rows()[0]
    np.testing.assert_array_equal(
        two.toOnlineLearner().predict(X) > 0,
        [row["prediction"] for row in two.transform(frame).select("prediction").collect()],
    )
    assert two.weights(0.0) == {feature: -w for feature, w in two.weights().items()}
    words = SONClassifier(labelCol="word").fit(frame)
    learner = words.toOnlineLearner()
    chosen = np.array(words.classes)[learner.predict(X).argmax(axis=1)]
    output = [row["prediction"] for row in words.transform(frame).select("prediction").collect()]
    np.testing.assert_array_equal(chosen, output)
    for label in words.classes:
        assert words.weights(label) == learner.weights(label)
    with pytest.raises(InvalidInputError, match="label must be one of"):
        words.weights()
    with pytest.raises(InvalidInputError, match="got 'no'"):
        words.weights("no")


def test_models_can_be_merged(frame):
    first, second = frame.randomSplit([0.5, 0.5], seed=1)
    for estimator in (SONRegressor(labelCol="number"), SONClassifier(labelCol="word")):
        left, other = estimator.fit(first), estimator.fit(second)
        merged = left.merge([other])
        assert type(merged) is type(left)
        assert merged.getOrDefault("labelCol") == left.getOrDefault("labelCol")
        assert merged.rounds_[0].total("rows") == ROWS
        label = () if isinstance(merged, SONRegressionModel) else (merged.classes[0],)
        assert merged.toOnlineLearner().stats()["rounds"] == ROWS
        alone = left.toOnlineLearner().merge([other.toOnlineLearner()])
        assert merged.weights(*label) == alone.weights(*label)
    with pytest.raises(InvalidInputError, match="cannot be merged with"):
        merged.merge([SONRegressor(labelCol="number").fit(first)])
    with pytest.raises(InvalidInputError, match="differ in their classes"):
        merged.merge([SONClassifier().fit(first)])
