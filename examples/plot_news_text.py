"""
A feed of headlines
===================

Classify short texts as they arrive. New words never end, and a new topic starts in the middle.
"""

# %%
# The headlines are generated, so that nothing is downloaded. Replace ``headlines`` with your feed.
import matplotlib.pyplot as plt
import numpy as np

from sonline.river import SONClassifier

TOPICS = {
    "sport": "coach goal match league striker final cup season injury transfer win defeat".split(),
    "market": "shares bank profit rates inflation oil bonds trade merger quarter loss win".split(),
    "science": "study cells climate planet vaccine telescope fossil species data trial".split(),
    "election": "vote poll party ballot minister debate campaign coalition win defeat".split(),
}
COMMON = "the new after over says more as for with first report week two day plan".split()


def headlines(rng, count):
    """Yield headlines with their topic; the elections begin halfway."""
    for number in range(count):
        topics = list(TOPICS) if number > count // 2 else list(TOPICS)[:-1]
        topic = topics[rng.integers(len(topics))]
        words = [*rng.choice(TOPICS[topic], 2), *rng.choice(COMMON, 5), f"name{rng.zipf(1.3)}"]
        yield dict.fromkeys(words, 1.0), topic


# %%
# Predict first, then learn: the error is honest, and the new class is found on the way.
model = SONClassifier()
wrong, known = [], []
for words, topic in headlines(np.random.default_rng(0), 4000):
    wrong.append(model.predict_one(words) != topic)
    model.learn_one(words, topic)
    known.append(len(model.weights("sport")) if len(wrong) > 50 else 0)
print(f"error {np.mean(wrong):.3f}, words seen {known[-1]:,}")

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
axes[0].plot(np.convolve(wrong, np.ones(200) / 200, mode="valid"), label="error, last 200")
axes[0].axvline(1800, linestyle=":", color="gray", label="a new topic comes into view")
axes[0].set(xlabel="headlines", ylim=(0, None))
axes[0].legend()
axes[1].plot(known)
axes[1].set(xlabel="headlines", ylabel="words with a weight", title="The vocabulary grows")
plt.show()

# %%
# What the model has learned about the topic that came late.
weights = model.weights("election")
print(sorted(weights, key=weights.get, reverse=True)[:8])
