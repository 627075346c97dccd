"""Imports go one way: the order that docs/design.md shows."""

import ast
from pathlib import Path

import sonline

PACKAGE = Path(sonline.__file__).parent
ORDER = (
    *("errors", "_core", "parameters", "persistence", "inputs", "merging", "learner", "classes"),
    *("evaluate", "streams", "plots", "export", "estimators", "river", "datasets", "experiments"),
    *("distributed", "cli"),
)
APART = {"reference": set(), "theory": {"errors", "reference"}}
EXCEPTIONS = {("experiments", "sonline"), ("cli", "sonline")}


def imports() -> set[tuple[str, str]]:
    """Return which part of the package imports which, in every function, too."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        part = "sonline" if parts == ("__init__",) else parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module == "sonline":
                names = [f"sonline.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            for name in names:
                head, _, rest = name.partition(".")
                target = rest.partition(".")[0]
                if head == "sonline":
                    known = (PACKAGE / target).is_dir() or (PACKAGE / f"{target}.py").is_file()
                    found.add(
                        (part, target if target and (known or target == "_core") else "sonline")
                    )
    return {(part, target) for part, target in found if part != target}


def test_every_part_has_its_place():
    parts = {part for part, _ in imports()} - {"sonline"}
    assert parts <= {*ORDER, *APART}


def test_imports_go_one_way():
    for part, target in imports() - EXCEPTIONS:
        if part == "sonline":  # the package itself: what is public
            continue
        if part in APART:
            assert target in APART[part], f"{part} imports {target}"
        else:
            assert target in ORDER, f"{part} imports {target}"
            assert ORDER.index(target) < ORDER.index(part), f"{part} imports {target}"
