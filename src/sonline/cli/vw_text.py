"""Models as text, as Vowpal Wabbit's ``--readable_model`` and ``--invert_hash`` write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sonline
from sonline import streams
from sonline.files import replacing
from sonline.model import Model


def names_of_slots(data: str, options: dict[str, Any], hash_bits: int) -> dict[int, list[str]]:
    """Return the names of the features of a file by slot; several where names collide.

    The file is read twice at once, by name and hashed.
    """
    options = options | {"interactions": [], "tokens": True, "unlabelled": True}
    found: dict[int, dict[str, None]] = {}
    known: list[str] = []
    with (
        streams.open(data, **(options | {"features": "name"})) as by_name,
        streams.open(data, **(options | {"features": "hash", "hash_bits": hash_bits})) as hashed,
    ):
        for names, slots in zip(by_name, hashed, strict=True):
            known += names.new_names
            for number, slot in {*zip(names.indices.tolist(), slots.indices.tolist(), strict=True)}:
                found.setdefault(slot, {})[known[number]] = None
    return {slot: sorted(words) for slot, words in found.items()}


def write_weights(model: Model, path: Path, names: dict[int, list[str]] | None = None) -> None:
    """Write a line for each weight that is not 0: ``slot:weight``, or ``name:slot:weight``."""
    bits = model.parameters.hash_bits
    lines = [f"Version sonline {sonline.__version__}", f"bits:{bits}", ":0"]
    weights = model.weights()
    labels = [] if model.table is None else list(model.table.labels)
    slots = [int(slot) for slot in model.features()]
    for number, line in enumerate(weights.tolist()):
        if len(weights) > 1:
            lines.append(f"class {labels[number]}")
        if model.parameters.intercept:
            lines.append(f"Constant:{line[0]:g}")
        for slot, weight in sorted(zip(slots, line[1:], strict=False)):
            if weight != 0:
                words = "" if names is None else "".join(f"{n}:" for n in names.get(slot, [""])[:1])
                lines.append(f"{words}{slot}:{weight:g}")
    with replacing(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
