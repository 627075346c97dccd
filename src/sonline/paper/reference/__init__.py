"""The paper in NumPy, line by line; imports nothing else of sonline.

Three rungs, each tested against the one before it: the algorithms as printed (`paper`,
`epochs`), the same in factored sparse form (`sparse_oja`, `sparse_fd`), and the sketches in the
form and with the conventions of the library (`sketches`, `learner`), of which `ReferenceLearner` is
an oracle of the native `sonline.OnlineLearner` with one weight vector.

Algorithms are counted as in "Efficient Second Order Online Learning by Sketching" with its
appendix: 1 SON, 2 FD, 3 Oja, 4 sparse SON with Oja, 5 sparse Oja, 6 FD in epochs,
7 ComputeEigenSystem, 8 sparse SON with FD, 9 sparse FD, 10 ComputeSparseEigenSystem,
11 Decompose.
"""

from sonline.paper.reference.epochs import (
    BlockOja,
    EpochFrequentDirections,
    compute_eigen_system,
    decompose,
)
from sonline.paper.reference.learner import ReferenceLearner
from sonline.paper.reference.losses import LOSSES, Loss, make_loss
from sonline.paper.reference.paper import (
    DiagonalAdaptation,
    OnlineNewton,
    PaperFrequentDirections,
    PaperOja,
    SketchedOnlineNewton,
    run,
)
from sonline.paper.reference.sketches import (
    AdaGrad,
    FrequentDirections,
    FullMatrix,
    Isotropic,
    LowRank,
    Oja,
    RobustFrequentDirections,
    Sketch,
    oja_rotation,
    orthonormalise,
    random_start,
)
from sonline.paper.reference.sparse_fd import SparseFrequentDirections, compute_sparse_eigen_system
from sonline.paper.reference.sparse_oja import SparseOja, SparseOjaSketch

__all__ = [
    "LOSSES",
    "AdaGrad",
    "BlockOja",
    "DiagonalAdaptation",
    "EpochFrequentDirections",
    "FrequentDirections",
    "FullMatrix",
    "Isotropic",
    "Loss",
    "LowRank",
    "Oja",
    "OnlineNewton",
    "PaperFrequentDirections",
    "PaperOja",
    "ReferenceLearner",
    "RobustFrequentDirections",
    "Sketch",
    "SketchedOnlineNewton",
    "SparseFrequentDirections",
    "SparseOja",
    "SparseOjaSketch",
    "compute_eigen_system",
    "compute_sparse_eigen_system",
    "decompose",
    "make_loss",
    "oja_rotation",
    "orthonormalise",
    "random_start",
    "run",
]
