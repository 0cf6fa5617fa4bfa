"""Coverage: which rows satisfy a rule, kept as bits.

Letters: N instances, B rows, F columns, A rules, w = ceil(B / 64) words.
"""

from __future__ import annotations

import numpy as np

SETTLED = 12  # digits that are kept of a sum of unequal weights


class Cover:
    """Rows that are in each instance's bins, column by column."""

    def __init__(self, rows: np.ndarray, bins: np.ndarray, weights: np.ndarray) -> None:
        """rows: bins int32 [B, F] of rows that all instances share, or [N, B, F]; bins [N, F].

        weights: float64 [B], sum 1.
        """
        shared = rows.ndim == 2
        self._weights = weights
        self._equal = float(weights[0]) if np.ptp(weights) == 0 else None
        B, F = rows.shape[-2:]
        self._B = B
        self.bits = np.empty((len(bins), F, -(-B // 64)), np.uint64)  # [N, F, w]
        for f in range(F):
            own = rows[None, :, f] if shared else rows[:, :, f]
            self.bits[:, f] = _words(own == bins[:, f, None])

    def put(
        self, rows: np.ndarray, f: int, theirs: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> None:
        """In column f of the instances `rows` int [n], count what lies in the bins low .. high.

        theirs: int32 [B], the bins of the rows that all instances share; low, high int32 [n].
        """
        self.bits[rows, f] = _words((low[:, None] <= theirs) & (theirs <= high[:, None]))

    def supported(self) -> np.ndarray:
        """Whether any row is in the instance's bin; bool [N, F]."""
        return self.bits.any(axis=2)

    def satisfied(self, rows: np.ndarray, rules: np.ndarray) -> np.ndarray:
        """Rows that satisfy rules bool [n, A, F] of the instances `rows`; uint64 [n, A, w]."""
        n, A, F = rules.shape
        found = np.full((n, A, self.bits.shape[2]), ~np.uint64(0))
        for f in np.flatnonzero(rules.any(axis=(0, 1))):
            own = self.bits[rows, f][:, None]
            np.bitwise_and(found, own, out=found, where=rules[:, :, f, None])
        found[..., -1] &= self._tail
        return found

    def of(self, rows: np.ndarray, rules: np.ndarray) -> np.ndarray:
        """The weighted share of rows that satisfy the rules; float64 [n, A]."""
        found = self.satisfied(rows, rules)
        if self._equal is not None:
            return np.bitwise_count(found).sum(axis=2, dtype=np.int64) / self._B
        return self.share(self.flags(found))

    def share(self, flags: np.ndarray) -> np.ndarray:
        """The weighted share of the rows that are flagged; float64 [...] of bool [..., B]."""
        if self._equal is not None:
            return np.count_nonzero(flags, axis=-1) / self._B
        return settled(flags @ self._weights)

    def flags(self, words: np.ndarray) -> np.ndarray:
        """bool [..., B] of words uint64 [..., w]."""
        bytes_ = np.ascontiguousarray(words).view(np.uint8)
        return np.unpackbits(bytes_, axis=-1, bitorder="little", count=self._B).astype(bool)

    @property
    def _tail(self) -> np.uint64:
        """The bits of the last word that are rows."""
        used = self._B - 64 * (self.bits.shape[2] - 1)
        return np.uint64((1 << used) - 1)


def settled(sums: np.ndarray) -> np.ndarray:
    """Sums of weights without the last bits, in which equal ones may differ.

    All of them are 1 and not a bit less, and 0.95 reaches a threshold of 0.95.
    """
    return np.round(sums, SETTLED)


def reaching(threshold: float) -> float:
    """The least mean that reaches a threshold, whether or not the mean was `settled`."""
    return min(threshold, round(threshold, SETTLED))


def _words(holds: np.ndarray) -> np.ndarray:
    """bool [N, B] as uint64 [N, ceil(B / 64)]."""
    N, B = holds.shape
    padded = np.zeros((N, -(-B // 64) * 64), bool)
    padded[:, :B] = holds
    return np.packbits(padded, axis=1, bitorder="little").view("<u8")
