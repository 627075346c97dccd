"""`Model`: learns, predicts, merges and saves, behind every face of sonline.

- `model`: the class;
- `predictions`: the result of learning a batch, and probabilities;
- `batches`: rows of streams;
- `next_rows`: how the frozen model does on the next rows;
- `merge`: merged models, models with other classes, compact models;
- `schema`: the document of a model file.
"""

from sonline.model.model import PROBABILISTIC, Model, Reading, to_merge
from sonline.model.next_rows import NextRows
from sonline.model.predictions import LearnResult, probabilities, sigmoid

__all__ = [
    "PROBABILISTIC",
    "LearnResult",
    "Model",
    "NextRows",
    "Reading",
    "probabilities",
    "sigmoid",
    "to_merge",
]
