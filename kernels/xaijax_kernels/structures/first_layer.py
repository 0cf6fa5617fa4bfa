"""Evaluates a dense first layer, f(z) = head(z W + b), along an order of players by a cumulative
sum.

For the pair (x, b) and an order of the players, the first layer of the prefix of size s is that of
the donor and s terms (x_j - b_j) W_j: each next coalition costs H additions instead of a product of
F x H. The coalitions of the reversed order are the complements, and because the layer is linear,
layer(S) + layer(complement) = layer(x) + layer(b): they need no further sum.

A CPU adds one player after another, and calls the head with a few sizes at a time, which stay in a
core's fast memory. On an accelerator each iteration costs the start of its kernels: there one
iteration makes all sizes for many pairs of an instance and an order.

Letters: N instances, B donors, F columns = P players, H units of the first layer, K outputs,
R rows, T tiles, G instances in a tile, or walks, L sizes in a block, D orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xaijax_kernels.engine.reduce import any_bad, compensated, compensated_at_once
from xaijax_kernels.engine.tiles import counted_on, over_tiles, tile_by_tile
from xaijax_kernels.sizes import LONGEST_PRODUCT, SMALLEST_TILE
from xaijax_kernels.structures.base import Layer

UNROLL = 16  # steps of the sum that are written out in one loop body
# A loop over pairs is compiled into vectors and a remainder that rounds differently, so that a
# pair's result would depend on its position. A whole number of vectors has no remainder.
PAIRS = 16
FEW_TERMS = 8  # sizes added one by one to the preceding sums


@dataclass(frozen=True)
class ScanShape:
    """The static facts of a tile of scans; hashable, so that it can be a key."""

    P: int
    instances: int  # G; at once: scans, each with its own instance and order
    donors: int  # of one segment, the last one padded with weight 0
    block: int  # L
    outputs: int  # K
    dtype: str
    by: Literal["steps", "sums", "products"] = "steps"  # how the layer is summed, see `prefixes_of`

    @property
    def at_once(self) -> bool:
        """Whether one iteration takes all sizes of scans along several orders."""
        return self.by != "steps"

    @property
    def blocks(self) -> int:
        """Blocks of sizes; the last one may reach past P."""
        return -(-self.P // self.block)

    @property
    def chunks(self) -> int:
        """Number of products that make the sizes of a scan."""
        return -(-self.P // LONGEST_PRODUCT) if self.by == "products" else 1

    @property
    def pairs(self) -> int:
        """Pairs of a tile, padded to whole vectors."""
        pairs = self.instances * self.donors
        return pairs if self.at_once else -(-pairs // PAIRS) * PAIRS

    @property
    def used_rows(self) -> int:
        """Rows of one call of the head that are computed."""
        return 2 * self.block * self.pairs

    @property
    def rows(self) -> int:
        """Rows of one call of the head: a multiple of 256, because a product rounds its last few
        rows differently, and an instance's result must not depend on its position in the tile."""
        if self.at_once:  # each output of a product is the same sum at any position
            return self.used_rows
        return -(-self.used_rows // SMALLEST_TILE) * SMALLEST_TILE


def scan_tiles(
    structure: Callable[[Any], Layer],  # params -> a layer that `scans`
    head: Callable[[Any, jax.Array], jax.Array],
    shape: ScanShape,
    mesh: Mesh,
    params: Any,
    x: jax.Array,  # [N, P]
    donors: jax.Array,  # [segments, B, P]
    donor_weights: jax.Array,  # [segments, B]
    orders: jax.Array,  # int32 [D, P]
    tiles: jax.Array,  # int32 [devices], tiles to run on each device
    work: jax.Array,  # int32 [T, 2 + G]: order, segment of donors, instances; or see `_at_once`
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Weighted sums over a segment of donors of the outputs along orders.

    Returns the sums and their rounding errors, each [T, 2, P', G, K] with P' = P padded to whole
    blocks, and whether a tile has an output that is not finite, int32 [T]. Entry [t, 0, s - 1]
    keeps the first s players of the order, entry [t, 1, s - 1] the others.
    """
    if shape.at_once:
        run = over_tiles(_at_once(structure, head, shape, mesh), mesh, (False,) * 5 + (True,) * 2)
        return run(params, x, donors, donor_weights, orders, tiles, work)
    G, B, L = shape.instances, shape.donors, shape.block
    padding, filled = shape.blocks * L - shape.P, shape.pairs - G * B

    def on_one_device(params, x, donors, donor_weights, orders, tiles, work):
        weight, bias, x, donors = _layer_and_rows(structure(params), x, donors)

        def layer(rows):
            return jnp.dot(rows, weight, precision=jax.lax.Precision.HIGHEST) + bias

        def tile(entry):
            order, mine, other = orders[entry[0]], x[entry[2:]], donors[entry[1]]
            w = donor_weights[entry[1]]
            start = layer(other)  # [B, H]
            # A sum and not a product, row by row: a product of a tile's few rows would round them
            # by their position.
            x_layer = jax.lax.map(lambda row: jnp.sum(row[:, None] * weight, axis=0), mine) + bias
            total = start[None] + x_layer[:, None]  # [G, B, H], layer(x) + layer(b)
            change = (mine[:, None] - other[None])[:, :, order].reshape(G * B, -1)
            change = jnp.pad(change.T, ((0, padding), (0, filled)))
            change = change.reshape(shape.blocks, L, shape.pairs)
            rows = jnp.pad(weight[order], ((0, padding), (0, 0))).reshape(shape.blocks, L, -1)
            total = jnp.pad(total.reshape(G * B, -1), ((0, filled), (0, 0)))

            def step(hidden, term):
                difference, row = term
                hidden = hidden + difference[:, None] * row[None, :]
                return hidden, hidden

            def block(hidden, terms):
                hidden, prefixes = jax.lax.scan(step, hidden, terms, unroll=min(UNROLL, L))
                both = jnp.stack([prefixes, total - prefixes])  # [2, L, pairs, H]
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


def _layer_and_rows(known: Layer, x: jax.Array, donors: jax.Array) -> tuple[jax.Array, ...]:
    """Returns the weight and the bias of a dense layer, and the columns that it reads of x [N, P]
    and of donors [segments, B, P].
    """
    assert known.dense is not None
    rows = known.columns(donors.reshape(-1, donors.shape[-1])).reshape(donors.shape)
    return *known.dense, known.columns(x), rows


def _at_once(
    structure: Callable[[Any], Layer],
    head: Callable[[Any, jax.Array], jax.Array],
    shape: ScanShape,
    mesh: Mesh,
) -> Callable[..., tuple[jax.Array, jax.Array, jax.Array]]:
    """`scan_tiles` on one device; work int32 [T, 1 + 2 G]: segment, orders, instances."""
    G, B, L = shape.instances, shape.donors, shape.block
    more = L - shape.P  # sizes past P add nothing

    def on_one_device(params, x, donors, donor_weights, orders, tiles, work):
        weight, bias, x, donors = _layer_and_rows(structure(params), x, donors)
        # Before the loop over tiles, in which it would be a product of few rows.
        of_donors = jnp.dot(donors, weight, precision=jax.lax.Precision.HIGHEST) + bias
        x, donors = jnp.pad(x, ((0, 0), (0, more))), jnp.pad(donors, ((0, 0),) * 2 + ((0, more),))
        rows = jnp.pad(weight, ((0, more), (0, 0)))
        filled = jnp.arange(shape.P, L, dtype=orders.dtype)
        filled = jnp.broadcast_to(filled, (len(orders), more))
        orders = jnp.concatenate([orders, filled], axis=1)

        def tile(entry):
            order, instance = orders[entry[1 : G + 1]].T, entry[G + 1 :]  # [L, G]
            ordered, weights = x[instance, order], rows[order]  # [L, G], [L, G, H]
            change = ordered[:, :, None] - donors[entry[0]].T[order]  # [L, G, B]
            start = of_donors[entry[0]]  # [B, H]
            terms = change[..., None] * weights[:, :, None]  # [L, G, B, H]
            prefixes = prefixes_of(terms, shape) + start
            total = prefixes[-1] + start  # layer(x) + layer(b)
            both = prefixes, total - prefixes
            # Joining both halves makes a TPU write them again, which takes a quarter of the time.
            calls = both if shape.by == "products" else (jnp.stack(both),)
            out = [head(params, h.reshape(-1, h.shape[-1])).astype(shape.dtype) for h in calls]
            out = jnp.stack(out).reshape(2, L, G, B, shape.outputs)
            w = donor_weights[entry[0]][:, None]
            bad = 1 - jnp.isfinite(out).astype(out.dtype)
            return (jnp.stack(compensated_at_once(w * out, 3, bad)),)

        def of_turn(t):
            return tile(jax.lax.dynamic_index_in_dim(work, t, keepdims=False))

        # In one array, which an iteration writes with one kernel.
        room = jnp.zeros((len(work), 3, 2, L, G, shape.outputs), shape.dtype)
        (results,) = tile_by_tile(of_turn, (room,), tiles[0], counted_on(mesh))
        high, low, bad = (results[:, i] for i in range(3))
        return high, low, bad.max(axis=(1, 2, 3, 4)).astype(jnp.int32)

    return on_one_device


def prefixes_of(terms: jax.Array, shape: ScanShape) -> jax.Array:
    """Sums of the first 1, 2, .. L terms [L, ...].

    A GPU's compiler fuses a cumulative sum into the kernel that writes the head's rows. A TPU
    multiplies with a triangle of ones, in its otherwise idle matrix unit.
    """
    if shape.by == "sums":
        return jnp.cumsum(terms, axis=0)
    chunks = terms.reshape(shape.chunks, -1, *terms.shape[1:])
    ones = jnp.tri(chunks.shape[1], dtype=terms.dtype)
    inside = jnp.einsum("sj,cj...->cs...", ones, chunks, precision=jax.lax.Precision.HIGHEST)
    return (inside + _before(inside[:, -1])[:, None]).reshape(terms.shape)


def _before(terms: jax.Array) -> jax.Array:
    """Sums of the terms [C, ...] before each one."""
    C = len(terms)
    if C > FEW_TERMS:
        filled = jnp.pad(terms, ((0, -C % FEW_TERMS), *[(0, 0)] * (terms.ndim - 1)))
        chunks = filled.reshape(-1, FEW_TERMS, *terms.shape[1:])
        sums = jax.vmap(_before)(chunks) + _before(chunks.sum(axis=1))[:, None]
        return sums.reshape(filled.shape)[:C]
    place = jnp.arange(C).reshape(C, *[1] * (terms.ndim - 1))
    chunks = (jnp.where(place > c, terms[c], 0) for c in range(C - 1))
    return sum(chunks, jnp.zeros_like(terms))
