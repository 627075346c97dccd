"""Speed and memory beside the peers, measured in one run: ``python -m benchmarks --help``."""

import os

# Before NumPy is imported: its linear algebra would start threads that a later pin to one core does
# not reach, and whose processor time would count as that of whatever is being timed.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
