"""Builds full tables from the values of pairs: v(S) for all 2^P coalitions of each instance.

table[n, S] = sum over donors b of w_b f(hybrid(n, b, S)). The hybrid depends only on the players of
S that differ for (n, b), so each of the pair's 2^k values counts for 2^(P-k) coalitions. Expanding
donor by donor would take B 2^P reads for any k. Instead, donors with the same differing players are
summed on their 2^k sub-coalitions, expanded over the upper half of the players, summed again for
each set of differing players in the lower half, and expanded over these. This runs in NumPy on the
host, in float64, in an order that depends on the instance and its donors alone.

Letters: N instances, B donors, P players, K outputs, V values held.
"""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from xaijax_kernels.engine.hybrids import ABSENT

_TOGETHER = 1 << 20  # values of one size that are gathered at once


def host_ranks(differs: np.ndarray) -> np.ndarray:
    """Place of each differing player in its pair's sub-coalition index; int32 [..., P], else
    ABSENT.
    """
    return np.where(differs, np.cumsum(differs, axis=-1) - 1, ABSENT).astype(np.int32)


@lru_cache(4096)
def subset_of_coalition(differs: int, P: int) -> np.ndarray:
    """Subset index of all 2^P coalitions for the bits of the players that differ; int64 [2^P]."""
    coalition = np.arange(1 << P)
    subset = np.zeros(1 << P, np.int64)
    place = 0
    for j in range(P):
        if differs >> j & 1:
            subset |= (coalition >> j & 1) << place
            place += 1
    return subset


def tables_of_pairs(
    values: np.ndarray,  # [V, K]
    start: np.ndarray,  # [N, B], first value of each pair
    differs: np.ndarray,  # bool [N, B, P]
    weights: np.ndarray,  # [B]
) -> np.ndarray:
    """float64 [N, 2^P, K]."""
    N, _, P = differs.shape
    V, K = values.shape
    out = np.empty((N, 1 << P, K))
    # runs[k][v, 0] are the 2^k values from v on, [2^k, K]: a view, without a copy.
    runs = [sliding_window_view(values, (1 << k, K)) for k in range(P + 1) if 1 << k <= V]
    bits = differs @ (np.int64(1) << np.arange(P))  # [N, B]
    for n in range(N):
        out[n] = _one_table(runs, start[n], bits[n], weights, P)
        # Summed in the donors' order, whichever players differ: all instances get the same number.
        out[n, 0] = (weights[:, None] * values[start[n]]).sum(axis=0)
    return out


def _one_table(
    runs: list[np.ndarray], start: np.ndarray, bits: np.ndarray, weights: np.ndarray, P: int
) -> np.ndarray:
    """[2^P, K]; start, bits and weights [B]."""
    low, K = P // 2, runs[0].shape[-1]
    high = P - low
    keys = (bits & ((1 << low) - 1)) << high | bits >> low  # the lower half's players first
    distinct, place = np.unique(keys, return_inverse=True)
    k = np.bitwise_count(distinct).astype(np.int64)
    sums = _grouped(runs, start, place.ravel(), weights, k)
    table = np.zeros((1 << high, 1 << low, K))
    part: np.ndarray | None = None  # [2^high, 2^k of the lower half, K]
    current = -1
    for d, key in enumerate(distinct.tolist()):
        lower, upper = key >> high, key & ((1 << high) - 1)
        if lower != current:
            if part is not None:
                table += part.take(subset_of_coalition(current, low), axis=1)
            current, part = lower, np.zeros((1 << high, 1 << lower.bit_count(), K))
        assert part is not None
        group_sum = sums[d].reshape(-1, part.shape[1], K)
        part += group_sum.take(subset_of_coalition(upper, high), axis=0)
    assert part is not None
    return (table + part.take(subset_of_coalition(current, low), axis=1)).reshape(1 << P, K)


def _grouped(
    runs: list[np.ndarray],
    start: np.ndarray,
    place: np.ndarray,
    weights: np.ndarray,
    k: np.ndarray,
) -> list[np.ndarray]:
    """Weighted sums over the donors of each group, [2^k, K]; place [B] is a donor's group."""
    # Equal weights are factored out of the sums, so that sums of zeros and ones are exact.
    equal = bool((weights == weights[0]).all())
    groups = np.argsort(k, kind="stable")
    stops = np.cumsum(np.bincount(place, minlength=len(k))[groups])
    donors = np.lexsort((place, k[place]))  # in the order of `groups`, each in its own
    sums: list[np.ndarray] = [np.zeros(0)] * len(k)
    first, stop = 0, 0
    for size, count in zip(*np.unique(k, return_counts=True), strict=True):
        chunk = slice(stop, stop := stop + count)
        those, cuts = donors[first : stops[stop - 1]], np.append(first, stops[chunk])[:-1] - first
        first = stops[stop - 1]
        totals: np.ndarray
        if len(those) << size > _TOGETHER:
            totals = np.zeros((len(cuts), *runs[size].shape[2:]))
            for total, members in zip(totals, np.split(those, cuts[1:]), strict=True):
                for b in members:
                    value = runs[size][start[b], 0]
                    total += value if equal else weights[b] * value
        else:
            block = runs[size][start[those], 0]
            block = block if equal else block * weights[those, None, None]
            totals = np.add.reduceat(block, cuts, axis=0, dtype=np.float64)
        if equal:
            totals *= weights[0]
        for g, total in zip(groups[chunk].tolist(), totals, strict=True):
            sums[g] = total
    return sums


def put(
    buffer: jax.Array,  # [V, K], V a multiple of T R
    values: jax.Array,  # [T, R, K], one dispatch
    place: jax.Array,  # int32 [T], place of the stream's next tile
    first: jax.Array,  # int32, the stream's row at which the dispatch begins
) -> jax.Array:
    """The buffer with one dispatch written at its position."""
    ordered = values[place].reshape(-1, values.shape[2])
    return jax.lax.dynamic_update_slice(buffer, ordered, (first, jnp.int32(0)))
