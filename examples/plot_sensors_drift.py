"""
Sensors that drift
==================

A machine with eight sensors slowly wears out, and then a part is replaced. The model keeps
training and follows; a model that was trained once does not.
"""

# %%
# Sensors on very different scales, which share two causes (load and temperature).
import matplotlib.pyplot as plt
import numpy as np

from sonline import OnlineLearner

rng = np.random.default_rng(0)
n = 24_000
causes = rng.normal(size=(n, 2))
mixing = rng.normal(size=(2, 8))
sensors = (causes @ mixing + 0.3 * rng.normal(size=(n, 8))) * np.geomspace(0.001, 1000, 8)
wear = np.where(np.arange(n) < 16_000, np.arange(n) / 16_000, 0.0)  # replaced at row 16,000
efficiency = (1 - 2 * wear) * causes[:, 0] + (0.5 + wear) * causes[:, 1]
power = 50 + efficiency + 0.1 * rng.normal(size=n)

# %%
# ``learn`` returns the prediction that was made before each row was learned.
online = OnlineLearner(loss="squared")
followed = np.abs(online.learn(sensors, power) - power)

frozen = OnlineLearner(loss="squared")
frozen.learn(sensors[:4000], power[:4000])
stayed = np.abs(frozen.predict(sensors) - power)


def recent(values, rows=400):
    """Return the mean of the last rows, at each row."""
    return np.convolve(values, np.ones(rows) / rows, mode="valid")


# %%
# The error of the frozen model grows with the wear and falls back when the part is replaced.
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(recent(stayed), label="trained on the first 4,000 rows")
ax.plot(recent(followed)[200:], label="keeps training")
ax.axvline(16_000, linestyle=":", color="gray", label="part replaced")
ax.set(xlabel="rows", ylabel="mean absolute error, last 400 rows", yscale="log")
ax.legend()
plt.show()
