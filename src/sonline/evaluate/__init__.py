"""Progressive evaluation: metrics of predictions that were made before each row was learned.

Every metric takes batches through ``update(labels, predictions, weights)`` and keeps a few numbers,
never the rows. Sums run in the order of the rows, so a stream gives the same result however it is
cut into batches. Predictions are raw ones (``w.x``); labels of classification are -1 and +1.
"""

from sonline.evaluate.losses import losses, measures
from sonline.evaluate.metrics import AUC, R2, Confusion, Error, LogLoss, Loss, Mean, Metric
from sonline.evaluate.progress import Curve, Point, Progress

__all__ = [
    "AUC",
    "R2",
    "Confusion",
    "Curve",
    "Error",
    "LogLoss",
    "Loss",
    "Mean",
    "Metric",
    "Point",
    "Progress",
    "losses",
    "measures",
]
