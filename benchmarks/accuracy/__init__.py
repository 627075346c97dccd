"""Accuracy beside the peers, in one protocol; see `python -m benchmarks.accuracy`."""
