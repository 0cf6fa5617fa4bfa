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

from xaijax.estimators.stopping.contest import bytes_each
from xaijax.estimators.stopping.rule import Contesting, Look, Rule
from xaijax.games.game import Game
from xaijax_kernels.games import sampling

EACH = 4  # coalitions of a player and a pair
WORTH = 0.5  # of the coalitions of a whole pair, that those of its contenders are at most
LISTED = 1 << 15  # coalitions that are asked together
FEWEST = 16  # pairs in which all are asked


# (instances [n], players int [n, a], first pair, the one after the last) -> pairs [n, d, a, K] some
# at a time, and the largest |v(S) - v(nothing)| asked for them, [n].
Ask = Callable[[np.ndarray, np.ndarray, int, int], Iterator[tuple[np.ndarray, np.ndarray]]]


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
    return (count > 0) & (EACH * count <= WORTH * 2 * (P - 1)) & (pairs >= FEWEST)


def contested(
    game: Game,
    rule: Rule,
    look: Look,
    chosen: np.ndarray,
    rows: np.ndarray,
    base: np.ndarray,
    further: Further,
) -> list[Ended]:
    """Ask the contenders of the look's instances `chosen` [n], as many at a time as fit the memory.

    rows: the game's instances of the look, base [N, K] their v(nothing).
    """
    _, P, K = look.result.values.shape
    step = max(1, game.setting.max_memory // 8 // bytes_each(P, K))
    ended = []
    for first in range(0, len(chosen), step):
        some = chosen[first : first + step]
        asking = _Asking(game, rows[some], base[some], further.seed)
        found = to_end(rule, look, some, asking, further)
        if found is not None:
            ended.append(found)
    return ended


def to_end(rule: Rule, look: Look, chosen: np.ndarray, ask: Ask, further: Further) -> Ended | None:
    """All further checks of the look's instances `chosen` [n], until nobody goes on; None: the rule
    has all players asked.

    An instance ends when its claim is certain, where it hangs on a player who is not asked any
    more, and where the next check would take it beyond the budget.
    """
    contest = rule.contest(look, chosen)
    if contest is None:
        return None
    n, at, before = len(chosen), look.pairs, contest.values()
    spent, pairs, span = np.full(n, further.asked), np.full(n, at), np.zeros(n)
    going, met = np.ones(n, bool), np.zeros(n, bool)
    for stop in further.stops:
        undecided = contest.undecided()
        met |= going & ~undecided.any(axis=1)
        stuck = (undecided & (contest.place < 0)).any(axis=1)
        count = undecided.sum(axis=1)
        cost = EACH * count * (stop - at)
        going &= ~met & ~stuck & (spent + cost <= further.budget)
        if not going.any():
            break
        for size in np.unique(count[going]):
            some = np.flatnonzero(going & (count == size))
            who = np.nonzero(undecided[some])[1].reshape(len(some), -1)
            place = np.take_along_axis(contest.place[some], who, axis=1)
            for drawn, far in ask(some, who, at, stop):
                contest.add(some, place, drawn)
                span[some] = np.maximum(span[some], far)
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
    rows: np.ndarray  # int [n], of the game
    base: np.ndarray  # [n, K]
    seed: int

    def __call__(
        self, some: np.ndarray, who: np.ndarray, first: int, stop: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """See `Ask`."""
        game, (n, a) = self.game, who.shape
        step = max(1, LISTED // (n * a * EACH))
        for d in range(first, stop, step):
            orders = sampling.orders(self.seed, game.P, d, min(d + step, stop))
            rank = np.argsort(orders, axis=1)
            own = np.moveaxis(rank[:, who], 0, 1)[..., None]  # [n, d, a, 1]
            others = rank[None, :, None]
            kept = np.stack([others < own, others <= own, others > own, others >= own], axis=3)
            v = game.own_values(kept.reshape(n, -1, game.P), self.rows[some])
            v = v.reshape(n, len(orders), a, EACH, -1)
            far = np.abs(v - self.base[some][:, None, None, None]).reshape(n, -1).max(axis=1)
            without, joined, behind, joined_behind = np.moveaxis(v, 3, 0)
            yield (joined - without + joined_behind - behind) / 2, far


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
