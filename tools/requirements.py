"""Print the requirements of this project, one per line, without building it.

``python tools/requirements.py test dev`` prints the hard dependencies and those of the extras
``test`` and ``dev``. The developer environment is made from this list, so that pyproject.toml stays
the only place where requirements are written. With ``--oldest`` each lower bound becomes the only
version allowed, but for the extras ``dev`` and ``test``, which users do not need.
"""

import re
import sys
import tomllib
from pathlib import Path

NOT_FOR_USERS = ("dev", "test")


def requirements(extras: list[str], oldest: bool = False) -> list[str]:
    """Return the sorted requirements of the project and of the named extras."""
    pyproject = Path(__file__).parent.parent / "pyproject.toml"
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    for_users = set(project["dependencies"])
    others: set[str] = set()
    for extra in extras:
        found = others if extra in NOT_FOR_USERS else for_users
        found.update(project["optional-dependencies"][extra])
    if oldest:
        for_users = {re.sub(r">=([\w.]+).*", r"==\1", one) for one in for_users}
    return sorted(for_users | others)


if __name__ == "__main__":
    words = sys.argv[1:]
    extras = [word for word in words if word != "--oldest"]
    print("\n".join(requirements(extras, oldest="--oldest" in words)))
