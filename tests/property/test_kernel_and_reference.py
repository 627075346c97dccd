"""Random learners and streams: kernel and reference agree in whatever combination.

`tests/conformance` goes through the combinations one by one, for long; here they are mixed, with
sizes, weights and kinds of rows that nobody thought of. HYPOTHESIS_PROFILE=explore looks at
thousands of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helpers import KINDS, orthonormality, raw, reference_parameters, stream
from oracle.learner import OracleLearner
from sonline import OnlineLearner
from sonline.parameters import EXACT, LOSSES, SCALE_FREE, SCALINGS, SKETCHES

ROUNDS = 150

learners = st.fixed_dictionaries(
    {
        "sketch": st.sampled_from(SKETCHES),
        "loss": st.sampled_from(list(LOSSES)),
        "curvature": st.sampled_from(["auto", "gradient"]),
        "scaling": st.sampled_from(SCALINGS),
        "bound": st.sampled_from([None, 0.5, 3.0]),
        "clip": st.booleans(),
        "step": st.sampled_from(["implicit", "explicit"]),
        "intercept": st.booleans(),
        "sketch_size": st.integers(0, 12),
        "oja_step": st.sampled_from([1.0, 0.3, 2.0, SCALE_FREE]),
        "quantile": st.sampled_from([0.1, 0.5, 0.8]),
        "eta": st.sampled_from([None, 0.0, 0.4, "convex"]),
        "sigma": st.sampled_from([None, 0.0, 0.7]),
        "sketch_every": st.sampled_from([1, 2, 5]),
    }
)


@given(
    learners,
    st.sampled_from(list(KINDS)),
    st.integers(2, 9),  # one feature of norm 1 makes ties, where either direction may go
    st.integers(0, 2**20),
    st.sampled_from(["one", "some zero", "any"]),
)
def test_random_learners(
    parameters: dict[str, Any], kind: str, features: int, seed: int, weighting: str
) -> None:
    # Steps that are short against the rows, or rounding errors would grow by themselves.
    alpha = "relative:50" if kind == "raw" else "relative:3"
    if parameters["sketch"] in EXACT:
        parameters["sketch_every"] = 1
    if LOSSES[parameters["loss"]]["log_link"] and parameters["clip"]:
        # Clipped to the logarithm of the only label, a prediction has a slope of rounding errors,
        # and its direction would start the sketch.
        parameters["step"] = "implicit"
    shared = reference_parameters(**parameters, alpha=alpha)
    X, y = stream(kind, parameters["loss"], ROUNDS, features, seed)
    rng = np.random.default_rng(seed + 1)
    weights = {
        "one": None,
        "some zero": rng.choice([0.0, 1.0, 2.0], size=ROUNDS),
        "any": rng.uniform(0, 3, size=ROUNDS),
    }[weighting]
    kernel, oracle = OnlineLearner(**shared, dtype="float64"), OracleLearner(**shared)
    wanted = oracle.learn(X, y, weights)
    np.testing.assert_allclose(
        raw(kernel, kernel.learn(X, y, weights)), wanted, rtol=1e-7, atol=1e-7
    )
    assert kernel.stats()["rounds"] == oracle.rounds
    np.testing.assert_allclose(kernel.stats()["alpha"], oracle.alpha, rtol=1e-7)
    assert orthonormality(kernel.basis()) < 1e-8
