"""Training on a Dask cluster; needs ``pip install sonline[dask]``."""

from sonline.distributed.dask.engine import DaskEngine
from sonline.distributed.dask.estimators import SONClassifier, SONRegressor

__all__ = ["DaskEngine", "SONClassifier", "SONRegressor"]
