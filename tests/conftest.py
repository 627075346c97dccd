"""Options that all tests share."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

DATA_VARIABLE = "SONLINE_DATA"
# What rich and typer take for wishes about the terminal; tests that have any say them themselves.
TERMINAL = ("COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "LINES", "NO_COLOR", "PY_COLORS")
TERMINAL += ("TTY_COMPATIBLE", "TTY_INTERACTIVE")
# Folders whose tests share a cluster or a build.
ONE_PROCESS = ("tests/distributed/", "tests/packages/", "tests/spark/")

# The same examples on every run and machine, so that a red test means a change in the code. `make
# fuzz` looks further, with new examples each time.
hypothesis.settings.register_profile("ci", derandomize=True, max_examples=50, deadline=None)
hypothesis.settings.register_profile("explore", max_examples=2000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure() -> None:
    """Let it not matter who starts the tests: a person, a script, or a service.

    A shell without job control has commands that end in ``&`` ignore Ctrl-C, and all that they
    start.
    """
    for name in TERMINAL:
        os.environ.pop(name, None)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Make all but one in n combinations of the parameters of a test ``long``: mark ``one_in(n)``.

    The sum of the positions of the values decides. So each pair of values is in a quick combination
    if the positions of the other parameters can add up to n - 1.
    """
    mark = item.get_closest_marker("one_in")
    if mark is not None and sum(_positions(item)) % mark.args[0]:
        item.add_marker("long")


def _positions(item: pytest.Item) -> Iterator[int]:
    """Where the values of a parametrized test stand in their lists."""
    chosen = item.callspec.params  # type: ignore[attr-defined]
    for mark in item.iter_markers("parametrize"):
        names, values = mark.args
        value = chosen[names] if isinstance(names, str) else tuple(chosen[one] for one in names)
        yield list(values).index(value)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that need real data sets when no folder with them is named."""
    if os.environ.get(DATA_VARIABLE):
        return
    without = [item for item in items if item.get_closest_marker("data")]
    if without:
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if not item.get_closest_marker("data")]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep such tests in one process of pytest-xdist: each process would start its own.

    The marks that are meant for it have no effect with pytest 9.2 (pytest-dev/pytest-xdist#1386).
    """
    from xdist.scheduler import LoadGroupScheduling  # noqa: PLC0415 - it calls this

    class ByFolder(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folders = (folder for folder in ONE_PROCESS if nodeid.startswith(folder))
            return next(folders, None) or super()._split_scope(nodeid)

    return ByFolder(config, log) if config.option.dist == "loadgroup" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out and how to run it."""
    if not os.environ.get(DATA_VARIABLE):
        terminalreporter.write_line(
            f"Tests marked 'data' were deselected: {DATA_VARIABLE} does not name a folder with the "
            "data sets (svmlight files such as a9a.svm.gz)."
        )


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder with the real data sets; for tests marked ``data`` only."""
    folder = Path(os.environ[DATA_VARIABLE])
    if not folder.is_dir():
        pytest.fail(f"{DATA_VARIABLE} names {folder}, which is not a folder")
    return folder
