"""The means of the live page: the same however the events were split into batches."""

import time

import numpy as np
import pytest
from helpers_service import NAME, make
from starlette.testclient import TestClient

from sonline.model import LearnResult
from sonline.service import create_app
from sonline.service.monitor import WINDOW, Monitor
from sonline.service.service import Watched
from sonline.service.versions import new_model


def watched(model, targets, size):
    monitor = Monitor()
    raw = np.zeros((1, targets.size))
    for start in range(0, targets.size, size):
        part = slice(start, start + size)
        counts = [(0, targets[part].size)]
        monitor.update(model, LearnResult(raw[:, part], targets[part], counts))
    return monitor.values()


@pytest.mark.parametrize("size", [1, 7, 1500])
def test_the_baselines_of_classes_are_those_of_one_event_at_a_time(size):
    targets = (np.random.default_rng(0).random(1500) < 0.3).astype(np.int64)
    wrong, best = [], targets[0]
    for position, target in enumerate(targets):
        wrong.append(best != target)
        ones = targets[: position + 1].sum()
        if 2 * ones != position + 1:  # otherwise neither is more common
            best = int(2 * ones > position + 1)
    values = watched(new_model(), targets, size)
    assert values["prior"] == pytest.approx(np.mean(wrong))
    assert values["last_label"] == pytest.approx(np.mean(targets[1:] != targets[:-1]), abs=1e-3)


@pytest.mark.parametrize("size", [1, 7, 1500])
def test_the_baseline_of_numbers_is_their_mean_so_far(size):
    targets = np.random.default_rng(0).normal(5.0, 1.0, 1500)
    means = np.concatenate([targets[:1], np.cumsum(targets)[:-1] / np.arange(1, 1500)])
    assert targets.size < WINDOW
    values = watched(new_model("regression"), targets, size)
    assert values["prior"] == pytest.approx(0.5 * np.mean((targets - means) ** 2))


def test_samples_are_in_order_if_the_clock_is_set_back(tmp_path, monkeypatch):
    engine = make(tmp_path)
    samples = Watched(engine)
    first = samples.sample()["time"]
    monkeypatch.setattr(time, "time", lambda: 1e9)
    second = samples.sample()["time"]
    engine.close()
    assert first <= second < first + 60
    assert first == pytest.approx(samples.started, abs=60)


def test_reading_the_figures_changes_nothing_that_is_shown(tmp_path):
    with TestClient(
        create_app(tmp_path, tokens_required=False), base_url="http://localhost"
    ) as client:
        client.app.service.sample = lambda: None  # which is called each second
        client.post("/v1/models", json={"name": NAME})
        client.post(f"/v1/models/{NAME}/learn", json={"x": {"a": 1.0}, "y": 1})
        history = client.app.service.watched[NAME].history
        before = [*history]
        for _ in range(3):
            now = client.get(f"/v1/models/{NAME}/stats").json()["now"]
            assert now["events"] <= 1
            assert now["rate"] >= 0
        assert [*history] == before
