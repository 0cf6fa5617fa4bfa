"""A function that is wrapped again is not traced again, unless what it reads has changed."""

from __future__ import annotations

import functools
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import xaijax as xj
from xaijax.models.base import trace
from xaijax.models.identity.same_function import key_of

RNG = np.random.default_rng(4)
F, H = 4, 5
X, DONORS = RNG.normal(size=(6, F)).astype("f4"), RNG.normal(size=(3, F)).astype("f4")
PARAMS = {"first": RNG.normal(size=(F, H)).astype("f4"), "last": RNG.normal(size=H).astype("f4")}

events = {"trace": 0, "compile": 0}


def count(event: str, seconds: float, **of: Any) -> None:
    events["compile"] += event == "/jax/core/compile/backend_compile_duration"


jax.monitoring.register_event_duration_secs_listener(count)


def network(params: Any, rows: Any) -> Any:
    return jnp.tanh(rows @ params["first"]) @ params["last"]


def asked(model: xj.Model, donors: np.ndarray = DONORS, **options: Any) -> np.ndarray:
    return xj.Explainer(model, donors, **options)(X).values


def by_definition(params: Any) -> np.ndarray:
    def model(z: np.ndarray) -> np.ndarray:
        return np.tanh(z @ params["first"].astype(float)) @ params["last"].astype(float)

    return oracles.explain(model, X.astype(float), DONORS.astype(float), oracles.shapley_weight(F))[
        0
    ]


@pytest.mark.parametrize(
    "options",
    [{}, {"estimator": "permutation", "budget": 10}, {"estimator": "kernel", "budget": 12}],
    ids=["exact", "orders", "kernel"],
)
def test_a_second_model_of_one_function_traces_and_compiles_nothing(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = trace._checked

    def counted(*given: Any) -> Any:  # what a model returns while it is traced
        events["trace"] += 1
        return checked(*given)

    monkeypatch.setattr(trace, "_checked", counted)
    first = asked(xj.as_model(network, PARAMS), **options)
    before = dict(events)
    again = asked(xj.as_model(network, PARAMS), **options)
    other = jax.tree.map(lambda leaf: 2 * leaf, PARAMS)
    moved = asked(xj.as_model(network, other), **options)
    assert events == before
    np.testing.assert_array_equal(again, first)
    if not options:
        # 2^4 answers of size 4 in float32.
        np.testing.assert_allclose(moved, by_definition(other), rtol=0, atol=2e-5)


def test_other_options_have_programs_of_their_own() -> None:
    def both(rows: Any) -> Any:
        return jnp.stack([rows.sum(axis=1), -rows[:, 0]], axis=1)

    whole, second = asked(xj.as_model(both)), asked(xj.as_model(both, output=1))
    assert whole.shape == (6, F, 2) and second.shape == (6, F)
    np.testing.assert_array_equal(second, whole[..., 1])
    plain = xj.Explainer(xj.as_model(both, structure="plain"), DONORS)(X)
    assert plain.stats["structure"] is None
    narrow = xj.as_model(network, {"first": PARAMS["first"][:, :2], "last": PARAMS["last"][:2]})
    assert np.abs(asked(narrow) - asked(xj.as_model(network, PARAMS))).max() > 0.01


class Held:
    """What a function may read from, beside arrays."""

    scale = 1.0


def changing(kind: str) -> tuple[Any, Any]:
    """(a function that reads a number from somewhere, what changes the number to 2)."""
    own: dict[str, Any] = {"jnp": jnp}
    array, held, box = np.ones(1, "f4"), types.SimpleNamespace(scale=1.0), [1.0]

    def put(name: str, value: Any) -> Any:
        return lambda: own.update({name: value})

    if kind == "global":
        exec("scale = 1.0\ndef f(rows): return scale * rows.sum(axis=1)", own)
        return own["f"], put("scale", 2.0)
    if kind == "function":
        code = "def g(): return 1.0\ndef f(rows): return g() * rows.sum(axis=1)"
        exec(code, own)
        return own["f"], lambda: exec("def g(): return 2.0", own)
    if kind == "global by name":
        exec("scale = 1.0\ndef f(rows): return globals()['scale'] * rows.sum(axis=1)", own)
        return own["f"], put("scale", 2.0)
    if kind == "array in place":
        return lambda rows: array[0] * rows.sum(axis=1), lambda: array.__setitem__(0, 2)
    if kind == "object":
        return lambda rows: held.scale * rows.sum(axis=1), lambda: setattr(held, "scale", 2.0)
    if kind == "class":
        return lambda rows: Held.scale * rows.sum(axis=1), lambda: setattr(Held, "scale", 2.0)
    if kind == "list":
        return lambda rows: box[0] * rows.sum(axis=1), lambda: box.__setitem__(0, 2.0)
    if kind == "partial":
        function = functools.partial(lambda by, rows: by[0] * rows.sum(axis=1), box)
        return function, lambda: box.__setitem__(0, 2.0)
    if kind == "default":

        def f(rows: Any, by: Any = 1.0) -> Any:
            return by * rows.sum(axis=1)

        return f, lambda: setattr(f, "__defaults__", (2.0,))
    assert kind == "code"

    def g(rows: Any) -> Any:
        return rows.sum(axis=1)

    def twice(rows: Any) -> Any:
        return 2.0 * rows.sum(axis=1)

    return g, lambda: setattr(g, "__code__", twice.__code__)


KINDS = ["global", "function", "global by name", "array in place", "object", "class", "list"]


@pytest.mark.parametrize("kind", [*KINDS, "partial", "default", "code"])
def test_a_function_that_reads_another_number_is_traced_anew(kind: str) -> None:
    function, change = changing(kind)
    try:
        first = asked(xj.as_model(function))
        change()
        second = asked(xj.as_model(function))
    finally:
        Held.scale = 1.0
    np.testing.assert_allclose(second, 2 * first, rtol=1e-6)


def test_a_setting_of_jax_is_a_part_of_the_trace() -> None:
    def halved(rows: Any) -> Any:
        return (rows.astype(float) / 3).sum(axis=1)  # in the widest numbers that are switched on

    narrow = asked(xj.as_model(halved))
    jax.config.update("jax_enable_x64", True)
    try:
        wide = asked(xj.as_model(halved))
    finally:
        jax.config.update("jax_enable_x64", False)
    assert np.abs(wide - narrow).max() > 0  # rounded to float32, or not


def test_what_can_be_told_and_what_cannot() -> None:
    assert key_of(network) == key_of(network)
    assert key_of(jax.jit(network)) is not None and key_of(lambda rows: rows) is not None
    held = types.SimpleNamespace(by=2)
    assert key_of(lambda rows: held.by * rows) is None
    assert key_of(lambda rows: Held.scale * rows) is None

    def again(rows: Any, n: int = 2) -> Any:
        return again(rows, n - 1) if n else rows

    assert key_of(again) == key_of(again) is not None
