"""Values of a layer in closed form against all donors: of sums over columns, and of boxes.

Letters: R rows, B donors, C columns, P players, H numbers of a layer, K outputs, L leaves, A sums.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.games import semivalues
from xaijax_kernels.structures.base import Affine, WeightedDonors
from xaijax_kernels.structures.leaves import Leaves, broken, paid, pattern_weights

Started = tuple[int, int, jax.Array, jax.Array | None]

ROWS = 256  # looked at together, the last ones filled up, so that one shape compiles
TABLE_BYTES = 1 << 25  # of the leaves that are looked at together


class Additive:
    """f = sum over columns z_c (W A)_c, and a constant.

    The units are folded into the outputs, which may be far fewer: its layer is the answer.
    """

    name = "additive"

    def __init__(
        self, weights: jax.Array, bias: jax.Array, background: WeightedDonors, head: Affine
    ) -> None:
        """weights [C, H], bias [H]: those of the dense layer."""
        A, c = head
        self._weights = np.asarray(weights, np.float64) @ A
        self._bias = np.asarray(bias, np.float64) @ A + c
        self.head = np.eye(len(c)), np.zeros(len(c))
        donors, players = background.donors.astype(np.float64), background.players
        self._mean = background.weights @ donors
        self._P, self._share = background.P, background.of(1)[0][0]
        self._sets = semivalues.count(background.P, background.of.order)  # those of several are 0
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


class Trees:
    """layer = sum over leaves of their values."""

    name = "trees"

    def __init__(self, groups: list[Leaves], background: WeightedDonors, head: Affine) -> None:
        """groups: of all leaves, by their number of players."""
        self.head, self._M = head, semivalues.count(background.P, background.of.order)
        self._parts: list[tuple[Leaves, list[jax.Array]]] = []
        donors, A = background.donors, groups[0].values.shape[1]
        self.of_donors = np.zeros((len(donors), A))
        for group in groups:
            pays = pattern_weights(group.d, background.of)
            sets = pays.shape[2]
            pays = pays.reshape(1 << group.d, -1)
            for part in _split(group):
                met = self._meet(part, background)
                table = (met @ pays).reshape(met.size, sets).astype(donors.dtype)
                at = semivalues.places(part.players, background.P, background.of.order)
                here = table, at.astype(np.int32), part.values.astype(table.dtype)
                self._parts.append((part, [jnp.asarray(one) for one in here]))

    def _meet(self, part: Leaves, background: WeightedDonors) -> np.ndarray:
        """The weight of the donors that meet each leaf by each pattern, [L, 2^d]; adds what the
        leaves answer to them to `of_donors`. It takes a block of donors at a time, in their order.
        """
        L, first = len(part.values), 0
        met, base = np.zeros(L << part.d), np.arange(L) << part.d
        for rows, n in blocks(background.donors):
            pattern = np.asarray(broken(rows, *_bounds(part)))[:n]
            self.of_donors[first : first + n] += _met(pattern, part.values)
            w = np.repeat(background.weights[first : first + n], L)
            np.add.at(met, (pattern + base).ravel(), w)
            first += n
        return met.reshape(L, 1 << part.d)

    def of(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Form`."""
        A = self.of_donors.shape[1]
        values, layer = np.zeros((len(columns), self._M, A)), np.zeros((len(columns), A))
        for part, here in self._parts:
            for first, n, pattern, pays in self._ahead(part, here, columns):
                own = slice(first, first + n)
                if pays is not None:
                    values[own] += np.asarray(pays)[:n]
                layer[own] += _met(np.asarray(pattern)[:n], part.values)
        return values, layer

    def _ahead(self, part: Leaves, here: list[jax.Array], columns: np.ndarray) -> Iterator[Started]:
        """(first row, how many, their patterns, what the leaves pay) of each block; the next one is
        started before one is read.
        """
        before, first = None, 0
        for rows, n in blocks(columns):
            pattern = broken(rows, *_bounds(part))
            pays = paid(pattern, *here, M=self._M) if part.d else None
            if before is not None:
                yield before
            before = first, n, pattern, pays
            first += n
        if before is not None:
            yield before


def blocks(rows: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """(ROWS rows, how many of them are meant)."""
    for first in range(0, len(rows), ROWS):
        some = rows[first : first + ROWS]
        n = len(some)
        yield some if n == ROWS else np.pad(some, ((0, ROWS - n), (0, 0)), mode="edge"), n


def _split(group: Leaves) -> Iterator[Leaves]:
    """Leaves whose tables fit the memory that they may take."""
    step = max(1, TABLE_BYTES // (8 * max(group.d, 1) << group.d))
    for first in range(0, len(group.values), step):
        own = slice(first, first + step)
        arrays = (group.players, group.column, group.slot, group.low, group.high, group.values)
        yield Leaves(*(array[own] for array in arrays))


def _bounds(part: Leaves) -> tuple[np.ndarray, ...]:
    return part.column, part.slot, part.low, part.high


def _met(pattern: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sums of the values [L, A] of the leaves that rows end in; float64 [R, A]; pattern [R, L]."""
    # One leaf of a tree in dozens: a product of all of them would take five times as long.
    row, leaf = np.divmod(np.flatnonzero(pattern.ravel() == 0), pattern.shape[1])
    return np.stack([np.bincount(row, one[leaf], len(pattern)) for one in values.T], axis=1)
