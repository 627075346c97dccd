"""Checks of the files that a command writes, before it starts to work."""

from __future__ import annotations

from pathlib import Path

from sonline.training import outputs as of_training


def model_file(path: Path) -> str:
    """Return the name of a model file; raise an error about a folder."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a model file, such as {path}/m.son")
    return str(path)


def check_outputs(data: list[str], **outputs: Path | None) -> None:
    """Raise an error if an output cannot be written, is also an input, or is named twice."""
    flags = {f"--{name.replace('_', '-')}": path for name, path in outputs.items()}
    of_training.check_outputs(data, flags)
