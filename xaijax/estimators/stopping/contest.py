"""What a claim of the k largest still hangs on, where later pairs ask a few players alone.

A test of two players takes the pairs in which both were asked. Who is asked in a pair is chosen by
the pairs before it. So those in which both were asked are draws like all others, and a confidence
sequence holds over them (a martingale stays one where a bet is left out by what came before).

Sums are kept of each candidate beside each player, about the means `centre` of the pairs in which
all were asked. The candidates are the undecided players and the largest of the others, so many at
most; a player that is none is not asked again.

Letters: n instances, D pairs in which all were asked, d pairs at a time, E candidates, a players
asked, P players, K outputs, k the number that is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xaijax.core.sequences import time_uniform_quantile
from xaijax.estimators.stopping import moments
from xaijax.estimators.stopping.larger import larger, players_of, signs_of, told_by
from xaijax.estimators.stopping.rule import Look

CANDIDATES = 64  # at most: of each of them sums with all players are kept
FEW = 32  # undecided players at most, where a contest begins
TOGETHER = 32  # pairs whose sums are taken before they are added, whatever else is asked


def bytes_each(P: int, K: int) -> int:
    """Of an instance's sums."""
    return 8 * min(P, CANDIDATES) * P * (1 + 5 * K)


@dataclass
class Contest:
    """The sums of n instances; `begun` makes it, `add` goes on."""

    k: int
    alpha: float  # of each test
    resolution: np.ndarray  # [n]
    players: np.ndarray  # int [n, E], the candidates
    place: np.ndarray  # int [n, P], where a player stands among them; -1: it is none
    centre: np.ndarray  # [n, P, K]
    errors: np.ndarray  # [n, P, K], standard errors of the centre
    borrowed: np.ndarray  # [n, P, K], what they know of more spread than the draws, times D squared
    whole: int  # D
    count: np.ndarray  # [n, E, P], pairs in which both were asked
    own: np.ndarray  # [n, E, P, K], sums over these pairs: of the candidate,
    other: np.ndarray  # of the other player,
    own_square: np.ndarray  # and of their squares
    other_square: np.ndarray
    product: np.ndarray

    @classmethod
    def begun(cls, look: Look, k: int, alpha: float, undecided: np.ndarray) -> Contest:
        """By the pairs so far, in which all were asked; undecided: bool [n, P]."""
        result, D = look.result, look.pairs
        values, errors = result.values, result.std_errors
        n, P, K = values.shape
        size = np.abs(values).max(axis=2)
        players = np.lexsort((-size, ~undecided))[:, :CANDIDATES]
        E = players.shape[1]
        place = np.full((n, P), -1)
        np.put_along_axis(place, players, np.broadcast_to(np.arange(E), (n, E)), axis=1)
        found = moments.spread(look, np.repeat(players[:, :, None], K, axis=2))
        own_square = np.take_along_axis(found.of_each, players[:, :, None], axis=1)[:, :, None]
        shape = found.with_members.shape
        drawn = found.of_each / (D - 1)
        return cls(
            k,
            alpha,
            look.resolution,
            players,
            place,
            values.copy(),
            errors,
            np.maximum(0.0, errors**2 * D - drawn) * D,
            D,
            np.full((n, E, P), D, np.int64),
            np.zeros(shape),
            np.zeros(shape),
            np.broadcast_to(own_square, shape).copy(),
            np.broadcast_to(found.of_each[:, None], shape).copy(),
            found.with_members,
        )

    def add(self, rows: np.ndarray, who: np.ndarray, pairs: np.ndarray) -> None:
        """Pairs [n', d, a, K] of the instances `rows` [n'], of their candidates `who` int [n', a].

        d is a multiple of `TOGETHER` but in the last call of a check: sums are taken in one order,
        so that no instance's hang on its company.
        """
        asked = self.players[rows[:, None], who]
        at = rows[:, None, None], who[:, :, None], asked[:, None, :]
        left = pairs - self.centre[rows[:, None], asked][:, None]
        for first in range(0, pairs.shape[1], TOGETHER):
            some = left[:, first : first + TOGETHER]
            own, other = some[:, :, :, None], some[:, :, None]  # [n', d, a, 1, K], [n', d, 1, a, K]
            self.own[at] += _in_order(own)
            self.other[at] += _in_order(other)
            self.own_square[at] += _in_order(own**2)
            self.other_square[at] += _in_order(other**2)
            self.product[at] += _in_order(own * other)
        self.count[at] += pairs.shape[1]

    @property
    def counts(self) -> np.ndarray:
        """Pairs in which each player was asked, int64 [n, P]."""
        found = np.full(self.place.shape, self.whole)
        np.put_along_axis(found, self.players, self._of_own(self.count), axis=1)
        return found

    def values(self) -> np.ndarray:
        """Each player's mean over its own pairs, [n, P, K]."""
        found = self.centre.copy()
        mean = self._of_own(self.own) / self._of_own(self.count)[..., None]
        at = self.players[:, :, None]
        np.put_along_axis(found, at, np.take_along_axis(found, at, axis=1) + mean, axis=1)
        return found

    def std_errors(self) -> np.ndarray:
        """Of these, [n, P, K]."""
        found, at = self.errors.copy(), self.players[:, :, None]
        count = self._of_own(self.count)[..., None]
        square = self._of_own(self.own_square) - self._of_own(self.own) ** 2 / count
        more = np.take_along_axis(self.borrowed, at, axis=1) / count
        own = np.sqrt((np.maximum(square, 0.0) / (count - 1) + more) / count)
        # A player that changes nothing is known to do so.
        own = np.where(np.take_along_axis(self.errors, at, axis=1) == 0, 0.0, own)
        np.put_along_axis(found, at, own, axis=1)
        return found

    def undecided(self) -> np.ndarray:
        """The players in a test that is open, of the k largest at hand; bool [n, P]."""
        values = self.values()
        order = np.argsort(-np.abs(values), axis=1, kind="stable")
        members, others = order[:, : self.k], order[:, self.k :]
        return players_of(~self._told(values, members, others), members, others)

    def safe(self, undecided: np.ndarray) -> np.ndarray:
        """Where each undecided player is larger than all who are no candidates; bool [n].

        Else an instance could come to hang on those, and would never end.
        """
        (n, P), K = self.place.shape, self.centre.shape[2]
        E = self.players.shape[1]
        if E == P:
            return np.ones(n, bool)
        left = np.argsort(self.place >= 0, axis=1, kind="stable")[:, : P - E]
        # Undecided ones come first among the candidates; where they are fewer, the next ones.
        most = int(undecided.sum(axis=1).max(initial=1))
        asked = self.players[:, :most]
        members, others = (np.repeat(one[:, :, None], K, axis=2) for one in (asked, left))
        told = self._told(self.centre, members, others).all(axis=(2, 3))
        return (told | ~np.take_along_axis(undecided, asked, axis=1)).all(axis=1)

    def _told(self, values: np.ndarray, members: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether each member int [n, m, K] is larger than each other int [n, o, K], and has the
        sign of its value; bool [n, m, o, K].
        """
        n, K = len(values), values.shape[2]
        # Of a member that is no candidate nothing is known: all its tests stay open.
        place = self.place[np.arange(n)[:, None, None], members]
        row = np.arange(n)[:, None, None, None], np.maximum(place, 0)[:, :, None], others[:, None]
        at = *row, np.arange(K)
        m = self.count[row]
        own, other = self.own[at] / m, self.other[at] / m
        own_square = self.own_square[at] - m * own**2
        other_square = self.other_square[at] - m * other**2
        product = self.product[at] - m * own * other
        # What was borrowed at D pairs fades as they become many.
        borrowed = [np.take_along_axis(self.borrowed, one, axis=1) for one in (members, others)]
        own_square += (m - 1) / m * borrowed[0][:, :, None]
        other_square += (m - 1) / m * borrowed[1][:, None]
        centre = [np.take_along_axis(self.centre, one, axis=1) for one in (members, others)]
        own, other = own + centre[0][:, :, None], other + centre[1][:, None]
        signs = signs_of(np.take_along_axis(values, members, axis=1))[:, :, None]
        sums = own_square, other_square, product
        told = larger(signs, own, other, *sums, told_by(self._quantiles(m), m))
        apart = np.abs(own) - np.abs(other) > 2 * self.resolution[:, None, None, None]
        return told & apart & (place >= 0)[:, :, None]

    def _quantiles(self, count: np.ndarray) -> np.ndarray:
        found, place = np.unique(count, return_inverse=True)
        each = [time_uniform_quantile(int(one), self.alpha, two_sided=False) for one in found]
        return np.array(each)[place].reshape(count.shape)

    def _of_own(self, table: np.ndarray) -> np.ndarray:
        """The entries of the candidates beside themselves, [n, E, ...]."""
        n, E = self.players.shape
        return table[np.arange(n)[:, None], np.arange(E), self.players]


def _in_order(pairs: np.ndarray) -> np.ndarray:
    """The sum over the second axis, one after the other."""
    return np.add.accumulate(pairs, axis=1)[:, -1]
