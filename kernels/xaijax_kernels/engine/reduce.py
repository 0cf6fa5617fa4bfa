"""Reduces the values of a dispatch to the values of each pair's players, or of sets of them.

The functions work on groups of tiles of one shape and are mapped over the groups. The arithmetic of
a pair therefore does not depend on the rest of the dispatch: results are identical bit for bit for
every batch size.

Letters: T tiles, R rows in a tile, K outputs, k players that differ, G tiles in a group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

LEVELS = 4  # one program reduces pairs of one, two, four and eight parts of a block


def block_of(k: int, slot_bits: int, rows: int) -> tuple[int, int, int]:
    """(log2 rows of a part, parts of a block, level) for pairs of k players in tiles of `rows`.

    A pair has 2^max(k, slot_bits) rows, which are 2^level parts. Four sizes share a program,
    because compiling one takes longer than adding a few unused sums.
    """
    bits = max(k, slot_bits)
    level = (bits - slot_bits) % LEVELS
    low = bits - level
    return low, min(1 << LEVELS - 1, rows >> low), level


def block_weights(matrix: np.ndarray, parts: int, level: int, width: int) -> np.ndarray:
    """The matrix [2^m, k] of a pair of 2^level parts, split by the parts of a block and padded with
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

    Entry q belongs to the pair of part q. The last axis holds the values of the players, or of sets
    of them, then v(nothing kept), v(all kept), and the span: the largest |v(S) - v(nothing kept)|.
    v(nothing kept) is subtracted first, so that rounding is relative to the span and not to the
    level.
    """
    T, R, K = values.shape
    Q, A, W = weights.shape

    def whole(parts: jax.Array, join: Callable[[jax.Array, jax.Array], jax.Array]) -> jax.Array:
        """Returns `join` of all parts of each part's pair; [Q, ..]. Pairs are never mixed."""
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

    # A few tiles are padded to a group, so that the product has one shape for every T.
    values = jnp.pad(values, ((0, -T % group), (0, 0), (0, 0)))
    sums = jax.lax.map(one_group, values.reshape(-1, group, R, K))
    return sums.reshape(-1, R // (Q * A), Q, K, W + 3)[:T]


def reduce_pieces(
    values: jax.Array,  # [T, R, K]
    matrices: jax.Array,  # [H, R, columns]; interactions.split_matrices
    high_bits: jax.Array,  # int32 [T], how many high bits of the piece are set
) -> jax.Array:
    """Reduces pairs of more than R rows, where a tile is one piece of a pair; [T, K, columns + 3].

    The last axis holds the columns of `split_matrices` for the values minus the first one, then the
    tile's first and last value and the span. The host adds the subtracted value again, in float64.
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
    """1 if an entry of `good` is false, else 0; int32 []. It is a maximum of float32, which XLA
    turns into one kernel that compiles in 14 ms on a CPU. A sum of integers takes 43 ms, `any` 190.
    """
    return jnp.where(good, jnp.float32(0), jnp.float32(1)).max().astype(jnp.int32)


def neumaier(high: jax.Array, low: jax.Array, term: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Adds one term to a compensated sum: (the sum, its accumulated rounding error)."""
    total = high + term
    lost = jnp.where(abs(high) >= abs(term), (high - total) + term, (term - total) + high)
    return total, low + lost


def compensated(
    term: Callable[[jax.Array], jax.Array], count: int, shape: tuple[int, ...], dtype: Any
) -> tuple[jax.Array, jax.Array]:
    """Neumaier's sum of term(0) .. term(count - 1): (the sum, its rounding error).

    Together they carry about twice the digits of the dtype, so that a mean over many donors is as
    precise as the values.
    """

    zeros = jnp.zeros(shape, dtype)
    return jax.lax.fori_loop(0, count, lambda i, acc: neumaier(*acc, term=term(i)), (zeros, zeros))


def compensated_at_once(
    terms: jax.Array, axis: int, largest: jax.Array, smallest: jax.Array | None = None
) -> tuple[jax.Array, ...]:
    """(the sum of `terms` along the axis, its rounding error, the maximum of `largest`, the minimum
    of `smallest` if given), by one reduction. Each addition keeps its rounding error, so the order
    is free. This is `compensated` in one step, because a loop over terms leaves an accelerator
    idle.
    """

    def add(carry: Any, other: Any) -> Any:
        (high, low, *extremes), (term, lost, *others) = carry, other
        total = high + term
        part = total - high  # of the term, in the total
        low = low + lost + ((high - (total - part)) + (term - part))
        picks = zip((jnp.maximum, jnp.minimum), extremes, others, strict=False)
        return total, low, *(pick(mine, theirs) for pick, mine, theirs in picks)

    zero, far = jnp.zeros((), terms.dtype), jnp.full((), jnp.inf, terms.dtype)
    operands, start = [terms, jnp.zeros_like(terms), largest], [zero, zero, -far]
    if smallest is not None:
        operands, start = [*operands, smallest], [*start, far]
    return jax.lax.reduce(tuple(operands), tuple(start), add, (axis,))
