"""Instances whose claim hangs on a few players: from then on these alone are asked.

A pair of orders tells a player's contribution by four coalitions: the players before it, without
and with it, and those after it, without and with it. They are those that the whole pair would ask.
So of a few contenders a pair costs 4 coalitions each, where all P players cost 2 (P - 1).

Values of an instance add up to f(x) - v(nothing), pair by pair where all are asked. What the
contenders move by after that is taken from the others, by their shares of the variance.

Letters: n instances, D pairs in which all were asked, d pairs at a time, a players asked, E
candidates, P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from xaijax.estimators.stopping.contest import FEW, TOGETHER, bytes_each
from xaijax.estimators.stopping.rule import Contesting, Look, Rule
from xaijax.games.game import Game
from xaijax_kernels.games import sampling

EACH = 4  # coalitions of a player and a pair
WORTH = 0.5  # of the coalitions of a whole pair, that those of its contenders are at most
LISTED = 1 << 15  # coalitions that are asked together
FEWEST = 16  # pairs in which all are asked


# (instances of the look [n], players int [n, a], first pair, the one after the last) -> some of
# them, their pairs [n', d, a, K], d at a time, and the largest |v(S) - v(nothing)| asked, [n'].
Ask = Callable[[np.ndarray, np.ndarray, int, int], Iterator[tuple[slice, np.ndarray, np.ndarray]]]


@dataclass(frozen=True)
class Further:
    """How instances go on."""

    stops: Sequence[int]  # pairs at each further check
    budget: int  # coalitions of an instance
    asked: int  # of them, so far
    seed: int  # of the orders


@dataclass
class Ended:
    """What came of n instances."""

    rows: np.ndarray  # int [n], of the look
    values: np.ndarray  # [n, P, K]
    std_errors: np.ndarray  # [n, P, K]
    coalitions: np.ndarray  # int64 [n], asked in all
    pairs: np.ndarray  # int64 [n], drawn
    met: np.ndarray  # bool [n]
    span: np.ndarray  # [n], largest |v(S) - base| asked here


def few(undecided: np.ndarray, pairs: int) -> np.ndarray:
    """Which instances hang on few enough of their players, bool [n]; undecided bool [n, P]."""
    count, P = undecided.sum(axis=1), undecided.shape[1]
    return (count > 0) & (count <= min(FEW, most_at_once(P))) & (pairs >= FEWEST)


def most_at_once(P: int) -> int:
    """Contenders of a pair, so that it costs a share WORTH of a whole pair at most."""
    return int(WORTH * 2 * (P - 1)) // EACH


def contested(
    game: Game,
    rule: Rule,
    look: Look,
    undecided: np.ndarray,
    rows: np.ndarray,
    base: np.ndarray,
    further: Further,
) -> list[Ended]:
    """Ask the contenders of those instances of the look that hang on few of them, as many at a time
    as fit the memory. The others are asked about all their players.

    undecided: bool [N, P], rows: the game's instances of the look, base [N, K] their v(nothing).
    """
    _, P, K = look.result.values.shape
    chosen = np.flatnonzero(few(undecided, look.pairs))
    step = game.setting.max_memory // 8 // bytes_each(P, K)
    ended = []
    for first in range(0, len(chosen) if step else 0, max(1, step)):
        some = chosen[first : first + step]
        asking = _Asking(game, rows, base, further.seed)
        found = to_end(rule, look, some, undecided[some], asking, further)
        if found is not None:
            ended.append(found)
    return ended


def to_end(
    rule: Rule,
    look: Look,
    chosen: np.ndarray,
    undecided: np.ndarray,
    ask: Ask,
    further: Further,
) -> Ended | None:
    """All further checks of the look's instances `chosen` [n], until nobody goes on; None: all of
    them are asked about all their players.

    An instance ends when its claim is certain, where it hangs on a player who is not asked any
    more, and where the next check would take it beyond the budget. undecided: bool [n, P].
    """
    contest = rule.contest(look, chosen, undecided)
    if contest is None:
        return None
    safe = contest.safe(undecided)
    if not safe.all():
        own = undecided[safe]
        return to_end(rule, look, chosen[safe], own, ask, further) if safe.any() else None
    n, at, before = len(chosen), look.pairs, contest.values()
    most = max(most_at_once(undecided.shape[1]), contest.k + 1)
    spent, pairs, span = np.full(n, further.asked), np.full(n, at), np.zeros(n)
    going, met = np.ones(n, bool), np.zeros(n, bool)
    for stop in further.stops:
        undecided = contest.undecided()
        met |= going & ~undecided.any(axis=1)
        stuck = (undecided & (contest.place < 0)).any(axis=1)
        # Where many are open at once, the largest first: the members are among them.
        undecided = _largest(undecided, contest.values(), most)
        count = undecided.sum(axis=1)
        cost = EACH * count * (stop - at)
        going &= ~met & ~stuck & (spent + cost <= further.budget)
        if not going.any():
            break
        for size in np.unique(count[going]):
            some = np.flatnonzero(going & (count == size))
            who = np.nonzero(undecided[some])[1].reshape(len(some), -1)
            place = np.take_along_axis(contest.place[some], who, axis=1)
            for part, drawn, far in ask(chosen[some], who, at, stop):
                contest.add(some[part], place[part], drawn)
                span[some[part]] = np.maximum(span[some[part]], far)
        spent[going] += cost[going]
        pairs[going] = at = stop
    else:
        met |= going & ~contest.undecided().any(axis=1)
    values, errors, same = _adding_up(contest, before, look.result.std_errors[chosen])
    return Ended(chosen, values, errors, spent, pairs, met & same, span)


@dataclass(frozen=True)
class _Asking:
    """What pairs of orders say of a few players, by a game."""

    game: Game
    rows: np.ndarray  # int [N], of the game, for the instances of the look
    base: np.ndarray  # [N, K]
    seed: int

    def __call__(
        self, some: np.ndarray, who: np.ndarray, first: int, stop: int
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """See `Ask`."""
        P, (n, a), K = self.game.P, who.shape, self.base.shape[1]
        # Of a coalition: twice a byte a player, and its answers a few times.
        fits = self.game.setting.max_memory // 8 // (2 * P + 32 * K)
        pairs = max(1, min(LISTED, fits) // (a * EACH))
        at_once = max(1, pairs // TOGETHER)  # instances
        step = max(1, pairs // min(n, at_once) // TOGETHER) * TOGETHER
        for d in range(first, stop, step):
            orders = sampling.orders(self.seed, P, d, min(d + step, stop))
            rank = np.argsort(orders, axis=1).astype(np.int32)
            for i in range(0, n, at_once):
                part = slice(i, min(i + at_once, n))
                yield part, *self._pairs(some[part], who[part], rank)

    def _pairs(
        self, some: np.ndarray, who: np.ndarray, rank: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(pairs [n, d, a, K], the largest |v(S) - v(nothing)| [n]); rank: of each player [d, P]"""
        n, a = who.shape
        own = np.moveaxis(rank[:, who], 0, 1)[..., None]  # [n, d, a, 1]
        others = rank[None, :, None]
        kept = np.stack([others < own, others <= own, others > own, others >= own], axis=3)
        v = self.game.own_values(kept.reshape(n, -1, self.game.P), self.rows[some])
        v = v.reshape(n, len(rank), a, EACH, -1)
        far = np.abs(v - self.base[some][:, None, None, None]).reshape(n, -1).max(axis=1)
        without, joined, behind, joined_behind = np.moveaxis(v, 3, 0)
        return (joined - without + joined_behind - behind) / 2, far


def _largest(undecided: np.ndarray, values: np.ndarray, most: int) -> np.ndarray:
    """The `most` largest of the undecided players, or all, bool [n, P]; values [n, P, K]."""
    size = np.where(undecided, np.abs(values).max(axis=2), -1.0)
    order = np.argsort(-size, axis=1, kind="stable")[:, :most]
    found = np.zeros_like(undecided)
    np.put_along_axis(found, order, True, axis=1)
    return found & undecided


def _adding_up(
    contest: Contesting, before: np.ndarray, errors: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values that add up to what they did before, standard errors, whether the order is the same).

    before: values [n, P, K] of the pairs in which all were asked, errors theirs. A sum that is
    known is a regression: what some moved by goes to the others by their variances. Nothing is
    known of how the two go together, so its error is added as if they went fully together.
    """
    values, found = contest.values(), contest.std_errors()
    counts = contest.counts
    still = (counts == counts.min(axis=1, keepdims=True))[:, :, None]
    variance = np.where(still, errors**2, 0.0)
    variance = np.where(variance.sum(axis=1, keepdims=True) > 0, variance, found**2)
    total = variance.sum(axis=1, keepdims=True)
    share = np.divide(variance, total, out=np.zeros_like(variance), where=total > 0)
    told = values - share * (values - before).sum(axis=1, keepdims=True)
    width = np.where(still, 0.0, errors).sum(axis=1, keepdims=True)
    claims = [_claimed(one, contest.k) for one in (values, told)]
    same = (claims[0] == claims[1]).all(axis=(1, 2))
    return told, np.where(still, found + share * width, found), same


def _claimed(values: np.ndarray, k: int) -> np.ndarray:
    """The signs of the k largest, 0 of the others; [n, P, K]."""
    order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :k]
    found = np.zeros_like(values)
    np.put_along_axis(found, order, np.sign(np.take_along_axis(values, order, axis=1)), axis=1)
    return found
