"""The GPU's rows without a GPU: they say so, and their tolerance of TF32 tells TF32 from less."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

import xaijax
from bench import tf32
from bench.cases import CASES
from bench.cases.exact import network
from bench.models import Params, predict

PROBLEM = network(3, 5, (6, 32, 32, 1))


def test_the_reference_is_the_network() -> None:
    rows = np.concatenate([PROBLEM.X, PROBLEM.background])
    found = tf32.on_host(PROBLEM.params, rows)
    # float32 sums of 32 terms around 1 in two layers: some tens of 2^-24.
    np.testing.assert_allclose(predict(PROBLEM.params, rows), found, atol=1e-5)


def test_operands_lose_their_low_bits() -> None:
    bit = 2.0**-tf32.BITS
    given = np.array([1 + bit, 1 + bit / 2, 1 + 1.5 * bit, -1 - 0.75 * bit, 0, 3e30], np.float32)
    wanted = [1 + bit, 1, 1 + bit, -1, 0]
    np.testing.assert_array_equal(tf32.dropped(given)[:5], wanted)
    np.testing.assert_array_equal(tf32.rounded(given)[:5], [1 + bit, 1, 1 + 2 * bit, -1 - bit, 0])
    assert abs(tf32.rounded(given)[5] / given[5] - 1) <= bit / 2
    np.testing.assert_array_equal(tf32.whole(given), given)


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "holds"), [(10, True), (7, False)])
def test_what_tf32_may_change_is_less_than_bfloat16_does(bits: int, holds: bool) -> None:
    def rough(params: Params, rows: jax.Array) -> jax.Array:
        """The network with products as hardware of so many bits makes them, by rounding."""
        cut = functools.partial(jax.lax.reduce_precision, exponent_bits=8, mantissa_bits=bits)
        hidden = (rows - params["shift"]) / params["scale"]
        for weight, bias in params["layers"][:-1]:
            hidden = jax.nn.relu(cut(hidden) @ cut(weight) + bias)
        weight, bias = params["layers"][-1]
        return (cut(hidden) @ cut(weight) + bias)[:, 0]

    X, background, params = PROBLEM.X, PROBLEM.background, PROBLEM.params
    model = xaijax.as_model(rough, params)
    found = xaijax.Explainer(model, background, estimator="exact")(X, progress=False).values
    exact, cut = (tf32.values(params, X, background, way) for way in (tf32.whole, tf32.dropped))
    outputs = tf32.on_host(params, X)
    accepted, _ = tf32.accepted("tf32", exact, cut, outputs)
    assert (np.abs(found - exact).max() <= accepted) == holds
    # Float32's own tolerance finds TF32.
    assert np.abs(found - exact).max() > tf32.accepted("float32", exact, cut, outputs)[0]


def test_full_size_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices(backend="cpu"))
    assert CASES["gpu"].run("full").not_run.startswith("no GPU: JAX sees cpu only")
