"""Haiku: transformed functions, their params and states, and what is said where they do not fit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xaijax import InputError, InputTypeError, as_model

F, H, K = 4, 5, 3
X = np.random.default_rng(0).normal(size=(20, F))
NARROW = X.astype(np.float32)
KEY = jax.random.key(0)
# float32 sums of 5 products below 10, in another order.
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(scope="module")
def hk():
    return pytest.importorskip("haiku")


@pytest.mark.slow
def test_a_transformed_function(hk):
    made = hk.transform(lambda x: hk.Linear(K)(jnp.tanh(hk.Linear(H)(x))))
    params = made.init(KEY, jnp.zeros((1, F)))
    expected = np.asarray(made.apply(params, None, NARROW))
    model = as_model(made, params)
    np.testing.assert_allclose(model.predict(X), expected, **CLOSE)
    keyless = as_model(hk.without_apply_rng(made), params)
    assert np.array_equal(keyless.predict(X), model.predict(X))
    zeros = model.replace(params=jax.tree.map(jnp.zeros_like, params))
    assert np.array_equal(zeros.predict(X), np.zeros((20, K)))


@pytest.mark.slow
def test_a_state(hk):
    def net(x, training=False):
        normed = hk.BatchNorm(True, True, 0.9)(hk.Linear(H)(x), is_training=training)
        return hk.Linear(K)(normed)

    made = hk.transform_with_state(net)
    params, state = made.init(KEY, jnp.zeros((1, F)), True)
    state = jax.tree.map(lambda leaf: leaf + 1, state)
    expected = np.asarray(made.apply(params, state, None, NARROW)[0])
    np.testing.assert_allclose(as_model(made, params, state=state).predict(X), expected, **CLOSE)
    with pytest.raises(InputTypeError, match="params and state"):
        as_model(made, params)


@pytest.mark.slow
def test_inference_form(hk):
    """A mode without a default is said; a layer that lacks its own is the caller's mistake."""
    made = hk.transform(lambda x, is_training: hk.Linear(K)(x) * (2 if is_training else 1))
    params = made.init(KEY, jnp.zeros((1, F)), True)
    expected = np.asarray(made.apply(params, None, NARROW, False))
    np.testing.assert_allclose(as_model(made, params).predict(X), expected, **CLOSE)
    usual = hk.transform(lambda x, *, is_training=True: hk.Linear(K)(x) * (2 if is_training else 1))
    np.testing.assert_allclose(as_model(usual, params).predict(X), expected, **CLOSE)
    layer = hk.transform_with_state(lambda x: hk.BatchNorm(True, True, 0.9)(x))
    with pytest.raises(TypeError, match="'is_training'"):
        as_model(layer, {}, state={}).predict(X)


def test_recipes(hk):
    two = hk.transform(lambda x, mask: hk.Linear(K)(x) * mask)
    params = two.init(KEY, jnp.zeros((1, F)), jnp.ones((1, K)))
    with pytest.raises(
        InputTypeError, match=r"takes mask besides rows.*X\['x'\], mask=X\['mask'\]"
    ):
        as_model(two, params).predict(X)
    drawn = hk.transform(lambda x: hk.dropout(hk.next_rng_key(), 0.5, x))
    with pytest.raises(InputTypeError, match="draws random numbers.*is_training=False"):
        as_model(drawn, {}).predict(X)


def test_refused(hk):
    made = hk.transform(hk.Linear)
    for options in ({}, {"params": {}, "state": {}}):
        with pytest.raises(InputTypeError, match="params alone"):
            as_model(made, **options)
    with pytest.raises(InputError, match="backend="):
        as_model(made, {}, backend="host")
