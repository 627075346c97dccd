"""`Model`: what every face of sonline learns, predicts, merges and saves with.

- `model`: the class;
- `predictions`: what learning returns, and probabilities;
- `batches`: rows of streams;
- `merge`: several models into one, other classes, compact models;
- `schema`: what may be in the document of a file.
"""

from sonline.model.model import PROBABILISTIC, Model, Reading
from sonline.model.predictions import LearnResult, probabilities, sigmoid

__all__ = ["PROBABILISTIC", "LearnResult", "Model", "Reading", "probabilities", "sigmoid"]
