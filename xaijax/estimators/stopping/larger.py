"""The test of |phi_i| > |phi_j| and of the sign of phi_i, by pairs in which both were asked.

Letters: any shapes that go together; the names say whose a number is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def larger(
    signs: np.ndarray,
    own: np.ndarray,
    other: np.ndarray,
    own_square: np.ndarray,
    other_square: np.ndarray,
    product: np.ndarray,
    told: Callable[[np.ndarray, np.ndarray, int], np.ndarray],
) -> np.ndarray:
    """Where s phi_i + u phi_j > 0 is told for both u = -1 and 1; bool.

    signs: s, -1 or 1, the sign that phi_i is said to have. own, other: means of the two over the
    same pairs. The squares and the product: sums over these pairs of what is left of each about its
    mean. told(mean, square, players): whether a mean of draws with such a sum of squares is above
    0, draws of so many players.
    """
    found = np.ones(np.broadcast_shapes(own.shape, other.shape), bool)
    for u in (-1.0, 1.0):
        square = np.maximum(own_square + other_square + 2 * u * signs * product, 0.0)
        found &= told(signs * own + u * other, square, 2)
    return found


def signs_of(values: np.ndarray) -> np.ndarray:
    """-1 or 1."""
    return np.where(values < 0, -1.0, 1.0)


def told_by(quantile: np.ndarray | float, count: np.ndarray | int) -> Callable[..., np.ndarray]:
    """`told` of `larger`: by so many standard errors of a mean of so many draws."""

    def told(mean: np.ndarray, square: np.ndarray, players: int) -> np.ndarray:
        return mean > quantile * np.sqrt(square / (count * (count - 1)))

    return told


def players_of(tests: np.ndarray, members: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which players are in one of these tests, bool [n, P].

    tests: bool [n, k, P - k, K], of members int [n, k, K] against others int [n, P - k, K].
    """
    n, k, left, K = tests.shape
    found = np.zeros((n, k + left, K), bool)
    np.put_along_axis(found, members, tests.any(axis=2), axis=1)
    np.put_along_axis(found, others, tests.any(axis=1), axis=1)
    return found.any(axis=2)
