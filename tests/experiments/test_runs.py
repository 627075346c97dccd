"""Cells, interruption, files and the report, on small data."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from sonline.errors import ParameterError
from sonline.paper.experiments.cells import Cell, Setup, Store
from sonline.paper.experiments.drawing import logarithmic
from sonline.paper.experiments.exhibit import Exhibit, Table, new_figure
from sonline.paper.experiments.fig3 import Fig3
from sonline.paper.experiments.fig_splice import FigSplice
from sonline.paper.experiments.report import html
from sonline.paper.experiments.runner import EXPERIMENTS, choose, reproduce
from sonline.paper.experiments.runtime import Runtime
from sonline.paper.experiments.table_eigen import TableEigen
from sonline.paper.experiments.table_error import METHODS, Comparison, TableError
from sonline.paper.experiments.table_fd_oja import TableFdOja


@pytest.fixture
def small(tmp_path, monkeypatch) -> Setup:
    """Return a folder in which splice and diabetes are small and easy, and nothing else is."""
    monkeypatch.delenv("SONLINE_DATA", raising=False)
    monkeypatch.setenv("SONLINE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "data"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name, rows in (("splice", 200), ("diabetes", 120)):
        X = rng.integers(0, 5, size=(rows, 8))
        y = np.where(X @ rng.standard_normal(8) > 0, 1, -1)
        lines = [
            f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(x))
            for x, label in zip(X, y, strict=True)
        ]
        (folder / f"{name}.svm").write_text("\n".join(lines) + "\n")
    return Setup(folder)


class Interrupting:
    """An experiment of three cells; the second fails a given number of times."""

    name = "interrupting"

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.computed: list[int] = []

    def _cell(self, i: int) -> Cell:
        def compute() -> int:
            if i == 1 and self.failures:
                self.failures -= 1
                raise KeyboardInterrupt
            self.computed.append(i)
            return 10 * i

        return Cell({"i": i}, f"cell {i}", compute)

    def plan(self, setup: Setup) -> list[Cell]:
        return [self._cell(i) for i in range(3)]

    def show(self, setup: Setup, value) -> Exhibit:
        records = [{"i": i, "value": value(self._cell(i))} for i in range(3)]
        return Exhibit(self.name, "Interrupting", "Text.", records)


def test_an_interrupted_run_continues_where_it_stopped(tmp_path):
    experiment = Interrupting(failures=1)
    seen: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        reproduce(
            [experiment], tmp_path, Setup(), lambda d, n, c: seen.append(f"{d}/{n} {c.label}")
        )
    reproduce([experiment], tmp_path, Setup())
    assert experiment.computed == [0, 1, 2]
    assert seen == ["0/3 cell 0", "1/3 cell 1"]
    assert (tmp_path / "interrupting.csv").read_text() == "i,value\n0,0\n1,10\n2,20\n"


def test_a_cell_depends_on_its_whole_key(tmp_path):
    store = Store(tmp_path)
    store[Cell({"a": 1}, "same label", int)] = "first"
    assert Cell({"a": 2}, "same label", int) not in store
    assert store[Cell({"a": 1}, "same label", int)] == "first"


def test_another_file_of_a_data_set_makes_other_cells(small):
    before = small.key("splice")
    (small.data_dir / "splice.svm").write_text("1 1:1\n-1 1:2\n")
    assert small.key("splice") != before


@pytest.mark.long
def test_tables_and_pictures_of_finished_cells_and_a_list_of_missing_ones(small, tmp_path):
    out = tmp_path / "out"
    table = TableError()
    experiments = [table, Fig3(table), FigSplice(), TableFdOja(), TableEigen(), Runtime()]
    exhibits = reproduce(experiments, out, small)

    for exhibit in exhibits:
        assert (out / f"{exhibit.name}.csv").stat().st_size > 0
        for ending in (".png", ".svg") if exhibit.draw else ():
            assert (out / f"{exhibit.name}{ending}").stat().st_size > 0

    with (out / "table-error.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["dataset"] for row in rows} == {"splice", "diabetes"}
    for row in rows:
        ours, paper = float(row["ours"]), float(row["paper"])
        assert float(row["difference"]) == pytest.approx(ours - paper, abs=1e-6)
        assert float(row["mistakes_ours"]) == pytest.approx(ours * int(row["rows"]), abs=0.01)

    page = (out / "report.html").read_text()
    assert page.count("<img") == sum(exhibit.draw is not None for exhibit in exhibits)
    assert not re.search(r'(src|href)="(?!data:)', page)  # self-contained
    assert "Missing data sets, left out: 20news, a9a" in page
    assert "0.343000" in page  # the paper's number beside ours
    assert "splice: the file at hand has 200 rows, expected 1000" in page
    assert "numpy" in page
    assert "clipped to [-1, 1]" in page
    assert "| splice |" in (out / "report.markdown").read_text()


def test_without_data_sets_the_tables_are_empty_and_say_so(tmp_path, monkeypatch):
    monkeypatch.delenv("SONLINE_DATA", raising=False)
    monkeypatch.setenv("SONLINE_CACHE", str(tmp_path))
    data = [e for name, e in EXPERIMENTS.items() if name not in {"fig1", "fig2"}]
    exhibits = reproduce(data, tmp_path / "out", Setup())
    assert [exhibit.records for exhibit in exhibits] == [[]] * len(data)
    assert len(exhibits[0].missing) == 23
    assert not list((tmp_path / "out").glob("*.png"))


def test_names_choose_experiments():
    assert choose(["all"]) == list(EXPERIMENTS.values())
    assert [e.name for e in choose(["fig2", "fig1", "fig2"])] == ["fig2", "fig1"]
    with pytest.raises(ParameterError, match=r"'fig4'; there are fig1, fig2, .* and all"):
        choose(["fig4"])


def test_agreement_is_three_mistakes_or_five_per_cent(small):
    def comparison(paper: float, mistakes: int) -> bool:
        ours = type("Best", (), {"rows": 1000, "mistakes": mistakes})()
        return Comparison("splice", "m = 0", paper, ours).agrees

    assert comparison(0.010, 13)
    assert not comparison(0.010, 14)
    assert comparison(0.200, 210)
    assert not comparison(0.200, 211)


def test_tables_become_markdown_and_html_without_breaking_them(tmp_path):
    table = Table(["a", "b"], [["x<y", "1"], ["", "2"]], "Title")
    assert table.markdown() == "**Title**\n\n| a | b |\n| --- | ---: |\n| x<y | 1 |\n|   | 2 |\n"
    assert "<td>x&lt;y</td>" in html(table.markdown(), tmp_path)


def test_cells_store_their_settings(small, tmp_path):
    reproduce([TableError(names=["diabetes"], methods=METHODS[:3])], tmp_path / "out", small)
    keys = [json.loads(p.read_text())["key"] for p in Path(tmp_path, "out", "cells").glob("*.json")]
    assert sorted((k["settings"]["scaling"], k["settings"]["sketch"]) for k in keys) == [
        ("gradient", "none"),
        ("gradient", "none"),  # the wider steps
        ("none", "none"),
        ("none", "oja"),
    ]
    assert all(k["dataset"] == "diabetes" and k["bytes"] > 0 and k["sonline"] for k in keys)


def test_another_build_of_the_kernel_computes_its_own_cells(tmp_path, monkeypatch):
    store, cell = Store(tmp_path), Cell({"a": 1}, "label", int)
    store[cell] = "of this build"
    monkeypatch.setattr("sonline.paper.experiments.cells._build", lambda: "another")
    assert cell not in store


def test_zeros_have_a_place_on_a_logarithmic_axis_and_no_mark_is_cut():
    axes = new_figure((3, 2)).subplots()
    logarithmic(axes, "x", [0.0, 1e-3, 0.2])
    low, high = axes.get_xlim()
    assert -1e-3 < low < 0
    assert high > 0.2
    logarithmic(axes, "y", [1e-3, 0.2])
    assert axes.get_yscale() == "log"
