"""v(S) of a list of coalitions by a layer, averaged over donors on the device.

The layer of the hybrid of x, donor b and coalition S is the sum of the part of x that S keeps,
shared by all donors, and the part of b that S replaces, shared by all instances. A hybrid therefore
costs one addition per unit, plus the rest of the model. If combining the parts of single players is
cheaper than computing the layer, they are computed once per row, and a coalition's part is a small
product with them.

The leaves of trees do not add. The bounds that a row violates are computed once, as bits, and a
hybrid costs a test of bits and an addition per leaf (`Layer.at_sets`).

On a CPU one call of the head takes a few coalitions of one instance. On an accelerator it takes all
coalitions of a tile, and several instances.

Letters: N instances, F columns, P players, Q coalitions of the list, C coalitions of a tile, in
blocks of one call of the head, B donors of a segment, G instances of a tile, g of them in
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
from xaijax_kernels.engine.tiles import (
    counted_on,
    folded,
    over_tiles,
    placed,
    platform_of,
    tile_by_tile,
)
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
    by_player: bool = False  # whether rows are given as each player's term
    prepared: bool = False  # whether rows are results of `Layer.prepared`, and the layer `lists`
    of_call: int = 0  # g, a divisor of G; 0: each instance has its own calls, one per block
    # Number of instances whose parts are one product, at least G. A small run with fewer is padded,
    # so that results do not depend on their number.
    made: int = 0

    @cached_property
    def coalitions(self) -> int:
        """C."""
        return self.together * self.blocks

    @property
    def rows(self) -> int:
        """Hybrids of a block, which is one call of the head."""
        return self.together * self.donors * max(1, self.of_call)


def player_parts(
    structure: Callable[[Any], Layer],
    P: int,
    params: Any,
    rows: jax.Array,  # [R, F]
    players: jax.Array | None,  # int32 [F]; None: player j is column j
) -> jax.Array:
    """Each player's term of each row, for a layer that adds; [R, P, H]. It takes one row at a
    time, so that a row's result is identical bit for bit whatever the others are.
    """
    known = structure(params)
    members = jnp.eye(P, dtype=bool)
    members = known.of_columns(members if players is None else of_columns(members, players))

    def of_row(row: jax.Array) -> jax.Array:
        columns = known.columns(row[None])
        return known.part(jnp.broadcast_to(columns, members.shape), members)

    return jax.lax.map(of_row, rows)


def listed_means(
    structure: Callable[[Any], Layer],  # params -> a layer that adds, or that lists
    head: Callable[[Any, jax.Array], jax.Array],
    score: Callable[[jax.Array, Any], jax.Array] | None,
    kept_scores: Callable[[jax.Array], jax.Array],
    shape: ListShape,
    mesh: Mesh,
    params: Any,
    x: jax.Array,  # [N, F], or [N, P, H] by players, or prepared [N, ..]
    donors: jax.Array,  # [segments, B, F], or [segments, B, P, H], or prepared
    weights: jax.Array,  # [segments, B], 0 for padding
    players: jax.Array | None,  # int32 [F]; None: player j is column j; not read with `by_player`
    masks: jax.Array,  # uint32 [Q, ceil(P / 32)], bit 1 = kept from the instance
    tiles: jax.Array,  # int32 [devices], tiles to run on each device
    work: jax.Array,  # int32 [T, 4]: first coalition, segment, first instance, how many of them
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Weighted sums over a segment of donors of the scores of some coalitions.

    Returns the sums and their rounding errors, each [T, G, C, K], and whether a score is invalid,
    int32 [T, G]. Padding instances are zeros. head(params, hidden [`rows`, H]) -> [`rows`, A];
    score(answers, None) -> [`rows`, K].
    """
    G, B, C, K = shape.instances, shape.donors, shape.coalitions, shape.outputs
    known_trip_counts, platform = counted_on(mesh), platform_of(mesh)

    def on_one_device(params, x, donors, weights, players, masks, tiles, work):
        known = structure(params)
        player = jnp.arange(shape.P, dtype=jnp.uint32)

        def scores(hidden):
            answers = head(params, hidden.reshape(shape.rows, -1))
            out = answers if score is None else score(answers, None)
            return out.astype(shape.dtype)

        def added_by(known, rows, tile_rows):
            """The terms of rows [R, ..] in coalitions own bool [C, ..]; [C, R, H]."""
            R = len(rows)
            if shape.by_player:
                added = rows.swapaxes(0, 1).reshape(shape.P, -1)  # [P, R H]
                weights = tile_rows.astype(rows.dtype)
                return jnp.dot(weights, added, precision=HIGHEST).reshape(C, R, -1)
            columns = known.columns(rows)
            columns = jnp.broadcast_to(columns, (C, *columns.shape)).reshape(C * R, -1)
            return known.part(columns, jnp.repeat(tile_rows, R, axis=0)).reshape(C, R, -1)

        def tile(entry):
            words = jax.lax.dynamic_slice_in_dim(masks, entry[0], C)
            if shape.prepared:
                return listed(entry, words, donors[entry[1]], weights[entry[1]])
            mask = ((words[:, player // 32] >> (player % 32)) & 1) == 1  # [C, P]
            other, w = donors[entry[1]], weights[entry[1]]
            if not shape.by_player:
                mask = known.of_columns(mask if players is None else of_columns(mask, players))
            theirs = added_by(known, other, ~mask)
            if shape.of_call:
                numbers = entry[2] + jnp.arange(shape.made, dtype=entry.dtype)
                tile_rows = x[jnp.minimum(numbers, len(x) - 1)]
                mine = added_by(known, tile_rows, mask).swapaxes(0, 1)  # [made, C, H]
                # Coalitions are the last axis of rows: they fill the lanes of a TPU.
                crossed = jax.vmap(known.joined, in_axes=1, out_axes=2)
                theirs = theirs.swapaxes(0, 1)  # [B, C, H]
                return at_once(entry, w, lambda part: crossed(part, theirs), mine)
            blocks = (shape.blocks, shape.together, B, -1)

            def of_instance(i):
                mine = added_by(known, x[entry[2] + i][None], mask)[:, 0]  # [C, H]

                def block(parts):
                    crossed = jax.vmap(lambda a, b: known.joined(a[None], b)[0])
                    return scores(crossed(*parts)).reshape(shape.together, B, K)

                mine = mine.reshape(shape.blocks, shape.together, -1)
                return jax.lax.map(block, (mine, theirs.reshape(blocks)))

            return by_instance(entry, w, of_instance)

        def listed(entry, words, theirs, w):
            """Evaluates a tile of a layer that `lists`."""

            def hidden(x):
                return known.at_sets(x, theirs, words, platform)  # [B, C, H]

            if shape.of_call:
                instances = jnp.minimum(entry[2] + jnp.arange(G, dtype=entry.dtype), len(x) - 1)
                return at_once(entry, w, jax.vmap(hidden), x[instances])

            def of_instance(i):
                rows = hidden(x[entry[2] + i]).swapaxes(0, 1)
                return jax.lax.map(scores, rows.reshape(shape.blocks, shape.rows, -1))

            return by_instance(entry, w, of_instance)

        def by_instance(entry, w, of_instance):
            """Evaluates one instance after another; of_instance(i): the scores of C coalitions
            and B donors.
            """

            def instance(i, carry):
                high, low, bad = carry
                scored = of_instance(i).reshape(C, B, K)
                h, c = compensated(lambda b: w[b] * scored[:, b], B, (C, K), scored.dtype)
                lost = any_bad(kept_scores(scored.reshape(C * B, K)))
                return placed(high, h, i), placed(low, c, i), placed(bad, lost, i)

            zero = jnp.zeros((G, C, K), shape.dtype)
            start = (zero, zero, jnp.zeros(G, jnp.int32))
            return folded(instance, start, entry[3], G, known_trip_counts)

        def at_once(entry, w, crossed, mine):
            """Evaluates several instances per call; crossed: a slice of `mine` -> its layer [g, B,
            C, H]."""

            def of_turn(i):
                part = jax.lax.dynamic_slice_in_dim(mine, i * shape.of_call, shape.of_call)
                scored = scores(crossed(part))  # [g B C, K]
                bad = 1 - kept_scores(scored).reshape(-1, B, C, K).astype(shape.dtype)
                terms = w[:, None, None] * scored.reshape(bad.shape)
                return (jnp.stack(compensated_at_once(terms, 1, bad)),)

            # In one array, which an iteration writes with one kernel.
            room = jnp.zeros((G // shape.of_call, 3, shape.of_call, C, K), shape.dtype)
            trip_count = -(-entry[3] // shape.of_call)
            return tile_by_tile(of_turn, (room,), trip_count, known_trip_counts)

        T = work.shape[0]

        def of_turn(t):
            return tile(jax.lax.dynamic_index_in_dim(work, t, keepdims=False))

        if shape.of_call:
            room = jnp.zeros((T, G // shape.of_call, 3, shape.of_call, C, K), shape.dtype)
            (means,) = tile_by_tile(of_turn, (room,), tiles[0], known_trip_counts)
            high, low, bad = means.swapaxes(0, 2).swapaxes(1, 2).reshape(3, T, G, C, K)
            return high, low, bad.max(axis=(2, 3)).astype(jnp.int32)
        sums = jnp.zeros((T, G, C, K), shape.dtype)
        room = (sums, sums, jnp.zeros((T, G), jnp.int32))
        return tile_by_tile(of_turn, room, tiles[0], known_trip_counts)

    split = over_tiles(on_one_device, mesh, (False,) * 6 + (True,) * 2)
    return split(params, x, donors, weights, players, masks, tiles, work)
