"""Training on a Dask cluster; needs ``pip install "sonline[dask]"``."""

from sonline.errors import require

require("dask", "dask")
require("distributed", "dask")

from sonline.distributed.dask.estimators import SONClassifier, SONRegressor  # noqa: E402
from sonline.distributed.dask.runner import DaskRunner  # noqa: E402 - the error about a missing extra comes first

__all__ = ["DaskRunner", "SONClassifier", "SONRegressor"]
