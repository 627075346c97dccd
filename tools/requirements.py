"""Print the requirements of this project, one per line, without building it.

``python tools/requirements.py test dev`` prints the hard dependencies and those of the extras
``test`` and ``dev``. The developer environment is made from this list, so that pyproject.toml stays
the only place where requirements are written. With ``--oldest`` each lower bound becomes the only
version allowed, but for the tools of developers, of which those that ask for newer versions of our
dependencies are left out.
"""

import re
import sys
import tomllib
from pathlib import Path

TOOLS = re.compile(r"pytest|hypothesis|playwright")
NEWER = re.compile(r"schemathesis")  # asks for newer versions of what we depend on


def requirements(extras: list[str], oldest: bool = False) -> list[str]:
    """Return the sorted requirements of the project and of the named extras."""
    pyproject = Path(__file__).parent.parent / "pyproject.toml"
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    names = set(project["dependencies"])
    for extra in extras:
        names.update(project["optional-dependencies"][extra])
    if oldest:
        names = {
            name if TOOLS.match(name) else re.sub(r">=([\w.]+).*", r"==\1", name)
            for name in names
            if not NEWER.match(name)
        }
    return sorted(names)


if __name__ == "__main__":
    words = sys.argv[1:]
    extras = [word for word in words if word != "--oldest"]
    print("\n".join(requirements(extras, oldest="--oldest" in words)))
