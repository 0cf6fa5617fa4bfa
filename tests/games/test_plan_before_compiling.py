"""A plan counts what a structure makes of a wide layer, and what does not fit is never compiled."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax.games.engine import dispatch
from xaijax_kernels.engine.steps import largest_product

P, UNITS = 5, 5_000
FILLED = 256 * UNITS * 4  # bytes: a product of the first layer has 256 rows at least


def rows(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, P)).astype(np.float32)


def network() -> tuple[Any, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    A, C = rng.normal(size=(P, UNITS)), rng.normal(size=UNITS) / UNITS
    params = A.astype(np.float32), C.astype(np.float32)
    return xj.as_model(lambda params, X: jnp.tanh(X @ params[0]) @ params[1], params), params


@pytest.mark.parametrize("estimator", ["exact", "kernel", "permutation"])
def test_a_wide_layer_that_cannot_fit_is_refused_before_it_is_compiled(
    estimator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken version compiled it, and then named no shares."""
    model, _ = network()
    budget: Any = {} if estimator == "exact" else {"budget": 10}
    options: Any = {"estimator": estimator, "max_memory": FILLED, **budget}
    explainer = xj.Explainer(model, rows(2, 5), **options)

    compile_sound, made = dispatch.compile_sound, dispatch.Compiled.program
    names: list[str] = []

    def noted(self: Any, recipe: Any) -> Any:
        names.append(recipe.what)
        return made(self, recipe)

    def refused(lowered: Any) -> Any:
        assert names[-1] == "the size of columns"  # what is looked at before a structure answers
        return compile_sound(lowered)

    monkeypatch.setattr(dispatch.Compiled, "program", noted)
    monkeypatch.setattr(dispatch, "compile_sound", refused)
    words = r"max_memory=5,120,000 bytes, but one .* needs about .* shares are 1,280,000 for tile"
    for run in (explainer.plan, explainer):
        with pytest.raises(xj.MemoryPlanError, match=words):
            run(rows(1, 1))


@pytest.mark.parametrize(
    "call", ["plan", "__call__", "interactions", "kernel", "permutation", "QII"]
)
def test_shares_that_add_up_to_more_than_the_memory_are_refused(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tile takes nearly all, and what is known of 4,000 pairs the rest. The broken versions gave
    a plan of more bytes than max_memory, and compiled and ran a call that the plan refused.
    """
    model, _ = network()
    donors, x, limit = rows(2, 4_000), rows(1, 1), 6_100_000
    sampled: Any = {"estimator": call, "budget": 10} if call in ("kernel", "permutation") else {}
    if call == "QII":
        influence = xj.QII(model, donors, quantity="individual", outcome="score", max_memory=limit)
        ask = partial(influence.explain, x)
    else:
        explainer = xj.Explainer(model, donors, max_memory=limit, **sampled)
        ask = partial(getattr(explainer, call, explainer), x)
    words = r"max_memory=6,100,000 bytes, but .* holds together .*360,000 for pairs.* shares are"
    compiled: list[str] = []
    made = dispatch.Compiled.program

    def noted(self: Any, recipe: Any) -> Any:
        compiled.append(recipe.what)
        return made(self, recipe)

    monkeypatch.setattr(dispatch.Compiled, "program", noted)
    with pytest.raises(xj.MemoryPlanError, match=words):
        ask()
    assert set(compiled) <= {"the size of columns"}  # what is looked at before a structure answers


@pytest.mark.slow
def test_fewer_dispatches_are_under_way_where_memory_is_short() -> None:
    """Three of them would take some 17 MB."""
    model, (A, C) = network()
    memory = 2 * FILLED
    explainer = xj.Explainer(model, rows(2, 5), max_memory=memory)
    x = rows(1, 1)
    plan = explainer.plan(x)
    assert FILLED < plan.memory <= memory
    evaluator: Any = explainer._evaluator
    loop = evaluator._loop
    assert loop.sizes.ahead == 0
    found = explainer(x, progress=False)
    (program,) = loop.programs._runs.values()
    assert program[1] == 0
    wide, donors = x.astype(np.float64), rows(2, 5).astype(np.float64)
    gap = np.tanh(wide @ A.astype(np.float64)) @ C - np.mean(
        np.tanh(donors @ A.astype(np.float64)) @ C
    )
    assert abs(found.values.sum() - gap[0]) <= 1e-5


def test_the_largest_product_of_a_trace() -> None:
    """In a loop too; a product with one term is a sum that joins the next step."""

    def some(X: jax.Array, A: jax.Array) -> jax.Array:
        outer = X[:, :1] @ jnp.ones((1, 1 << 20))
        turns = jax.lax.map(lambda row: (row[None] @ A).sum(), X)
        return turns + outer.sum(axis=1)

    shapes = (jax.ShapeDtypeStruct(one, np.float32) for one in ((8, 3), (3, 500)))
    assert largest_product(jax.make_jaxpr(some)(*shapes).jaxpr) == 500 * 4
