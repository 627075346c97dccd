"""
A River pipeline
================

``sonline.river`` has River estimators, so they work in River's pipelines, metrics and progressive
validation.
"""

# %%
# A data set that comes with River, and three models over the same rows.
import matplotlib.pyplot as plt
from river import compose, datasets, evaluate, linear_model, metrics, preprocessing

from sonline.river import SONClassifier

models = {
    "LogisticRegression, unscaled": linear_model.LogisticRegression(),
    "StandardScaler | LogisticRegression": preprocessing.StandardScaler()
    | linear_model.LogisticRegression(),
    "SONClassifier": SONClassifier(),
}

# %%
# ``iter_progressive_val_score`` reports the metric while the stream goes by.
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for name, model in models.items():
    steps = evaluate.iter_progressive_val_score(
        datasets.Phishing(), model, metrics.LogLoss(), step=25
    )
    points = [(step["Step"], step["LogLoss"].get()) for step in steps]
    ax.plot(*zip(*points, strict=True), label=f"{name}: {points[-1][1]:.3f}")
ax.set(xlabel="rows", ylabel="progressive log loss", ylim=(0, 1))
ax.legend()
plt.show()

# %%
# In a pipeline: select columns, then classify. Text values need no encoder.
pipeline = compose.Select("age_of_domain", "long_url", "is_popular") | SONClassifier()
print(evaluate.progressive_val_score(datasets.Phishing(), pipeline, metrics.Accuracy()))
