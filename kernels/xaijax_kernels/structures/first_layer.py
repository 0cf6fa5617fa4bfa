"""A dense first layer: f(z) = head(z W + b). Along an order of players it is one cumulative sum.

For the pair (x, b) and an order of the players, the first layer of the prefix of size s is that of
the donor and s terms (x_j - b_j) W_j: each next coalition costs H additions instead of a product of
F x H. The coalitions of the reversed order are the complements, and since the layer is linear,
layer(S) + layer(complement) = layer(x) + layer(b): they come without a sum of their own.

Letters: N instances, B donors, F columns = P players, H units of the first layer, K outputs,
R rows, T tiles, G instances in a tile, L sizes in a block, D orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xaijax_kernels.engine.reduce import any_bad, compensated
from xaijax_kernels.engine.tiles import counted_on, over_tiles, tile_by_tile
from xaijax_kernels.sizes import SMALLEST_TILE
from xaijax_kernels.structures.base import Layer

UNROLL = 16  # steps of the sum that are written out in one loop body
# A loop over pairs is compiled in vectors of them, and what is left of its end in another way, so
# that a pair's bits would depend on its place: a whole number of vectors has no such end.
PAIRS = 16


@dataclass(frozen=True)
class ScanShape:
    """The static facts of a tile of walks; hashable, so that it can be a key."""

    P: int
    instances: int  # G
    donors: int  # of one segment, the last one padded with weight 0
    block: int  # L
    outputs: int  # K
    dtype: str

    @property
    def blocks(self) -> int:
        """Blocks of sizes; the last one may reach past P."""
        return -(-self.P // self.block)

    @property
    def pairs(self) -> int:
        """Pairs of a tile, and what fills the last vector of them up."""
        return -(-self.instances * self.donors // PAIRS) * PAIRS

    @property
    def used_rows(self) -> int:
        """Rows of one call of the head that are made."""
        return 2 * self.block * self.pairs

    @property
    def rows(self) -> int:
        """Rows of one call of the head: whole 256s, since a product rounds its last few rows in
        another way, and an instance's bits must not depend on its place in the tile."""
        return -(-self.used_rows // SMALLEST_TILE) * SMALLEST_TILE


def scan_tiles(
    structure: Callable[[Any], Layer],  # params -> a layer that walks
    head: Callable[[Any, jax.Array], jax.Array],
    shape: ScanShape,
    mesh: Mesh,
    params: Any,
    x: jax.Array,  # [N, P]
    donors: jax.Array,  # [segments, B, P]
    donor_weights: jax.Array,  # [segments, B]
    orders: jax.Array,  # int32 [D, P]
    tiles: jax.Array,  # int32 [devices], tiles to run on each device
    work: jax.Array,  # int32 [T, 2 + G]: order, segment of donors, instances
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Weighted sums over a segment of donors of the answers along orders.

    Returns the sums and what rounding took from them, each [T, 2, P', G, K] with P' = P filled up
    to whole blocks, and whether a tile has an answer that is not finite, int32 [T]. Entry
    [t, 0, s - 1] keeps the first s players of the order, entry [t, 1, s - 1] the others.
    """
    G, B, L = shape.instances, shape.donors, shape.block
    padding, filled = shape.blocks * L - shape.P, shape.pairs - G * B

    def on_one_device(params, x, donors, donor_weights, orders, tiles, work):
        known = structure(params)
        assert known.dense is not None
        weight, bias = known.dense
        x = known.columns(x)
        donors = known.columns(donors.reshape(-1, shape.P)).reshape(donors.shape)

        def layer(rows):
            return jnp.dot(rows, weight, precision=jax.lax.Precision.HIGHEST) + bias

        def tile(one):
            order, kept, other = orders[one[0]], x[one[2:]], donors[one[1]]
            w = donor_weights[one[1]]
            start = layer(other)  # [B, H]
            # A sum and not a product, and a row after the other: the few rows of a tile would be
            # rounded by their place in it.
            own = jax.lax.map(lambda row: jnp.sum(row[:, None] * weight, axis=0), kept) + bias
            ends = start[None] + own[:, None]  # [G, B, H], layer(x) + layer(b)
            change = (kept[:, None] - other[None])[:, :, order].reshape(G * B, -1)
            change = jnp.pad(change.T, ((0, padding), (0, filled)))
            change = change.reshape(shape.blocks, L, shape.pairs)
            rows = jnp.pad(weight[order], ((0, padding), (0, 0))).reshape(shape.blocks, L, -1)
            ends = jnp.pad(ends.reshape(G * B, -1), ((0, filled), (0, 0)))

            def step(hidden, term):
                difference, row = term
                hidden = hidden + difference[:, None] * row[None, :]
                return hidden, hidden

            def block(hidden, terms):
                hidden, prefixes = jax.lax.scan(step, hidden, terms, unroll=min(UNROLL, L))
                both = jnp.stack([prefixes, ends - prefixes])  # [2, L, pairs, H]
                both = both.reshape(shape.used_rows, -1)
                both = jnp.pad(both, ((0, shape.rows - shape.used_rows), (0, 0)))
                out = head(params, both)[: shape.used_rows].astype(shape.dtype)
                out = out.reshape(2, L, shape.pairs, shape.outputs)[:, :, : G * B]
                out = out.reshape(2, L, G, B, shape.outputs)
                sums = compensated(
                    lambda b: w[b] * jax.lax.dynamic_index_in_dim(out, b, 3, keepdims=False),
                    B,
                    (2, L, G, shape.outputs),
                    out.dtype,
                )
                return hidden, (*sums, any_bad(jnp.isfinite(out)))

            begin = jnp.broadcast_to(start[None], (G, B, start.shape[-1])).reshape(G * B, -1)
            begin = jnp.pad(begin, ((0, filled), (0, 0)))
            _, (high, low, bad) = jax.lax.scan(block, begin, (change, rows))
            whole = (2, shape.blocks * L, G, shape.outputs)
            return (
                high.swapaxes(0, 1).reshape(whole),
                low.swapaxes(0, 1).reshape(whole),
                bad.max(),
            )

        T = work.shape[0]
        sums = jnp.zeros((T, 2, shape.blocks * L, G, shape.outputs), shape.dtype)

        def of_turn(t):
            return tile(jax.lax.dynamic_index_in_dim(work, t, keepdims=False))

        room = (sums, sums, jnp.zeros((T,), jnp.int32))
        return tile_by_tile(of_turn, room, tiles[0], counted_on(mesh))

    split = over_tiles(on_one_device, mesh, (False,) * 5 + (True,) * 2)
    return split(params, x, donors, donor_weights, orders, tiles, work)
