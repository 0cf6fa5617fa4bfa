"""Computes semivalues and interactions from tables, by weights of coalition sizes.

A semivalue is phi_i = sum over S without i of p(|S|) m_i(S), m_i(S) = v(S + i) - v(S).
`p` is always the weight of one single set of size s, float64 [P], s = 0..P-1.

Letters: P players, k players that differ for one pair, K outputs, N instances, M sets of 1 to
`order` of them, S and T sets, s and t sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np


def induced_weights(p: Sequence[float] | np.ndarray, k: int) -> np.ndarray:
    """Weights of the same semivalue on k of the P players, the others being null; float64 [k].

    A null player may be in S or not, so each set of size t of the k players counts for C(P-k, r)
    sets of size t + r: p_k(t) = sum_r C(P-k, r) p(t+r). Shapley and Banzhaf weights keep their form
    on k players; size-limited weights do not.
    """
    spare = len(p) - k
    return np.array(
        [math.fsum(math.comb(spare, r) * p[t + r] for r in range(spare + 1)) for t in range(k)]
    )


def sizes(k: int) -> np.ndarray:
    """|c| of every sub-coalition index c; int [2^k]."""
    return np.bitwise_count(np.arange(1 << k, dtype=np.uint32)).astype(np.int64)


def members(k: int) -> np.ndarray:
    """Whether bit j is set in sub-coalition c; bool [2^k, k]."""
    return ((np.arange(1 << k)[:, None] >> np.arange(k)) & 1).astype(bool)


def semivalue(table: Any, p: Sequence[float] | np.ndarray) -> Any:
    """The semivalue of full tables, by sums along the P axes; [N, 2^P, K] -> [N, P, K].

    P halvings give all marginal sums of the 2^P numbers, with 2^(P+1) additions: the upper half
    belongs to the highest player, then the halves are added, and the next player is the highest.
    NumPy input gives NumPy output, JAX input gives JAX output.
    """
    xp = table.__array_namespace__()
    P = len(p)
    N, _, K = table.shape
    table = table - table[:, :1]  # the weights of each player sum to zero: only precision changes
    size = sizes(P)
    inside = xp.asarray(np.concatenate([[0.0], p])[size], dtype=table.dtype)
    outside = xp.asarray(np.concatenate([p, [0.0]])[size], dtype=table.dtype)
    subtracted = xp.sum(outside[None, :, None] * table, axis=1)
    rest = (inside + outside)[None, :, None] * table
    sums: list[Any] = []
    for _player in reversed(range(P)):
        halves = xp.reshape(rest, (N, 2, -1, K))
        sums.append(xp.sum(halves[:, 1], axis=1))
        rest = halves[:, 0] + halves[:, 1]
    return xp.stack(sums[::-1], axis=1) - subtracted[:, None]


def expected_marginals(tables: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """phi_i = sum over S without i of Pr[S] m_i(S); [N, 2^P, K] and [2^P] -> [N, P, K].

    Every row is summed alone, in one order, so that its result does not depend on the others.
    """
    mask = np.arange(len(chance))
    P = len(chance).bit_length() - 1
    out = []
    for i in range(P):
        without = mask[(mask >> i & 1) == 0]
        # np.take returns a row-major array, tables[:, without] does not.
        change = np.take(tables, without | 1 << i, axis=1) - np.take(tables, without, axis=1)
        change *= chance[without, None]
        out.append(change.sum(axis=1))
    return np.stack(out, axis=1)


# Interactions of sets of players, by discrete derivatives; sets of one player included.
#
#     I(S) = sum over T without S of p(|T|) D_S v(T),
#     D_S v(T) = sum over L in S of (-1)^(s - |L|) v(T + L).
#
# `p` has an array for each size of S, p[s - 1] float64 [k - s + 1]: the weight of a single T, by
# its size. With the weights of a semivalue, sets of one player give that semivalue. Sets are in
# order of size, then of players. Only the 2^s terms of a derivative alternate in sign; alternating
# sums of Moebius coefficients would lose the digits of float32.

Weights = Sequence[np.ndarray]
TABLE_BYTES = 1 << 27  # bytes that `of_tables` uses at a time
PRODUCT = 1 << 21  # entries of a matrix up to which each instance takes one product


def count(k: int, order: int) -> int:
    """M, sets of 1 to `order` of k players."""
    return sum(math.comb(k, s) for s in range(1, min(order, k) + 1))


@cache
def of_size(k: int, s: int) -> np.ndarray:
    """All sets of s of k players, in order; int64 [C(k, s), s]."""
    sets = np.array(list(itertools.combinations(range(k), s)), np.int64)
    return sets.reshape(math.comb(k, s), s)


def places(players: np.ndarray, P: int, order: int) -> np.ndarray:
    """Position of each set of `players` among the sets of all P; int64 [.., M].

    players: int [.., k], ascending; M counts the sets of these players, in order.
    """
    k, parts, before = players.shape[-1], [], 0
    for s in range(1, min(order, k) + 1):
        sets = of_size(k, s)
        if s == 1:  # vectorised: there may be 100,000 players
            parts.append(players)
            before += P
            continue
        after = np.zeros((*players.shape[:-1], len(sets)), np.int64)
        for i in range(s):  # later sets: a larger player in the first i positions
            after += _larger(P, s - i)[players[..., sets[:, i]]]
        parts.append(before + math.comb(P, s) - 1 - after)
        before += math.comb(P, s)
    return np.concatenate([*parts, np.zeros((*players.shape[:-1], 0), np.int64)], axis=-1)


@cache
def _larger(P: int, r: int) -> np.ndarray:
    """Sets of r players that are all larger than p, for each p of P; int64 [P]."""
    return np.array([math.comb(P - 1 - p, r) for p in range(P)], np.int64)


def _bits(sets: np.ndarray) -> np.ndarray:
    """Sets int [n, s] as numbers."""
    return (np.int64(1) << sets).sum(axis=1)


def _signed(subsets: np.ndarray, sets: np.ndarray, p: np.ndarray, more: int = 0) -> np.ndarray:
    """Weight of each sub-coalition in each set if `more` further players are outside the set.

    subsets int [c], sets int [n, s]; float64 [c, n].
    """
    s, bits = sets.shape[1], _bits(sets)
    inside = np.bitwise_count(subsets[:, None] & bits)
    outside = np.bitwise_count(subsets[:, None] & ~bits).astype(np.int64) + more
    there = (outside >= 0) & (outside < len(p))
    weight = p[np.where(there, outside, 0)] * there
    return np.where((s - inside) % 2, -weight, weight)


def subset_matrix(p: Weights, k: int) -> np.ndarray:
    """Interactions as one matrix: values of the sub-coalitions [2^k] @ matrix -> [M]; float64 [2^k,
    M].
    """
    subsets = np.arange(1 << k)
    parts = [_signed(subsets, of_size(k, s + 1), weights) for s, weights in enumerate(p)]
    return np.concatenate([np.zeros((1 << k, 0)), *parts], axis=1)


class SplitBlock(NamedTuple):
    """Columns of `split_matrices` for sets with b high players, q of them set in a piece."""

    b: int
    q: int
    first: int  # column
    low: tuple[np.ndarray, ...]  # int [n, a] for each size a of the low players of a set


@cache
def blocks(low: int, order: int) -> tuple[SplitBlock, ...]:
    """The columns of `split_matrices`, in order."""
    out, first = [], 0
    for b in range(order + 1):
        low_sets = tuple(of_size(low, a) for a in range(int(b == 0), min(order - b, low) + 1))
        for q in reversed(range(b + 1)):
            out.append(SplitBlock(b, q, first, low_sets))
            first += sum(map(len, low_sets))
    return tuple(out)


def split_matrices(p: Weights, k: int, low: int) -> np.ndarray:
    """`subset_matrix` for pieces of 2^low sub-coalitions; float64 [k - low + 1, 2^low, columns].

    A piece fixes the high bits; h of them are set. Matrix h gives a piece's contribution to the
    sets of each block, up to the sign (-1)^(b - q); see `of_pieces`.
    """
    subsets, pieces = np.arange(1 << low), []
    for h in range(k - low + 1):
        columns = [
            _signed(subsets, low_sets, p[low_sets.shape[1] + block.b - 1], h - block.q)
            for block in blocks(low, len(p))
            for low_sets in block.low
            if low_sets.shape[1] + block.b <= len(p)
        ]
        pieces.append(np.concatenate(columns, axis=1))
    return np.stack(pieces)


def of_pieces(sums: np.ndarray, high: np.ndarray, k: int, low: int, order: int) -> np.ndarray:
    """The contribution of each piece to each set of k players; [n, K, columns] -> [n, K, M].

    sums: products of `split_matrices` with the pieces whose high bits are `high` int [n].
    """
    n, K, _ = sums.shape
    out = np.empty((n, K, count(k, order)), sums.dtype)
    for block in blocks(low, order):
        if block.q:  # once for each b
            continue
        same_b = [b for b in blocks(low, order) if b.b == block.b]
        first = np.array([b.first for b in sorted(same_b, key=lambda b: b.q)])
        uppers = of_size(k - low, block.b)
        q = np.bitwise_count(high[:, None] & _bits(uppers)).astype(np.int64)  # [n, uppers]
        sign = np.where((block.b - q) % 2, -1.0, 1.0)
        column = first[q]
        for lower in block.low:
            each = column[:, :, None] + np.arange(len(lower))
            part = np.take_along_axis(sums, each.reshape(n, 1, -1), axis=2)
            part = part.reshape(n, K, len(uppers), len(lower)) * sign[:, None, :, None]
            sets = np.concatenate(
                [
                    np.broadcast_to(lower, (len(uppers), *lower.shape)),
                    np.broadcast_to(uppers[:, None] + low, (len(uppers), len(lower), block.b)),
                ],
                axis=2,
            )
            at = places(sets, k, sets.shape[2])[..., -1]  # of the whole set, the largest
            out[:, :, at.reshape(-1)] = part.reshape(n, K, -1)
            column = column + len(lower)
    return out


def of_tables(tables: np.ndarray, p: Weights) -> np.ndarray:
    """Interactions of full tables; [N, 2^P, K] -> [N, M, K], M sets of 1 to len(p) players.

    Small tables are multiplied by `subset_matrix`. Larger ones are reduced player by player, the
    last first. If the player is in S, the table is replaced by its upper half minus its lower half.
    Otherwise both halves are kept, by the size of T. This leaves for each set the sums of its
    derivatives by the size of T, which are then weighted. For a fixed order it takes a few times
    2^P additions.

    Each instance is summed alone, so its result is identical bit for bit whatever the others are.
    """
    N, subsets, K = tables.shape
    P, order = subsets.bit_length() - 1, len(p)
    if count(P, order) * subsets <= PRODUCT:
        change = (tables - tables[:, :1]).swapaxes(1, 2)
        return np.matmul(change, subset_matrix(p, P)).swapaxes(1, 2)
    step = max(1, TABLE_BYTES // (8 * subsets * K * (P + 1)))
    out = np.zeros((N, count(P, order), K))
    for first in range(0, N, step):
        chunk = slice(first, first + step)
        out[chunk] = _of_tables(tables[chunk], P, p)
    return out


def _of_tables(tables: np.ndarray, P: int, p: Weights) -> np.ndarray:
    n, _, K = tables.shape
    order = len(p)
    # [sets, instances, rest of the sub-coalitions, sizes of T, K], from v - v(nothing)
    work = (tables - tables[:, :1])[None, :, :, None]
    bits = np.zeros(1, np.int64)
    for player in reversed(range(P)):
        halves = work.reshape(len(bits), n, 2, -1, P - player, K)
        lower, upper = halves[:, :, 0], halves[:, :, 1]
        pad = [(0, 0)] * 3 + [(0, 1), (0, 0)]
        out = np.pad(lower, pad)
        out[:, :, :, 1:] += upper
        may = np.bitwise_count(bits) < order
        work = np.concatenate([out, np.pad(upper[may] - lower[may], pad)])
        bits = np.concatenate([bits, bits[may] | 1 << player])
    result = np.zeros((n, count(P, order), K))
    size, sums = np.bitwise_count(bits).astype(np.int64), work[:, :, 0]  # [sets, n, P + 1, K]
    for s, weight in enumerate(p, start=1):
        columns = np.flatnonzero(size == s)
        members = (bits[columns, None] >> np.arange(P) & 1).astype(bool)
        at = places(np.nonzero(members)[1].reshape(-1, s), P, s)[:, -1]
        total = np.zeros((len(columns), n, K))
        for t, w in enumerate(weight):
            total += w * sums[columns, :, t]
        result[:, at] = total.swapaxes(0, 1)
    return result
