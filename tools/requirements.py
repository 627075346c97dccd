"""Print the requirements of this project, one per line, without building it.

``python tools/requirements.py test dev`` prints the hard dependencies and those of the extras
``test`` and ``dev``. The developer environment is made from this list, so that pyproject.toml stays
the only place where requirements are written.
"""

import sys
import tomllib
from pathlib import Path


def requirements(extras: list[str]) -> list[str]:
    """Return the sorted requirements of the project and of the named extras."""
    pyproject = Path(__file__).parent.parent / "pyproject.toml"
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    found = set(project["dependencies"])
    for extra in extras:
        found.update(project["optional-dependencies"][extra])
    return sorted(found)


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
