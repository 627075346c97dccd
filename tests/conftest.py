"""Options that all tests share."""

import os
from pathlib import Path

import hypothesis
import pytest

DATA_VARIABLE = "SONLINE_DATA"

# The same examples on every run and machine, so that a red test means a change in the code. `make
# fuzz` looks further, with new examples each time.
hypothesis.settings.register_profile("ci", derandomize=True, max_examples=50, deadline=None)
hypothesis.settings.register_profile("explore", max_examples=2000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that need real data sets when no folder with them is named."""
    if os.environ.get(DATA_VARIABLE):
        return
    without = [item for item in items if item.get_closest_marker("data")]
    if without:
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if not item.get_closest_marker("data")]


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
