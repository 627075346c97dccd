"""
A service: predict now, train when the label arrives
====================================================

Start ``sonline serve``, ask it for predictions, and send the labels later. The service stores
each row until its label arrives, and loses nothing if it is killed.
"""

# %%
# Start the service on a free port of this machine. Usually it runs elsewhere.
import atexit
import subprocess
import sys
import tempfile

import httpx
import matplotlib.pyplot as plt
import numpy as np

service = subprocess.Popen(
    [sys.executable, "-m", "sonline", "serve", "--data", tempfile.mkdtemp(), "--port", "0"],
    stdout=subprocess.PIPE,
    text=True,
)
atexit.register(service.terminate)  # also if something fails below
url = service.stdout.readline().split()[1]
web = httpx.Client(base_url=url)
web.post("v1/models", json={"name": "clicks"}).raise_for_status()

# %%
# A loop as in an application: predict a request, and send the label of an earlier one.
rng = np.random.default_rng(0)
cities = ["Basel", "Graz", "Linz"]
waiting, wrong = [], []
for number in range(800):
    city, price = cities[rng.integers(3)], float(rng.lognormal(3, 1))
    clicked = int(1.5 * (city == "Graz") - price / 20 + rng.logistic() > 0)
    question = {"id": f"r{number}", "x": {"city": city, "price": price}}
    answer = web.post("v1/models/clicks/predict", json=question).json()
    wrong.append((answer["probabilities"]["1"] > 0.5) != clicked)
    waiting.append({"id": f"r{number}", "y": clicked})
    if len(waiting) > 50:  # labels come 50 requests late
        web.post("v1/models/clicks/label", json=waiting.pop(0)).raise_for_status()

# %%
fig, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
ax.plot(np.convolve(wrong, np.ones(100) / 100, mode="valid"))
ax.set(xlabel="requests", ylabel="error of the last 100", ylim=(0, None))
plt.show()

# %%
# The service keeps the score itself; the page at its address shows it live.
champion = web.get("v1/models/clicks").json()["versions"]["1"]
print(f"{champion['learned']} rows learned, mean loss {champion['mean_loss']:.3f}")
service.terminate()
assert service.wait(20) == 0
