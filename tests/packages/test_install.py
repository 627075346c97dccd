"""The source archive and the wheel made of it, as an installer sees them: in empty environments."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEGABYTE = 1 << 20
# Nothing of the environment in which the tests run, nor the sanitizers that it may preload.
TESTS = ("PYTHON", "VIRTUAL_ENV", "LD_PRELOAD", "BUILD_SETTINGS")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(TESTS)}

pytestmark = pytest.mark.long


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=CLEAN, check=False, capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the source archive of the checkout."""
    folder = tmp_path_factory.mktemp("sdist")
    make = "import sys, scikit_build_core.build as b; print(b.build_sdist(sys.argv[1]))"
    run(sys.executable, "-c", make, folder, cwd=ROOT)
    (archive,) = folder.glob("sonline-*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel that pip builds from the archive in isolation, as for a user without one."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    run(*pip, "--wheel-dir", folder, sdist, cwd=folder)
    (built,) = folder.glob("sonline-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the scripts of an environment with only the wheel and its requirements."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    run(scripts / "python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return scripts


def test_archive_holds_sources_and_no_leftovers(sdist: Path) -> None:
    assert sdist.stat().st_size < 10 * MEGABYTE
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CMakeLists.txt", "LICENSE", "README.md", "cpp/sonline/model.cpp"} <= names
    assert {"src/sonline/_core.pyi", "src/sonline/py.typed", "tests/conftest.py"} <= names
    leftovers = (".so", ".pyc", ".o", "/.git", ".venv", "build/")
    assert not [name for name in names if name.endswith(leftovers[:3])]
    assert not [name for name in names if name.startswith(leftovers[3:])]


def test_readme_runs_with_the_wheel(installed: Path, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    (tmp_path / "readme.txt").write_text("\n".join(blocks), encoding="utf-8")
    check = "import doctest; print(*doctest.testfile('readme.txt', module_relative=False))"
    failed, tried = run(installed / "python", "-c", check, cwd=tmp_path).split()[-2:]
    assert int(tried) > 5
    assert int(failed) == 0


def test_command_line_runs_with_the_wheel(installed: Path, tmp_path: Path) -> None:
    rows = "".join(f"{2 * (i % 2) - 1} 1:{i % 2} 2:{i % 3}\n" for i in range(100))
    (tmp_path / "rows.svm").write_text(rows, encoding="utf-8")
    run(installed / "sonline", "train", "rows.svm", "-o", "model.son", cwd=tmp_path)
    printed = run(installed / "sonline", "predict", "rows.svm", "-m", "model.son", cwd=tmp_path)
    assert len(printed.splitlines()) == 100


def test_nothing_is_missing_and_nothing_else_is_there(installed: Path, tmp_path: Path) -> None:
    run(installed / "python", "-m", "pip", "check", cwd=tmp_path)
    extras = ("matplotlib", "pandas", "pyarrow", "river", "dask", "pyspark", "onnx")
    known = f"import importlib.util as u; print([x for x in {extras} if u.find_spec(x)])"
    assert run(installed / "python", "-c", known, cwd=tmp_path).strip() == "[]"
    inside = "import sonline; print(sonline.__file__)"
    assert str(installed.parent) in run(installed / "python", "-c", inside, cwd=tmp_path)
