"""What a run was asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    quick: bool
    rounds: int
    data_dir: Path | None
    folder: Path  # for files that are not kept

    def size(self, full: int) -> int:
        """Return `full`, or a tenth of it for a quick look."""
        return full // 10 if self.quick else full

    def some(self, several: tuple[int, ...]) -> tuple[int, ...]:
        """Return all, or for a quick look the first, the last and the one between them."""
        return several if not self.quick else several[:: max(len(several) // 2, 1)]
