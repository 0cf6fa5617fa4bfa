"""The inputs of a strategy for values of players, or of sets of them, and the sums that it fills.

Sums over donors are float64, in the donors' order within a size k: identical for any other
instances in the call.

Letters: N instances, n of a chunk, B donors, P players, M sets of them, K outputs, k players
that differ, C coalitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from xaijax.games.engine.loop import Backend
from xaijax.players.interaction_index import InteractionIndex, derivative_weights
from xaijax_kernels.engine.lattice import Pairs
from xaijax_kernels.games import semivalues
from xaijax_kernels.games.semivalues import induced_weights


@dataclass(frozen=True)
class Chunk:
    """Instances that are planned together."""

    backend: Backend
    here: np.ndarray  # int [n], instances of the game
    differs: np.ndarray | None  # bool [n, B, P]; None if no strategy treats donors separately


@dataclass(frozen=True)
class OfPlayers:
    """A semivalue, by the weights p of all P players."""

    p: tuple[float, ...]
    order = 1

    def __call__(self, k: int) -> semivalues.Weights:
        """Weights for k players, the others being null."""
        return [induced_weights(self.p, k)] if k else []


@dataclass(frozen=True)
class OfSets:
    """Interactions of sets of 1 to `order` players."""

    index: InteractionIndex
    order: int

    def __call__(self, k: int) -> semivalues.Weights:
        """Weights for k players, the others being null."""
        return derivative_weights(self.index, self.order, k)


class Weights:
    """Matrices from sub-coalitions of a pair to values, for every k, made on first use."""

    def __init__(self, of: OfPlayers | OfSets) -> None:
        self.of, self.order = of, of.order
        self.count = cache(partial(semivalues.count, order=of.order))  # k -> M, sets of k players
        self.subsets = cache(self._subsets)
        self.pieces = cache(lambda k, low: semivalues.split_matrices(of(k), k, low))

    @classmethod
    def semivalue(cls, p: np.ndarray) -> Weights:
        """Weights of single players, p [P]."""
        return cls(OfPlayers(tuple(p.tolist())))

    def places(self, players: np.ndarray, P: int) -> np.ndarray:
        """Positions of the sets of `players` [.., k] among those of all P; int [.., M]."""
        return players if self.order == 1 else semivalues.places(players, P, self.order)

    def _subsets(self, k: int, rows: int) -> np.ndarray:
        """float64 [rows, M]; rows past 2^k are zero."""
        matrix = np.zeros((rows, self.count(k)))
        matrix[: 1 << k] = semivalues.subset_matrix(self.of(k), k)
        return matrix


SUMS = ("phi", "empty", "full", "span", "summed")  # of a `Totals`


class Totals:
    """Sums over donors for a chunk of instances, float64."""

    def __init__(
        self,
        N: int,
        P: int,
        K: int,
        weights: Weights,
        donor_weights: np.ndarray,
        random: bool = False,
    ) -> None:
        self.phi = np.zeros((N, weights.count(P), K))
        self.empty = np.zeros((N, K))  # value with nothing kept, the mean over donors
        self.full = np.zeros((N, K))  # value with everything kept, f(x)
        self.span = np.zeros(N)  # largest change of the model's output in any pair
        self.summed = np.zeros(N)  # number of terms of the largest sum in the loop's own dtype
        # A random model evaluates x again for each donor: f(x) is then the mean of its outputs.
        self._P, self._weights = P, weights
        self._w, self._random = donor_weights, random
        # Scores with nothing kept, of each instance or, if equal, of all; `add_donors` sums them in
        # the donors' order. None: each is added immediately.
        self._of_donors: np.ndarray | None = None  # [N or 1, B, K]

    def chunk(self, first: int, last: int) -> Totals:
        """The same sums for the instances [first, last), sharing memory."""
        part = self.like(0)
        for name in SUMS:
            setattr(part, name, getattr(self, name)[first:last])
        return part

    def like(self, n: int) -> Totals:
        """Zeros of n other instances."""
        return Totals(n, self._P, self.phi.shape[2], self._weights, self._w, self._random)

    def put(self, rows: np.ndarray, of: Totals, which: np.ndarray) -> None:
        """Copies the instances `which` bool [m] of `of` to the positions `rows` int [n]."""
        for name in SUMS:
            getattr(self, name)[rows] = getattr(of, name)[which]

    def add(self, rows: np.ndarray, of: Totals) -> None:
        """Adds the rows of `of` with the weights rows [G, n], and widens the span."""
        self.phi += np.tensordot(rows, of.phi, axes=1)
        self.empty += rows @ of.empty
        self.full += rows @ of.full
        np.maximum(self.span, of.span.max(initial=0.0), out=self.span)
        np.maximum(self.summed, of.summed.max(initial=0.0), out=self.summed)

    def combined(self, factors: np.ndarray) -> Totals:
        """One row, the sum of all with these factors [G]."""
        group = self.like(1)
        group.add(factors[None], self)
        return group

    def keep_donors(self, shared: bool) -> None:
        """Stores the scores with nothing kept from now on; shared: they are equal for all."""
        N, K = self.empty.shape
        self._of_donors = np.zeros((1 if shared else N, len(self._w), K))
        self._met = np.zeros(len(self._w), bool)

    def add_donors(self) -> None:
        """Sums the stored scores."""
        if self._of_donors is not None:
            self.empty += (self._w[:, None] * self._of_donors).sum(axis=1)

    def clear(self) -> None:
        """Sets all sums back to zero, in place."""
        for name in SUMS:
            getattr(self, name)[...] = 0

    def add_pairs(self, pairs: Pairs, lo: int, hi: int, k: int, sums: np.ndarray) -> None:
        """Adds sums [hi - lo, K, M + 3] of the pairs [lo, hi), all with k players that differ."""
        instance, w = pairs.instance[lo:hi], self._w[pairs.donor[lo:hi]]
        self._add_empty(instance, pairs.donor[lo:hi], sums[:, :, -3])
        self._add_full(instance, w, sums[:, :, -2])
        np.maximum.at(self.span, instance, sums[:, :, -1].max(axis=1))
        np.maximum.at(self.summed, instance, 2.0**k)
        if k:
            weighted = (w[:, None, None] * sums[:, :, :-3]).swapaxes(1, 2)  # [pairs, M, K]
            _add_rows(self.phi, instance, self._places(pairs, slice(lo, hi), k), weighted)

    def _places(self, pairs: Pairs, chosen: slice | np.ndarray, k: int) -> np.ndarray:
        """Positions of the sets of the players that differ; int [pairs, M]."""
        players = np.nonzero(pairs.differs[chosen])[1].reshape(-1, k)
        return self._weights.places(players, self._P)

    def add_pieces(
        self,
        pairs: Pairs,
        pair: np.ndarray,
        high: np.ndarray,
        k: int,
        sums: np.ndarray,
        matrices: np.ndarray,
    ) -> None:
        """Adds sums [tiles, K, columns + 3] of pieces; tile t is piece high[t] of pair[t]."""
        low = matrices.shape[1].bit_length() - 1
        bits = np.bitwise_count(high.astype(np.uint32)).astype(np.int64)
        first, last, span = sums[:, :, -3], sums[:, :, -2], sums[:, :, -1]
        # The device subtracted the piece's first value before summing; it is added again here.
        column_sums = matrices.sum(axis=1)[bits]  # [tiles, columns]
        sums = sums[:, :, :-3] + first[:, :, None] * column_sums[:, None, :]
        order = self._weights.order
        phi = semivalues.of_pieces(sums, high, k, low, order).swapaxes(1, 2)  # [tiles, M, K]
        instance, w = pairs.instance[pair], self._w[pairs.donor[pair]]
        _add_rows(self.phi, instance, self._places(pairs, pair, k), w[:, None, None] * phi)
        np.maximum.at(self.span, instance, span.max(axis=1))
        np.maximum.at(self.summed, instance, 2.0**k)
        lowest, highest = high == 0, high == (1 << (k - low)) - 1
        self._add_empty(instance[lowest], pairs.donor[pair[lowest]], first[lowest])
        self._add_full(instance[highest], w[highest], last[highest])

    def _add_empty(self, instance: np.ndarray, donor: np.ndarray, first: np.ndarray) -> None:
        if self._of_donors is None:
            np.add.at(self.empty, instance, self._w[donor, None] * first)
        else:
            if len(self._of_donors) < len(self.empty):  # the first one counts for all
                _, place = np.unique(donor, return_index=True)
                place = place[~self._met[donor[place]]]
                instance, donor, first = np.zeros_like(place), donor[place], first[place]
                self._met[donor] = True
            self._of_donors[instance, donor] = first

    def _add_full(self, instance: np.ndarray, w: np.ndarray, full: np.ndarray) -> None:
        if self._random:
            np.add.at(self.full, instance, w[:, None] * full)
        else:
            self.full[instance] = full


def _add_rows(phi: np.ndarray, instance: np.ndarray, place: np.ndarray, terms: np.ndarray) -> None:
    """phi[instance[m], place[m, j]] += terms[m, j], in order."""
    N, M, K = phi.shape
    flat = (instance[:, None].astype(np.int64) * M + place)[:, :, None] * K + np.arange(K)
    np.add.at(phi.reshape(-1), flat.reshape(-1), terms.reshape(-1))


Means = tuple[np.ndarray, np.ndarray]  # (instances int [n], means over donors float64 [n, C, K])
