"""The stream of Fig. 1."""

import numpy as np
import pytest

from sonline.errors import ParameterError
from sonline.paper.experiments import ill_conditioned


def test_streams_of_one_seed_are_linear_maps_of_each_other_with_the_same_labels():
    X, y = ill_conditioned(10, rounds=500, dimension=20, seed=3)
    Z, same = ill_conditioned(200, rounds=500, dimension=20, seed=3)
    np.testing.assert_array_equal(y, same)
    linear, *_ = np.linalg.lstsq(X, Z, rcond=None)
    np.testing.assert_allclose(X @ linear, Z, atol=1e-9)


def test_the_spectrum_is_ones_and_ten_numbers_that_rise_to_kappa():
    X, y = ill_conditioned(100, rounds=200_000, dimension=15)
    spectrum = np.linalg.eigvalsh(X.T @ X / len(X))
    np.testing.assert_allclose(spectrum[:5], 1, rtol=0.03)
    np.testing.assert_allclose(spectrum[5:], np.linspace(1, 100, 11)[1:], rtol=0.03)
    assert 0.4 < np.mean(y > 0) < 0.6


def test_seeds_differ():
    assert (ill_conditioned(10, rounds=50)[0] != ill_conditioned(10, rounds=50, seed=1)[0]).all()


def test_invalid_streams_are_refused():
    with pytest.raises(ParameterError, match="kappa must be"):
        ill_conditioned(0.5)
    with pytest.raises(ParameterError, match="dimension must be more than 10"):
        ill_conditioned(10, dimension=10)
