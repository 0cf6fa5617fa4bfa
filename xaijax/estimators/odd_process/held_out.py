"""What odd parts are expected by the answers to other pairs alone, and the values of that.

The pairs drawn are halved, every other one of each size. A half is predicted by a process whose
rates the other half chose, so that nothing of an answer is in what predicts it. The process is at
the whole other half, and at all but one of FOLDS parts of the own. With alpha = K^-1 y, what part I
is off by is (K^-1)_II^-1 alpha_I, and the weights of the answers without it are alpha - (K^-1)_:I
times that (Rasmussen and Williams 2006, "Gaussian processes for machine learning", section 5.4.2,
for parts of one): one factorisation serves all parts.

Letters: P players, D pairs drawn, E of them that a process is at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xaijax.estimators.odd_process.covariance import Covariance, Nodes
from xaijax.estimators.odd_process.matrices import factor, inverse_of
from xaijax.estimators.odd_process.rates import BY, NOISE, rates_of
from xaijax.estimators.result import stretches

FOLDS = 4  # of each half: the process that predicts has seen seven eighths of the pairs
# Pairs that a process is at; the others are predicted by these. Its matrix is 128 MiB then.
MOST = 4_096


class Predicted(NamedTuple):
    """The mean of the games of both halves and all parts."""

    pairs: np.ndarray  # [D], the odd part of each pair, by the games that have not seen it
    whole: np.ndarray  # [D], by the mean of all the games
    ends: float  # the odd part of (all, none), by the mean
    values: np.ndarray  # [P], of the mean


def folds(sizes: np.ndarray, count: int) -> np.ndarray:
    """The part of each pair, int [D], from 0 to count - 1: by turns, in order of size."""
    place = np.empty(len(sizes), np.int64)
    place[np.argsort(sizes, kind="stable")] = np.arange(len(sizes))
    return place % count


def predicted(
    signs: np.ndarray, odd: np.ndarray, even: np.ndarray | None, sizes: np.ndarray, nodes: Nodes
) -> Predicted:
    """What processes make of odd parts [1 + D], of (all, none) first, of a size of about 1.

    signs: [1 + D, P]; even: the even parts likewise, None where they are all alike; sizes: [D].
    Pairs come in the order in which they were drawn: the first ones are of all sizes.
    """
    E = min(len(sizes), MOST)
    half = folds(sizes[:E], 2)
    pairs, whole, values = np.zeros(len(odd)), np.zeros(len(odd)), np.zeros(signs.shape[1])
    for number in range(2):
        held, others = (np.flatnonzero(half == one) + 1 for one in (number, 1 - number))
        by = np.append(0, others[: max(BY, 2 * signs.shape[1])])
        covariance = Covariance(rates_of(signs[by], odd[by], None if even is None else even[by]))
        at = np.concatenate([[0], others, held])
        off, weights = _held_out(covariance, signs[at], odd[at], folds(sizes[held - 1], FOLDS))
        pairs[held] = odd[held] - off[-len(held) :]
        # (K + NOISE) weights = y - off / FOLDS, and the game is K weights.
        whole[at] += (odd[at] - off / FOLDS - NOISE * weights) / 2
        for some in stretches(len(odd) - E - 1, E):
            rest = slice(E + 1 + some.start, E + 1 + some.stop)
            whole[rest] += covariance.between(signs[rest], signs[at]) @ weights / 2
        values += covariance.values(signs[at], weights, nodes) / 2
    pairs[E + 1 :] = whole[E + 1 :]  # which no game has seen
    return Predicted(pairs[1:], whole[1:], float(whole[0]), values)


def _held_out(
    covariance: Covariance, signs: np.ndarray, y: np.ndarray, part: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """([E + 1]: what the last answers are off by, 0 of the others; the mean weights of the parts).

    signs: [E + 1, P]; y: [E + 1]; part: int [H], of the last H answers. With K = L L^T, the last
    corner of K^-1 is the inverse of that of L times its transpose.
    """
    from scipy.linalg import cho_solve  # noqa: PLC0415 - `import xaijax` loads no scipy

    K = covariance.between(signs, signs)
    K[np.diag_indices(len(K))] += NOISE
    lower = factor(K)
    alpha = cho_solve((lower, True), y)
    first = len(y) - len(part)
    inverse = inverse_of(lower[first:, first:])
    off = np.zeros(len(y))
    for number in np.unique(part):
        own = np.flatnonzero(part == number)
        off[first + own] = np.linalg.solve(inverse[np.ix_(own, own)], alpha[first + own])
    return off, alpha - cho_solve((lower, True), off) / FOLDS
