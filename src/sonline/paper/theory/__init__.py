"""Theory that can be run: comparators in hindsight, regret, and bounds on it.

Theorems 1 to 4 are those of "Efficient Second Order Online Learning by Sketching" (NIPS 2016):
1 lower bound, 2 full matrix, 3 Frequent Directions, 4 pseudo-inverse with its corollary. Theorems A
and C are an upper and a lower bound for the isotropic sketch. They speak about the loss summed over
a stream, minus that of the best weights in hindsight among all with ``|w.x_t| <= C`` on every row.

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
    isotropic_bound,
    mixture_bound,
    pseudo_inverse_bound,
    theorem2_bound,
    theorem2_convex_bound,
    theorem3_bound,
    theorem4_bound,
)
from sonline.paper.theory.comparator import Comparator, best_comparator, regret
from sonline.paper.theory.lower import (
    block_stream,
    isotropic_lower_bound,
    linear_loss,
    lower_bound_expectation,
    lower_bound_stream,
    noise_stream,
    theorem1_lower_bound,
)
from sonline.paper.theory.measured import Measured, isotropic_tail_cost, measure

__all__ = [
    "Assumptions",
    "Comparator",
    "Measured",
    "best_comparator",
    "block_stream",
    "convex_etas",
    "corollary1_convex_bound",
    "isotropic_bound",
    "isotropic_lower_bound",
    "isotropic_tail_cost",
    "linear_loss",
    "lower_bound_expectation",
    "lower_bound_stream",
    "measure",
    "mixture_bound",
    "noise_stream",
    "pseudo_inverse_bound",
    "regret",
    "theorem1_lower_bound",
    "theorem2_bound",
    "theorem2_convex_bound",
    "theorem3_bound",
    "theorem4_bound",
]
