"""From the values of a dispatch to one semivalue per pair, on the device.

Written for groups of tiles of one shape and mapped over the groups, so that the arithmetic of a
pair is the same whatever else is in the dispatch: the same bits for every batch size.

Letters: T tiles, R rows in a tile, K outputs, k players that differ, G tiles in a group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

# Values in a group of tiles. One product over many pairs runs on all cores, and a tile's few pairs
# alone do not: a third of the time on two cores.
_GROUP_VALUES = {"cpu": 1 << 19, "gpu": 1 << 22, "tpu": 1 << 22}


def group_tiles(rows: int, outputs: int, platform: str) -> int:
    """G: tiles that are reduced together, a pure function of the tile and the platform."""
    kind = platform if platform in _GROUP_VALUES else "gpu"
    return max(1, _GROUP_VALUES[kind] // (rows * outputs))


def reduce_pairs(
    values: jax.Array,  # [T, R, K]
    matrix: jax.Array,  # [2^m, k], rows past 2^k are zero; indices.corner_matrix
    k: int,
    group: int,  # G
) -> jax.Array:
    """All pairs of 2^m rows, 2^m <= R; [T, R / 2^m, K, k + 3].

    The last axis: the semivalue of the k players, v(nothing kept), v(all kept), and the span: the
    largest |v(S) - v(nothing kept)|. That value is subtracted first: rounding is then relative to
    the span, not to the level.
    """
    T, R, K = values.shape
    corners = matrix.shape[0]

    def one_group(v):
        v = v.reshape(-1, corners, K).swapaxes(1, 2)  # [pairs, K, 2^m]
        empty, full = v[:, :, :1], v[:, :, (1 << k) - 1 :][:, :, :1]
        pairs = len(v)
        flat = (v - empty).reshape(pairs * K, corners)
        phi = jnp.dot(flat, matrix, precision=jax.lax.Precision.HIGHEST).reshape(pairs, K, k)
        span = jnp.abs(flat).max(axis=1).reshape(pairs, K, 1)
        return jnp.concatenate([phi, empty, full, span], axis=2)

    # Few tiles are filled up to a group, so that the product has one shape for every T.
    values = jnp.pad(values, ((0, -T % group), (0, 0), (0, 0)))
    sums = jax.lax.map(one_group, values.reshape(-1, group, R, K))
    return sums.reshape(-1, R // corners, K, k + 3)[:T]


def reduce_pieces(
    values: jax.Array,  # [T, R, K]
    matrices: jax.Array,  # [H, R, log2(R) + 2]; indices.split_matrices
    high_bits: jax.Array,  # int32 [T], how many high bits of the piece are set
) -> jax.Array:
    """Pairs of more than R rows, one tile being one piece of a pair; [T, K, log2(R) + 5].

    The last axis: the columns of `split_matrices` for the values less the first one, then the
    first and the last value of the tile and the span. What was subtracted is put back on the
    host, in float64.
    """

    def tile(argument):
        v, h = argument
        v = v.T  # [K, R]
        first, last = v[:, :1], v[:, -1:]
        matrix = jax.lax.dynamic_index_in_dim(matrices, h, keepdims=False)
        sums = jnp.dot(v - first, matrix, precision=jax.lax.Precision.HIGHEST)
        span = jnp.abs(v - first).max(axis=1, keepdims=True)
        return jnp.concatenate([sums, first, last, span], axis=1)

    return jax.lax.map(tile, (values, high_bits))


def compensated(
    term: Callable[[jax.Array], jax.Array], count: int, shape: tuple[int, ...], dtype: Any
) -> tuple[jax.Array, jax.Array]:
    """Neumaier's sum of term(0) .. term(count - 1): the sum, and what rounding took from it.

    Together they carry about twice the digits of the dtype, so that the mean over many donors is as
    good as the values are.
    """

    def add(i, carry):
        high, low = carry
        here = term(i)
        total = high + here
        lost = jnp.where(abs(high) >= abs(here), (high - total) + here, (here - total) + high)
        return total, low + lost

    zeros = jnp.zeros(shape, dtype)
    return jax.lax.fori_loop(0, count, add, (zeros, zeros))
