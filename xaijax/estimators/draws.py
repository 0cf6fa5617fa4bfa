"""Draws of (order, x, u): influences sampled from single hybrids, with their standard errors.

Every draw has coalitions of its own (those along an order of the players, say) and one donor u,
and, for quantities of the whole data, one row x. What is drawn for coalitions depends on (seed,
draw); the donor of an individual on (seed, its bytes, draw). The terms of the draws are independent
and each has the wanted value for its mean (QII paper, V-B; the spec's 2.6).

Letters: N games, D draws, P players, L coalitions of a draw, T terms of a draw, G strata, K scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from xaijax.games._fingerprints import fingerprints
from xaijax.games.game import Game
from xaijax_kernels import sampling

ROWS_OF_CHUNK = 1 << 13  # model rows of one game that are summed together
ROWS_AT_A_TIME = 1 << 20


class Design(Protocol):
    """Which coalitions a draw asks, and what their values give."""

    @property
    def coalitions(self) -> int:
        """L."""
        ...

    @property
    def terms(self) -> int:
        """T."""
        ...

    def masks(self, first: int, stop: int) -> np.ndarray:
        """Kept players of the draws first..stop-1; bool [D, L, P]."""
        ...

    def of(self, values: np.ndarray, first: int) -> np.ndarray:
        """Terms of scores [n, D, L, K]; [n, D, T, K]."""
        ...


@dataclass(frozen=True)
class Orders:
    """Marginal influences along random orders: an unbiased term for every player.

    In a random order i comes after each single set of size s with chance s! (P-s-1)! / P!, so the
    marginal there counts with p(s) P C(P-1, s): 1 for Shapley.
    """

    seed: int
    P: int
    p: np.ndarray  # [P], weights of single sets of replaced players

    @property
    def coalitions(self) -> int:
        """P + 1: from nothing replaced to everything."""
        return self.P + 1

    @property
    def terms(self) -> int:
        """P."""
        return self.P

    @property
    def factors(self) -> np.ndarray:
        """[P], by the number of players replaced before."""
        P = self.P
        return np.array([self.p[s] * P * math.comb(P - 1, s) for s in range(P)])

    def masks(self, first: int, stop: int) -> np.ndarray:
        """See `Design`."""
        orders = sampling.orders(self.seed, self.P, first, stop)
        place = np.argsort(orders, axis=1)  # of each player in the order
        return place[:, None, :] >= np.arange(self.P + 1)[:, None]

    def of(self, values: np.ndarray, first: int) -> np.ndarray:
        """See `Design`."""
        D = values.shape[1]
        orders = sampling.orders(self.seed, self.P, first, first + D)
        change = (values[:, :, :-1] - values[:, :, 1:]) * self.factors[:, None]
        out = np.empty_like(change)
        np.put_along_axis(out, orders[None, :, :, None].astype(np.int64), change, axis=2)
        return out


@dataclass(frozen=True)
class Sets:
    """Marginal influences on random sets: each player with chance 1/2 (Banzhaf), or by Pr[S]."""

    seed: int
    P: int
    chance: np.ndarray | None = None  # [2^P]; None: every set alike

    @property
    def coalitions(self) -> int:
        """P + 1: the set, and the set with each player changed."""
        return self.P + 1

    @property
    def terms(self) -> int:
        """P."""
        return self.P

    def replaced(self, first: int, stop: int) -> np.ndarray:
        """The sets, bool [D, P]."""
        if self.chance is None:
            return sampling.coalitions(self.seed, self.P, first, stop)
        share = self.chance / self.chance.sum()
        drawn = sampling.places(self.seed, (sampling.CHANCES,), share, stop)[first:]
        return ((drawn[:, None] >> np.arange(self.P)) & 1).astype(bool)

    def masks(self, first: int, stop: int) -> np.ndarray:
        """See `Design`."""
        S = self.replaced(first, stop)[:, None, :]
        changed = np.concatenate([np.zeros((1, self.P), bool), np.eye(self.P, dtype=bool)])
        return ~(S ^ changed)

    def of(self, values: np.ndarray, first: int) -> np.ndarray:
        """See `Design`. Pr[S] has no term for the players in S, and is not renormalised."""
        S = self.replaced(first, first + values.shape[1])[None, :, :, None]
        change = values[:, :, :1] - values[:, :, 1:]  # Q(S) - Q(S with i changed)
        if self.chance is None:
            return np.where(S, -change, change)
        return np.where(S, 0.0, change) * self.chance.sum()


@dataclass(frozen=True)
class Listed:
    """The same coalitions in every draw; the terms are sums of their scores."""

    kept: np.ndarray  # bool [L, P]
    contrast: np.ndarray  # float64 [T, L]

    @property
    def coalitions(self) -> int:
        """L."""
        return len(self.kept)

    @property
    def terms(self) -> int:
        """T."""
        return len(self.contrast)

    def masks(self, first: int, stop: int) -> np.ndarray:
        """See `Design`."""
        return np.broadcast_to(self.kept, (stop - first, *self.kept.shape))

    def of(self, values: np.ndarray, first: int) -> np.ndarray:
        """See `Design`."""
        return np.einsum("tl,ndlk->ndtk", self.contrast, values)


class Rows:
    """Which instance and donor the draws of a game take."""

    def __init__(self, game: Game, seed: int, count: int, shared: bool) -> None:
        """count: the most draws; shared: all individuals take the same donors.

        A donor is drawn by its weight; with a user's sampler draw d takes row d.
        """
        replacement = game.evaluator.replacement
        groups = game.quantity.groups
        self.strata = 1 if groups is None else len(groups)
        self.games = game.N if groups is None else 1
        self._groups, self._seed, self._count = groups, seed, count
        self._weights = replacement.weights
        self._keys = None
        self._sampler = replacement.kind == "sampler"
        if groups is None and not shared and not self._sampler:
            ask = game.ask
            step = ask.evaluator.rows_at_a_time
            parts = [
                fingerprints(ask.table_of_rows.decode(ask.codes[n : n + step]))
                for n in range(0, game.N, step)
            ]
            self._keys = np.concatenate(parts)

    def drawn(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """(instance, donor) of all draws of game n; int64 [count] each. Strata take turns."""
        count, stream = self._count, (sampling.DONORS,)
        if self._keys is not None:
            key = int(self._keys[n])
            stream = (*stream, key >> 32, key & 0xFFFFFFFF)
        if self._sampler:
            donor = np.arange(count)
        else:
            donor = sampling.places(self._seed, stream, self._weights, count)
        if self._groups is None:
            return np.full(count, n), donor
        instance = np.empty(count, np.int64)
        for g, weights in enumerate(self._groups):
            own = instance[g :: self.strata]
            own[:] = sampling.places(self._seed, (sampling.ROWS, g), weights, len(own))
        return instance, donor


@dataclass
class Moments:
    """Running means and sums of squares of terms, per stratum, float64."""

    count: np.ndarray  # int64 [G]
    mean: np.ndarray  # [n, G, T, K]
    square: np.ndarray  # [n, G, T, T', K]: products of deviations, T' = T or 1 (the diagonal)

    @classmethod
    def zeros(cls, n: int, G: int, T: int, K: int, joint: bool) -> Moments:
        """Nothing added yet; joint: also the products of different terms."""
        return cls(
            np.zeros(G, np.int64), np.zeros((n, G, T, K)), np.zeros((n, G, T, T if joint else 1, K))
        )

    def add(self, g: int, terms: np.ndarray) -> None:
        """The terms [n, D, T, K] of a chunk of stratum g (Chan, Golub and LeVeque 1979)."""
        D = terms.shape[1]
        if not D:
            return
        mean = terms.mean(axis=1)
        rest = terms - mean[:, None]
        joint = self.square.shape[3] > 1
        if joint:
            square = np.einsum("ndtk,ndsk->ntsk", rest, rest)
        else:
            square = np.square(rest).sum(axis=1)[:, :, None]
        before, gap = self.count[g], mean - self.mean[:, g]
        total = before + D
        share = before * D / total
        across = gap[:, :, None] * gap[:, None] if joint else np.square(gap)[:, :, None]
        self.square[:, g] += square + share * across
        self.mean[:, g] += gap * (D / total)
        self.count[g] = total


def chunk_of(design: Design) -> int:
    """Draws that are summed together: a function of the question alone, so that bits are too."""
    return max(1, ROWS_OF_CHUNK // design.coalitions)


@dataclass
class Sampling:
    """A run of draws for some of the games: `step` goes on, `moments` says what came out."""

    game: Game
    design: Design
    rows: Rows
    chosen: np.ndarray  # int64 [n], games
    joint: bool = False
    moments: Moments = field(init=False)
    done: int = 0

    def __post_init__(self) -> None:
        n, K = len(self.chosen), self.game.outputs
        self.moments = Moments.zeros(n, self.rows.strata, self.design.terms, K, self.joint)
        self._drawn = [self.rows.drawn(int(one)) for one in self.chosen]

    def step(self, stop: int) -> None:
        """Draw until `stop` draws are done."""
        chunk = chunk_of(self.design)
        while self.done < stop:
            last = min(stop, self.done - self.done % chunk + chunk)
            terms = asked_terms(self.game, self.design, self._drawn, self.done, last)
            for g in range(self.rows.strata):
                start = (g - self.done) % self.rows.strata
                self.moments.add(g, terms[:, start :: self.rows.strata])
            self.done = last

    def only(self, left: np.ndarray) -> Sampling:
        """The run of some of its games [bool n], to go on with."""
        one = Sampling.__new__(Sampling)
        one.__dict__.update(self.__dict__)
        one.chosen = self.chosen[left]
        one._drawn = [d for d, keep in zip(self._drawn, left, strict=True) if keep]
        m = self.moments
        one.moments = Moments(m.count.copy(), m.mean[left], m.square[left])
        return one


def asked_terms(
    game: Game,
    design: Design,
    drawn: list[tuple[np.ndarray, np.ndarray]],
    first: int,
    stop: int,
) -> np.ndarray:
    """The terms of the draws first..stop-1 of each game; [n, D, T, K]."""
    masks = design.masks(first, stop)
    D, L, P = masks.shape
    instance = np.stack([i[first:stop] for i, _ in drawn])  # [n, D]
    donor = np.stack([u[first:stop] for _, u in drawn])
    here, place = np.unique(instance, return_inverse=True)
    coalition = np.broadcast_to(np.arange(D * L).reshape(D, L), (len(drawn), D, L))

    def spread(one: np.ndarray) -> np.ndarray:
        return np.broadcast_to(one.reshape(-1, D, 1), coalition.shape).ravel()

    answers = game.ask.rows_asked(
        here, spread(place), spread(donor), coalition.ravel(), masks.reshape(-1, P)
    )
    return design.of(answers.reshape(*coalition.shape, -1), first)


def runs(
    game: Game, design: Design, rows: Rows, joint: bool = False
) -> Iterator[tuple[np.ndarray, Sampling]]:
    """(games, their run) for as many games as fit the memory together."""
    per_game = chunk_of(design) * design.coalitions
    fits = min(ROWS_AT_A_TIME, game.evaluator.max_memory // 8 // (64 + 32 * game.outputs))
    step = max(1, min(fits // per_game, game.evaluator.rows_at_a_time))
    for n in range(0, rows.games, step):
        chosen = np.arange(n, min(n + step, rows.games))
        yield chosen, Sampling(game, design, rows, chosen, joint)


def linear(moments: Moments, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(value, standard error) of sum_g factors[g] mean_g; [n, T, K] each.

    NaN errors where a stratum has fewer than two draws.
    """
    value = np.tensordot(factors, moments.mean, axes=(0, 1))
    count = moments.count.astype(float)
    diagonal = moments.square
    if diagonal.shape[3] > 1:
        T = diagonal.shape[2]
        diagonal = diagonal[:, :, np.arange(T), np.arange(T)][:, :, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(count > 1, factors**2 / (count * (count - 1)), np.nan)
    return value, np.sqrt(np.tensordot(scale, diagonal[:, :, :, 0], axes=(0, 1)))


def smooth(
    moments: Moments, function: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(value, standard error) of function([n, G, T, K]) -> [n, V, K] of the means.

    By the delta method: the function's slopes, by central differences, and the means' covariance.
    """
    mean, count = moments.mean, moments.count.astype(float)
    n, G, T, K = mean.shape
    value = function(mean)
    variance = np.zeros_like(value)
    h = 1e-6
    for g in range(G):
        slopes = []
        for t in range(T):
            moved = np.zeros_like(mean)
            moved[:, g, t] = h
            slopes.append((function(mean + moved) - function(mean - moved)) / (2 * h))
        slope = np.stack(slopes, axis=1)  # [n, T, V, K]
        scale = 1 / (count[g] * (count[g] - 1)) if count[g] > 1 else np.nan
        variance += scale * np.einsum("ntvk,ntsk,nsvk->nvk", slope, moments.square[:, g], slope)
    return value, np.sqrt(np.maximum(variance, 0.0))


def degrees_of_freedom(moments: Moments) -> float:
    """Of the standard errors: the smallest stratum's draws less one."""
    return float(max(moments.count.min() - 1, 0))


def bernstein_half_width(
    moments: Moments, factors: np.ndarray, width: Any, delta: float
) -> np.ndarray:
    """Half-widths that hold together with chance 1 - delta, float64 [n, T, K].

    Empirical Bernstein (Audibert, Munos and Szepesvari 2009, theorem 1), terms of width `width`,
    each stratum with its share of delta: sqrt(2 V log(3/delta) / n) + 3 width log(3/delta) / n.
    """
    log = math.log(3 * len(factors) / delta)
    out: Any = 0.0
    for g, factor in enumerate(factors):
        n = max(int(moments.count[g]), 1)
        variance = moments.square[:, g, :, 0] / n
        out = out + abs(factor) * (np.sqrt(2 * variance * log / n) + 3 * width * log / n)
    return np.asarray(out)
