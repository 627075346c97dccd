"""Training on a Dask cluster; needs ``pip install "sonline[dask]"``."""

from sonline.errors import require

require("dask", "dask")
require("distributed", "dask")

from sonline.distributed.dask.engine import DaskEngine  # noqa: E402 - the error about a missing extra comes first
from sonline.distributed.dask.estimators import SONClassifier, SONRegressor  # noqa: E402

__all__ = ["DaskEngine", "SONClassifier", "SONRegressor"]
