"""Closed form of values against all donors, for sums over columns.

Letters: C columns, H numbers of a layer.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np

from xaijax_kernels.games import semivalues
from xaijax_kernels.structures.base import Affine, WeightedDonors

ROWS = 256  # processed together, padded at the end, so that one shape compiles


class Additive:
    """f = sum over columns z_c (W A)_c, and a constant.

    The head is folded into the weights, because outputs may be far fewer than units: its layer is
    the output.
    """

    name, size = "additive", 0

    def __init__(
        self, weights: jax.Array, bias: jax.Array, background: WeightedDonors, head: Affine
    ) -> None:
        """weights [C, H], bias [H] of the dense layer."""
        A, c = head
        self._weights = np.asarray(weights, np.float64) @ A
        self._bias = np.asarray(bias, np.float64) @ A + c
        self.head = np.eye(len(c)), np.zeros(len(c))
        donors, players = background.donors.astype(np.float64), background.players
        self._mean = background.weights @ donors
        self._P, self._share = background.P, background.of(1)[0][0]
        self._sets = semivalues.count(background.P, background.of.order)  # others are 0
        self._order = np.argsort(players, kind="stable")  # columns of a player, side by side
        self._players, self._starts = np.unique(players[self._order], return_index=True)
        self.of_donors = donors @ self._weights + self._bias

    def of(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Form`."""
        columns = columns.astype(np.float64)
        change = columns - self._mean
        values = np.zeros((len(columns), self._sets, self._weights.shape[1]))
        for k, w in enumerate(self._weights.T):
            terms = (change * w)[:, self._order]
            values[:, self._players, k] = np.add.reduceat(terms, self._starts, axis=1)
        return values * self._share, columns @ self._weights + self._bias


def blocks(rows: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Yields blocks of ROWS rows, and how many rows of each are real."""
    for first in range(0, len(rows), ROWS):
        block = rows[first : first + ROWS]
        n = len(block)
        yield block if n == ROWS else np.pad(block, ((0, ROWS - n), (0, 0)), mode="edge"), n
