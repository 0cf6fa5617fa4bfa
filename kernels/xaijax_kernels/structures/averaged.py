"""v(S) of all coalitions of an instance by its model's structure, donors averaged on the way.

If every donor differs from x in every player, no two hybrids are the same, and the same 2^P
coalitions are asked for each donor. Their mean over donors is taken while the answers are in a
core's fast memory: one table goes back for each instance, in place of one for each pair.

Letters: N instances, F columns, P players, S donors of a block, D blocks of a segment, K scores, T
tiles: an instance and a segment of donors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xaijax_kernels.engine.reduce import any_bad, neumaier, over_rows
from xaijax_kernels.engine.tiles import (
    counted_on,
    folded,
    over_tiles,
    platform_of,
    room_of,
    tile_by_tile,
)
from xaijax_kernels.sizes import on_cpu
from xaijax_kernels.structures.base import Layer
from xaijax_kernels.structures.chances import chances_of


@dataclass(frozen=True)
class MeansShape:
    """The static facts of a tile; hashable, so that it can be a key."""

    P: int
    donors: int  # S
    blocks: int  # D
    outputs: int  # K
    dtype: str
    prepared: bool = False  # whether donors are given as what each player contributes

    @property
    def rows(self) -> int:
        """Hybrids of a block."""
        return self.donors << self.P

    @cached_property
    def subsets(self) -> int:
        """2^P."""
        return 1 << self.P


def prepared_rows(
    structure: Callable[[Any], Layer],
    P: int,
    kept: bool,
    platform: str,
    params: Any,
    rows: jax.Array,  # [R, F]
    players: jax.Array | None,  # int32 [F]; None: player j is column j
) -> jax.Array:
    """What each player of each row contributes, as the layer's sub-coalitions take it; [R, ..].
    kept: of instances; of donors otherwise.
    """
    known = structure(params)
    own = jnp.eye(P, dtype=bool)
    own = own if players is None else own[:, players]
    return known.prepared(known.columns(rows), known.of_columns(own), kept, platform)


def mean_tables(
    structure: Callable[[Any], Layer],
    head: Callable[[Any, jax.Array], jax.Array],
    score: Callable[[jax.Array, Any], jax.Array] | None,
    kept_scores: Callable[[jax.Array], jax.Array],
    shape: MeansShape,
    mesh: Mesh,
    params: Any,
    x: jax.Array,  # [N, F]
    donors: jax.Array,  # [segments, D, S, F], or [segments, D, S, ..] of `prepared_rows`
    weights: jax.Array,  # [segments, D, S], 0 for what fills up
    players: jax.Array | None,  # int32 [F]
    tiles: jax.Array,  # int32 [devices], tiles to run on each device
    work: jax.Array,  # int32 [T, 3]: instance, segment, blocks of it that are asked
) -> tuple[jax.Array, ...]:
    """Weighted sums over a segment of donors of the scores of all sub-coalitions, minus one score
    c.

    Returns the sums [T, 2^P, K] and what rounding took from them; c, the score of f(x), the largest
    and the smallest score, each [T, K]; and whether one is bad, int32 [T]. Bit i of a sub-coalition
    keeps player i. head(params, hidden [R, H]) -> [.., A], R = `block(S 2^P, platform, P)`
    on a CPU, and elsewhere that of all D S donors; score(answers, None) -> [.., K].
    """
    C, K, S = shape.subsets, shape.outputs, shape.donors * shape.blocks
    known_trip_counts, platform = counted_on(mesh), platform_of(mesh)

    def on_one_device(params, x, donors, weights, players, tiles, work):
        known = structure(params)
        each = jnp.eye(shape.P + 1, shape.P, dtype=bool)  # no player is kept by all sub-coalitions
        each = each if players is None else each[:, players]
        of_model = partial(head, params)

        def scores(hidden):
            return scores_of(of_model(hidden))

        def scores_of(answers):
            return answers if score is None else score(answers, None)

        # Only a CPU has to save exponentials; CUDA would ask the host which way a tile takes.
        rows = known.block(shape.rows, platform, shape.P)
        given = known, scores, rows, x.dtype, each[: shape.P]
        chances = chances_of(*given) if on_cpu(platform) and not known_trip_counts else None

        def tile(one):
            if chances is None:
                return by_answers(one)
            a = chances.terms(x[one[0]][None])[0]
            b = chances.terms(donors[one[1]].reshape(-1, x.shape[1]))
            asked = weights[one[1]].ravel(), one[2] * shape.donors, known_trip_counts
            by_chances = partial(chances.means, a, b, *asked)
            return jax.lax.cond(chances.reach(a, b), by_chances, lambda: by_answers(one))

        made = partial(prepared_rows, structure, shape.P, True, platform, params, players=players)

        def subsets_of(row, S):
            """Donors [S, ..] -> answers [S 2^P, A] to all sub-coalitions of a row [F], or of what
            was made of it.
            """
            if shape.prepared:
                return lambda b: known.prepared_subsets(of_model, shape.P, row, b, platform)
            own = jnp.broadcast_to(row, (S, x.shape[1]))
            kept = jnp.broadcast_to(each, (S, *each.shape))
            return lambda b: known.subsets(of_model, own, b, kept, platform)

        def at_once(one, row):
            """All donors of the segment, as many as a few large operations take."""
            b = donors[one[1]].reshape(S, *donors.shape[3:])
            asked = jnp.arange(shape.blocks, dtype=jnp.int32)
            w = jnp.where(asked[:, None] < one[2], weights[one[1]], 0)
            out = scores_of(subsets_of(row, S)(b)).astype(shape.dtype).reshape(S, C, K)
            c = out[0, 0]
            terms = w.reshape(S, 1, 1) * (out - c)
            high, low, top, bottom = over_rows(terms, out)
            return high, low, jnp.stack([c, out[0, -1], top.max(axis=0), bottom.min(axis=0)])

        def by_answers(one):
            row = x[one[0]]
            subsets = subsets_of(made(row[None])[0] if shape.prepared else row, shape.donors)

            def block(d, carry):
                c, high, low, top, bottom, full = carry
                b, w = (whole[one[1], d] for whole in (donors, weights))
                out = scores_of(subsets(b))
                out = out.astype(shape.dtype).reshape(shape.donors, C, K)
                c = jnp.where(d == 0, out[0, 0], c)
                full = jnp.where(d == 0, out[0, -1], full)
                # Less c: what is summed is as large as the changes, not as the level.
                part = jnp.einsum("s,sck->ck", w, out - c, precision=jax.lax.Precision.HIGHEST)
                high, low = neumaier(high, low, part)
                top = jnp.maximum(top, out.max(axis=0))
                bottom = jnp.minimum(bottom, out.min(axis=0))
                return c, high, low, top, bottom, full

            zero, far = jnp.zeros((C, K), shape.dtype), jnp.full((C, K), jnp.inf, shape.dtype)
            start = (zero[0], zero, zero, -far, far, zero[0])
            c, high, low, top, bottom, full = folded(
                block, start, one[2], shape.blocks, known_trip_counts
            )
            return high, low, jnp.stack([c, full, top.max(axis=0), bottom.min(axis=0)])

        def checked(high, low, ends):
            # Scores between two that are kept are kept; one that is no number is in the sums.
            good = kept_scores(ends[2:]).all() & jnp.isfinite(high)
            return high, low, ends, any_bad(good)

        T = work.shape[0]
        sums = room_of((T, C, K), shape.dtype, platform)
        ends = jnp.zeros((T, 4, K), shape.dtype)

        # Small products are made of all tiles together, before the loop.
        rows = x[work[:, 0]] if not on_cpu(platform) else None
        rows = made(rows) if rows is not None and shape.prepared else rows

        def of_turn(t):
            one = jax.lax.dynamic_index_in_dim(work, t, keepdims=False)
            return checked(*(tile(one) if rows is None else at_once(one, rows[t])))

        room = (sums, sums, ends, jnp.zeros((T,), jnp.int32))
        return tile_by_tile(of_turn, room, tiles[0], known_trip_counts)

    split = over_tiles(on_one_device, mesh, (False,) * 5 + (True,) * 2)
    return split(params, x, donors, weights, players, tiles, work)
