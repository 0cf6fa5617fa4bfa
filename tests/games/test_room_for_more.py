"""What a growing question holds: donors once, and calls of a head that the plan has counted."""

from __future__ import annotations

from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax.core.compiler import compile_sound
from xaijax.games.engine import dispatch, permutation_scan
from xaijax.games.strategies import averaged, by_parts
from xaijax_kernels.structures import averaged as kernel

P, UNITS = 8, 64


def network(P: int = P) -> Any:
    rng = np.random.default_rng(0)
    A, C = (rng.normal(size=s).astype(np.float32) for s in ((P, UNITS), (UNITS, 1)))
    return xj.as_model(lambda X: jnp.tanh(X @ A + 0.5) @ C)


def rows(seed: int, n: int, P: int = P) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, P)).astype(np.float32)


@pytest.mark.slow
def test_donors_are_held_once_for_all_numbers_of_instances(monkeypatch: Any) -> None:
    """Rows of 24 bytes have room for 8,192; a smaller room grows as that of large rows does."""
    monkeypatch.setattr("xaijax.games.engine.plan.UNNOTICED", 64)
    for module in (averaged, kernel):
        monkeypatch.setattr(module, "platform_of", lambda mesh: "tpu")  # donors are prepared
    explainer = xj.Explainer(network(), rows(2, 20), max_memory=1 << 30)
    held = []
    for n in (1, 3, 9):
        explainer(rows(1, n), progress=False)
        engine = explainer._evaluator.engine
        made = [one for one in engine.cache.values() if isinstance(one, averaged.Averaged)]
        arrays = {id(one._donors) for one in made} | {id(one._rows) for one in made}
        held.append((len(made), len(arrays)))
        assert all(one.shape.prepared for one in made)
    assert held == [(1, 2), (2, 2), (3, 2)]
    plan = explainer.plan(rows(1, 9))
    prepared = made[-1]._donors
    assert plan.shares["results"] > prepared.nbytes > 0
    assert plan.shares["background"] > 2 * rows(2, 20).nbytes


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
@pytest.mark.parametrize("estimator", ["kernel", "permutation"])
def test_a_call_of_a_head_is_within_the_share_of_a_tile(
    estimator: str, platform: str, monkeypatch: Any
) -> None:
    """The broken version took 1.25 or 2 times the rows of a tile that filled the share, and the
    plan said nothing of it.
    """
    for module in (by_parts, permutation_scan):
        monkeypatch.setattr(module, "platform_of", lambda mesh: platform)
    memory = 8 << 20
    options: Any = {"estimator": estimator, "budget": 2_048, "max_memory": memory}
    explainer = xj.Explainer(network(32), rows(2, 20, 32), **options)
    shapes: list[Any] = []
    add = dispatch.ProgramRecipe.__init__

    def noted(self: Any, key: Any, *given: Any, **named: Any) -> None:
        add(self, key, *given, **named)
        shapes.extend(one for one in key if hasattr(one, "rows") and hasattr(one, "donors"))

    with mock.patch.object(dispatch.ProgramRecipe, "__init__", noted):
        plan = explainer.plan(rows(1, 100, 32))
    (shape,) = set(shapes)
    of_row = 2 * 4 * UNITS  # a call holds the layer twice at least
    if estimator == "kernel":  # and a plain tile its hybrids
        evaluator: Any = explainer._evaluator
        of_row = evaluator._loop.sizes.bytes_per_row
    assert shape.rows * of_row <= memory / 4  # the share of a tile
    assert shape.rows * of_row <= plan.shares["tile"] and plan.memory <= memory


def test_too_little_memory_is_refused_before_a_walk_is_compiled(monkeypatch: Any) -> None:
    model, donors = network(), rows(2, 20)
    options: Any = {"estimator": "permutation", "budget": 100, "max_memory": 150_000}
    explainer = xj.Explainer(model, donors, tile=32, **options)

    compiled = []

    def counted(lowered: Any) -> Any:
        compiled.append(lowered.as_text().split("@", 1)[1].split(maxsplit=1)[0])
        return compile_sound(lowered)

    monkeypatch.setattr(dispatch, "compile_sound", counted)
    with pytest.raises(xj.MemoryPlanError, match=r"rows along orders.*shares are .* for tile"):
        explainer.plan(rows(1, 3))
    assert compiled in ([], ["jit_of"])  # what looks at the donors' sizes


@pytest.mark.slow
def test_a_plan_of_gradients_counts_the_dispatches_under_way(monkeypatch: Any) -> None:
    """Two threads have a tile at work, and the results of one more dispatch wait. The broken
    version counted three tiles, also of a question of one dispatch and where memory held fewer.
    """
    donors, each = rows(2, 20), {"tile": 1024, "batch_size": 1024}
    explainer = xj.GradientExplainer(network(), donors, **each)
    least, most = explainer.plan(rows(1, 1)), explainer.plan(rows(1, 2_000))
    assert least.model_calls + 3 <= most.model_calls
    assert 2 * 4 * UNITS * least.tile <= least.shares["tile"] == most.shares["tile"] / 2
    assert most.shares["answers"] == 3 * least.shares["answers"]

    waits: list[int] = []
    made = dispatch.Dispatches.run

    def noted(self: Any, *given: Any, **named: Any) -> Any:
        waits.append(self.ahead)
        return made(self, *given, **named)

    monkeypatch.setattr(dispatch.Dispatches, "run", noted)
    for memory, ahead in ((4 * most.memory, 2), (least.memory * 2, 0)):
        small = xj.GradientExplainer(network(), donors, max_memory=memory, **each)
        planned = small.plan(rows(1, 2_000))
        assert planned.shares["tile"] == min(ahead + 1, 2) * least.shares["tile"]
        assert planned.memory <= memory
        small(rows(1, 200), progress=False)
        assert waits.pop() == ahead
    with pytest.raises(xj.MemoryPlanError, match=r"gradients.*shares are"):
        small = xj.GradientExplainer(network(), donors, max_memory=least.memory // 2, **each)
        small.plan(rows(1, 5))
