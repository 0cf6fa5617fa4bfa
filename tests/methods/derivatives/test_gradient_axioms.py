"""What must hold of gradients along lines, on every cubic of four numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import xaijax as xj

F = 4  # the last number is never looked at
numbers = st.floats(-2, 2, width=32)
PARAMS = st.lists(numbers, min_size=7, max_size=7)
ROWS = st.lists(numbers, min_size=3 * F, max_size=3 * F)


def cubic(p, rows):
    a, b, c = rows[:, 0], rows[:, 1], rows[:, 2]
    return (
        p[0] * a + p[1] * a * b + p[2] * b * c**2 + p[3] * a**3 + p[4] * a * b * c + p[5] * c + p[6]
    )


def again(p, rows):
    """The same function, by other steps."""
    a, b, c, _ = jnp.moveaxis(rows, 1, 0)
    return a * (p[0] + b * (p[1] + p[4] * c) + p[3] * a * a) + c * (p[5] + p[2] * b * c) + p[6]


def zeros():
    return np.zeros(7, np.float32)


ONE, OTHER = xj.as_model(cubic, zeros()), xj.as_model(again, zeros())
# Answers are sums of seven terms up to 8 * 8, of three factors each: 64 * 7 * 6e-8 * 4 roundings.
ATOL = 2e-4


def values(model, p, rows, path="expected"):
    rows = np.asarray(rows, np.float32).reshape(3, F)
    background = rows[1:] if path == "expected" else rows[1:2]
    model = model.replace(params=np.asarray(p, np.float32))
    return xj.GradientExplainer(model, background, path=path, steps=3)(rows[:1], progress=False)


# A value far below what the answer 1 is rounded to: no sum is off, and nothing is to be warned of.
@pytest.mark.slow
@example(p=[1.0, 0, 0, 0, 0, 0, 1.0], rows=[0.0] * F + [2.0**-90] + [0.0] * (2 * F - 1))
@settings(max_examples=30, deadline=None)
@given(p=PARAMS, rows=ROWS)
def test_completeness_a_dummy_and_other_steps(p, rows):
    for path in ("expected", "integrated"):
        found = values(ONE, p, rows, path)
        # Slopes are of degree 2 along a line, which two places integrate exactly.
        assert np.abs(found.stats["completeness"]).max() <= ATOL
        assert found.values[0, 3] == 0
        np.testing.assert_allclose(values(OTHER, p, rows, path).values, found.values, atol=ATOL)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(p=PARAMS, q=PARAMS, rows=ROWS, scale=numbers)
def test_linearity(p, q, rows, scale):
    both = np.asarray(p, np.float32) + np.float32(scale) * np.asarray(q, np.float32)
    whole = values(ONE, both, rows).values
    parts = values(ONE, p, rows).values + scale * values(ONE, q, rows).values
    np.testing.assert_allclose(whole, parts, atol=4 * ATOL)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(rows=ROWS, weights=st.lists(numbers, min_size=F, max_size=F))
def test_a_linear_model_has_its_shapley_values(rows, weights):
    rows = np.asarray(rows, np.float32).reshape(3, F)
    model = LINEAR.replace(params=np.asarray(weights, np.float32))
    found = xj.GradientExplainer(model, rows[1:], steps=1)(rows[:1], progress=False)
    wanted = (rows[0] - rows[1:].mean(axis=0)) * np.asarray(weights)
    np.testing.assert_allclose(found.values[0], wanted, atol=1e-5)


LINEAR = xj.as_model(lambda w, rows: rows @ w, np.zeros(F, np.float32))


def test_equal_numbers_of_instance_and_baseline_get_nothing():
    rows = np.array([[1.0, 2.0, 3.0, 0.0]] * 3, np.float32)
    rows[0, 0] = 5.0
    found = values(ONE, np.ones(7), rows.ravel())
    assert (found.values[0, 1:] == 0).all() and found.values[0, 0] != 0


VARIED = {
    "background": (3000, {}),
    "steps": (1, {"steps": 500}),
    "background and steps": (20, {"steps": 1000}),
    "draws": (3000, {"samples": 4000}),
    "instances": (1, {"N": 3000}),
}
FAST = ("background", "steps")


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", [pytest.param(n, marks=[] if n in FAST else pytest.mark.slow) for n in VARIED]
)
def test_memory_does_not_grow(what):
    """Bytes of the compiled program beside its arguments, and of these."""
    W = np.random.default_rng(0).normal(size=(12, 16)).astype(np.float32)
    model = xj.as_model(lambda W, rows: jnp.tanh(jnp.tanh(rows @ W) @ W.T @ W).sum(axis=1), W)
    rows = np.random.default_rng(1).normal(size=(3000, 12)).astype(np.float32)

    def bytes_of(background, N=3, **more):
        explainer = xj.GradientExplainer(model, background, tile=1024, **more)
        _, work, _ = explainer._read(rows[:N], None)
        run, _ = explainer._run(work)
        recipe = run.recipe(work)
        run.engine.compiled.program(recipe)
        told = run.engine.compiled.cache[recipe.name].call.memory_analysis()
        return told.temp_size_in_bytes, told.argument_size_in_bytes + told.output_size_in_bytes

    # A tile of 1,024 rows holds at most some ten arrays of 16 numbers a row; what goes in and out
    # are 32 tiles of lines or groups of instances: at most 1,024 rows of 24 numbers for each.
    most = 1024 * 16 * 4 * 12, 32 * 1024 * 24 * 4
    count, more = VARIED[what]
    temporary, given = bytes_of(rows[:count], **more)
    assert temporary <= most[0] and given <= most[1]


@pytest.mark.slow
def test_outputs_are_taken_one_after_another():
    """Memory of many outputs is their values, and not a way back for each."""
    K = 200
    W = np.random.default_rng(0).normal(size=(8, K)).astype(np.float32)
    model = xj.as_model(lambda W, rows: jnp.tanh(rows) @ W, W)
    explainer = xj.GradientExplainer(model, np.zeros((1, 8)), tile=512)
    _, work, _ = explainer._read(np.ones((2, 8)), None)
    run, _ = explainer._run(work)
    recipe = run.recipe(work)
    run.engine.compiled.program(recipe)
    told = run.engine.compiled.cache[recipe.name].call.memory_analysis()
    # Answers and what they are weighed by, [R, K] a few times; all ways back would be [K, R, K].
    assert told.temp_size_in_bytes <= 8 * 512 * K * 4
    assert jax.tree.leaves(run.params)[0].shape == (8, K)
