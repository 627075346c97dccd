"""Accuracy compared with other libraries, in one protocol; see `python -m benchmarks.accuracy`."""
