"""Curves to be looked at: what they say of the rows, and pictures of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from sonline import OnlineLearner, SONClassifier, SONRegressor
from sonline.errors import InvalidInputError
from sonline.model.curves import curve_of
from sonline.river import SONClassifier as RiverClassifier

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is an extra")
plt.switch_backend("agg")
ROWS = 4000


@pytest.fixture(autouse=True)
def _no_figures_left() -> Any:
    yield
    plt.close("all")


def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, ROWS).astype(float),
            "income": rng.lognormal(10, 0.6, ROWS),
            "gain": np.where(rng.random(ROWS) < 0.8, 0, rng.lognormal(5, 1, ROWS)),
            "member": (rng.random(ROWS) < 0.3).astype(float),
            "year": rng.normal(2000, 1, ROWS),
        }
    )
    return frame.mask(rng.random(frame.shape) < [0.2, 0, 0, 0, 0])


def target(frame: pd.DataFrame) -> Any:
    noise = np.random.default_rng(1).normal(size=ROWS) / 2
    return abs(frame.age.fillna(45) - 45) / 10 + np.log1p(frame.gain) + 2 * frame.member + noise


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return people()


@pytest.fixture(scope="module")
def learner(frame: pd.DataFrame) -> OnlineLearner:
    learner = OnlineLearner(loss="squared", missing="mark")
    learner.learn(frame, target(frame))
    return learner


@pytest.mark.parametrize("column", ["age", "income", "gain", "member", "year"])
def test_contributions_are_centred_over_the_rows(
    frame: pd.DataFrame, learner: OnlineLearner, column: str
) -> None:
    curve = learner.curve(column)
    values = frame[column].dropna()
    parts = curve.at(values)
    assert abs(parts.mean()) < 0.15 * parts.std() + 0.01
    assert curve.importance == pytest.approx(parts.std(), rel=0.3)
    assert curve.rows.sum() + curve.zeros == pytest.approx(values.size, rel=0.02)
    assert curve.zeros == pytest.approx((values == 0).sum(), rel=0.1, abs=60)


def test_rows_are_counted_by_piece(frame: pd.DataFrame, learner: OnlineLearner) -> None:
    curve = learner.curve("income")
    ends = [-np.inf, *curve.values, np.inf]
    np.testing.assert_allclose(curve.rows, np.histogram(frame.income, ends)[0], atol=60)


@pytest.mark.parametrize(
    "row",
    [{"age": 1e5}, {"income": -1e9}, {"year": 1e4}, {"gain": 1e7}, {"member": 1.0}, {"age": 33.0}],
)
def test_any_value_adds_what_explain_says(learner: OnlineLearner, row: dict[str, float]) -> None:
    [(column, value)] = row.items()
    others = {"age": 30.0, "income": 2e4, "gain": 1.0, "member": 0.0, "year": 2000.0}
    curve = learner.curve(column)
    wanted = learner.explain_one({**others, **row})[column]
    assert curve.at(value) + curve.mean == pytest.approx(wanted, rel=1e-6, abs=1e-6)


def test_a_picture_leaves_out_the_few_rows_far_away() -> None:
    knots = np.array([-1e6, 0.0, 1.0, 2.0, 1e6])
    rows = np.array([1.0, 2.0, 500.0, 700.0, 1.0, 1.0])
    curve = curve_of("a", knots, knots * 0, rows, slope=0.0)
    assert curve.values[curve.shown()].tolist() == [0, 1, 2]
    places = {(start, end): height for start, end, height in curve.bars()}
    assert places[1.0, 2.0] == 1.0
    assert places[0.0, 1.0] == pytest.approx(500 / 700)
    assert places[-1.0, 0.0] == pytest.approx(3 / 700)
    assert curve.ends() == (-1.0, 3.0)
    zeros = curve_of("a", knots, knots * 0, rows, slope=0.0, zeros=5000.0)
    narrow = [bar for bar in zeros.bars() if bar[0] < 0 < bar[1]]
    assert [height for *_, height in narrow] == [1.0]


@pytest.mark.parametrize("rows", [[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
def test_a_picture_of_rows_on_one_side(rows: list[float]) -> None:
    knots = np.array([1.0, 2.0])
    curve = curve_of("a", knots, knots, np.array(rows), slope=1.0)
    assert curve.values[curve.shown()].tolist() == [1, 2]
    assert all(0 < height <= 1 for *_, height in curve.bars())
    assert curve.ends()[0] < curve.ends()[1]


def test_panels_are_sorted_and_have_one_scale(learner: OnlineLearner) -> None:
    figure = learner.plot_curves()
    figure.canvas.draw()
    curves = learner.all_curves()
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == [curve.feature for curve in curves]
    assert len({axes.get_ylim() for axes in panels}) == 1
    for axes, curve in zip(panels, curves, strict=True):
        drawn = axes.get_lines()[-1]
        knots = np.isin(drawn.get_xdata(), curve.values)
        np.testing.assert_array_equal(drawn.get_xdata()[knots], curve.values[curve.shown()])
        np.testing.assert_array_equal(drawn.get_ydata()[knots], curve.contributions[curve.shown()])
        assert tuple(drawn.get_xdata()[[0, -1]]) == curve.ends()  # also beyond the knots
        np.testing.assert_array_equal(drawn.get_ydata(), curve.at(drawn.get_xdata()))
        low, high = axes.get_ylim()
        line = low + 0.4 * (high - low)  # the density is below, the curve above
        assert drawn.get_ydata().min() > line
        assert len(axes.patches) == len(curve.bars())
        assert max(bar.get_bbox().y1 for bar in axes.patches) < 0.4
        assert axes.get_yticks().min() > line
    assert figure.get_supylabel() == "adds, in the unit of the target"
    assert len(learner.plot_curves(count=1).axes) == 1


def test_curves_of_all_classes_or_of_one() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = SONClassifier(random_state=0).fit(X, y.map({0: "a", 1: "b", 2: "c"}))
    figure = model.plot_curves()
    assert len(figure.axes[0].get_lines()) == 4  # and the line of zero
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "c"]
    one = model.plot_curves("b")
    assert len(one.axes[0].get_lines()) == 2
    assert one.get_supylabel() == "adds, in log odds of b"
    assert not one.legends


def test_models_without_curves_say_so(frame: pd.DataFrame) -> None:
    straight = SONRegressor(curves=False).fit(frame.fillna(0), target(frame))
    with pytest.raises(InvalidInputError, match="SONRegressor has no curves"):
        straight.plot_curves()
    with pytest.raises(InvalidInputError, match="SONClassifier has no curves"):
        RiverClassifier().plot_curves()
    X = np.random.default_rng(0).normal(size=(600, 3))
    many = SONClassifier().fit(X, np.arange(600) % 12)
    with pytest.raises(InvalidInputError, match="name the class"):
        many.plot_curves()
    assert many.plot_curves(3).axes


def test_the_notebook_shows_curves(frame: pd.DataFrame, learner: OnlineLearner) -> None:
    shown = learner._repr_html_()
    texts = re.findall("<text[^>]*>([^<]*)</text>", shown)
    assert texts[::3] == [curve.feature for curve in learner.all_curves()]
    assert shown.count("<polyline") == 4
    named = frame.rename(columns={"age": "<b>&" + "x" * 99})
    html = SONRegressor().fit(named.fillna(0), target(frame))._repr_mimebundle_()["text/html"]
    assert "&lt;b&gt;&amp;" in html
    assert "<b>&" not in html[html.index("aria-label='curves'") :]
    assert "<svg" not in OnlineLearner()._repr_html_()
    straight = OnlineLearner(loss="squared", curves=False)
    straight.learn(frame.fillna(0), target(frame))
    assert "<svg" not in straight._repr_html_()


def test_inspect_draws_them(tmp_path: Path, learner: OnlineLearner) -> None:
    learner.save(tmp_path / "m.son")
    command = [sys.executable, "-m", "sonline", "inspect", "m.son", "--plot", "m.html"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"curves      {learner.all_curves()[0].feature} " in done.stdout
    page = (tmp_path / "m.html").read_text()
    assert page.count("axes_") > 5
    facts = subprocess.run(
        [*command[:5], "--json"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert '"importance"' in facts.stdout
