"""Problems for the tests of the estimators, and what an estimator is, for comparison."""

import pickle

import numpy as np
from sklearn.datasets import make_classification

from sonline import SONClassifier, SONRegressor


def problem(classes=2, n=400, seed=0):
    X, y = make_classification(
        n, 12, n_informative=8, n_classes=classes, random_state=seed, class_sep=1.5
    )
    return X * (1 + np.arange(12)), y


def regression(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) * [1, 10, 100, 1, 1, 1]
    return X, X @ [1, 0.1, 0.01, 0, -1, 2] + 3 + 0.1 * rng.normal(size=n)


def fitted(estimator):
    X, y = regression() if isinstance(estimator, SONRegressor) else problem(3)
    return estimator.fit(X, y), X, y


def state_of(estimator):
    """Everything that an estimator is, for comparison."""
    state = {k: v for k, v in vars(estimator).items() if k != "_model"}
    model = vars(estimator).get("_model")
    if model is not None:
        document, tensors = model.__getstate__()
        state["document"] = document
        state["tensors"] = {name: (a.shape, a.tobytes()) for name, a in tensors.items()}
    return pickle.dumps(state)


BOTH = [SONClassifier(random_state=0), SONRegressor(random_state=0)]
