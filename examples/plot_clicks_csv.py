"""
Clicks from a CSV file
======================

Train on a CSV file without loading it, read the weights by name, and predict one request.
"""

# %%
# A file of impressions: one row per advertisement shown, with text, numbers and empty cells.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sonline import OnlineLearner, plots

rng = np.random.default_rng(0)
n = 30_000
clicks = pd.DataFrame(
    {
        "hour": rng.integers(0, 24, n),
        "device": rng.choice(["phone", "tablet", "desktop"], n, p=[0.6, 0.1, 0.3]),
        "campaign": rng.choice([f"c{i}" for i in range(30)], n),
        "price": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(3, 1, n)),
    }
)
strength = dict(zip([f"c{i}" for i in range(30)], rng.normal(size=30), strict=True))
score = clicks["campaign"].map(strength) + 0.8 * (clicks["device"] == "phone") - 2.5
clicks["click"] = (score + rng.logistic(size=n) > 0).astype(int)
path = Path(tempfile.mkdtemp(), "clicks.csv")
clicks.to_csv(path, index=False)
print(path.read_text()[:150])

# %%
# One pass. Text columns become one feature per value; empty cells add nothing.
learner = OnlineLearner()
progress = learner.learn_stream(path, label="click")
print(f"{progress.loss.rows:,} rows, log loss {progress.loss.average:.4f}")
rate = clicks["click"].mean()
print(f"always the base rate: log loss {-rate * np.log(rate) - (1 - rate) * np.log(1 - rate):.4f}")

# %%
# Progress and the strongest features.
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plots.loss_curve(progress.loss, ax=axes[0])
plots.largest_weights(learner, ax=axes[1])
plt.show()

# %%
# A single request, as a dictionary, and why.
request = {"hour": 20, "device": "phone", "campaign": "c3", "price": 12.5}
print(learner.predict_proba_one(request))
print(learner.explain_one(request))
