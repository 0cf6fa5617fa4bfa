"""Mean scores of all sub-coalitions as programs for each platform take them, against float64."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xaijax_kernels.sizes import blocks_of, donors_at_once, head_rows
from xaijax_kernels.structures.averaged import MeansShape, mean_tables, prepared_rows
from xaijax_kernels.structures.sums import Dense

P, H, K, N = 8, 6, 2, 3


def network() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    shapes = (P, H), (H,), (H, K)
    return tuple(rng.normal(size=shape).astype(np.float32) for shape in shapes)


def head(params: Any, hidden: jax.Array) -> jax.Array:
    return jnp.tanh(hidden) @ params[2]


def layer(params: Any) -> Dense:
    return Dense(*params[:2])


@pytest.mark.slow
@pytest.mark.parametrize("prepared", [True, False])
@pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu"])
def test_means_of_segments_of_donors(platform: str, prepared: bool) -> None:
    """Two segments of two blocks of four donors, the last one with a donor that fills it up; a
    level far above the changes; players of one column each, in another order.
    """
    if prepared and not layer(network()).prepares(platform):
        return
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, P)).astype(np.float32)
    donors = rng.normal(size=(2, 2, 4, P)).astype(np.float32)
    weights = rng.uniform(0.5, 1, (2, 2, 4)).astype(np.float32)
    weights[1, 1, 3] = 0
    players = rng.permutation(P)
    work = np.array([[2, 0, 2], [0, 1, 2], [1, 1, 1]], np.int32)
    mesh: Any = SimpleNamespace(size=1, devices=np.array([SimpleNamespace(platform=platform)]))
    params = network()
    held = donors
    if prepared:
        ready = partial(prepared_rows, layer, P, False, platform)
        held = jax.jit(ready)(params, donors.reshape(-1, P), players)
        held = held.reshape(*donors.shape[:3], *held.shape[1:])
    shape = MeansShape(P, 4, 2, K, "float32", prepared)
    of = partial(mean_tables, layer, head, lambda out, _: out + 1e3, jnp.isfinite, shape, mesh)
    given = params, x, held, weights, players, np.full(1, 3, np.int32), work
    high, low, ends, bad = (np.asarray(a, np.float64) for a in jax.jit(of)(*given))
    W, b, V = (a.astype(float) for a in params)
    subset = ((np.arange(1 << P)[:, None] >> np.arange(P)) & 1)[:, players] > 0
    for t, (n, segment, blocks) in enumerate(work):
        own = donors[segment, :blocks].reshape(-1, P)
        w = weights[segment, :blocks].ravel().astype(float)
        rows = np.where(subset, x[n], own[:, None]).astype(float)
        answers = np.tanh(rows @ W + b) @ V + 1e3  # [donors, 2^P, K]
        wanted = np.einsum("s,sck->ck", w, answers)
        found = high[t] + low[t] + ends[t, 0] * w.sum()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * w.sum())
        np.testing.assert_allclose(ends[t, 1], answers[0, -1], rtol=0, atol=2e-4)
        assert (ends[t, 2] >= answers.max(axis=(0, 1)) - 2e-4).all()
        assert (ends[t, 3] <= answers.min(axis=(0, 1)) + 2e-4).all()
    assert not bad.any()


@pytest.mark.parametrize("prepared", [True, False])
@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_no_product_follows_the_number_of_tiles(platform: str, prepared: bool) -> None:
    """A small question has fewer tiles on a GPU. The broken version made the rows of T instances
    one product, by whose number of rows a GPU may round in another way.
    """
    mesh: Any = SimpleNamespace(size=1, devices=np.array([SimpleNamespace(platform=platform)]))
    shape, params = MeansShape(P, 4, 2, K, "float32", prepared), network()
    held: Any = np.zeros((8, P), np.float32)
    if prepared:
        held = jax.eval_shape(partial(prepared_rows, layer, P, False, platform), params, held, None)
    donors = jax.ShapeDtypeStruct((1, 2, 4, *held.shape[1:]), jnp.float32)
    of = partial(mean_tables, layer, head, None, jnp.isfinite, shape, mesh)

    def products(T: int) -> list[Any]:
        work, weights = np.zeros((T, 3), np.int32), np.ones((1, 2, 4), np.float32)
        x, tiles = np.zeros((50, P), np.float32), np.full(1, T, np.int32)
        given = params, x, donors, weights, None, tiles, work
        found, bodies = [], [jax.make_jaxpr(of)(*given).jaxpr]
        while bodies:
            for step in bodies.pop().eqns:
                inner = [getattr(one, "jaxpr", one) for one in step.params.values()]
                bodies += [one for one in inner if hasattr(one, "eqns")]
                if step.primitive.name == "dot_general":
                    found.append([one.aval.shape for one in (*step.invars, *step.outvars)])
        return sorted(found)

    assert len(products(1)) >= 2
    assert products(1) == products(3) == products(16)


@pytest.mark.parametrize("donors", [1, 4, 100, 101, 1000, 5000])
@pytest.mark.parametrize("players", [2, 8, 12, 17])
def test_few_donors_fill_up(donors: int, players: int) -> None:
    block, most = 98_304, 1 << 19 >> players
    each = donors_at_once(donors, players, block, most)
    assert 1 <= each <= max(1, most) + block // (1 << players) + 8
    tiles = -(-donors // each)
    assert tiles * each - donors <= max(16, donors // 8)


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
@pytest.mark.parametrize(("width", "players"), [(50, 12), (100, 11), (300, 9), (5_000, 4)])
def test_blocks_hold_half_of_what_fits(width: int, players: int, platform: str) -> None:
    """Whatever the number of donors is: 61 of them would take blocks of 2 where 30 fit."""
    most = head_rows(width, platform)
    for donors in range(4, 300):
        each = donors_at_once(donors, players, most, 1 << 30)
        block = blocks_of(each << players, most, players)
        fits = min(each, most >> players)
        assert block <= most and (each << players) % block == 0
        assert 2 * (block >> players) >= fits, donors
