"""Finished partitions on disk, so that a run can resume after its driver died."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from sonline.distributed.shards import Figures, Shard
from sonline.errors import ModelFileError, ParameterError
from sonline.files import replacing

RUN = "run.json"
MERGED = "merged"
FORMAT = {"format": "sonline checkpoints"}  # marks a folder that sonline made
# Files that a run leaves, also unfinished ones if it was killed while it wrote them.
RUN_FILES = re.compile(r"\.?(partition-\d+|merged)\.(sonline|json)(\..*\.part)?")


class Checkpoints:
    """A folder with a model file and a file of figures for each finished partition.

    The figures are written last, and both files are renamed when they are complete.

    Parameters
    ----------
    folder : path-like
        Created if it does not exist.
    kind : type
        The class of the models, with ``load(path)`` and ``save(path)``.
    description : dict
        Settings that a resumed run must share: parameters, partitions and so on, as JSON values.
    resume : bool
        Use the files of an earlier run; otherwise they, and no other files, are removed.

    Raises
    ------
    ParameterError
        If the earlier run was a different one, or the folder was not made by sonline.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        kind: type[Any],
        description: dict[str, Any],
        resume: bool,
    ) -> None:
        self.folder = Path(folder)
        self._kind = kind
        if self.folder.exists() and not self.folder.is_dir():
            raise ParameterError(
                f"{self.folder} is a file; checkpoints of partitions need a folder"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        expected = FORMAT | json.loads(json.dumps(description))
        stored = self._read(self.folder / RUN)
        foreign = stored is None or stored.get("format") != FORMAT["format"]
        for path in (self.folder / RUN, *self.folder.glob("round-*")) if foreign else ():
            if path.exists():
                raise ParameterError(
                    f"{path} was not left by a run of sonline, and is not touched; use another "
                    "folder for checkpoints"
                )
        if resume and stored is not None:
            for name, value in expected.items():
                if stored.get(name) != value:
                    raise ParameterError(
                        f"{self.folder} was left by a run with {name} {stored.get(name)}, this run "
                        f"has {value}; repeat the same command, or use another folder"
                    )
        else:
            for path in sorted(self.folder.glob("round-*/*")):
                if RUN_FILES.fullmatch(path.name):
                    path.unlink()
            _write_atomically(self.folder / RUN, json.dumps(expected, indent=1))

    def save(self, round_number: int, name: str, shard: Shard) -> None:
        """Store the shard of a partition (see `name_of`) or of a whole round (`MERGED`)."""
        model, figures = self._paths(round_number, name)
        model.parent.mkdir(exist_ok=True)
        if shard.model is not None:
            shard.model.save(model)
        plain = {
            "model": shard.model is not None,
            "figures": [part.as_dict() for part in shard.figures],
        }
        _write_atomically(figures, json.dumps(plain))

    def load(self, round_number: int, name: str) -> Shard | None:
        """Return a stored shard; None if it is missing or damaged."""
        model, figures = self._paths(round_number, name)
        plain = self._read(figures)
        if plain is None:
            return None
        try:
            loaded = self._kind.load(model) if plain["model"] else None
            parts = [replace(Figures.from_dict(part), resumed=True) for part in plain["figures"]]
        except (ModelFileError, FileNotFoundError, KeyError, TypeError):
            return None
        return Shard(loaded, parts)

    def _paths(self, round_number: int, name: str) -> tuple[Path, Path]:
        base = self.folder / f"round-{round_number + 1}"
        return base / f"{name}.sonline", base / f"{name}.json"

    @staticmethod
    def _read(path: Path) -> dict[str, Any] | None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return content if isinstance(content, dict) else None


def _write_atomically(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
