"""Fuzz model files, numbers and mappings; `make fuzz-models` does it with sanitizers.

Each case follows from its target, the seed and its number alone. A case may end in an error of
`sonline.errors` and in nothing else: not in another exception, not in a report of a sanitizer, not
in a wait of 20 seconds, and what was saved can be loaded.

    python fuzz/models.py SECONDS [--seed N] [--only TARGET] [--core FILE]
    python fuzz/models.py --case TARGET:SEED:NUMBER

A line for each target says how many cases there were. A fault prints the case that shows it, a
crash leaves that in the file that the first line names.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib.util
import os
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

LONGEST = 20  # seconds for a case


def load_core(path: str) -> None:
    """Take the native module from another file than the installed one."""
    spec = importlib.util.spec_from_file_location("sonline._core", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sonline._core"] = module
    spec.loader.exec_module(module)


def run(case: Any, name: str, seed: int, number: int, folder: Path) -> bool:
    """Run one case; whether it ended as it may."""
    from sonline.errors import SonlineError  # noqa: PLC0415 - after the core was chosen

    faulthandler.dump_traceback_later(LONGEST, exit=True)
    try:
        case(np.random.default_rng([seed, number]), folder)
    except SonlineError:
        return True
    except Exception:  # noqa: BLE001 - whatever it is, it is a fault
        traceback.print_exc()
        print(f"a fault: fuzz/models.py --case {name}:{seed}:{number}", flush=True)
        return False
    finally:
        faulthandler.cancel_dump_traceback_later()
    return True


def main() -> int:
    """Run cases of each target for a while, or a single one; the exit code."""
    parser = argparse.ArgumentParser(description="Fuzz model files, numbers and mappings.")
    parser.add_argument("seconds", type=float, nargs="?", default=20, help="for all targets")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", choices=["files", "numbers", "mappings"])
    parser.add_argument("--core", help="native module to use, such as one with sanitizers")
    parser.add_argument("--case", help="TARGET:SEED:NUMBER of a single case")
    options = parser.parse_args()
    if options.core:
        load_core(options.core)
    from files import Files  # noqa: PLC0415 - these import the core
    from learners import fuzz_numbers  # noqa: PLC0415
    from mappings import fuzz_mappings  # noqa: PLC0415

    warnings.simplefilter("ignore")
    os.fsync = lambda _: None  # the files are not to be kept
    memory = Path("/dev/shm")  # a folder in memory, where there is one
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        folder = Path(made)
        targets: dict[str, Any] = {
            "files": Files(folder),
            "numbers": fuzz_numbers,
            "mappings": fuzz_mappings,
        }
        if options.case:
            name, seed, number = options.case.split(":")
            return 0 if run(targets[name], name, int(seed), int(number), folder) else 1
        now = Path(tempfile.gettempdir(), f"sonline-fuzz-{os.getpid()}.case")
        print(f"should this end without a word, {now} has the case", flush=True)
        names = [options.only] if options.only else list(targets)
        failed = False
        for name in names:
            end = time.monotonic() + options.seconds / len(names)
            number = 0
            while time.monotonic() < end and not failed:
                now.write_text(f"--case {name}:{options.seed}:{number}\n", encoding="ascii")
                failed = not run(targets[name], name, options.seed, number, folder)
                number += 1
            print(f"{name}: {number} cases, seed {options.seed}", flush=True)
        now.unlink()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
