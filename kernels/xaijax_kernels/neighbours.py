"""Finds nearest neighbours by blocks.

The k nearest rows lie in the k blocks with the smallest minimum distances. One matrix product finds
these blocks, with a few extra because it rounds. Distances to their members are then computed from
differences, which do not cancel.

Letters: R rows, F columns, V training rows, k neighbours, m members of a block.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from xaijax_kernels.sizes import TRAINING

NUMBERS = 1024  # of a block, F m; larger blocks would cost more than the product of all
MEMBERS = 8, 64
SPARE = 8  # blocks beyond k, which the product may have ranked wrongly
FAR = 1e30  # the value of padding


def nearest(train: jax.Array, rows: jax.Array, k: int, power: float) -> tuple[jax.Array, jax.Array]:
    """(distances, positions) of the nearest k of `train` [V, F] to rows [R, F]; [R, k] each.

    power: the power of the Minkowski distance; inf: the largest difference of a column.
    """
    V, F = train.shape
    m = min(max(NUMBERS // F, MEMBERS[0]), MEMBERS[1])
    m = 1 << m.bit_length() - 1
    places = jnp.arange(V, dtype=jnp.int32)[None]
    near = train[None]
    if k + SPARE < V // m:
        minima = _minima(train, rows, m, power)  # [R, blocks]
        chosen = jax.lax.top_k(-minima, k + SPARE)[1]
        blocks = jnp.pad(train, ((0, minima.shape[1] * m - V), (0, 0))).reshape(-1, m * F)
        near = blocks[chosen].reshape(len(rows), -1, F)
        places = (chosen[:, :, None] * m + jnp.arange(m, dtype=jnp.int32)).reshape(len(rows), -1)
    far = _length(jnp.abs(rows[:, None] - near), power)
    far = jnp.where(places < V, far, jnp.full_like(far, math.inf))
    smallest, which = jax.lax.top_k(-far, k)
    places = jnp.broadcast_to(places, far.shape)
    return -smallest, jnp.take_along_axis(places, which, axis=1)


def _length(off: jax.Array, power: float) -> jax.Array:
    """Distances of differences [..., F], not negative."""
    if power == math.inf:
        return off.max(axis=-1)
    if power == 1.0:
        return off.sum(axis=-1)
    if power == 2.0:
        return jnp.sqrt((off * off).sum(axis=-1))
    return (off**power).sum(axis=-1) ** (1 / power)


def _minima(train: jax.Array, rows: jax.Array, m: int, power: float) -> jax.Array:
    """The smallest distance of each block of m training rows, [R, blocks], up to rounding.

    They only serve to compare blocks: the squares of the rows themselves, or the root, are left
    out.
    """
    V, F = train.shape
    filled = jnp.pad(train, ((0, -V % TRAINING), (0, 0)))
    # Blocks are contiguous, members strided: the minimum then reads whole cache lines.
    parts = filled.reshape(-1, TRAINING // m, m, F).swapaxes(1, 2).reshape(-1, TRAINING, F)
    void = (jnp.arange(len(filled)) >= V).reshape(-1, TRAINING // m, m).swapaxes(1, 2)

    def of_part(part: tuple[jax.Array, jax.Array]) -> jax.Array:
        train_part, void = part
        if power == 2.0:
            # One product, whose last column adds the squares of the training rows.
            far = _filled((train_part * train_part).sum(axis=1), void.reshape(-1))
            wide = jnp.concatenate([-2 * train_part, far[:, None]], axis=1)
            distances = jnp.pad(rows, ((0, 0), (0, 1)), constant_values=1) @ wide.T
        else:
            distances = _filled(_accumulated(train_part, rows, power), void.reshape(-1))
        return distances.reshape(len(rows), m, -1).min(axis=1)

    minima = jax.lax.map(of_part, (parts, void))  # [parts, R, TRAINING / m]
    return minima.swapaxes(0, 1).reshape(len(rows), -1)


def _filled(far: jax.Array, void: jax.Array) -> jax.Array:
    return jnp.where(void, jnp.full_like(far, FAR), far)


def _accumulated(train: jax.Array, rows: jax.Array, power: float) -> jax.Array:
    """Powers of distances [R, V], a column at a time, so that [R, V, F] never exists."""

    def add(total: jax.Array, pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        off = jnp.abs(pair[0][:, None] - pair[1])
        more = off if power in (1.0, math.inf) else off**power
        return (jnp.maximum(total, more) if power == math.inf else total + more), None

    first = jnp.zeros((rows.shape[0], train.shape[0]), rows.dtype)
    return jax.lax.scan(add, first, (rows.T, train.T))[0]
