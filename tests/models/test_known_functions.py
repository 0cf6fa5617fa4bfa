"""A function that was traced is not traced again, unless something that it reads has changed."""

from __future__ import annotations

import functools
import gc
import itertools
import math
import types
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xaijax
from xaijax.models.identity.function_state import state_of

scale = 2.0
weights = np.array([1.0, 2.0])
table = {"shift": [1.0, (2.0, None)]}


class Settings:
    """Something whose attributes may change unseen."""

    factor = 3.0


settings = Settings()
counter = itertools.count()
endless: list[object] = []
endless.append(endless)


class Odd(float):
    """A number that says nothing of what else it holds."""

    def __repr__(self):
        return "1.0"


odd = Odd(1.0)


def double(x):
    return x * scale


@jax.jit
def compiled(x):
    return x + scale


# Both say that they are of functools.
mapped = jax.vmap(functools.partial(double))
compiled_partial = jax.jit(functools.partial(double))


def calls_others(X):
    return compiled(double(X @ jnp.asarray(weights))) + table["shift"][0]


def of_settings(X):
    return X.sum(1) * settings.factor


def recursive(X, times=2):
    return X.sum(1) if times == 0 else recursive(X + 1, times - 1)


def by_import(X):
    import random  # noqa: PLC0415 - this is what is tested

    return X.sum(1) * random.random()


def by_text(X):
    return X.sum(1) * eval("scale")


def with_nested(X):
    return jax.vmap(lambda row: jnp.dot(row, weights) * math.pi)(X)


@pytest.mark.parametrize("f", [double, calls_others, recursive, with_nested])
def test_a_function_whose_reads_are_known_has_a_state(f):
    assert state_of(f) is not None
    assert state_of(f) == state_of(f)


@pytest.mark.parametrize(
    "f",
    [
        of_settings,
        by_import,
        by_text,
        functools.partial(double),
        functools.wraps(double)(lambda x: x),
        Settings,
        settings,
        types.MethodType(double, settings),
        np.vectorize(double),
        lambda X: X * next(counter),
        lambda X: mapped(X),
        lambda X: compiled_partial(X),
        lambda X: X * odd,
        lambda X: X * endless[0],
    ],
)
def test_what_cannot_be_read_whole_has_none(f):
    assert state_of(f) is None


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("scale", 3.0),
        ("scale", 2),
        ("scale", True),
        ("weights", np.array([1.0, -2.0])),
        ("weights", np.array([1.0, 2.0], np.float32)),
        ("table", {"shift": [1.0, (2.5, None)]}),
        ("double", lambda x: x),
        ("compiled", jax.jit(lambda x: x)),
    ],
)
def test_a_global_that_is_set_anew_is_seen(monkeypatch, name, other):
    before = state_of(calls_others)
    monkeypatch.setitem(globals(), name, other)
    assert state_of(calls_others) != before


def test_an_array_that_is_written_into_is_seen(monkeypatch):
    monkeypatch.setitem(globals(), "weights", weights.copy())
    before = state_of(calls_others)
    weights[0] = 7.0
    assert state_of(calls_others) != before


def test_functions_of_one_def_are_told_apart():
    """The broken version took f's inner function for f itself, since they share their code."""

    def made(factor, inner):
        def f(X):
            return factor * (X.sum(1) if inner is None else inner(X))

        return f

    inner = made(3.0, None)
    f = made(2.0, inner)
    before = state_of(f)
    assert before is not None
    assert f.__closure__ is not None
    f.__closure__[1].cell_contents = made(5.0, None)
    assert state_of(f) != before


def test_closed_over_values_and_defaults_are_seen():
    held = jnp.ones(2)

    def f(X, a=1.0, *, b=0.0):
        return X @ held + a + b

    states = [state_of(f)]
    held = held + 1
    states.append(state_of(f))
    f.__defaults__ = (-0.0,)
    states.append(state_of(f))
    f.__defaults__ = (0.0,)
    states.append(state_of(f))
    f.__kwdefaults__ = {"b": 1.0}
    states.append(state_of(f))
    assert None not in states
    assert all(one != other for one, other in itertools.combinations(states, 2))


def test_a_second_model_of_a_function_traces_nothing(monkeypatch):
    traced: list[tuple[int, ...]] = []
    own = jnp.sin

    def sin(x):  # an attribute of jax.numpy, which f is not asked about
        traced.append(x.shape)
        return own(x)

    monkeypatch.setattr(jnp, "sin", sin)

    def f(X):
        return jnp.sin(X).sum(1) * scale

    rows, background = np.array([[1.0, 2.0]]), np.zeros((3, 2))
    first = xaijax.as_model(f)
    wanted = xaijax.Explainer(first, background)(rows)
    assert traced
    traced.clear()
    found = xaijax.Explainer(xaijax.as_model(f), background)(rows)
    assert traced == []
    np.testing.assert_array_equal(found.values, wanted.values)

    monkeypatch.setitem(globals(), "scale", 3.0)
    found = xaijax.Explainer(xaijax.as_model(f), background)(rows)
    assert traced
    np.testing.assert_allclose(found.values, wanted.values * 1.5, rtol=1e-6)  # a float32 product


def test_precisions_share_no_trace():
    def f(X):
        return X @ jnp.ones(2)

    models = [xaijax.as_model(f, precision=one) for one in ("float32", "tf32", "float32")]
    assert models[0].apply is models[2].apply
    assert models[0].scores is models[2].scores
    assert models[0].scores is not models[1].scores


@pytest.mark.slow
def test_nothing_keeps_a_function_alive():
    def made():
        def f(X):
            return X.sum(1) * (0 if f is None else 1)

        return f

    f = made()
    model = xaijax.as_model(f)
    model.predict(np.ones((2, 2)))
    gone = weakref.ref(f)
    del f, model
    gc.collect()
    assert gone() is None
