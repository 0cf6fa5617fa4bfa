"""A small case that tests share: rows, donors, and a function for NumPy and JAX.

Letters: B donors (background rows), F = 4 columns.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj

BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)).astype(np.float32)
B = RNG.normal(size=(5, 4)).astype(np.float32)
# Values here stay below 64; each is some hundred float32 roundings of a term at most.
ATOL = {"jax": 64 * 100 * 2.0**-24, "host": 1e-12}


def f(rows):
    """Interactions of all orders, for NumPy and JAX arrays of at least one column."""
    rows = rows.reshape(len(rows), -1) * 1.0
    return rows[:, 0] * rows[:, -1] + (1.0 + 0.5 * rows).prod(axis=1) + rows.sum(axis=1)


def f64(rows):
    return f(np.asarray(rows, np.float64))


FUNCTIONS = {"jax": f, "host": f64}


def put(array, place, value):
    """A copy with one entry changed."""
    out = array.copy()
    out[place] = value
    return out


def as_jax(value):
    """The same as a JAX array, where JAX has such arrays."""
    if isinstance(value, np.ndarray) and type(value) is np.ndarray and value.dtype.kind in "biufc":
        return jnp.asarray(value)
    return value


def explain(backend, rows, background, model=None, function=None, **options):
    return xj.Explainer(
        xj.as_model(function or FUNCTIONS[backend], backend=backend, **(model or {})),
        background,
        **options,
    )(rows)
