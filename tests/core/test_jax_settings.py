"""A session that is set up for debugging JAX gets the same explanations, and no raw error."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from often import all_but

import xaijax as xj

RNG = np.random.default_rng(0)
X = RNG.normal(size=(9, 4)).astype(np.float32)
B = RNG.normal(size=(5, 4)).astype(np.float32)
W = RNG.normal(size=(4, 6)).astype(np.float32)

SETTINGS = {
    "rank promotion": lambda: jax.numpy_rank_promotion("raise"),
    "dtype promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "no jit": jax.disable_jit,
    "no tracing": lambda: jax.no_tracing(True),
    "transfers": lambda: jax.transfer_guard("disallow"),
    "a mesh": lambda: jax.sharding.set_mesh(jax.make_mesh((1,), ("d",))),
}


def f(rows: Any) -> Any:
    return jnp.tanh(rows @ W).sum(axis=1)


def on_host(rows: Any) -> np.ndarray:
    return np.tanh(rows @ W).sum(axis=1)


def over_threshold(rows: Any) -> Any:
    return (f(rows) > 0).astype(jnp.int32)


WAYS = {
    "layer": lambda: xj.Explainer(xj.as_model(f), B)(X).values,
    "plain": lambda: xj.Explainer(xj.as_model(f, structure="plain"), B)(X).values,
    "host": lambda: xj.Explainer(xj.as_model(on_host, backend="host"), B)(X).values,
    "sampled": lambda: xj.Explainer(xj.as_model(f), B, estimator="permutation", budget=8)(X).values,
    "gradients": lambda: xj.GradientExplainer(xj.as_model(f), B)(X).values,
    "QII": lambda: (
        xj.QII(xj.as_model(over_threshold, output="label"), B, quantity="average").unary().values
    ),
    "predict": lambda: xj.as_model(f).predict(X),
}


@pytest.mark.parametrize("way", all_but(WAYS, ["sampled", "gradients", "QII"]))
def test_settings_for_debugging_change_no_answer(way: str) -> None:
    wanted = WAYS[way]()
    for name, setting in SETTINGS.items():
        with setting():
            found = WAYS[way]()
        np.testing.assert_array_equal(found, wanted, err_msg=name)


def test_a_setting_of_the_whole_process_reaches_its_threads() -> None:
    """Contexts are of one thread, and dispatches run on others."""
    wanted = WAYS["plain"]()
    jax.config.update("jax_disable_jit", True)
    try:
        found = WAYS["plain"]()
        assert jax.config.jax_disable_jit  # as it was
    finally:
        jax.config.update("jax_disable_jit", False)
    np.testing.assert_array_equal(found, wanted)
