"""How values move together over pairs, added up so that an instance's company changes no bit.

Letters: n instances, d pairs at a time, P players, K outputs, k players of an instance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xaijax.estimators.stopping.rule import Estimates, Look

TOGETHER = 32  # pairs, whatever else is asked: sums would be grouped otherwise
NUMBERS = 1 << 20  # of a stretch of instances at a time


@dataclass(frozen=True)
class Moments:
    """Sums over pairs of products of what is left of each pair's estimates."""

    of_each: np.ndarray  # [n, P, K], squares
    with_members: np.ndarray  # [n, k, P, K], products with those of the members


def spread(look: Look, members: np.ndarray) -> Moments:
    """About the means of all pairs; members: int [n, k, K]."""
    return _summed(look, members, look.result.values)


def variation(look: Look, members: np.ndarray) -> Moments:
    """About what the pairs before each one predict: their mean, 0 for the first."""
    return _summed(look, members, None)


def _summed(look: Look, members: np.ndarray, about: np.ndarray | None) -> Moments:
    assert look.estimates is not None
    n, k, K = members.shape
    P = look.result.values.shape[1]
    found = Moments(np.zeros((n, P, K)), np.zeros((n, k, P, K)))
    step = max(1, NUMBERS // (min(TOGETHER, look.pairs) * P * K))
    for first in range(0, n, step):
        rows = slice(first, min(first + step, n))
        chosen = members[rows][:, None]
        for left in _left(look.estimates, look.pairs, rows, about):
            own = np.take_along_axis(left, chosen, axis=2)  # [n', d, k, K]
            # Pair after pair, in one order for any number of instances.
            for d in range(left.shape[1]):
                found.of_each[rows] += left[:, d] ** 2
                found.with_members[rows] += own[:, d, :, None] * left[:, d, None]
    return found


def _left(
    estimates: Estimates, D: int, rows: slice, about: np.ndarray | None
) -> Iterator[np.ndarray]:
    """What is left of the pairs' estimates of some instances, [n', d, P, K], block after block."""
    total: np.ndarray | None = None
    for first in range(0, D, TOGETHER):
        pairs = slice(first, min(first + TOGETHER, D))
        own = estimates(rows, pairs)
        if about is not None:
            yield own - about[rows, None]
            continue
        total = np.zeros_like(own[:, 0]) if total is None else total
        left = np.empty_like(own)
        for d in range(own.shape[1]):
            left[:, d] = own[:, d] - total / max(1, first + d)
            total = total + own[:, d]
        yield left
