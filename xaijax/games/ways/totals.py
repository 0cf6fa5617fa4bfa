"""What a way to semivalues is given, and the sums that it fills.

Sums over donors are float64, in the donors' order within a size k: the same bits whichever other
instances are in the call.

Letters: N instances, n of a stretch, B donors, P players, K outputs, k players that differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from xaijax.games.engine.loop import Backend
from xaijax_kernels.engine.lattice import Pairs
from xaijax_kernels.games.semivalues import corner_matrix, induced_weights, members, split_matrices


@dataclass(frozen=True)
class Stretch:
    """Instances that are planned together."""

    backend: Backend
    here: np.ndarray  # int [n], which instances of the game
    differs: np.ndarray | None  # bool [n, B, P]; None where no way looks at donors one by one

    def __len__(self) -> int:
        return len(self.here)


class Weights:
    """A semivalue's matrices for every k, made when first asked for."""

    def __init__(self, p: np.ndarray) -> None:
        self._p = p
        self.corners = lru_cache(None)(self._corners)
        self.pieces = lru_cache(None)(self._pieces)

    def _corners(self, k: int, rows: int) -> np.ndarray:
        """float64 [rows, k]; rows past 2^k are zero."""
        matrix = np.zeros((rows, k))
        if k:
            matrix[: 1 << k] = corner_matrix(induced_weights(self._p, k))
        return matrix

    def _pieces(self, k: int, low: int) -> np.ndarray:
        return split_matrices(induced_weights(self._p, k), low)


class Totals:
    """Sums over donors for a stretch of instances, float64."""

    def __init__(
        self, N: int, P: int, K: int, donor_weights: np.ndarray, random: bool = False
    ) -> None:
        self.phi = np.zeros((N, P, K))
        self.empty = np.zeros((N, K))  # value with nothing kept, the mean over donors
        self.full = np.zeros((N, K))  # value with everything kept, f(x)
        self.span = np.zeros(N)  # largest change of the model's answer in any pair
        self.summed = np.zeros(N)  # corners in the largest sum that a loop took in its own dtype
        # A random model answers x anew beside each donor: then f(x) is the mean of its answers.
        self._w, self._random = donor_weights, random

    def stretch(self, first: int, last: int) -> Totals:
        """The same sums for the instances [first, last), sharing memory."""
        part = Totals(0, 0, 0, self._w, self._random)
        part.phi, part.empty = self.phi[first:last], self.empty[first:last]
        part.full, part.span = self.full[first:last], self.span[first:last]
        part.summed = self.summed[first:last]
        return part

    def like(self, n: int) -> Totals:
        """Zeros of n other instances."""
        return Totals(n, *self.phi.shape[1:], self._w, self._random)

    def put(self, rows: np.ndarray, of: Totals, which: np.ndarray) -> None:
        """Put the instances `which` bool [m] of `of` in the places `rows` int [n]."""
        for name in ("phi", "empty", "full", "span", "summed"):
            getattr(self, name)[rows] = getattr(of, name)[which]

    def add(self, rows: np.ndarray, of: Totals) -> None:
        """Add the rows of `of` with the weights rows [G, n], and widen the span."""
        self.phi += np.tensordot(rows, of.phi, axes=1)
        self.empty += rows @ of.empty
        self.full += rows @ of.full
        np.maximum(self.span, of.span.max(initial=0.0), out=self.span)
        np.maximum(self.summed, of.summed.max(initial=0.0), out=self.summed)

    def combined(self, factors: np.ndarray) -> Totals:
        """One row, the sum of all with these factors [G]."""
        one = Totals(1, *self.phi.shape[1:], self._w, self._random)
        one.add(factors[None], self)
        return one

    def clear(self) -> None:
        """Back to zero, in place."""
        for sums in (self.phi, self.empty, self.full, self.span, self.summed):
            sums[...] = 0

    def add_pairs(self, pairs: Pairs, lo: int, hi: int, k: int, sums: np.ndarray) -> None:
        """sums [hi - lo, K, k + 3] of the pairs [lo, hi), all with k players that differ."""
        instance, w = pairs.instance[lo:hi], self._w[pairs.donor[lo:hi]]
        np.add.at(self.empty, instance, w[:, None] * sums[:, :, k])
        self._add_full(instance, w, sums[:, :, k + 1])
        np.maximum.at(self.span, instance, sums[:, :, k + 2].max(axis=1))
        np.maximum.at(self.summed, instance, 2.0**k)
        if k:
            player = np.nonzero(pairs.differs[lo:hi])[1].reshape(-1, k)
            weighted = (w[:, None, None] * sums[:, :, :k]).swapaxes(1, 2)  # [pairs, k, K]
            _add_rows(self.phi, instance, player, weighted)

    def add_pieces(
        self,
        pairs: Pairs,
        pair: np.ndarray,
        high: np.ndarray,
        k: int,
        sums: np.ndarray,
        matrices: np.ndarray,
    ) -> None:
        """sums [tiles, K, low + 5] of pieces; tile t is piece high[t] of pair[t]."""
        low = matrices.shape[2] - 2
        bits = np.bitwise_count(high.astype(np.uint32)).astype(np.int64)
        first, last, span = sums[:, :, -3], sums[:, :, -2], sums[:, :, -1]
        # The device took the piece's first value away before it summed; here it comes back.
        column_sums = matrices.sum(axis=1)[bits]  # [tiles, low + 2]
        sums = sums[:, :, : low + 2] + first[:, :, None] * column_sums[:, None, :]
        is_set = members(k - low)[high][:, None, :]  # [tiles, 1, k - low]
        of_high = np.where(is_set, sums[:, :, low, None], -sums[:, :, low + 1, None])
        phi = np.concatenate([sums[:, :, :low], of_high], axis=2).swapaxes(1, 2)  # [tiles, k, K]
        instance, w = pairs.instance[pair], self._w[pairs.donor[pair]]
        player = np.nonzero(pairs.differs[pair])[1].reshape(-1, k)
        _add_rows(self.phi, instance, player, w[:, None, None] * phi)
        np.maximum.at(self.span, instance, span.max(axis=1))
        np.maximum.at(self.summed, instance, 2.0**k)
        lowest, highest = high == 0, high == (1 << (k - low)) - 1
        np.add.at(self.empty, instance[lowest], w[lowest, None] * first[lowest])
        self._add_full(instance[highest], w[highest], last[highest])

    def _add_full(self, instance: np.ndarray, w: np.ndarray, full: np.ndarray) -> None:
        if self._random:
            np.add.at(self.full, instance, w[:, None] * full)
        else:
            self.full[instance] = full


def _add_rows(phi: np.ndarray, instance: np.ndarray, player: np.ndarray, terms: np.ndarray) -> None:
    """phi[instance[m], player[m, j]] += terms[m, j], in order."""
    N, P, K = phi.shape
    flat = (instance[:, None].astype(np.int64) * P + player)[:, :, None] * K + np.arange(K)
    np.add.at(phi.reshape(-1), flat.reshape(-1), terms.reshape(-1))
