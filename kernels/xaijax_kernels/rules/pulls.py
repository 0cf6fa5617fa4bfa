"""Pulls in tiles: rows drawn, answered by the model and compared with the instance's own answer.

What comes back is one bit a draw, so that a round of a thousand instances and a thousand draws each
is a megabyte, and any weights can be put on the draws afterwards.

Letters: T tiles in a dispatch, R rows in a tile, G pulls in a tile, p draws of a pull, A answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xaijax_kernels.engine.reduce import any_bad
from xaijax_kernels.engine.tiles import over_tiles
from xaijax_kernels.engine.turns import counted_on, tile_by_tile
from xaijax_kernels.rules.perturbed_rows import PerturbationSpace, Pool, Subjects, perturbed


@dataclass(frozen=True)
class PullShape:
    """The static facts of a tile of pulls."""

    instance_shape: tuple[int, ...]  # of one row as the model sees it
    rows: int  # R
    draws: int  # p

    @property
    def pulls(self) -> int:
        """G; what is left of the tile repeats its last row."""
        return self.rows // self.draws

    @property
    def words(self) -> int:
        """32-bit words of a pull's bits."""
        return -(-self.draws // 32)


def run_pulls(
    apply: Callable[[Any, jax.Array], jax.Array],
    score: Callable[[jax.Array, Any], jax.Array],
    space: PerturbationSpace,
    shape: PullShape,
    mesh: Mesh,
    params: Any,
    pool: Pool,
    subjects: Subjects,
    tiles: jax.Array,  # int32 [devices], tiles to run on each device
    pulls: jax.Array,  # int32 [T, G, 4 + L]
) -> tuple[jax.Array, jax.Array]:
    """Bits uint32 [T, G, words] of the draws that agree; whether one is not finite, int32 [T].

    score(answers [R, A], own [R, A]) -> [R, 1], 1 where they agree. Tiles are split over the
    devices of `mesh`; each stops after its own number of tiles.
    """

    known_turns = counted_on(mesh)

    def on_one_device(params, pool, subjects, tiles, pulls):
        def tile(t):
            some = jax.lax.dynamic_index_in_dim(pulls, t, keepdims=False)
            drawn = perturbed(space, pool, subjects, some, shape.draws, known_turns)
            rows = filled(drawn, shape.rows)
            out = apply(params, rows.reshape(shape.rows, *shape.instance_shape))
            own = jnp.repeat(
                subjects.own[some[:, 0]], shape.draws, axis=0, total_repeat_length=shape.rows
            )
            agrees = score(out, own)[:, 0]
            lost = any_bad(jnp.isfinite(agrees))
            used = (agrees > 0.5)[: shape.pulls * shape.draws]
            packed = pack_bits(used.reshape(shape.pulls, shape.draws))
            return packed, lost

        T = pulls.shape[0]
        bits = jnp.zeros((T, shape.pulls, shape.words), jnp.uint32)
        room = (bits, jnp.zeros((T,), jnp.int32))
        return tile_by_tile(tile, room, tiles[0], known_turns)

    split = over_tiles(on_one_device, mesh, (False, False, False, True, True))
    return split(params, pool, subjects, tiles, pulls)


def filled(rows: jax.Array, count: int) -> jax.Array:
    """Rows [G, p, F, c] as [count, F c], the last one repeated."""
    flat = rows.reshape(rows.shape[0] * rows.shape[1], -1)
    missing = count - flat.shape[0]
    if not missing:
        return flat
    return jnp.concatenate([flat, jnp.broadcast_to(flat[-1:], (missing, flat.shape[1]))])


def pack_bits(flags: jax.Array) -> jax.Array:
    """bool [G, p] -> uint32 [G, ceil(p / 32)], draw d at bit d % 32 of word d // 32."""
    G, p = flags.shape
    padded = jnp.pad(flags, ((0, 0), (0, -p % 32)))
    worth = jnp.uint32(1) << jnp.arange(32, dtype=jnp.uint32)
    grouped = padded.reshape(G, -1, 32).astype(jnp.uint32)
    return jnp.sum(grouped * worth, axis=2, dtype=jnp.uint32)
