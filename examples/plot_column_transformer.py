"""
A scikit-learn pipeline with ColumnTransformer
==============================================

``SONClassifier`` at the end of an ordinary scikit-learn pipeline, with cross-validation and a
grid search. (Frames can also go in directly; a pipeline is for steps that you want to control.)
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

from sonline import SONClassifier

rng = np.random.default_rng(0)
n = 4000
frame = pd.DataFrame(
    {
        "age": rng.uniform(18, 80, n),
        "income": np.where(rng.random(n) < 0.15, np.nan, rng.lognormal(10, 0.5, n)),
        "job": rng.choice(["cook", "nurse", "pilot", "smith"], n),
    }
)
risk = ((frame["age"] - 45) / 12) ** 2 - 1.5 + (frame["job"] == "pilot")  # not linear in age
left = (risk + rng.logistic(size=n) > 0).astype(int)

# %%
# Age enters as a spline, so that the linear model can bend; income is filled in and marked.
columns = ColumnTransformer(
    [
        ("age", SplineTransformer(n_knots=6), ["age"]),
        ("income", SimpleImputer(add_indicator=True), ["income"]),
        ("job", OneHotEncoder(handle_unknown="ignore"), ["job"]),
    ]
)
candidates = {
    "frame as it is": SONClassifier(random_state=0),
    "pipeline, one pass": make_pipeline(columns, SONClassifier(random_state=0)),
    "scaler + LogisticRegression": make_pipeline(
        columns, StandardScaler(with_mean=False), LogisticRegression(max_iter=1000)
    ),
}
scores = {
    name: cross_val_score(model, frame, left, cv=5, scoring="roc_auc")
    for name, model in candidates.items()
}

# %%
fig, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
ax.boxplot(list(scores.values()), orientation="horizontal", tick_labels=list(scores))
ax.set(xlabel="area under the ROC curve, five folds")
plt.show()

# %%
# A grid search over the parameters of the last step. Most of the time there is nothing to gain.
search = GridSearchCV(
    make_pipeline(columns, SONClassifier(random_state=0)),
    {"sonclassifier__sketch_size": [5, 10, 20]},
    cv=3,
).fit(frame, left)
print(search.best_params_, f"{search.best_score_:.3f}")
