"""Types of arrays, and the keys of features in the core."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Keys: TypeAlias = NDArray[np.uint64]
Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

NAMED = np.uint64(1 << 63)  # marks the id of a name among the keys of the core
UNKNOWN = np.uint64(2**64 - 1)  # the key of a name that a model does not have; -1 as int64
