"""Events that no model can learn are left out, and stop nothing."""

import time

import numpy as np
from helpers_service import assert_same_bits, make, opened, to_learn

from sonline import OnlineLearner
from sonline.service.versions import new_model


def amounts(count, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=count)
    labels = np.exp(values) * rng.gamma(2, 0.5, count)
    rows = [
        {"id": f"e{n}", "x": {"f": v, "g": n % 3 - 1}, "y": y, "weight": 1 + n % 2}
        for n, (v, y) in enumerate(zip(values.tolist(), labels.tolist(), strict=True))
    ]
    for number in (50, 51, 300):  # a step of such a label is too large for float32
        rows[number]["y"] = 1e140
    return rows


def test_a_row_that_cannot_be_learned_is_left_out(tmp_path):
    """Whatever is learned together with it, also in a replay."""
    rows, models = amounts(400), []
    for size, again in ((400, False), (7, False), (60, True)):
        folder = tmp_path / str(size)
        engine = make(folder, new_model("regression", parameters={"loss": "gamma"}))
        for start in range(0, 400, size):
            engine.learn(to_learn(rows[start : start + size])).result()
        while engine.lag:
            time.sleep(0.002)
        assert engine.ready
        live = engine.versions[engine.champion]
        assert "events that could not be learned: 3; the last one: row" in engine.problem
        assert live.model.progress.loss.rows == 397
        engine.close()
        if again:  # all is replayed
            database = opened(folder)
            with database.changing() as about:
                about.snapshots = about.snapshots[:1]
            database.release()
        engine = make(folder)
        models.append(engine.versions[engine.champion].model)
        engine.close()
    kept = [row for row in rows if row["y"] < 1e100]
    learner = OnlineLearner(loss="gamma")
    learner.learn(
        [row["x"] for row in kept], [row["y"] for row in kept], [row["weight"] for row in kept]
    )
    for model in models:
        assert_same_bits(model, models[0])
        expected = learner.predict([row["x"] for row in kept[:5]])
        predicted = model.means(model.predict([row["x"] for row in kept[:5]])[0])
        np.testing.assert_allclose(predicted, expected, rtol=1e-4)
