"""Shared by the tests of Dask: the size of the data, and models as bytes."""

import os
import time
from pathlib import Path

import dask.array as da
import numpy as np

import sonline

PARTS, ROWS, FEATURES = 6, 400, 12


def arrays(*every):
    return [da.from_array(entry, chunks=(ROWS, *entry.shape[1:])) for entry in every]


def state(model):
    """Return every array of a fitted estimator, as bytes."""
    document, tensors = model.model.__getstate__()
    return document, {name: tensor.tobytes() for name, tensor in tensors.items()}


def by_hand(X, y, **parameters):
    """Return the expected result: an estimator for each part, merged."""
    each = [
        sonline.SONClassifier(**parameters).partial_fit(
            X[first : first + ROWS], y[first : first + ROWS], classes=np.unique(y)
        )
        for first in range(0, len(X), ROWS)
    ]
    return each[0].merge(each[1:])


def slowly(values, marker):
    """Return the values; the first time, say who is at it and take a long time."""
    if marker is not None and not Path(marker).exists():
        Path(marker).write_text(str(os.getpid()), encoding="utf-8")
        time.sleep(900)
    return values
