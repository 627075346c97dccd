"""The examples in docstrings, in the README and on the page to start with run and are right."""

import doctest
import importlib
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

import sonline

ROOT = Path(__file__).parents[2]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = {  # packages that need not be here; they are imported by the names they have on PyPI
    re.match(r"[\w-]+", requirement)[0]
    for extra in PROJECT["optional-dependencies"].values()
    for requirement in extra
}


def modules() -> list[str]:
    walk = pkgutil.walk_packages(sonline.__path__, "sonline.", onerror=lambda name: None)
    return ["sonline", *(module.name for module in walk if module.name != "sonline._core")]


def examples(markdown: str) -> list[str]:
    """Return the code blocks of a page that show a session with Python."""
    blocks = re.findall(r"^```python\n(.*?)^```", markdown, re.DOTALL | re.MULTILINE)
    return [block for block in blocks if ">>>" in block]


@pytest.mark.parametrize("name", modules())
def test_docstrings(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OPTIONAL:
            raise
        pytest.skip(f"{name} needs {error.name}, an extra that is not installed here")
    assert module.__doc__, f"{name} has no docstring"
    failures, _ = doctest.testmod(module, optionflags=FLAGS)
    assert failures == 0


def test_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples may write files
    actual = examples((ROOT / "README.md").read_text(encoding="utf-8"))
    assert actual
    names: dict[str, object] = {}
    for i, block in enumerate(actual):
        test = doctest.DocTestParser().get_doctest(block, names, f"README {i}", "README.md", 0)
        runner = doctest.DocTestRunner(optionflags=FLAGS)
        runner.run(test, clear_globs=False)
        names = test.globs
        assert runner.summarize().failed == 0
