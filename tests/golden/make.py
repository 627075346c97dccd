"""Write the golden models that are missing: ``python tests/golden/make.py``.

Run it for a new format version and for a new sketch. Files that exist are not written again: the
test that they can still be read is worth nothing if they follow the code.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sonline import OnlineLearner, persistence
from sonline.parameters import SKETCHES

FOLDER = Path(__file__).parent


def rows(count: int, seed: int) -> list[dict[str | int, float | str]]:
    """Rows with names, numbers and texts; made of integers only, so that they never change."""
    numbers = np.random.Generator(np.random.PCG64(seed)).integers(-8, 9, size=(count, 6)).tolist()
    return [
        {
            "height": a / 4,
            f"word {b % 5}": 1.0,
            "colour": ("red", "green", "blå")[c % 3],
            7: d / 2,
            2**40 + e: 1.0,
            "bias": f / 8,
        }
        for a, b, c, d, e, f in numbers
    ]


def labels(count: int, seed: int) -> list[int]:
    return np.random.Generator(np.random.PCG64(seed)).integers(0, 2, size=count).tolist()


def main() -> None:
    for sketch in SKETCHES:
        name = f"model-{persistence.FORMAT_VERSION}-{sketch}"
        if (FOLDER / f"{name}.sonline").exists():
            continue
        model = OnlineLearner(sketch=sketch, sketch_size=3, dtype="float64", bound=4.0)
        model.learn(rows(40, seed=1), labels(40, seed=2))
        model.save(FOLDER / f"{name}.sonline")
        expected = {
            "parameters": model.params,
            "features": model.features(),
            "predictions": model.predict(rows(10, seed=3)).tolist(),
            "continued": model.learn(rows(20, seed=4), labels(20, seed=5)).tolist(),
        }
        text = json.dumps(expected, indent=1, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
