"""Models and predictions as text, as Vowpal Wabbit's ``--readable_model`` and ``--audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sonline
from sonline import streams
from sonline.errors import ParameterError
from sonline.files import replacing
from sonline.model import Model


def names_of_slots(data: str, options: dict[str, Any], hash_bits: int) -> dict[int, list[str]]:
    """Return the names of the features of a file by slot; several where names collide.

    The file is read twice at once, by name and hashed.
    """
    options = options | {"interactions": [], "ngrams": [], "tokens": True, "unlabelled": True}
    names_by_slot: dict[int, dict[str, None]] = {}
    all_names: list[str] = []
    with (
        streams.open(data, **(options | {"features": "name"})) as by_name,
        streams.open(data, **(options | {"features": "hash", "hash_bits": hash_bits})) as hashed,
    ):
        for names, slots in zip(by_name, hashed, strict=True):
            all_names += names.new_names
            for number, slot in {*zip(names.indices.tolist(), slots.indices.tolist(), strict=True)}:
                names_by_slot.setdefault(slot, {})[all_names[number]] = None
    return {slot: sorted(words) for slot, words in names_by_slot.items()}


class Audit:
    """Lists the features of predicted rows, as Vowpal Wabbit's ``--audit`` does.

    A line for each row: ``name:slot:value:weight`` of each feature, the one that adds most to the
    prediction first. Products and n-grams have no names. The file is read once more, by name.
    """

    def __init__(self, model: Model, data: str, options: dict[str, Any]) -> None:
        if model.outputs != 1:
            raise ParameterError(
                "vw: --audit: of two classes, or of numbers; not of several classes"
            )
        if data == "-":
            raise ParameterError("vw: --audit reads the data twice; name a file with -d")
        bits = model.parameters.hash_bits or 18
        used = {"format", "hash_seed", "ignore"}
        reading = {name: value for name, value in options.items() if name in used}
        self._names = names_of_slots(data, reading, bits)
        weights = model.weights()[0].tolist()
        self._constant = weights[0] if model.parameters.intercept else None
        slots = [int(slot) for slot in model.features()]
        self._weights = dict(zip(slots, weights[1:], strict=False))

    def text(self, batch: Any, predictions: str) -> str:
        """Return the predictions of a batch, each with the line of its features."""
        lines = []
        ends = batch.indptr.tolist()
        for row, prediction in enumerate(predictions.splitlines()):
            stored = slice(ends[row], ends[row + 1])
            slots, values = batch.indices[stored].tolist(), batch.values[stored].tolist()
            pairs = zip(slots, values, strict=True)
            features = [self._feature(slot, value) for slot, value in pairs if value != 0]
            if self._constant is not None:
                features.append((abs(self._constant), f"Constant::1:{self._constant:g}"))
            features.sort(key=lambda feature: -feature[0])
            lines.append(f"{prediction}\n" + "".join(f"\t{words}" for _, words in features) + "\n")
        return "".join(lines)

    def _feature(self, slot: int, value: float) -> tuple[float, str]:
        weight = self._weights.get(slot, 0.0)
        name = self._names.get(slot, [""])[0]
        return abs(value * weight), f"{name}:{slot}:{value:g}:{weight:g}"


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
