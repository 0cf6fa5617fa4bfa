"""No program of a model is of another state of its function than the first trace."""

from __future__ import annotations

import functools
import gc
import types
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xaijax

scale = 2.0


def test_a_second_model_of_a_function_compiles_nothing(monkeypatch):
    def f(X):
        return jnp.sin(X).sum(1) * scale

    rows, background = np.array([[1.0, 2.0]]), np.zeros((3, 2))
    wanted = xaijax.Explainer(xaijax.as_model(f), background)(rows)
    assert wanted.stats["compile_seconds"] > 0
    found = xaijax.Explainer(xaijax.as_model(f), background)(rows)
    assert found.stats["compile_seconds"] == 0
    np.testing.assert_array_equal(found.values, wanted.values)

    monkeypatch.setitem(globals(), "scale", 3.0)
    found = xaijax.Explainer(xaijax.as_model(f), background)(rows)
    np.testing.assert_allclose(found.values, wanted.values * 1.5, rtol=1e-6)  # a float32 product


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


ROWS, BACKGROUND = np.array([[1.0, 2.0]]), np.zeros((3, 2))
state = {"factor": 1.0}


class Scaled:
    """A callable object with a number of its own."""

    def __init__(self):
        self.factor = 1.0

    def __call__(self, X):
        return X.sum(1) * self.factor


def scaled(X):
    return X.sum(1) * state["factor"]


@jax.jit
def scaled_inside(row):
    return row * state["factor"]


def by_jitted(X):
    return scaled_inside(X).sum(1)


def one_step(carry, row):
    return carry, row.sum() * state["factor"]


def by_scan(X):
    return jax.lax.scan(one_step, 0.0, X)[1]


FUNCTIONS = [scaled, jax.jit(scaled), functools.partial(scaled), by_jitted, by_scan]


def explained(model):
    """The sum of the values of one row: f(row) - f(0), which is 3 times the factor."""
    return float(xaijax.Explainer(model, BACKGROUND)(ROWS).values.sum())


@pytest.mark.parametrize("f", FUNCTIONS)
def test_a_program_of_another_state_is_not_used(f, monkeypatch):
    """The broken version noted the state when the model was made, and traced it later."""
    monkeypatch.setitem(state, "factor", 1.0)
    early = xaijax.as_model(f)
    state["factor"] = 2.0
    assert explained(early) == 6.0
    state["factor"] = 1.0
    assert explained(xaijax.as_model(f)) == 3.0
    state["factor"] = 5.0
    assert explained(xaijax.as_model(f)) == 15.0


def test_models_of_one_function_are_each_of_the_state_at_their_own_trace(monkeypatch):
    monkeypatch.setitem(state, "factor", 1.0)
    first, second = xaijax.as_model(scaled), xaijax.as_model(scaled)
    state["factor"] = 2.0
    assert explained(first) == 6.0
    state["factor"] = 1.0
    assert explained(second) == 3.0


USES = {
    "predict": lambda model: model.predict(ROWS),
    "labels": lambda model: model.labels(ROWS),
    "interactions": lambda model: xaijax.Explainer(model, BACKGROUND).interactions(ROWS),
    "gradients": lambda model: xaijax.GradientExplainer(model, BACKGROUND)(ROWS),
    "as_jax": lambda model: jax.jit(xaijax.as_jax(model))(jnp.asarray(ROWS)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("jitted", [False, True])
def test_all_programs_of_a_model_are_of_one_state(jitted, use, monkeypatch):
    """The broken version explained with a factor of 1 and predicted with one of 2."""
    monkeypatch.setitem(state, "factor", 1.0)

    def f(X):  # of this test alone, so that nothing of it was traced before
        return by_jitted(X) if jitted else X.sum(1) * state["factor"]

    model = xaijax.as_model(f, threshold=0.0)
    model.predict(np.ones((100, 2)))  # another number of rows than the use
    explainer = xaijax.Explainer(model, BACKGROUND) if use == "predict" else None
    if explainer is not None:
        explainer(ROWS)
    state["factor"] = 2.0
    with pytest.raises(xaijax.InputError, match=r"state, changed .* as_model"):
        USES[use](model)
    if explainer is not None:  # what was compiled in the first state goes on with it
        assert explainer(ROWS).values.sum() == 3.0
    state["factor"] = 1.0
    USES[use](model)


def reading(path):
    """(a function that reads `path` of some holder, how to set that to 2) for a kind of state."""
    holder = types.SimpleNamespace(k=1.0, inner=types.SimpleNamespace(k=1.0), items=[1.0])
    array = np.ones(2, np.float32)

    class Own:
        k = 1.0
        __slots__ = ("hidden", "w")

        def __init__(self):
            self.hidden, self.w = 1.0, np.ones(2)

        @property
        def shown(self):
            return self.hidden

        def method(self, X):
            return X.sum(1) * self.hidden

    own = Own()
    module: Any = types.ModuleType("a_module_of_settings")
    module.k = 1.0

    def changed_cell(X):
        return X.sum(1) * factor

    def with_default(X, k=1.0):
        return X.sum(1) * k

    factor = 1.0

    def new_cell():
        nonlocal factor
        factor = 2.0

    def by_alias(X):
        alias = own
        return X.sum(1) * alias.shown

    return {
        "namespace": (lambda X: X.sum(1) * holder.k, lambda: vars(holder).update(k=2.0)),
        "nested": (lambda X: X.sum(1) * holder.inner.k, lambda: vars(holder.inner).update(k=2.0)),
        "list": (lambda X: X.sum(1) * holder.items[0], lambda: holder.items.__setitem__(0, 2.0)),
        "class": (lambda X: X.sum(1) * Own.k, lambda: setattr(Own, "k", 2.0)),
        "slot": (lambda X: X.sum(1) * own.hidden, lambda: setattr(own, "hidden", 2.0)),
        "property": (lambda X: X.sum(1) * own.shown, lambda: setattr(own, "hidden", 2.0)),
        "alias": (by_alias, lambda: setattr(own, "hidden", 2.0)),
        "method": (own.method, lambda: setattr(own, "hidden", 2.0)),
        "getattr": (lambda X: X.sum(1) * getattr(own, "shown"), lambda: setattr(own, "hidden", 2)),  # noqa: B009
        "array": (lambda X: X.sum(1) * own.w[0], lambda: own.w.__setitem__(0, 2.0)),
        "closed array": (lambda X: (X * array).sum(1), lambda: array.__setitem__(slice(None), 2)),
        "module": (lambda X: X.sum(1) * module.k, lambda: setattr(module, "k", 2.0)),
        "cell": (changed_cell, new_cell),
        "default": (with_default, lambda: setattr(with_default, "__defaults__", (2.0,))),
        "partial": (
            functools.partial(lambda of, X: X.sum(1) * of.k, holder),
            lambda: setattr(holder, "k", 2.0),
        ),
        "vmap": (
            jax.vmap(lambda row: row.sum() * holder.k),
            lambda: setattr(holder, "k", 2.0),
        ),
    }[path]


KINDS = "namespace nested list class slot property alias method getattr array closed array module"
NAMES = [*KINDS.replace("closed array", "closed_array").split(), "cell", "default", "partial"]


@pytest.mark.parametrize("kind", [*(one.replace("_", " ") for one in NAMES), "vmap"])
def test_whatever_the_code_names_is_part_of_the_state(kind):
    f, change = reading(kind)
    model = xaijax.as_model(f)
    assert model.predict(ROWS) == 3.0
    change()
    with pytest.raises(xaijax.InputError, match="changed since JAX first traced"):
        model.predict(np.ones((100, 2)))
    assert xaijax.as_model(f).predict(ROWS) == 6.0


def test_what_a_trace_changes_itself_is_no_other_state():
    traces, counts = [], {"all": 0}
    scaling: Any = Scaled()

    def f(X):
        traces.append(X.shape)
        counts["all"] += 1
        scaling.asked = len(traces)
        return scaling(X)

    model = xaijax.as_model(f)
    assert explained(model) == 3.0
    assert model.predict(np.ones((100, 2)))[0] == 2.0
    assert len(traces) > 1


def test_a_counter_in_a_dict_does_not_hide_what_else_is_in_it():
    settings = {"scale": 1.0, "calls": 0}

    def f(X):
        settings["calls"] += 1
        return settings["scale"] * X[:, 0]

    model = xaijax.as_model(f)
    assert model.predict(ROWS[:, :1] * 0 + 2.0)[0] == 2.0
    settings["scale"] = 2.0
    with pytest.raises(xaijax.InputError, match="settings.*changed since JAX first traced"):
        model.predict(np.ones((100, 1)))


def test_an_array_that_jax_would_read_as_it_was_is_refused():
    """JAX keeps what it made of a float64 array by the object, and answered with the old one."""
    held = np.ones(2)

    def f(X):
        return (X * held).sum(1)

    model = xaijax.as_model(f)
    assert model.predict(ROWS) == 3.0
    held[:] = 2.0
    with pytest.raises(xaijax.InputError, match=r"held = held.copy\(\)"):
        xaijax.as_model(f).predict(ROWS)
    held = held.copy()
    assert xaijax.as_model(f).predict(ROWS) == 6.0


def test_an_equal_array_made_anew_is_no_other_state(monkeypatch):
    held = jnp.ones(2)

    def f(X):
        return (X * held).sum(1)

    model = xaijax.as_model(f)
    assert model.predict(ROWS) == 3.0
    held = jnp.ones(2)
    assert model.predict(np.ones((100, 2)))[0] == 2.0
    held = jnp.ones(2) * 2
    with pytest.raises(xaijax.InputError, match="reads held"):
        model.predict(np.ones((2000, 2)))
