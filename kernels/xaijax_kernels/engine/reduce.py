"""Reduces the values of a dispatch to the values of each pair's players, or of sets of them.

The functions are written for groups of tiles of one shape and mapped over the groups, so the
arithmetic of a pair is the same whatever else is in the dispatch: results are identical bit for bit
for every batch size.

Letters: T tiles, R rows in a tile, K outputs, k players that differ, G tiles in a group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PARTS = 4  # of a block: one program reduces pairs of one, two or four parts


def block_of(k: int, slot_bits: int, rows: int) -> tuple[int, int, int]:
    """(log2 rows of a part, parts of a block, level) for pairs of k players in tiles of `rows`.

    A pair has 2^max(k, slot_bits) rows, which are 2^level parts. Three sizes share a program: it
    costs more time to compile one than to add up some sums that nobody reads.
    """
    bits = max(k, slot_bits)
    level = (bits - slot_bits) % 3
    low = bits - level
    return low, min(PARTS, rows >> low), level


def block_weights(matrix: np.ndarray, parts: int, level: int, width: int) -> np.ndarray:
    """The matrix [2^m, k] of a pair of 2^level parts, for each part of a block, filled up with
    columns of zeros; [parts, 2^m >> level, width]."""
    of_pair = matrix.reshape(1 << level, len(matrix) >> level, matrix.shape[1])
    filled = np.pad(of_pair, ((0, 0), (0, 0), (0, width - matrix.shape[1])))
    return np.tile(filled, (parts >> level, 1, 1))


def reduce_pairs(
    values: jax.Array,  # [T, R, K]
    weights: jax.Array,  # [Q, A, W], see `block_weights`
    level: jax.Array,  # int32 [], a pair is 2^level parts
    last: jax.Array,  # int32 [], the row of its last part where all players are kept
    group: int,  # G
) -> jax.Array:
    """All pairs of 2^level parts of A rows, Q parts to a block; [T, R / (Q A), Q, K, W + 3].

    Entry q is that of the pair that part q belongs to. The last axis: the values of the players, or
    of sets of them, v(nothing kept), v(all kept), and the span: the largest |v(S) - v(nothing
    kept)|. v(nothing kept) is subtracted first: rounding is then relative to the span, not to the
    level.
    """
    T, R, K = values.shape
    Q, A, W = weights.shape

    def whole(parts: jax.Array, join: Callable[[jax.Array, jax.Array], jax.Array]) -> jax.Array:
        """For each part the join of all parts of its pair; [Q, ..]. No part sees another pair's
        numbers.
        """
        joined = [parts]
        while len(joined) < Q.bit_length():
            pair = joined[-1].reshape(-1, 2, 1 << (len(joined) - 1), *parts.shape[1:])
            both = join(pair[:, :1], pair[:, 1:])
            joined.append(jnp.broadcast_to(both, pair.shape).reshape(parts.shape))
        return jax.lax.select_n(jnp.minimum(level, len(joined) - 1), *joined)

    def one_group(v):
        v = v.reshape(-1, Q, A, K).transpose(1, 0, 3, 2)  # [Q, blocks, K, A]
        empty = whole(v[..., :1], lambda first, second: first)
        full = jax.lax.dynamic_slice_in_dim(v, last, 1, axis=3)
        full = whole(full, lambda first, second: second)
        change = v - empty
        phi = jax.lax.dot_general(
            change.reshape(Q, -1, A),
            weights,
            (((2,), (1,)), ((0,), (0,))),
            precision=jax.lax.Precision.HIGHEST,
        ).reshape(Q, -1, K, W)
        span = jnp.abs(change).max(axis=3, keepdims=True)
        sums = [whole(phi, jnp.add), empty, full, whole(span, jnp.maximum)]
        return jnp.concatenate(sums, axis=3).swapaxes(0, 1)

    # Few tiles are filled up to a group, so that the product has one shape for every T.
    values = jnp.pad(values, ((0, -T % group), (0, 0), (0, 0)))
    sums = jax.lax.map(one_group, values.reshape(-1, group, R, K))
    return sums.reshape(-1, R // (Q * A), Q, K, W + 3)[:T]


def reduce_pieces(
    values: jax.Array,  # [T, R, K]
    matrices: jax.Array,  # [H, R, columns]; interactions.split_matrices
    high_bits: jax.Array,  # int32 [T], how many high bits of the piece are set
) -> jax.Array:
    """Pairs of more than R rows, one tile being one piece of a pair; [T, K, columns + 3].

    The last axis: the columns of `split_matrices` for the values minus the first one, then the
    first and the last value of the tile and the span. What was subtracted is put back on the host,
    in float64.
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


def any_bad(good: jax.Array) -> jax.Array:
    """1 if some entry of `good` is false, else 0; int32 []. This is a maximum of float32, which XLA
    makes one kernel: it compiles in 14 ms on a CPU, a sum of integers in 43, `any` in 190.
    """
    return jnp.where(good, jnp.float32(0), jnp.float32(1)).max().astype(jnp.int32)


def neumaier(high: jax.Array, low: jax.Array, term: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A sum and one more term: (the sum, what rounding took from it so far)."""
    total = high + term
    lost = jnp.where(abs(high) >= abs(term), (high - total) + term, (term - total) + high)
    return total, low + lost


def compensated(
    term: Callable[[jax.Array], jax.Array], count: int, shape: tuple[int, ...], dtype: Any
) -> tuple[jax.Array, jax.Array]:
    """Neumaier's sum of term(0) .. term(count - 1): the sum, and what rounding took from it.

    Together they carry about twice the digits of the dtype, so that the mean over many donors is as
    good as the values are.
    """

    zeros = jnp.zeros(shape, dtype)
    return jax.lax.fori_loop(0, count, lambda i, own: neumaier(*own, term=term(i)), (zeros, zeros))


def compensated_at_once(
    terms: jax.Array, axis: int, largest: jax.Array, smallest: jax.Array | None = None
) -> tuple[jax.Array, ...]:
    """(the sum of terms along the axis, what rounding took from it, the largest of some numbers,
    and the smallest of others if there are any), by one reduction in any order: each addition keeps
    what it loses. It is `compensated` in one step of an accelerator, which a loop over terms would
    leave idle.
    """

    def add(one: Any, other: Any) -> Any:
        (high, low, *ends), (term, lost, *others) = one, other
        total = high + term
        part = total - high  # of the term, in the total
        low = low + lost + ((high - (total - part)) + (term - part))
        picks = zip((jnp.maximum, jnp.minimum), ends, others, strict=False)
        return total, low, *(pick(mine, theirs) for pick, mine, theirs in picks)

    zero, far = jnp.zeros((), terms.dtype), jnp.full((), jnp.inf, terms.dtype)
    given, start = [terms, jnp.zeros_like(terms), largest], [zero, zero, -far]
    if smallest is not None:
        given, start = [*given, smallest], [*start, far]
    return jax.lax.reduce(tuple(given), tuple(start), add, (axis,))
