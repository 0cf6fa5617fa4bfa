"""From the values of a dispatch to one semivalue per pair, on the device.

Written per tile and mapped over tiles, so that the arithmetic of a pair is the same whatever else
is in the dispatch: the same bits for every batch size.

Letters: T tiles, R rows in a tile, K outputs, k players that differ.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def reduce_pairs(
    values: jax.Array,  # [T, R, K]
    matrix: jax.Array,  # [2^m, k], rows past 2^k are zero; indices.corner_matrix
    k: int,
) -> jax.Array:
    """All pairs of 2^m rows, 2^m <= R; [T, R / 2^m, K, k + 3].

    The last axis: the semivalue of the k players, v(nothing kept), v(all kept), and the span: the
    largest |v(S) - v(nothing kept)|. That value is subtracted first: rounding is then relative to
    the span, not to the level.
    """

    def tile(v):
        v = v.reshape(-1, matrix.shape[0], v.shape[-1]).swapaxes(1, 2)  # [pairs, K, 2^m]
        empty, full = v[:, :, :1], v[:, :, (1 << k) - 1 :][:, :, :1]
        pairs, K, _ = v.shape
        flat = (v - empty).reshape(pairs * K, -1)
        phi = jnp.dot(flat, matrix, precision=jax.lax.Precision.HIGHEST).reshape(pairs, K, k)
        span = jnp.abs(flat).max(axis=1).reshape(pairs, K, 1)
        return jnp.concatenate([phi, empty, full, span], axis=2)

    return jax.lax.map(tile, values)


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
