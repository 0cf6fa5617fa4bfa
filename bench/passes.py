"""The model alone over as many rows: what no engine that asks the model for them can beat."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench.frame import timed


def best_pass(
    apply: Callable[[Any, jax.Array], jax.Array],
    params: Any,
    width: int,
    rows_each: int,
    tiles: Sequence[int],
    drawn: int,
) -> tuple[Callable[[int], None], int]:
    """Return n -> n rows_each random rows through apply(params, rows [R, width]), and the tile.

    The tile is the fastest here of those given. `drawn` rows, a multiple of every tile, are drawn
    once and passed over as often as the work asks, since the rows of all would not fit the memory.
    """
    rows = np.random.default_rng(3).standard_normal((drawn, width), dtype=np.float32)
    return best_pass_of(apply, params, rows, rows_each, tiles)


def best_pass_of(
    apply: Callable[[Any, Any], jax.Array],
    params: Any,
    rows: Any,
    rows_each: int,
    tiles: Sequence[int],
) -> tuple[Callable[[int], None], int]:
    """The same over given rows, an array or a tree of arrays of a multiple of every tile."""
    drawn = len(jax.tree.leaves(rows)[0])
    passed = jax.jit(lambda params, tiled: jax.lax.map(functools.partial(apply, params), tiled))

    def tiled_by(tile: int) -> Any:
        return jax.tree.map(lambda leaf: jnp.asarray(leaf.reshape(-1, tile, *leaf.shape[1:])), rows)

    def over(tiled: Any, count: int) -> None:
        for _ in range(max(1, round(count * rows_each / drawn))):
            passed(params, tiled).block_until_ready()

    def seconds(tile: int) -> float:
        run = functools.partial(over, tiled_by(tile))
        count = -(-4 * drawn // rows_each)  # a few passes
        run(count)
        return min(timed(run, count)[0] for _ in range(3))

    best = min(tiles, key=seconds)
    return functools.partial(over, tiled_by(best)), best
