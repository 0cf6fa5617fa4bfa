"""The search for structure makes no model fail that runs plainly: keys, loops, rare numbers.

Each model is explained exactly with what is found of it and with structure="plain".
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj

F, H = 4, 6
RNG = np.random.default_rng(0)
X, B = RNG.normal(size=(2, F)).astype(np.float32), RNG.normal(size=(3, F)).astype(np.float32)
W, V = (jnp.asarray(RNG.normal(size=s).astype(np.float32)) for s in ((F, H), (H,)))
KEY = jax.random.key(3)
# Two float32 roundings of one network: sums of at most 4 and 6 terms of a few units, in another
# order, through at most three layers; the largest answer below is 40.
ATOL = 40 * 64 * 2.0**-24


@jax.custom_vjp
def backwards(x):
    return jnp.tanh(x)


backwards.defvjp(lambda x: (jnp.tanh(x), x), lambda x, g: (g * x,))


def after(function):
    """What follows a dense layer."""
    return lambda z: function(jnp.tanh(z @ W)) @ V


def drawn(key):
    return jax.random.uniform(key, (H,))


def called(x):
    shape = jax.ShapeDtypeStruct(x.shape, jnp.float32)
    return jax.pure_callback(lambda a: np.cos(np.asarray(a)), shape, x)


def counted(x):
    return jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[1]


def by_own_key(z):
    seeds = jnp.clip(jnp.round(z[:, 0]).astype(jnp.int32), 0, 7)
    return (jnp.tanh(z @ W) * jax.vmap(drawn)(jax.random.split(KEY, 8)[seeds])) @ V


def tangents(z):
    """The derivative of whole numbers is of dtype float0."""

    def one(x):
        both = (jnp.arange(3),), (np.zeros(3, jax.dtypes.float0),)
        return jax.jvp(lambda i: (2 * i).astype(jnp.float32).sum() + jnp.tanh(x @ W) @ V, *both)[0]

    return jax.vmap(one)(z)


LAYER = "first layer"
ZOO = {
    "a key that is held": (after(lambda h: h * drawn(KEY)), LAYER),
    "a key that is made": (after(lambda h: h + jax.random.normal(jax.random.key(0), (H,))), LAYER),
    "a key before the layer": (lambda z: jnp.tanh(z * drawn(KEY)[:F] @ W) @ V, LAYER),
    "a key of another kind": (after(lambda h: h * drawn(jax.random.key(0, impl="rbg"))), LAYER),
    "keys split": (after(lambda h: h * drawn(jax.random.split(KEY)[1])), LAYER),
    "keys folded": (after(lambda h: h * drawn(jax.random.fold_in(KEY, 7))), LAYER),
    "a key for each unit": (
        after(lambda h: h * jax.vmap(jax.random.uniform)(jax.random.split(KEY, H))), LAYER
    ),
    "a key for each row": (
        after(lambda h: h * jax.vmap(drawn)(jnp.broadcast_to(KEY, h.shape[:1]))), LAYER
    ),
    "keys that are chosen": (
        after(lambda h: h * drawn(jnp.where(True, KEY, jax.random.key(1)))), LAYER
    ),
    "keys in a loop": (
        after(
            lambda h: h * drawn(jax.lax.fori_loop(0, 2, lambda _, k: jax.random.split(k)[0], KEY))
        ),
        LAYER,
    ),
    "keys in a scan": (
        lambda z: jax.lax.scan(lambda c, k: (jnp.tanh(c + drawn(k)), None), z @ W,
                               jax.random.split(KEY, 3))[0] @ V,
        LAYER,
    ),
    "a key within jit": (
        after(lambda h: jax.jit(lambda x, key: x * drawn(key))(h, KEY)), LAYER
    ),
    "a key made of the rows": (
        lambda z: (jnp.tanh(z @ W) * jax.vmap(lambda r: drawn(jax.random.key(r)))(
            jnp.round(z[:, 0]).astype(jnp.uint32))) @ V,
        None,
    ),
    "a key that the rows choose": (by_own_key, None),
    "dropout": (after(lambda h: jnp.where(jax.random.bernoulli(KEY, 0.5, (H,)), h, 0)), LAYER),
    "custom_vjp": (after(backwards), LAYER),
    "custom_vjp before the layer": (lambda z: jnp.tanh(backwards(z) @ W) @ V, None),
    "scan": (after(lambda h: jax.lax.scan(lambda c, _: (jnp.sin(c), None), h, length=3)[0]), LAYER),
    "scan before the layer": (
        lambda z: jnp.tanh(jax.lax.scan(lambda c, _: (jnp.sin(c), None), z, length=3)[0] @ W) @ V,
        None,
    ),
    "while": (after(counted), LAYER),
    "while before the layer": (lambda z: jnp.tanh(counted(z) @ W) @ V, None),
    "cond": (lambda z: jax.lax.cond(W.sum() > 0, after(jnp.sin), after(jnp.cos), z), None),
    "cond after the layer": (
        after(lambda h: jax.lax.cond(W.sum() > 0, jnp.sin, jnp.cos, h)), LAYER
    ),
    "remat": (jax.checkpoint(after(jnp.sin)), None),
    "pure_callback": (after(called), LAYER),
    "pure_callback before the layer": (lambda z: jnp.tanh(called(z) @ W) @ V, None),
    "a callback's effect": (
        lambda z: (jax.debug.callback(lambda a: None, z[0, 0]), after(jnp.sin)(z))[1], None
    ),
    "int4 weights": (
        lambda z: jnp.tanh(z @ (W * 3).astype(jnp.int4).astype(jnp.float32)) @ V, LAYER
    ),
    "int4 rows": (lambda z: jnp.tanh(z.astype(jnp.int4).astype(jnp.float32) @ W) @ V, LAYER),
    "float8 weights": (
        lambda z: jnp.tanh(z @ W.astype(jnp.float8_e4m3fn).astype(jnp.float32)) @ V, LAYER
    ),
    "complex": (lambda z: jnp.abs(z @ (W + 1j * W)) @ V, None),
    "float0": (tangents, LAYER),
    "a solve": (after(lambda h: jnp.linalg.solve(2 * jnp.eye(H), h.T).T), LAYER),
    "a derivative": (
        lambda z: jax.vmap(jax.grad(lambda x: jnp.tanh(x @ W) @ V))(z).sum(axis=1), LAYER
    ),
}  # fmt: skip


# Each compiles two explainers: four seconds. These are the likeliest of a key, a loop and a
# callback; the others are slow tests.
OFTEN = {
    "a key that is held", "while before the layer", "pure_callback",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in OFTEN else pytest.mark.slow) for n in ZOO]
)
def test_the_search_for_structure_makes_no_model_fail(name):
    function, structure = ZOO[name]
    found = xj.Explainer(xj.as_model(function), B)(X)
    plain = xj.Explainer(xj.as_model(function, structure="plain"), B)(X)
    assert found.stats["structure"] == structure
    assert np.abs(plain.values).max() > 0.1  # the model says something
    np.testing.assert_allclose(found.values, plain.values, rtol=0, atol=ATOL)


def test_the_model_s_own_errors_come_through():
    def broken(z):
        raise ZeroDivisionError("own")

    with pytest.raises(ZeroDivisionError, match="own"):
        xj.Explainer(xj.as_model(broken), B)(X)

    def narrow(z):
        return (jnp.tanh(z @ W) * drawn(KEY)[:5]) @ V  # shapes that do not fit

    with pytest.raises(ValueError, match="Incompatible shapes"):
        xj.Explainer(xj.as_model(narrow), B)(X)


@pytest.mark.slow
def test_one_key_is_told_from_another():
    # Two layers whose keys differ are not one layer that is made twice.
    def two(z):
        scaled = [z * drawn(jax.random.key(seed))[:F] for seed in (0, 1)]
        return jnp.tanh(scaled[0] @ W) @ V + jnp.tanh(scaled[1] @ W) @ V

    found = xj.Explainer(xj.as_model(two), B)(X)
    plain = xj.Explainer(xj.as_model(two, structure="plain"), B)(X)
    assert found.stats["structure"] is None
    assert np.array_equal(found.values, plain.values)
