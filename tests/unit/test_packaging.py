"""What the packaging promises: one version, types, and a README whose commands exist."""

import importlib.metadata
import json
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import sonline
import sonline._core
from sonline.paper.experiments import ill_conditioned

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def first_code_block(markdown: str) -> list[str]:
    block = re.search(r"```\w*\n(.*?)```", markdown, re.DOTALL)
    assert block is not None
    return block[1].splitlines()


def test_version_is_written_once():
    assert sonline.__version__ == PROJECT["version"] == importlib.metadata.version("sonline")


def test_version_in_the_citation_and_the_conda_recipe():
    for name in ("CITATION.cff", "packaging/conda/recipe.yaml"):
        text = (ROOT / name).read_text(encoding="utf-8")
        versions = re.findall(r'^ *version: "?([\d.]+)"?$', text, re.MULTILINE)
        assert versions == [PROJECT["version"]], name


def test_conda_recipe_requires_what_the_package_requires():
    recipe = (ROOT / "packaging/conda/recipe.yaml").read_text(encoding="utf-8")
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    required = [line.strip(" -").replace(" ", "") for line in run.splitlines()]
    assert required == [f"python{PROJECT['requires-python']}", *PROJECT["dependencies"]]


def test_package_is_typed():
    package = Path(sonline.__file__).parent
    assert (package / "py.typed").is_file()
    assert (package / "_core.pyi").is_file()


def test_first_code_block_of_the_readme_is_the_whole_set_up():
    lines = first_code_block((ROOT / "README.md").read_text(encoding="utf-8"))
    assert [line.split("#")[0].strip() for line in lines] == ["make demo", "make test"]


def test_table_of_the_readme_is_that_of_the_demonstration():
    tool = runpy.run_path(str(ROOT / "tools" / "readme.py"))
    report = json.loads(tool["RESULTS"].read_text(encoding="utf-8"))
    assert tool["table"](report) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_numbers_of_the_readme_can_be_had_again():
    report = json.loads((ROOT / "docs" / "_static" / "demo.json").read_text(encoding="utf-8"))
    for contender in report["contenders"]:
        result = contender["results"][-1]
        for seed, expected in zip(report["seeds"], result["errors"], strict=True):
            X, y = ill_conditioned(result["kappa"], report["rows"], report["features"], seed)
            predictions = sonline.OnlineLearner(**result["parameters"]).learn(X, y)
            # Sums in another order, on another machine, move a few predictions across zero.
            assert np.mean((predictions > 0) != (y > 0)) == pytest.approx(expected, abs=0.003)


def test_ci_calls_the_test_command_of_the_readme():
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert {"make test", "make test-long"} <= set(lines)


def test_extra_all_names_every_extra_for_users():
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(re.fullmatch(r"sonline\[(.*)\]", everything)[1].split(","))
    assert named == set(extras) - {"all", "build", "test", "dev", "docs", "bench"}


def test_requirements_tool_prints_extras():
    printed = subprocess.run(
        [sys.executable, ROOT / "tools" / "requirements.py", "plot"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert printed == sorted([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["plot"]])


def test_changelog_knows_this_version_or_says_unreleased():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert headings[0] in ("Unreleased", PROJECT["version"])
