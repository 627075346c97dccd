"""
Dask: one model from many partitions
====================================

Each partition is trained where it is, in one pass; then the models are merged. No row moves.
"""

# %%
# A Dask array of eight partitions. With a ``distributed.Client`` the same code runs on a cluster.
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from sonline import SONClassifier as SingleClassifier
from sonline.distributed.dask import SONClassifier

rng = np.random.default_rng(0)
n, d = 12_000, 40
X = rng.normal(size=(n, d)) @ (rng.normal(size=(d, d)) * np.geomspace(1, 0.05, d))
y = (X @ rng.normal(size=d) / 10 + rng.logistic(size=n) > 0).astype(int)
test = slice(8_000, None)
X_parts, y_parts = da.from_array(X[:8_000], chunks=(1000, d)), da.from_array(y[:8_000], 1000)
print(X_parts.numblocks[0], "partitions")

# %%
merged = SONClassifier().fit(X_parts, y_parts)
one_pass = SingleClassifier(shuffle=False).fit(X[:8_000], y[:8_000])
one_part = SingleClassifier(shuffle=False).fit(X[:1000], y[:1000])

# %%
# The merged model should be close to one pass over all rows, and better than one partition.
models = {"one partition": one_part, "8 merged": merged, "one pass over all": one_pass}
loss = {
    name: -np.mean(np.log(model.predict_proba(X[test])[np.arange(4000), y[test]]))
    for name, model in models.items()
}
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.bar(list(loss), list(loss.values()), color=["silver", "#c43c00", "#2f7fb8"])
ax.set(ylabel="log loss on held-out rows", ylim=(0.98 * min(loss.values()), None))
plt.show()

# %%
# The result is an ordinary estimator: predictions of a Dask array are lazy, files are the same.
print(merged.predict(X_parts)[:5].compute())
