"""Progressive evaluation: metrics of predictions made before the model trained on each row.

Every metric is updated batch by batch, ``update(labels, predictions, weights)``, and does not store
the rows. Sums run in the order of the rows, so the result does not depend on how the rows are split
into batches. Predictions are raw predictions (``w.x``); class labels are -1 and +1.
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
