"""Contributions of a leaf to the values of its players, by the players of its path that fail.

A leaf is a game for each pair of a row x and a donor b: it pays its value if every player of its
path is within the bounds. Let V be the players whose bounds x violates, and U those whose bounds b
violates. The leaf pays 0 everywhere if they overlap, else v(S) = value [U in S, V not in S]. On the
k = u + v players of U and V that game has the semivalue q_k(u - 1) for players of U and -q_k(u) for
those of V, q_k being the weights induced on k players (Strumbelj and Kononenko 2014 for
interventional Shapley values of trees; `semivalues.induced_weights` for the others). A set S of i
players of U and j of V has one nonzero derivative, (-1)^j at U without S: its value is (-1)^j p_s(u
- i).

All this depends on the failing sets U and V alone. There are three ways to sum over donors: a
matrix product over all pairs of sets, for up to MOST_OF_PRODUCT players; sums over all subsets of
the players that pass for x (`by_subsets`); and the pairs that occur (`paid`).

Letters: R rows, B donors, L leaves with d players and D sets of them each.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

from xaijax_kernels.games import semivalues
from xaijax_kernels.structures.base import SizeWeights

MOST_OF_PRODUCT = 6  # players up to which one product is faster than sums over subsets


class Payments:
    """Contributions of leaves of value 1, for one kind of values."""

    def __init__(self, of: SizeWeights) -> None:
        """of(k): the weights of k players."""
        self._of, self.order = of, of.order
        self._weights: list[semivalues.Weights] = []
        self._products: dict[int, np.ndarray] = {}
        self.factors = cache(self._factors)

    def tables(self, met: np.ndarray) -> np.ndarray:
        """Contributions of each leaf by a row's failing set; float64 [L, 2^d, D].

        met: float64 [L, 2^d], the weight of the donors by their failing set.
        """
        L, patterns = met.shape
        d = patterns.bit_length() - 1
        if d > MOST_OF_PRODUCT:
            return self.by_subsets(met)
        if d not in self._products:
            self._products[d] = self.by_subsets(np.eye(patterns)).reshape(patterns, -1)
        return (met @ self._products[d]).reshape(L, patterns, -1)

    def by_subsets(self, met: np.ndarray) -> np.ndarray:
        """`tables` by sums over subsets: for each size u, the weight of donors whose failing set
        has that size and lies within a set of players.
        """
        L, patterns = met.shape
        d = patterns.bit_length() - 1
        every, size = np.arange(patterns), semivalues.sizes(d)
        within = np.zeros((d + 1, L, patterns))
        within[size, :, every] = met.T
        for bit in range(d):
            halves = within.reshape(d + 1, L, -1, 2, 1 << bit)
            halves[:, :, :, 1] += halves[:, :, :, 0]
        out = np.zeros((L, patterns, semivalues.count(d, self.order)))
        column = 0
        for s in range(1, min(self.order, d) + 1):
            weighted = self._weighted(within, size, s)
            for S in semivalues.of_size(d, s):
                self._add(out[:, ::-1, column], weighted, S)  # by the players that pass for x
                column += 1
        return out

    def _weighted(
        self, within: np.ndarray, size: np.ndarray, s: int
    ) -> dict[tuple[int, int], np.ndarray]:
        """(i, q) -> [L, 2^d]: weighted sums over donors whose failing players lie within a set,
        with q players fewer than pass for x; the weights are those of sets with i failing
        players of the donor.
        """
        d = len(within) - 1
        out = {}
        for i in range(s + 1):
            factors = np.pad(self.factors(d, s, i), ((0, 0), (s, 0)))
            for q in range(i + 1):
                out[i, q] = np.einsum("ulT,uT->lT", within, factors[:, s + d - size - q])
        return out

    @staticmethod
    def _add(out: np.ndarray, weighted: dict[tuple[int, int], np.ndarray], S: np.ndarray) -> None:
        """Adds the contributions to the set S to out [L, 2^d], by the players that pass for x.
        The donor fails at the i players of S among these: inclusion-exclusion over subsets J.
        """
        every, s = np.arange(out.shape[1]), len(S)
        mine = int((1 << S).sum())
        i = semivalues.sizes(out.shape[1].bit_length() - 1)[every & mine]
        for q in range(s + 1):
            for chosen in itertools.combinations(S, q):
                J = sum(1 << int(j) for j in chosen)
                for size in range(q, s + 1):
                    at = every[(i == size) & (every & J == J)]
                    sign = -1 if (s - size + q) % 2 else 1
                    out[:, at] += sign * weighted[size, q][:, at ^ J]

    def _factors(self, d: int, s: int, i: int) -> np.ndarray:
        """The weights of sets of s players if i of them fail for the donor; float64 [u, v] by the
        sizes of the failing sets of the donor and of x, 0 if there is no such set.
        """
        for k in range(len(self._weights), d + 1):
            self._weights.append(self._of(k))
        out = np.zeros((d + 1, d + 1))
        for u in range(i, d + 1):
            for v in range(s - i, d + 1 - u):
                if u + v >= s:
                    out[u, v] = self._weights[u + v][s - 1][u - i]
        return out

    def paid(
        self,
        of_rows: np.ndarray,
        entry: np.ndarray,
        of_donors: np.ndarray,
        weights: np.ndarray,
        d: int,
    ) -> np.ndarray:
        """Contributions of a leaf to rows with the failing sets of_rows [E] (bits of integers),
        from pairs with donors that have these failing sets and weights [T]; float64 [E, D].

        entry int [T], ascending, each at least once: the row of each pair.
        """
        starts = np.searchsorted(entry, np.arange(len(of_rows)))
        x, b = (_members(sets, d) for sets in (of_rows, of_donors))
        u, v = np.bitwise_count(of_donors), np.bitwise_count(of_rows)[entry]
        out, column = np.zeros((len(of_rows), semivalues.count(d, self.order))), 0
        for s in range(1, min(self.order, d) + 1):
            S = semivalues.of_size(d, s)
            columns = out[:, column : column + len(S)]
            for i in range(s + 1):
                weighted = (weights * self.factors(d, s, i)[u, v])[:, None]
                for inside in itertools.combinations(range(s), i):
                    # 1 if all of them fail for the donor, or for the row.
                    paid = weighted
                    for t in inside:
                        paid = paid * b[:, S[:, t]]
                    paid = (-1) ** (s - i) * np.add.reduceat(paid, starts, axis=0)
                    for t in set(range(s)) - set(inside):
                        paid = paid * x[:, S[:, t]]
                    columns += paid
            column += len(S)
        return out


def _members(sets: np.ndarray, d: int) -> np.ndarray:
    """float64 [n, d] from sets uint64 [n] that are bits of integers."""
    return unpacked(sets[:, None], d).astype(np.float64)


def unpacked(words: np.ndarray, count: int) -> np.ndarray:
    """The first `count` bits of words uint64 [n, W]; uint8 [n, count]."""
    as_bytes = np.ascontiguousarray(words.astype("<u8", copy=False)).view(np.uint8)
    return np.unpackbits(as_bytes, axis=1, count=count, bitorder="little")
