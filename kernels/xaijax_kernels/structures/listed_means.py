"""v(S) of a list of coalitions by a layer that adds, donors averaged on the way.

The layer of the hybrid of x, the donor b and the coalition S is the part of x that S keeps and the
part of b that it replaces. The first is one for all donors, the second one for all instances. A
hybrid therefore costs one addition a unit, and the rest of the model. If the parts of single
players are cheaper to put together than the layer is to make, they are made once for a row, and a
coalition's part is a small product with them.

A CPU takes a few coalitions of one instance through the head at a time. On an accelerator one call
of the head takes all coalitions of a tile, and several instances.

Letters: N instances, F columns, P players, Q coalitions of the list, C coalitions of a tile, in
blocks that go through the head together, B donors of a segment, G instances of a tile, g of them in
one call of the head, K scores, H units, T tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xaijax_kernels.engine.hybrids import of_columns
from xaijax_kernels.engine.reduce import any_bad, compensated, compensated_at_once
from xaijax_kernels.engine.tiles import counted_on, folded, over_tiles, placed, tile_by_tile
from xaijax_kernels.structures.base import Layer

HIGHEST = jax.lax.Precision.HIGHEST


@dataclass(frozen=True)
class ListShape:
    """The static facts of a tile; hashable, so that it can be a key."""

    P: int
    donors: int  # B, the last segment padded with weight 0
    together: int  # coalitions of a block
    blocks: int  # of a tile
    instances: int  # G
    outputs: int  # K
    dtype: str
    by_player: bool = False  # whether rows are given as what each player adds
    of_call: int = 0  # g, a divisor of G; 0: each instance has calls of its own, one for a block
    # Instances whose parts one product makes, at least G, also where a small question has fewer:
    # its bits must not follow how many are asked about.
    made: int = 0

    @cached_property
    def coalitions(self) -> int:
        """C."""
        return self.together * self.blocks

    @property
    def rows(self) -> int:
        """Hybrids of a block, which go through the head in one call."""
        return self.together * self.donors * max(1, self.of_call)


def player_parts(
    structure: Callable[[Any], Layer],
    P: int,
    params: Any,
    rows: jax.Array,  # [R, F]
    players: jax.Array | None,  # int32 [F]; None: player j is column j
) -> jax.Array:
    """What each player of each row adds to a layer that adds; [R, P, H]. It takes one row at a
    time, so that a row's result is identical bit for bit whatever the others are.
    """
    known = structure(params)
    own = jnp.eye(P, dtype=bool)
    own = known.of_columns(own if players is None else of_columns(own, players))

    def one(row: jax.Array) -> jax.Array:
        columns = known.columns(row[None])
        return known.part(jnp.broadcast_to(columns, own.shape), own)

    return jax.lax.map(one, rows)


def listed_means(
    structure: Callable[[Any], Layer],  # params -> a layer that adds
    head: Callable[[Any, jax.Array], jax.Array],
    score: Callable[[jax.Array, Any], jax.Array] | None,
    kept_scores: Callable[[jax.Array], jax.Array],
    shape: ListShape,
    mesh: Mesh,
    params: Any,
    x: jax.Array,  # [N, F], or [N, P, H] by players
    donors: jax.Array,  # [segments, B, F], or [segments, B, P, H]
    weights: jax.Array,  # [segments, B], 0 for what fills up
    players: jax.Array | None,  # int32 [F]; None: player j is column j; not read by players
    masks: jax.Array,  # uint32 [Q, ceil(P / 32)], bit 1 = kept from the instance
    tiles: jax.Array,  # int32 [devices], tiles to run on each device
    work: jax.Array,  # int32 [T, 4]: first coalition, segment, first instance, how many of them
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Weighted sums over a segment of donors of the scores of some coalitions.

    Returns the sums and what rounding took from them, each [T, G, C, K], and whether a score is
    bad, int32 [T, G]. Instances past those that a tile has are zeros. head(params, hidden [`rows`,
    H]) -> [`rows`, A]; score(answers, None) -> [`rows`, K].
    """
    G, B, C, K = shape.instances, shape.donors, shape.coalitions, shape.outputs
    known_trip_counts = counted_on(mesh)

    def on_one_device(params, x, donors, weights, players, masks, tiles, work):
        known = structure(params)
        player = jnp.arange(shape.P, dtype=jnp.uint32)

        def scores(hidden):
            answers = head(params, hidden.reshape(shape.rows, -1))
            found = answers if score is None else score(answers, None)
            return found.astype(shape.dtype)

        def added_by(known, rows, own):
            """What rows [R, ..] add to coalitions own bool [C, ..]; [C, R, H]."""
            R = len(rows)
            if shape.by_player:
                added = rows.swapaxes(0, 1).reshape(shape.P, -1)  # [P, R H]
                weights = own.astype(rows.dtype)
                return jnp.dot(weights, added, precision=HIGHEST).reshape(C, R, -1)
            columns = known.columns(rows)
            columns = jnp.broadcast_to(columns, (C, *columns.shape)).reshape(C * R, -1)
            return known.part(columns, jnp.repeat(own, R, axis=0)).reshape(C, R, -1)

        def tile(one):
            words = jax.lax.dynamic_slice_in_dim(masks, one[0], C)
            kept = ((words[:, player // 32] >> (player % 32)) & 1) == 1  # [C, P]
            other, w = donors[one[1]], weights[one[1]]
            if not shape.by_player:
                kept = known.of_columns(kept if players is None else of_columns(kept, players))
            theirs = added_by(known, other, ~kept)
            if shape.of_call:
                return at_once(one, w, kept, theirs)
            blocks = (shape.blocks, shape.together, B, -1)

            def instance(i, carry):
                high, low, bad = carry
                mine = added_by(known, x[one[2] + i][None], kept)[:, 0]  # [C, H]

                def block(parts):
                    crossed = jax.vmap(lambda a, b: known.joined(a[None], b)[0])
                    return scores(crossed(*parts)).reshape(shape.together, B, K)

                mine = mine.reshape(shape.blocks, shape.together, -1)
                found = jax.lax.map(block, (mine, theirs.reshape(blocks))).reshape(C, B, K)
                h, c = compensated(lambda b: w[b] * found[:, b], B, (C, K), found.dtype)
                lost = any_bad(kept_scores(found.reshape(C * B, K)))
                return placed(high, h, i), placed(low, c, i), placed(bad, lost, i)

            zero = jnp.zeros((G, C, K), shape.dtype)
            start = (zero, zero, jnp.zeros(G, jnp.int32))
            return folded(instance, start, one[3], G, known_trip_counts)

        def at_once(one, w, kept, theirs):
            numbers = one[2] + jnp.arange(shape.made, dtype=one.dtype)
            own = x[jnp.minimum(numbers, len(x) - 1)]
            mine = added_by(known, own, kept).swapaxes(0, 1)  # [made, C, H]
            # Coalitions are the last axis of rows: a TPU has them on its lanes, and these are full.
            crossed = jax.vmap(known.joined, in_axes=1, out_axes=2)
            theirs = theirs.swapaxes(0, 1)  # [B, C, H]

            def of_turn(i):
                some = jax.lax.dynamic_slice_in_dim(mine, i * shape.of_call, shape.of_call)
                found = scores(crossed(some, theirs))  # [g B C, K]
                bad = 1 - kept_scores(found).reshape(-1, B, C, K).astype(shape.dtype)
                terms = w[:, None, None] * found.reshape(bad.shape)
                return (jnp.stack(compensated_at_once(terms, 1, bad)),)

            # In one array, which a turn writes by one kernel.
            room = jnp.zeros((G // shape.of_call, 3, shape.of_call, C, K), shape.dtype)
            turns = -(-one[3] // shape.of_call)
            return tile_by_tile(of_turn, (room,), turns, known_trip_counts)

        T = work.shape[0]

        def of_turn(t):
            return tile(jax.lax.dynamic_index_in_dim(work, t, keepdims=False))

        if shape.of_call:
            room = jnp.zeros((T, G // shape.of_call, 3, shape.of_call, C, K), shape.dtype)
            (found,) = tile_by_tile(of_turn, (room,), tiles[0], known_trip_counts)
            high, low, bad = found.swapaxes(0, 2).swapaxes(1, 2).reshape(3, T, G, C, K)
            return high, low, bad.max(axis=(2, 3)).astype(jnp.int32)
        sums = jnp.zeros((T, G, C, K), shape.dtype)
        room = (sums, sums, jnp.zeros((T, G), jnp.int32))
        return tile_by_tile(of_turn, room, tiles[0], known_trip_counts)

    split = over_tiles(on_one_device, mesh, (False,) * 6 + (True,) * 2)
    return split(params, x, donors, weights, players, masks, tiles, work)
