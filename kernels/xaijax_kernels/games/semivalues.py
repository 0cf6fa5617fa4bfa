"""Semivalues: weights by coalition size, and full tables turned into values.

A semivalue is phi_i = sum over S without i of p(|S|) m_i(S), m_i(S) = v(S + i) - v(S).
`p` is always the weight of one single set of size s, float64 [P], s = 0..P-1.

Letters: P players, k players that differ for one pair, K outputs, N instances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def shapley_weights(P: int) -> np.ndarray:
    """p(s) = s! (P-s-1)! / P! = 1 / (P C(P-1, s)); float64 [P]."""
    return np.array([1.0 / (P * math.comb(P - 1, s)) for s in range(P)])


def banzhaf_weights(P: int) -> np.ndarray:
    """p(s) = 2^-(P-1); float64 [P]."""
    return np.full(P, 0.5 ** (P - 1))


def size_limited_weights(P: int, k: int, normalised: bool = True) -> np.ndarray:
    """p(s) = 1 / ((k+1) C(P-1, s)) for s <= k, else 0; float64 [P].

    The QII paper's VIII-A leaves out the factor 1/(k+1), so that its weights sum to k+1:
    `normalised=False` gives that reading.
    """
    share = k + 1 if normalised else 1
    return np.array([1.0 / (share * math.comb(P - 1, s)) if s <= k else 0.0 for s in range(P)])


def induced_weights(p: Sequence[float] | np.ndarray, k: int) -> np.ndarray:
    """Weights of the same semivalue on k of the P players, the others being null; float64 [k].

    A null player may stand on either side of any S, so the sets of size t of the k players stand
    for C(P-k, r) sets of size t + r each: p_k(t) = sum_r C(P-k, r) p(t+r). For Shapley and
    Banzhaf this is their own weight on k players; for size-limited weights it is not.
    """
    spare = len(p) - k
    return np.array(
        [math.fsum(math.comb(spare, r) * p[t + r] for r in range(spare + 1)) for t in range(k)]
    )


def sizes(k: int) -> np.ndarray:
    """|c| of every corner index c; int [2^k]."""
    return np.bitwise_count(np.arange(1 << k, dtype=np.uint32)).astype(np.int64)


def members(k: int) -> np.ndarray:
    """Whether bit j stands in corner c; bool [2^k, k]."""
    return ((np.arange(1 << k)[:, None] >> np.arange(k)) & 1).astype(bool)


def semivalue(table: Any, p: Sequence[float] | np.ndarray) -> Any:
    """The semivalue of full tables, by sums along the P axes; [N, 2^P, K] -> [N, P, K].

    All marginal sums of the 2^P numbers come out of P halvings, 2^(P+1) additions in all: the
    upper half belongs to the highest player; then the halves are added, and the next is highest.
    NumPy or JAX in, the same out.
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


def weights_of(weight: Callable[[int], float], P: int) -> np.ndarray:
    """A user's w(s) as float64 [P]."""
    return np.array([float(weight(s)) for s in range(P)])


def expected_marginals(tables: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """phi_i = sum over S without i of Pr[S] m_i(S); [N, 2^P, K] and [2^P] -> [N, P, K].

    Every row is added up by itself, in one order, so that its bits do not depend on the others.
    """
    mask = np.arange(len(chance))
    P = len(chance).bit_length() - 1
    out = []
    for i in range(P):
        without = mask[(mask >> i & 1) == 0]
        # np.take lays its result out by rows, which tables[:, without] would not.
        change = np.take(tables, without | 1 << i, axis=1) - np.take(tables, without, axis=1)
        change *= chance[without, None]
        out.append(change.sum(axis=1))
    return np.stack(out, axis=1)
