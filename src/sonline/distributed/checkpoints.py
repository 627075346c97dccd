"""Finished partitions on disk, so that a driver that died need not begin anew."""

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
OURS = {"format": "sonline checkpoints"}  # marks a folder as one of ours
# What a run may leave: its files, and parts of files if it was killed while it wrote them.
LEFT = re.compile(r"\.?(partition-\d+|merged)\.(sonline|json)(\..*\.part)?")


class Checkpoints:
    """A folder with a model file and a file of figures for each finished partition.

    The figures are written last, and both by renaming: what is there is whole.

    Parameters
    ----------
    folder : path-like
        Made if there is none.
    kind : type
        Of the models: it has ``load(path)``, they have ``save(path)``.
    description : dict
        What makes results usable for another run: parameters, partitions and the like, as JSON.
    resume : bool
        Use what an earlier run has left; otherwise it is removed, and nothing else is.

    Raises
    ------
    ParameterError
        If ``resume`` is asked for and the earlier run was another one, or the folder has rounds of
        somebody else.
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
        wanted = OURS | json.loads(json.dumps(description))
        known = self._read(self.folder / RUN)
        foreign = known is None or known.get("format") != OURS["format"]
        for path in (self.folder / RUN, *self.folder.glob("round-*")) if foreign else ():
            if path.exists():
                raise ParameterError(
                    f"{path} was not left by a run of sonline, and is not touched; use another "
                    "folder for checkpoints"
                )
        if resume and known is not None:
            for name, value in wanted.items():
                if known.get(name) != value:
                    raise ParameterError(
                        f"{self.folder} was left by a run with {name} {known.get(name)}, now it is "
                        f"{value}; repeat the same command, or use another folder"
                    )
        else:
            for path in sorted(self.folder.glob("round-*/*")):
                if LEFT.fullmatch(path.name):
                    path.unlink()
            _write_atomically(self.folder / RUN, json.dumps(wanted, indent=1))

    def save(self, turn: int, name: str, shard: Shard) -> None:
        """Keep the shard of a partition (its number as a name) or of a whole round (`MERGED`)."""
        model, figures = self._paths(turn, name)
        model.parent.mkdir(exist_ok=True)
        if shard.model is not None:
            shard.model.save(model)
        plain = {
            "model": shard.model is not None,
            "figures": [one.as_dict() for one in shard.figures],
        }
        _write_atomically(figures, json.dumps(plain))

    def load(self, turn: int, name: str) -> Shard | None:
        """Return what `save` has kept; None if there is nothing, or nothing that can be used."""
        model, figures = self._paths(turn, name)
        plain = self._read(figures)
        if plain is None:
            return None
        try:
            loaded = self._kind.load(model) if plain["model"] else None
            every = [replace(Figures.from_dict(one), resumed=True) for one in plain["figures"]]
        except (ModelFileError, FileNotFoundError, KeyError, TypeError):
            return None
        return Shard(loaded, every)

    def _paths(self, turn: int, name: str) -> tuple[Path, Path]:
        base = self.folder / f"round-{turn + 1}"
        return base / f"{name}.sonline", base / f"{name}.json"

    @staticmethod
    def _read(path: Path) -> dict[str, Any] | None:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None


def _write_atomically(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
