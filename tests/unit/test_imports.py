"""Imports go one way: the order that docs/design.md shows."""

import ast
import subprocess
import sys
from pathlib import Path

import sonline

PACKAGE = Path(sonline.__file__).parent
ORDER = (
    *("errors", "_core", "files", "arguments", "parameters", "constructors", "persistence"),
    "read_options",
    *("labels", "rows", "evaluate", "plots"),
    *(
        "merging",
        "model",
        "streams",
        "live",
        "display",
        "training",
        "learner_files",
        "learner",
        "export",
        "estimators",
    ),
    *("river", "distributed", "service", "cli", "paper", "__main__"),
)
EXCEPTIONS = {("paper", "sonline"), ("cli", "sonline")}
PAPER = {  # imports allowed in the parts of the paper
    "reference": set(),
    "theory": {"errors", "reference"},
    "datasets": {"errors", "streams"},
}


def imports(package: Path = PACKAGE, prefix: str = "sonline") -> set[tuple[str, str]]:
    """Return which part of the package imports which, in every function, too."""
    modules = set()
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        part = "sonline" if parts == ("__init__",) else parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module in ("sonline", prefix):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            for name in names:
                if name.partition(".")[0] == "sonline":
                    rest = name.removeprefix(prefix).removeprefix("sonline").removeprefix(".")
                    target = rest.partition(".")[0]
                    known = any(
                        (folder / target).is_dir() or (folder / f"{target}.py").is_file()
                        for folder in (package, PACKAGE)
                    )
                    modules.add(
                        (part, target if target and (known or target == "_core") else "sonline")
                    )
    return {(part, target) for part, target in modules if part != target}


def test_every_part_has_its_place():
    assert {part for part, _ in imports()} - {"sonline"} <= {*ORDER}


def test_imports_go_one_way():
    """The paper comes last: nothing of the product imports it, not even within a function."""
    for part, target in imports() - EXCEPTIONS:
        if part == "sonline":  # the package itself: the public names
            assert target != "paper"
            continue
        assert target in ORDER, f"{part} imports {target}"
        assert ORDER.index(target) < ORDER.index(part), f"{part} imports {target}"


def test_parts_of_the_paper_stand_alone():
    actual = imports(PACKAGE / "paper", "sonline.paper")
    assert {part for part, _ in actual} >= {"theory", "datasets"}
    for part, target in actual:
        if part in PAPER:
            assert target in PAPER[part], f"{part} imports {target}"


def test_the_product_loads_nothing_of_the_paper():
    """Measured in a separate process, with everything public imported."""
    code = (
        "import sys, sonline, sonline.cli.train, sonline.cli.cluster, sonline.cli.vw\n"
        "[getattr(sonline, name) for name in sonline.__all__]\n"
        "sys.exit(any(name.startswith('sonline.paper') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_small_training_imports_only_what_it_needs(tmp_path: Path) -> None:
    """What pydantic, rich, merging, SciPy and pyarrow take would be half of the time."""
    (tmp_path / "ten.svm").write_text("1 1:2 3:4\n-1 2:1\n" * 5)
    code = (
        "import sys\nfrom sonline.cli import main\n"
        "sys.argv = ['sonline', 'train', 'ten.svm', '-o', 'm.son']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "rows            10" in done.stdout
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "sonline.training" in loaded
    heavy = {"pydantic", "rich", "sonline.merging", "scipy", "pyarrow", "sklearn", "matplotlib"}
    assert not loaded & heavy
