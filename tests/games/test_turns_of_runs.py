"""All programs of whole runs, lowered for CUDA as a GPU would run them: no loop asks the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from loops import count_turns, for_cuda, unknown_loops
from often import some_slow

import xaijax as xj
from xaijax.games.engine.dispatch import Compiled, ProgramRecipe

P = 5


def network(seed: int) -> Callable[[Any], Any]:
    rng = np.random.default_rng(seed)
    first, second = (rng.normal(size=d).astype(np.float32) for d in ((P, 32), (32, 1)))
    return lambda X: jnp.tanh(jnp.tanh(X @ first) @ second)[:, 0]


def rows(N: int, values: int | None = None) -> np.ndarray:
    rng = np.random.default_rng(N)
    drawn = rng.normal(size=(N, P)) if values is None else rng.integers(0, values, (N, P))
    return drawn.astype(np.float32)


def exact(structure: str | None) -> None:
    explainer = xj.Explainer(xj.as_model(network(1), structure=structure), rows(8))
    explainer(rows(3), progress=False)


def shared_values() -> None:
    explainer = xj.Explainer(xj.as_model(network(2)), rows(8, 3))
    explainer(rows(3, 3), progress=False)


def linked() -> None:
    model = xj.as_model(network(3), structure="plain")
    xj.Explainer(model, rows(8), link=np.arctan)(rows(3), progress=False)


def sampled(estimator: str, structure: Any = None) -> None:
    model = xj.as_model(network(4), structure=structure)
    explainer = xj.Explainer(model, rows(8), estimator=estimator, budget=24)
    explainer(rows(3), progress=False)


def split() -> None:
    weights = np.random.default_rng(6).normal(size=(P, 32)).astype(np.float32)
    declared = xj.Split(lambda X: (X**3) @ weights, lambda hidden: jnp.tanh(hidden).sum(axis=1))
    model = xj.as_model(lambda X: declared.rest(declared.first(X)), structure=declared)
    for options in ({}, {"estimator": "kernel", "budget": 24}):
        explainer = xj.Explainer(model, rows(8), **options)
        explainer(rows(3), progress=False)


def anchors() -> None:
    model = xj.as_model(network(5), threshold=0.0)
    xj.AnchorExplainer(model, rows(40)).explain(rows(3), progress=False)


RUNS = {
    "plain": (lambda: exact("plain"), {"run_tiles", "reduce_pairs"}),
    "first layer": (lambda: exact(None), {"mean_tables"}),
    "shared values": (shared_values, {"run_tiles", "reduce_pairs"}),
    "linked": (linked, {"run_tiles"}),
    "kernel, whole rows": (lambda: sampled("kernel", "plain"), {"run_tiles"}),
    "kernel": (lambda: sampled("kernel"), {"listed_means"}),
    "split": (split, {"mean_tables", "listed_means"}),
    "permutation": (lambda: sampled("permutation"), {"scan_tiles"}),
    "anchors": (anchors, {"run_pulls"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("run", some_slow(RUNS, 3))
def test_no_loop_of_a_run_asks_the_host(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count_turns(True, monkeypatch)
    texts: dict[str, str] = {}
    of_recipe = Compiled.program

    def looked_at(self: Compiled, recipe: ProgramRecipe) -> Any:
        function = getattr(recipe.function, "func", recipe.function)
        texts[function.__name__] = for_cuda(recipe.function, recipe.arguments)
        return of_recipe(self, recipe)

    monkeypatch.setattr(Compiled, "program", looked_at)
    ask, wanted = RUNS[run]
    ask()
    assert wanted <= set(texts), set(texts)
    for name, text in texts.items():
        assert not unknown_loops(text), name
        assert "callback" not in text and "f64" not in text, name


OPTIONS = {"values": {}, "linked": {"link": np.arctan}, "listed": {"estimator": "kernel"}}


@pytest.mark.slow
@pytest.mark.parametrize("asked", some_slow(OPTIONS, 3))
@pytest.mark.parametrize("values", [2, 3, None])
@pytest.mark.parametrize("structure", ["plain", None])
def test_the_bits_are_those_of_a_cpu(
    asked: str, values: int | None, structure: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slots made on the device, masked tiles: several dispatches, the last one partly filled."""
    f, found = network(6), []
    for known in (True, False):
        count_turns(known, monkeypatch)
        model = xj.as_model(f, structure=structure)
        budget = {"budget": 24} if asked == "listed" else {}
        explainer = xj.Explainer(model, rows(9, values), tile=256, **OPTIONS[asked], **budget)
        found.append(explainer(rows(300, values), progress=False))
    one, other = found
    assert one.stats["model_calls"] == other.stats["model_calls"]
    assert one.values.tobytes() == other.values.tobytes()
    assert one.base_values.tobytes() == other.base_values.tobytes()
