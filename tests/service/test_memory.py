"""Memory of a process that runs for long."""

import ctypes
import os
import platform
import subprocess
import sys

import pytest

LOOK = """
import ctypes, sys
from sonline.service.memory import return_large_blocks

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
if sys.argv[1] == "returned":
    return_large_blocks()
bytearray(20_000_000)  # allocated and freed: glibc adapts its threshold to it
before = libc.mallinfo2().hblkhd
block = bytearray(20_000_000)
print(libc.mallinfo2().hblkhd - before >= 20_000_000)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="only glibc 2.33 and newer say where a block is",
)
@pytest.mark.parametrize(("what", "expected"), [("usual", "False"), ("returned", "True")])
def test_large_blocks_are_returned_to_the_system(what, expected):
    command = [sys.executable, "-c", LOOK, what]
    # Dask sets a threshold for the processes that it starts, which turns the adaptation off.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    predictions = subprocess.run(command, capture_output=True, text=True, check=True, env=clean)
    assert predictions.stdout.strip() == expected
