"""
Badly conditioned data: why second order
========================================

The stream of the paper's first figure. As the rows are stretched more and more, first-order
methods lose, even behind a scaler; the default does not have to be tuned for it.
"""

# %%
# One hundred features; ten combinations of them have variances up to κ, the *condition number*.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sonline import SONClassifier
from sonline.paper.experiments import ill_conditioned

models = {
    "scaler + SGDClassifier, one pass": lambda: make_pipeline(
        StandardScaler(), SGDClassifier(loss="log_loss", max_iter=1, tol=None, random_state=0)
    ),
    "scaler + SGDClassifier, 10 passes": lambda: make_pipeline(
        StandardScaler(), SGDClassifier(loss="log_loss", max_iter=10, tol=None, random_state=0)
    ),
    "SONClassifier, one pass": lambda: SONClassifier(random_state=0),
}

# %%
kappas = (1, 30, 1000)
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for name, make in models.items():
    errors = []
    for kappa in kappas:
        X, y = ill_conditioned(kappa, rounds=5000)
        errors.append(1 - make().fit(X[:4000], y[:4000]).score(X[4000:], y[4000:]))
    ax.plot(kappas, errors, marker="o", label=name)
    print(f"{name:36}", np.round(errors, 3))
ax.set(xscale="log", xlabel="condition number κ", ylabel="error on held-out rows", ylim=(0, None))
ax.legend()
plt.show()
