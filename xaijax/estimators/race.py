"""Samples only the undecided players in later pairs of orders, once a top-k claim depends on few.

A pair of orders gives a player's contribution by four coalitions: the players before it, without
and with it, and those after it, without and with it; a full pair has the same coalitions. A pair
therefore costs 4 coalitions per undecided player, and 2 (P - 1) for all P players.

A test of two players uses the pairs in which both were sampled. The players of a pair are chosen by
earlier pairs only. The pairs that sampled both are therefore ordinary draws, and a confidence
sequence holds over them (a martingale stays one if a bet is skipped depending on the past).

For each candidate and each player, sums are kept about the means of the pairs that sampled all. The
candidates are the undecided players and the largest of the others; other players are not sampled
again.

Values of an instance add up to f(x) - v(nothing) in every pair while all players are sampled. Later
changes of the undecided players are subtracted from the others, by their shares of the variance.

Letters: n instances, D pairs that sampled all players, d pairs at a time, a players sampled, E
candidates, P players, K outputs, k the number of players that are claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from xaijax.core.sequences import time_uniform_quantile
from xaijax.estimators.stopping import (
    TOGETHER,
    Checkpoint,
    Rule,
    Top,
    by_quantile,
    larger,
    of_both,
    pair_moments,
    players_of,
)
from xaijax.games import queries
from xaijax.games.run import GameRun
from xaijax_kernels.games import sampling

CANDIDATES = 64  # maximum number: the sums of each with all players are kept
FEW = 32  # undecided players at most, for a race to begin
EACH = 4  # coalitions of a player and a pair
WORTH = 0.5  # largest share of a full pair's coalitions for the undecided players
LISTED = 1 << 15  # coalitions that are evaluated together
FEWEST = 16  # pairs that sample all players

# (instances of the check [n], players int [n, a], first pair, the one after the last) -> some of
# them, their pairs [n', d, a, K], d at a time, and the largest |v(S) - v(nothing)| asked, [n'].
DrawPairs = Callable[
    [np.ndarray, np.ndarray, int, int], Iterator[tuple[slice, np.ndarray, np.ndarray]]
]


@dataclass(frozen=True)
class RaceLimits:
    """How sampling of instances continues."""

    stops: Sequence[int]  # pairs at each further check
    budget: int  # coalitions of an instance
    asked: int  # of them, so far


@dataclass
class RaceResult:
    """The values of n instances at the end of their race."""

    rows: np.ndarray  # int [n], of the check
    values: np.ndarray  # [n, P, K]
    std_errors: np.ndarray  # [n, P, K]
    coalitions: np.ndarray  # int64 [n], asked in all
    pairs: np.ndarray  # int64 [n], drawn
    met: np.ndarray  # bool [n]
    span: np.ndarray  # [n], largest |v(S) - base| of the race


def few_undecided(undecided: np.ndarray, pairs: int) -> np.ndarray:
    """Whether few enough players are undecided for a race, bool [n]; undecided bool [n, P]."""
    count, P = undecided.sum(axis=1), undecided.shape[1]
    return (count > 0) & (count <= min(FEW, most_at_once(P))) & (pairs >= FEWEST)


def most_at_once(P: int) -> int:
    """The number of players whose coalitions are a share WORTH of those of a full pair."""
    return int(WORTH * 2 * (P - 1)) // EACH


def race(
    rule: Rule, check: Checkpoint, undecided: np.ndarray, draw: GamePairs, limits: RaceLimits
) -> list[RaceResult]:
    """Runs the race of the instances with few undecided players, as many at a time as fit the
    memory. The other instances sample all their players.

    undecided: bool [N, P].
    """
    _, P, K = check.result.values.shape
    chosen = np.flatnonzero(few_undecided(undecided, check.pairs))
    # An instance's sums: a count, and five for each output.
    step = draw.game.engine.memory.fits("results", 8 * min(P, CANDIDATES) * P * (1 + 5 * K))
    parts = [chosen[i : i + step] for i in range(0, len(chosen), step)] if step else []
    ended = [run_race(rule, check, part, undecided[part], draw, limits) for part in parts]
    return [result for result in ended if result is not None]


def run_race(
    rule: Rule,
    check: Checkpoint,
    chosen: np.ndarray,
    undecided: np.ndarray,
    draw: DrawPairs,
    limits: RaceLimits,
) -> RaceResult | None:
    """Makes all further checks of the instances `chosen` [n]; None: none of them can race.

    An instance ends when its claim is certain, when the claim depends on a player who is no longer
    sampled, or when the next check would exceed the budget. undecided: bool [n, P].
    """
    _, P, K = check.result.values.shape
    # With bounds= each full pair is within a range that is proved for all players.
    if not isinstance(rule, Top) or rule.bounds is not None or rule.k == P:
        return None
    if rule.k + FEW > CANDIDATES < P:
        return None
    race = Race.begun(check.of(chosen), rule.k, rule.alpha(P, K), undecided)
    safe = race.safe(undecided)
    if not safe.all():
        rest = undecided[safe]
        return run_race(rule, check, chosen[safe], rest, draw, limits) if safe.any() else None
    n, at, before = len(chosen), check.pairs, race.values()
    most = max(most_at_once(P), rule.k + 1)
    spent, pairs, span = np.full(n, limits.asked), np.full(n, at), np.zeros(n)
    going, met = np.ones(n, bool), np.zeros(n, bool)
    for stop in limits.stops:
        undecided = race.undecided()
        met |= going & ~undecided.any(axis=1)
        stuck = (undecided & (race.place < 0)).any(axis=1)
        # If many are open at once, the largest first, which include the members.
        undecided = _largest(undecided, race.values(), most)
        count = undecided.sum(axis=1)
        cost = EACH * count * (stop - at)
        going &= ~met & ~stuck & (spent + cost <= limits.budget)
        if not going.any():
            break
        for size in np.unique(count[going]):
            group = np.flatnonzero(going & (count == size))
            who = np.nonzero(undecided[group])[1].reshape(len(group), -1)
            place = np.take_along_axis(race.place[group], who, axis=1)
            for part, drawn, far in draw(chosen[group], who, at, stop):
                race.add(group[part], place[part], drawn)
                span[group[part]] = np.maximum(span[group[part]], far)
        spent[going] += cost[going]
        pairs[going] = at = stop
    else:
        met |= going & ~race.undecided().any(axis=1)
    values, errors, same = _adding_up(race, before, check.result.std_errors[chosen])
    return RaceResult(chosen, values, errors, spent, pairs, met & same, span)


@dataclass(frozen=True)
class GamePairs:
    """`DrawPairs` of a game."""

    game: GameRun
    rows: np.ndarray  # int [N], of the game, for the instances of the check
    base: np.ndarray  # [N, K], their v(nothing)
    seed: int  # of the orders

    def __call__(
        self, instances: np.ndarray, who: np.ndarray, first: int, stop: int
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """See `DrawPairs`."""
        P, (n, a), K = self.game.P, who.shape, self.base.shape[1]
        # A coalition takes two bytes per player, and its outputs a few copies.
        fits = self.game.engine.memory.fits("answers", 2 * P + 32 * K)
        pairs = max(1, min(LISTED, fits) // (a * EACH))
        at_once = max(1, pairs // TOGETHER)  # instances
        step = max(1, pairs // min(n, at_once) // TOGETHER) * TOGETHER
        for d in range(first, stop, step):
            orders = sampling.orders(self.seed, P, d, min(d + step, stop))
            rank = np.argsort(orders, axis=1).astype(np.int32)
            for i in range(0, n, at_once):
                part = slice(i, min(i + at_once, n))
                place = np.moveaxis(rank[:, who[part]], 0, 1)[..., None]  # [n', d, a, 1]
                others, rows = rank[None, :, None], instances[part]
                masks = [others < place, others <= place, others > place, others >= place]
                coalitions = np.stack(masks, axis=3).reshape(len(rows), -1, P)
                v = queries.own_values(self.game, coalitions, self.rows[rows])
                v = v.reshape(*place.shape[:3], EACH, K)
                far = np.abs(v - self.base[rows][:, None, None, None])
                without, joined, behind, joined_behind = np.moveaxis(v, 3, 0)
                pairs_of = (joined - without + joined_behind - behind) / 2
                yield part, pairs_of, far.reshape(len(rows), -1).max(axis=1)


@dataclass
class Race:
    """The sums of n instances; `begun` makes it, `add` goes on."""

    k: int
    alpha: float  # of each test
    resolution: np.ndarray  # [n]
    players: np.ndarray  # int [n, E], the candidates
    place: np.ndarray  # int [n, P], the position of a player among them; -1: not a candidate
    centre: np.ndarray  # [n, P, K], means of the pairs that sampled all players
    errors: np.ndarray  # [n, P, K], standard errors of the centre
    borrowed: np.ndarray  # [n, P, K], excess of their variance over that of the draws, times D^2
    full: int  # D
    count: np.ndarray  # [n, E, P], pairs that sampled both
    # [n, E, P, K] each, sums over these pairs: of the candidate, of the other player, of their
    # squares, and of their product.
    sums: tuple[np.ndarray, ...]

    @classmethod
    def begun(cls, check: Checkpoint, k: int, alpha: float, undecided: np.ndarray) -> Race:
        """The race after the pairs so far, which sampled all players; undecided: bool [n, P]."""
        D, values, errors = check.pairs, check.result.values, check.result.std_errors
        n, P, K = values.shape
        size = np.abs(values).max(axis=2)
        players = np.lexsort((-size, ~undecided))[:, :CANDIDATES]
        E = players.shape[1]
        place = np.full((n, P), -1)
        np.put_along_axis(place, players, np.broadcast_to(np.arange(E), (n, E)), axis=1)
        squares, products = pair_moments(check, np.repeat(players[:, :, None], K, axis=2), values)
        own_square = np.take_along_axis(squares, players[:, :, None], axis=1)[:, :, None]
        known = (own_square, squares[:, None])
        copies = (np.broadcast_to(array, products.shape).copy() for array in known)
        sums = (np.zeros_like(products), np.zeros_like(products), *copies, products)
        borrowed = np.maximum(0.0, errors**2 * D - squares / (D - 1)) * D
        count = np.full((n, E, P), D, np.int64)
        fixed = k, alpha, check.resolution, players, place
        return cls(*fixed, values.copy(), errors, borrowed, D, count, sums)

    def add(self, rows: np.ndarray, who: np.ndarray, pairs: np.ndarray) -> None:
        """Adds pairs [n', d, a, K] of the instances `rows` [n'], of candidates `who` int [n', a].

        d is a multiple of `TOGETHER` except in the last call of a check: sums have one order, so
        that an instance's sums do not depend on the others of the call.
        """
        players = self.players[rows[:, None], who]
        at = rows[:, None, None], who[:, :, None], players[:, None, :]
        left = pairs - self.centre[rows[:, None], players][:, None]
        for first in range(0, pairs.shape[1], TOGETHER):
            block = left[:, first : first + TOGETHER]
            player, other = block[:, :, :, None], block[:, :, None]  # [n', d, a, a, K] together
            terms = player, other, player**2, other**2, player * other
            for total, term in zip(self.sums, terms, strict=True):
                total[at] += np.add.accumulate(term, axis=1)[:, -1]
        self.count[at] += pairs.shape[1]

    @property
    def counts(self) -> np.ndarray:
        """Pairs that sampled each player, int64 [n, P]."""
        counts = np.full(self.place.shape, self.full)
        np.put_along_axis(counts, self.players, self._of_own(self.count), axis=1)
        return counts

    def values(self) -> np.ndarray:
        """Each player's mean over its own pairs, [n, P, K]."""
        means = self.centre.copy()
        mean = self._of_own(self.sums[0]) / self._of_own(self.count)[..., None]
        at = self.players[:, :, None]
        np.put_along_axis(means, at, np.take_along_axis(means, at, axis=1) + mean, axis=1)
        return means

    def std_errors(self) -> np.ndarray:
        """The standard errors of the values, [n, P, K]."""
        spread, at = self.errors.copy(), self.players[:, :, None]
        count = self._of_own(self.count)[..., None]
        square = self._of_own(self.sums[2]) - self._of_own(self.sums[0]) ** 2 / count
        more = np.take_along_axis(self.borrowed, at, axis=1) / count
        error = np.sqrt((np.maximum(square, 0.0) / (count - 1) + more) / count)
        # A player that changes nothing has no error.
        error = np.where(np.take_along_axis(self.errors, at, axis=1) == 0, 0.0, error)
        np.put_along_axis(spread, at, error, axis=1)
        return spread

    def undecided(self) -> np.ndarray:
        """The players in an open test of the k largest so far; bool [n, P]."""
        values = self.values()
        order = np.argsort(-np.abs(values), axis=1, kind="stable")
        members, others = order[:, : self.k], order[:, self.k :]
        return players_of(~self._certain(values, members, others), members, others)

    def safe(self, undecided: np.ndarray) -> np.ndarray:
        """Whether each undecided player is larger than all non-candidates; bool [n].

        Otherwise the claim could depend on non-candidates later, and the race would never end.
        """
        (n, P), K = self.place.shape, self.centre.shape[2]
        E = self.players.shape[1]
        if E == P:
            return np.ones(n, bool)
        left = np.argsort(self.place >= 0, axis=1, kind="stable")[:, : P - E]
        # Undecided ones come first among the candidates; if they are fewer, the next ones.
        most = int(undecided.sum(axis=1).max(initial=1))
        first = self.players[:, :most]
        members, others = (np.repeat(places[:, :, None], K, axis=2) for places in (first, left))
        certain = self._certain(self.centre, members, others).all(axis=(2, 3))
        return (certain | ~np.take_along_axis(undecided, first, axis=1)).all(axis=1)

    def _certain(self, values: np.ndarray, members: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether each member int [n, m, K] is larger than each other int [n, o, K], and has the
        sign of its value; bool [n, m, o, K].
        """
        n, K = len(values), values.shape[2]
        # A member that is not a candidate is unknown: all its tests stay open.
        place = self.place[np.arange(n)[:, None, None], members]
        row = np.arange(n)[:, None, None, None], np.maximum(place, 0)[:, :, None], others[:, None]
        at = *row, np.arange(K)
        m = self.count[row]
        member, other, own_square, other_square, product = (total[at] for total in self.sums)
        member, other = member / m, other / m
        own_square, other_square = own_square - m * member**2, other_square - m * other**2
        product = product - m * member * other
        # The excess variance at D pairs fades with more pairs.
        borrowed, centre = (of_both(t, members, others) for t in (self.borrowed, self.centre))
        own_square += (m - 1) / m * borrowed[0]
        other_square += (m - 1) / m * borrowed[1]
        member, other = member + centre[0], other + centre[1]
        signs = np.where(of_both(values, members, others)[0] < 0, -1.0, 1.0)
        sums = own_square, other_square, product
        certain = larger(signs, member, other, sums, by_quantile(self._quantiles(m), m))
        apart = np.abs(member) - np.abs(other) > 2 * self.resolution[:, None, None, None]
        return certain & apart & (place >= 0)[:, :, None]

    def _quantiles(self, count: np.ndarray) -> np.ndarray:
        distinct, place = np.unique(count, return_inverse=True)
        each = [time_uniform_quantile(int(n), self.alpha, two_sided=False) for n in distinct]
        return np.array(each)[place].reshape(count.shape)

    def _of_own(self, table: np.ndarray) -> np.ndarray:
        """The entries of each candidate with itself, [n, E, ...]."""
        n, E = self.players.shape
        return table[np.arange(n)[:, None], np.arange(E), self.players]


def _largest(undecided: np.ndarray, values: np.ndarray, most: int) -> np.ndarray:
    """The `most` largest of the undecided players, or all, bool [n, P]; values [n, P, K]."""
    size = np.where(undecided, np.abs(values).max(axis=2), -1.0)
    order = np.argsort(-size, axis=1, kind="stable")[:, :most]
    chosen = np.zeros_like(undecided)
    np.put_along_axis(chosen, order, True, axis=1)
    return chosen & undecided


def _adding_up(
    race: Race, before: np.ndarray, errors: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values with the same sum as before, standard errors, whether the order is the same).

    before: values [n, P, K] of the pairs that sampled all players, errors: theirs. A known sum is a
    regression constraint: changes of some players are distributed over the others by their
    variances. Their correlation is unknown, so errors are added as if it were 1.
    """
    values, spread = race.values(), race.std_errors()
    counts = race.counts
    still = (counts == counts.min(axis=1, keepdims=True))[:, :, None]
    variance = np.where(still, errors**2, 0.0)
    variance = np.where(variance.sum(axis=1, keepdims=True) > 0, variance, spread**2)
    total = variance.sum(axis=1, keepdims=True)
    share = np.divide(variance, total, out=np.zeros_like(variance), where=total > 0)
    moved = values - share * (values - before).sum(axis=1, keepdims=True)
    width = np.where(still, 0.0, errors).sum(axis=1, keepdims=True)
    claims = [_claimed(v, race.k) for v in (values, moved)]
    same = (claims[0] == claims[1]).all(axis=(1, 2))
    return moved, np.where(still, spread + share * width, spread), same


def _claimed(values: np.ndarray, k: int) -> np.ndarray:
    """The signs of the k largest, 0 of the others; [n, P, K]."""
    order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :k]
    signs = np.zeros_like(values)
    np.put_along_axis(signs, order, np.sign(np.take_along_axis(values, order, axis=1)), axis=1)
    return signs
