"""
Parquet larger than memory
==========================

Train on a folder of Parquet files batch by batch. Memory stays flat while the rows go by.
"""

# %%
# Eight files; imagine eight thousand.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sonline import OnlineLearner, streams

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
truth = rng.normal(size=20)
for part in range(8):
    values = rng.normal(size=(25_000, 20)).astype("float32")
    table = pd.DataFrame(values, columns=[f"f{j}" for j in range(20)])
    table["label"] = (values @ truth + rng.logistic(size=25_000) > 0).astype(int)
    table.to_parquet(folder / f"part-{part}.parquet")
size = sum(path.stat().st_size for path in folder.iterdir())
print(f"{size / 1e6:.0f} MB on disk")

# %%
# ``learn_stream`` would do all of this in one call. Here we loop over the batches to look inside.
learner = OnlineLearner()
rows, memory, errors = [0], [], []
with streams.open(str(folder / "*.parquet"), label="label") as stream:
    for batch in stream:
        predictions = learner.learn(batch)
        errors.append(np.mean((predictions > 0) != (np.asarray(batch.labels) > 0)))
        rows.append(rows[-1] + len(batch))
        memory.append(learner.stats()["bytes"])
print(f"{rows[-1]:,} rows in {len(errors)} batches; the model has {memory[-1]:,} bytes")

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
axes[0].plot(rows[1:], errors, marker=".")
axes[0].set(xlabel="rows", ylabel="error of the batch, before learning it")
axes[1].plot(rows[1:], np.array(memory) / 1000, marker=".", label="model")
axes[1].set(xlabel="rows", ylabel="kB", ylim=(0, None), title="Memory of the model")
plt.show()

# %%
# The same from a shell:
#
# .. code-block:: console
#
#    $ sonline train 'part-*.parquet' -o model.son --checkpoint model.part
