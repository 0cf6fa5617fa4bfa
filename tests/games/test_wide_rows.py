"""Models that make many numbers of a row have smaller tiles on a CPU, and the same values."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import xaijax as xj
from xaijax_kernels.engine.tiles import SMALLEST_OF_WIDE, SMALLEST_TILE

N, P, B, WIDTH = 2, 6, 2, 1 << 14
RNG = np.random.default_rng(0)
X, BACKGROUND = (RNG.normal(size=(rows, P)).astype(np.float32) for rows in (N, B))

pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="tiles of a CPU")


def wide(Z):
    """Sines of a row at many places, as attention makes numbers of few weights."""
    places = jnp.arange(WIDTH, dtype=jnp.float32) / WIDTH
    first, second = Z[:, :1] + Z[:, 1:2] * Z[:, 2:3], Z[:, 3:].sum(axis=1, keepdims=True)
    return jnp.stack([jnp.sin(first + places * second).mean(axis=1), second[:, 0]], axis=1)


def expected():
    def answers(Z):
        places = np.arange(WIDTH) / WIDTH
        Z = np.asarray(Z, np.float64)
        first, second = Z[:, :1] + Z[:, 1:2] * Z[:, 2:3], Z[:, 3:].sum(axis=1, keepdims=True)
        return np.stack([np.sin(first + places * second).mean(axis=1), second[:, 0]], axis=1)

    weight = oracles.shapley_weight(P)
    return oracles.explain(answers, X, BACKGROUND, weight)[0]


@pytest.mark.slow
@pytest.mark.parametrize("tile", [None, SMALLEST_TILE])
def test_pairs_larger_than_a_tile(tile):
    """2^6 hybrids of a pair do not fit tiles of 32 rows."""
    model = xj.as_model(wide, structure="plain")
    found = xj.Explainer(model, BACKGROUND, estimator="exact", tile=tile)(X)
    assert found.stats["tile"] == (tile or SMALLEST_OF_WIDE)
    # An answer's error: the sine's argument, below 2^5, to 2^-24 of it, and a mean of sines.
    np.testing.assert_allclose(found.values, expected(), rtol=0, atol=2.0**-16)


@pytest.mark.slow
def test_sampled_and_one_output():
    model = xj.as_model(wide, structure="plain")
    options = {"estimator": "permutation", "budget": 2 * (P - 1) * 2}
    own, large = (xj.Explainer(model, BACKGROUND, tile=t, **options) for t in (None, SMALLEST_TILE))
    for outputs in (None, [0, 1]):
        small, same = own(X, outputs=outputs), large(X, outputs=outputs)
        assert small.stats["tile"] == SMALLEST_OF_WIDE
        np.testing.assert_allclose(small.values, same.values, rtol=0, atol=2.0**-17)
        np.testing.assert_array_equal(small.values[1:], own(X[1:], outputs=outputs and [1]).values)
