"""A function that was traced is not traced again, unless something that it reads has changed."""

from __future__ import annotations

import functools
import gc
import itertools
import math
import types
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xaijax
from xaijax.models.base.trace import state_of

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


def test_models_that_share_a_program_do_not_use_it_in_another_state(monkeypatch):
    monkeypatch.setitem(state, "factor", 1.0)
    first, second = xaijax.as_model(scaled), xaijax.as_model(scaled)
    state["factor"] = 2.0
    assert explained(first) == 6.0
    state["factor"] = 1.0
    with pytest.raises(xaijax.InputError, match=r"reads state, changed"):
        explained(second)


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


def test_the_name_of_a_traced_function_is_that_of_earlier_ledgers():
    """A ledger knows a question by the program's text, which begins with the function's name.

    Under another name a question that was paid for would be charged again, with new noise.
    """
    model = xaijax.as_model(lambda X: X.sum(1))
    text = jax.jit(model.scores).lower(None, jnp.zeros((2, 3))).as_text()
    assert text.startswith("module @jit_whole ")
