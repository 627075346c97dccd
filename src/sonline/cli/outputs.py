"""Checks of the files that a command writes, before it starts to work."""

from __future__ import annotations

from pathlib import Path

from sonline.training import outputs as of_training


def check_outputs(data: list[str], **outputs: Path | None) -> None:
    """Raise an error if an output cannot be written, is also an input, or is named twice."""
    flags = {f"--{name.replace('_', '-')}": path for name, path in outputs.items()}
    of_training.check_outputs(data, flags)
