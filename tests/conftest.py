"""Options that all tests share."""

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

DATA_VARIABLE = "SONLINE_DATA"
# With ``SONLINE_SKIPS=fail``, as in the CI, only tests that need one of these may be skipped: data
# sets that are not in the folder, privileges, openssl, an older Python, an experiment of
# scikit-learn.
SKIPS_FAIL = os.environ.get("SONLINE_SKIPS") == "fail"
MAY_BE_SKIPPED = re.compile(
    "the folder|mounting a tmpfs|no openssl|the module has another|SCIPY_ARRAY_API"
)
# Variables that change the output of rich and typer. Tests that need them set them.
TERMINAL = ("COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "LINES", "NO_COLOR", "PY_COLORS")
TERMINAL += ("TTY_COMPATIBLE", "TTY_INTERACTIVE")
# Folders whose tests share a cluster or a build, which each process would have to start.
ONE_PROCESS = ("tests/distributed/", "tests/packages/", "tests/spark/")

# The same examples on every run and machine, so that a failure means a change in the code. `make
# fuzz` tries new examples each time.
hypothesis.settings.register_profile("ci", derandomize=True, max_examples=50, deadline=None)
hypothesis.settings.register_profile("explore", max_examples=2000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure() -> None:
    """Make the tests independent of how they are started: by a person, a script or a service.

    A shell without job control starts commands that end in ``&`` with Ctrl-C ignored, and their
    children inherit that.
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
    """Yield the position of each parameter's value in its list of values."""
    params = item.callspec.params  # type: ignore[attr-defined]
    for mark in item.iter_markers("parametrize"):
        names, values = mark.args
        value = params[names] if isinstance(names, str) else tuple(params[name] for name in names)
        yield list(values).index(value)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that need real data sets when no folder with them is named."""
    if os.environ.get(DATA_VARIABLE):
        return
    without = [item for item in items if item.get_closest_marker("data")]
    if without:
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if not item.get_closest_marker("data")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[Any]:
    """Let a skipped test fail in the CI, where all that it could need is installed."""
    return _failed_if_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[Any]:
    """The same for a module that is skipped."""
    return _failed_if_skipped((yield))


def _failed_if_skipped(report: Any) -> Any:
    if SKIPS_FAIL and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2])
        if not MAY_BE_SKIPPED.search(reason):
            report.outcome, report.longrepr = "failed", f"{reason} (SONLINE_SKIPS=fail)"
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests of each folder in `ONE_PROCESS` in one process of pytest-xdist.

    xdist's own marks for this have no effect with pytest 9.2 (pytest-dev/pytest-xdist#1386).
    """
    from xdist.scheduler import LoadGroupScheduling  # noqa: PLC0415 - it calls this

    class ByFolder(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folders = (folder for folder in ONE_PROCESS if nodeid.startswith(folder))
            return next(folders, None) or super()._split_scope(nodeid)

    return ByFolder(config, log) if config.option.dist == "loadgroup" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell which tests were left out and how to run them."""
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, driven by Playwright; without them tests are skipped."""
    path = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if path is None:
        pytest.skip("no chromium (apt-get install chromium)")
    api = pytest.importorskip("playwright.sync_api", reason="no playwright (an extra of the tests)")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def expect(browser: Any) -> Any:  # the browser fixture skips where there is no Playwright
    """Assertions of Playwright, which wait until they hold."""
    from playwright.sync_api import expect  # noqa: PLC0415 - an optional package

    return expect
