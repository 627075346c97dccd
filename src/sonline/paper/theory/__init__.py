"""Theory that can be run: comparators in hindsight, regret, and the paper's bounds.

The theorems are those of "Efficient Second Order Online Learning by Sketching" (NIPS 2016):
1 lower bound, 2 full matrix, 3 Frequent Directions, 4 pseudo-inverse with its corollary. They
speak about the loss summed over a stream, minus that of the best weights in hindsight among all
with ``|w.x_t| <= C`` on every row.

Examples
--------
The regret of gradient descent on a small stream of Theorem 1:

>>> from sonline.paper.reference import ReferenceLearner
>>> from sonline.paper.theory import best_comparator, lower_bound_stream, regret
>>> X, y = lower_bound_stream(rounds=200, d=2, seed=0)
>>> learner = ReferenceLearner("hinge", "none", alpha=10.0, bound=1.0, intercept=False)
>>> predictions = learner.learn(X, y)
>>> best = best_comparator(X, y, "hinge", bound=1.0)
>>> curve = regret(predictions, best.predictions, y, "hinge")
>>> print(len(curve), bool(curve[-1] > 0))
200 True
"""

from sonline.paper.theory.bounds import (
    Assumptions,
    convex_etas,
    corollary1_convex_bound,
    pseudo_inverse_bound,
    theorem2_bound,
    theorem2_convex_bound,
    theorem3_bound,
    theorem4_bound,
)
from sonline.paper.theory.comparator import Comparator, best_comparator, regret
from sonline.paper.theory.lower import (
    linear_loss,
    lower_bound_expectation,
    lower_bound_stream,
    theorem1_lower_bound,
)
from sonline.paper.theory.measured import Measured, measure

__all__ = [
    "Assumptions",
    "Comparator",
    "Measured",
    "best_comparator",
    "convex_etas",
    "corollary1_convex_bound",
    "linear_loss",
    "lower_bound_expectation",
    "lower_bound_stream",
    "measure",
    "pseudo_inverse_bound",
    "regret",
    "theorem1_lower_bound",
    "theorem2_bound",
    "theorem2_convex_bound",
    "theorem3_bound",
    "theorem4_bound",
]
