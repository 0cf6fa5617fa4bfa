"""Models that make many numbers of a row have smaller tiles on a CPU, and the same values."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import xaijax as xj
from xaijax_kernels.sizes import SMALLEST_OF_WIDE, SMALLEST_TILE

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


def wide_image(side=48):
    """A network of one convolution on an image in four patches; its players and rows."""
    kernel = jnp.asarray(np.random.default_rng(1).normal(size=(3, 3, 3, 4)), jnp.float32)

    def f(images):
        dims = ("NHWC", "HWIO", "NHWC")
        made = jax.lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=dims)
        return jax.nn.relu(made).mean((1, 2, 3))

    patches = np.zeros((side, side, 3), int)
    patches[side // 2 :] += 2
    patches[:, side // 2 :] += 1
    images = np.random.default_rng(2).normal(size=(2, side, side, 3)).astype(np.float32)
    return f, patches, images


@pytest.mark.slow
def test_a_run_that_fits_in_small_tiles_is_not_refused():
    """The memory that the plan itself states is enough; far less is refused, with both numbers."""
    f, patches, images = wide_image()
    model = xj.as_model(f, input_shape=patches.shape, structure="plain")
    baseline = xj.Baseline(np.zeros_like(images[0]))
    free = xj.Explainer(model, baseline, players=patches)
    plan = free.plan(images[:1])
    assert plan.tile == SMALLEST_OF_WIDE
    layers = xj.as_model(f, input_shape=patches.shape)  # its tiles have 256 rows, given memory
    less = xj.Explainer(layers, baseline, players=patches, max_memory=plan.memory)
    np.testing.assert_allclose(less(images).values, free(images).values, atol=1e-6)
    small = xj.Explainer(model, baseline, players=patches, max_memory=plan.memory)
    assert small.plan(images[:1]).tile == SMALLEST_OF_WIDE
    np.testing.assert_allclose(small(images).values, free(images).values, atol=1e-6)
    with pytest.raises(xj.MemoryPlanError, match=f"{SMALLEST_OF_WIDE} (hybrid )?rows"):
        xj.Explainer(model, baseline, players=patches, max_memory=plan.memory // 50)(images)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_small_tiles_may_be_asked_for(backend):
    f, patches, images = wide_image(8)
    options = {"input_shape": patches.shape, "backend": backend}
    model = xj.as_model(f if backend == "jax" else lambda X: np.asarray(f(X)), **options)
    baseline = xj.Baseline(np.zeros_like(images[0]))
    own = xj.Explainer(model, baseline, players=patches)(images).values
    for tile in (SMALLEST_OF_WIDE, 64, 128):
        small = xj.Explainer(model, baseline, players=patches, tile=tile)
        np.testing.assert_allclose(small(images).values, own, atol=1e-6)
    for tile, words in ((16, "at least 32"), (48, "power of two from 32")):
        with pytest.raises(xj.InputError, match=words):
            xj.Explainer(model, baseline, players=patches, tile=tile)


@pytest.mark.slow
@pytest.mark.parametrize("tile", [32, 64])
def test_small_tiles_of_tables_and_structures(tile):
    """Interventional values of rows with many players, of a plain model and of a linear one."""
    rng = np.random.default_rng(4)
    weights, data = rng.normal(size=7).astype(np.float32), rng.normal(size=(9, 7))
    for f in (lambda X: jnp.tanh(X @ weights), lambda X: (X @ weights) * X[:, 0]):
        model = xj.as_model(f)
        own = xj.Explainer(model, data)(data[:2]).values
        small = xj.Explainer(model, data, tile=tile)(data[:2]).values
        np.testing.assert_allclose(small, own, atol=2e-6)


def rows_of_calls(columns, width=None, players=8, rows=5, **limits):
    """How many rows a host model is called for at a time, at most, and the plan of its run."""
    sizes = []

    def f(X):
        sizes.append(len(X))
        return X.sum(axis=1)

    if width is not None:
        f.widest = lambda X: width  # as the adapter of PyTorch has it
    labels = np.arange(columns) % players
    data = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    model = xj.as_model(f, backend="host")
    explainer = xj.Explainer(model, data, players=labels, estimator="exact", **limits)
    plan = explainer.plan(data)
    explainer(data)
    return max(sizes), plan


@pytest.mark.slow
def test_a_host_call_is_as_large_as_the_widest_layer_allows():
    """20 pairs of 8 players that differ ask 2^8 rows each, and 5 of equal rows ask one."""
    assert rows_of_calls(100)[0] == 20 * 256 + 5  # all at once: a table's rows are small
    # 2^25 numbers; of a function that says no width, 8 of each column.
    assert rows_of_calls(1 << 13)[0] == 1 << 9
    assert rows_of_calls(100, width=1 << 15)[0] == 1 << 10
    assert rows_of_calls(100, width=1 << 25)[0] == SMALLEST_OF_WIDE
    assert rows_of_calls(1 << 13, width=1)[0] == 1 << 12


def test_the_plan_of_a_host_model_counts_its_widest_layer():
    """A quarter of the memory is for a call: of a row, 8 bytes for each number of that layer."""
    memory, width = 1 << 24, 1 << 14
    most, plan = rows_of_calls(100, width=width, max_memory=memory)
    assert most == (memory >> 2) // (8 * width)
    assert plan.shares["tile"] == memory >> 2
