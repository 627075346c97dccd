"""`Model`: learns, predicts, merges and saves, behind every face of sonline.

- `model`: the class, which learns and predicts;
- `inspection`, `files`: its base classes, which look inside, and which save and load;
- `face`: what the classes that users call have in common;
- `features`: whether rows have the features of a model;
- `predictions`: the result of learning a batch, and probabilities;
- `batches`: rows of streams;
- `next_rows`: how the frozen model does on the next rows;
- `views`: a model at a glance;
- `merge`: merged models, models with other classes, compact models;
- `schema`: the document of a model file.
"""

from sonline.model.files import Reading
from sonline.model.inspection import PROBABILISTIC
from sonline.model.model import Model, to_merge
from sonline.model.next_rows import NextRows
from sonline.model.predictions import LearnResult, probabilities

__all__ = [
    "PROBABILISTIC",
    "LearnResult",
    "Model",
    "NextRows",
    "Reading",
    "probabilities",
    "to_merge",
]
