"""How fast text becomes arrays: sonline beside scikit-learn and Vowpal Wabbit, on the same text.

Each contender reads the same rows several times, in turn with the others, and its best time counts:
what disturbs one of them on a busy machine disturbs all. Vowpal Wabbit only takes part where it is
installed (``pip install vowpalwabbit``); it parses with ``--noop``, which learns nothing.
"""

import argparse
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from sonline import _core

CHUNK = 1 << 18
STYLES = {"6 digits": "{}:{:.6f}", "17 digits": "{}:{:.17g}", "ones": "{}:1"}


def make_rows(rows: int, features: int, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sorted indices and values in [0, 1)."""
    rng = np.random.default_rng(0)
    gaps = rng.integers(1, 2 * dimensions // features, (rows, features))
    return np.cumsum(gaps, axis=1), rng.random((rows, features))


def make_text(style: str, name: str, bar: str, indices: np.ndarray, values: np.ndarray) -> bytes:
    """Write the rows as text, with labels 1 and -1 in turn."""
    form = name + STYLES[style]
    lines = []
    for number, (row, numbers) in enumerate(zip(indices.tolist(), values.tolist(), strict=True)):
        pairs = map(form.format, row, numbers)
        lines.append(f"{1 if number % 2 else -1}{bar} {' '.join(pairs)}\n")
    return "".join(lines).encode()


def parse_with_sonline(text: bytes, fmt: str, features: str) -> None:
    parser = _core.TextParser(fmt, features=features)
    view = memoryview(text)
    for start in range(0, len(text), CHUNK):
        parser.feed(view[start : start + CHUNK])
    parser.finish()


def vowpal_wabbit(path: Path) -> Callable[[], None] | None:
    try:
        from vowpalwabbit import Workspace  # noqa: PLC0415 (an optional contender)
    except ImportError:
        return None
    return lambda: Workspace(f"--data {path} --noop --quiet -b 18").finish()


def best_times(contenders: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Return the best time of each contender in seconds; they take turns."""
    best = dict.fromkeys(contenders, np.inf)
    for _ in range(repeats):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=20_000)
    arguments.add_argument("--features", type=int, default=64, help="features of a row")
    arguments.add_argument("--dimensions", type=int, default=50_000, help="largest index, about")
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--json", action="store_true", help="print one JSON object per result")
    options = arguments.parse_args()
    rows = make_rows(options.rows, options.features, options.dimensions)
    with tempfile.TemporaryDirectory() as folder:
        for style in STYLES:
            svmlight = make_text(style, "", "", *rows)
            report(
                options,
                f"svmlight, {style}",
                svmlight,
                {
                    "sonline": lambda text=svmlight: parse_with_sonline(text, "svmlight", "index"),
                    "scikit-learn": lambda text=svmlight: load_svmlight_file(io.BytesIO(text)),
                },
            )
        vw = make_text("6 digits", "f", " |ns", *rows)
        path = Path(folder) / "rows.vw"
        path.write_bytes(vw)
        contenders = {
            "sonline, hashed": lambda: parse_with_sonline(vw, "vw", "hash"),
            "sonline, exact names": lambda: parse_with_sonline(vw, "vw", "name"),
            "Vowpal Wabbit": vowpal_wabbit(path),
        }
        report(options, "Vowpal Wabbit text, 6 digits", vw, contenders)


def report(
    options: argparse.Namespace,
    title: str,
    text: bytes,
    contenders: dict[str, Callable[[], None] | None],
) -> None:
    present = {name: run for name, run in contenders.items() if run is not None}
    times = best_times(present, options.repeats)
    total = options.rows * options.features
    first = next(iter(times.values()))
    if not options.json:
        print(f"{title}: {total} features, {len(text) / 1e6:.0f} MB, best of {options.repeats}")
    for name, seconds in times.items():
        result = {
            "text": title,
            "contender": name,
            "ns_per_feature": round(seconds / total * 1e9, 1),
            "mb_per_second": round(len(text) / seconds / 1e6),
            "times_the_first": round(seconds / first, 1),
        }
        if options.json:
            json.dump(result, sys.stdout)
            print()
        else:
            print(
                f"  {name:22}{result['ns_per_feature']:8.1f} ns/feature"
                f"{result['mb_per_second']:7} MB/s{result['times_the_first']:7.1f} x"
            )


if __name__ == "__main__":
    main()
