"""Rows that agree with a few donors in a player: one program of means answers them all."""

from __future__ import annotations

from collections import Counter

import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import xaijax as xj

P, DONORS = 6, 20
RNG = np.random.default_rng(3)
B = RNG.normal(size=(DONORS, P)).astype(np.float32)
W, V = (RNG.normal(size=size).astype(np.float32) for size in ((P, 32), (32,)))


@pytest.mark.parametrize("alike", [0, 1, 2, 3])
def test_values_and_rows_are_those_of_the_definition(alike, compiled: Counter[str]):
    """Up to an eighth of the donors agree: a sixteenth of the sub-coalitions is equal to others."""
    x, background = RNG.normal(size=P).astype(np.float32), B.copy()
    background[:alike, 2] = x[2]

    def f(rows):  # the constant makes it a function of this test alone
        return jnp.tanh(rows @ W) @ V + 0.125 * alike

    found = xj.Explainer(xj.as_model(f), background, path="tiled", estimator="exact")(x[None])

    def host(rows):
        return np.tanh(rows @ W.astype(float)) @ V + 0.125 * alike

    weight = oracles.shapley_weight(P)
    values, base, _ = oracles.explain(host, x[None].astype(float), background.astype(float), weight)
    # float32 sums of 32 terms of size up to 4, with weights of sum 2.
    np.testing.assert_allclose(found.values, values, rtol=0, atol=64 * 2.0**-24 * 32)
    np.testing.assert_allclose(found.base_values, base, rtol=0, atol=64 * 2.0**-24 * 32)
    assert found.stats["model_rows"] == DONORS * 2**P - alike * 2 ** (P - 1)
    averaged = any("mean_tables" in name for name in compiled)
    assert averaged == (alike / DONORS / 2 <= 1 / 16)
    assert averaged != any("run_tiles" in name for name in compiled)
