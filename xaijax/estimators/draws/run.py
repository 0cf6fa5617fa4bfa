"""Samples influences from single hybrids, by draws of (order, x, u).

Every draw has its own coalitions (`designs`) and one donor u, and, for quantities of the whole
data, one row x. The coalitions depend on (seed, draw), the donor of an individual on (seed, its
bytes, draw). Means of the terms have standard errors, and intervals that hold at every check.

Letters: N games, n games of a run, G strata, D draws, P players, L coalitions of a draw, T terms, K
scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xaijax.estimators.draws.designs import Design
from xaijax.games.engine.player_values import Values
from xaijax.games.run import GameRun
from xaijax.games.strategies.drawn import drawn as by_parts
from xaijax.games.strategies.drawn import drawn_values
from xaijax_kernels.games import sampling

ROWS_OF_CHUNK = 1 << 13  # model rows of one game that are summed together
ROWS_AT_A_TIME = 1 << 20


class DrawnRows:
    """The instances and donors of the draws of a game."""

    def __init__(self, game: GameRun, seed: int, shared: bool) -> None:
        """shared: all individuals take the same donors.

        A donor is drawn by its weight; with a user's sampler draw d takes row d.
        """
        replacement = game.engine.replacement
        groups = game.quantity.groups
        self.strata = 1 if groups is None else len(groups)
        self.games = game.N if groups is None else 1
        self._seed = seed
        self._donors = sampling.Wheel(replacement.weights)
        self._members = None if groups is None else [sampling.Wheel(weights) for weights in groups]
        self._keys = None
        self._sampler = replacement.kind == "sampler"
        if groups is None and not shared and not self._sampler:
            self._keys = game.fingerprints()

    def drawn(self, n: int, first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """(instance, donor) of the draws first..stop-1 of game n; int64 each. Strata alternate."""
        stream, G = (sampling.DONORS,), self.strata
        if self._keys is not None:
            key = int(self._keys[n])
            stream = (*stream, key >> 32, key & 0xFFFFFFFF)
        if self._sampler:
            donor = np.arange(first, stop)
        else:
            donor = self._donors.places(self._seed, stream, first, stop)
        if self._members is None:
            return np.full(stop - first, n), donor
        instance = np.empty(stop - first, np.int64)
        for g, wheel in enumerate(self._members):
            # Draw d is number d // G of stratum d % G.
            span = (first - g + G - 1) // G, (stop - g + G - 1) // G
            instance[(g - first) % G :: G] = wheel.places(self._seed, (sampling.ROWS, g), *span)
        return instance, donor


def chunk_of(design: Design) -> int:
    """Number of draws that are summed together, by the design alone, so that results are
    identical."""
    return max(1, ROWS_OF_CHUNK // design.coalitions)


@dataclass
class Sampling:
    """A run of draws for some of the games: `step` continues, `moments` holds the results."""

    game: GameRun
    design: Design
    rows: DrawnRows
    chosen: np.ndarray  # int64 [n], games
    moments: TermMoments
    done: int = 0

    def step(self, stop: int) -> None:
        """Draws until `stop` draws are done.

        Chunks are evaluated together if possible, and summed one by one.
        """
        chunk, values = chunk_of(self.design), drawn_values(self.game, self.design.coalitions)
        rows = len(self.chosen) * self.design.coalitions * chunk
        together = chunk * max(1, ROWS_AT_A_TIME // rows) if values is not None else chunk
        while self.done < stop:
            first = self.done
            last = min(stop, first - first % chunk + together)
            drawn = [self.rows.drawn(int(n), first, last) for n in self.chosen]
            both = np.stack(drawn, axis=1)
            terms = asked_terms(self.game, self.design, both, first, values)
            if terms is None:  # evaluated again row by row, to name the invalid output
                values, together = None, chunk
                continue
            while self.done < last:
                end = min(last, self.done - self.done % chunk + chunk)
                part = terms[:, self.done - first : end - first]
                for g in range(self.rows.strata):
                    start = (g - self.done) % self.rows.strata
                    self.moments.add(g, part[:, start :: self.rows.strata])
                self.done = end

    def only(self, left: np.ndarray) -> Sampling:
        """The run of the games bool [n]; this one must not be continued."""
        m = self.moments
        moments = TermMoments(m.count.copy(), m.mean[left], m.square[left])
        return replace(self, chosen=self.chosen[left], moments=moments)


def asked_terms(
    game: GameRun, design: Design, drawn: Any, first: int, values: Values | None = None
) -> np.ndarray | None:
    """The terms of D draws of each game from draw `first` on, [n, D, T, K]; None: an output of
    `values` is invalid.

    drawn: instance and donor, int [n, D] each; values: the players' terms that replace rows, see
    `parts_of_draws`.
    """
    instance, donor = drawn
    stop = first + donor.shape[1]
    if values is not None:
        masks = design.masks(first, stop) if design.listed is None else design.listed[None]
        scores = by_parts(game, values, instance, donor, masks)
        if scores is None:
            return None
        game.structure = game.engine.structure_name
        return design.of(scores, first)
    masks = design.masks(first, stop)
    D, L, P = masks.shape
    chosen, place = np.unique(instance, return_inverse=True)
    pairs = np.repeat(place, L), np.repeat(donor, L)
    coalition = np.tile(np.arange(D * L), len(donor))
    answers = game.rows_asked(chosen, *pairs, coalition, masks.reshape(-1, P))
    return design.of(answers.reshape(len(donor), D, L, -1), first)


def runs(game: GameRun, design: Design, rows: DrawnRows, joint: bool = False) -> Iterator[Sampling]:
    """The runs of all games, each with as many games as fit the memory."""
    per_game, K = chunk_of(design) * design.coalitions, game.probe().outputs
    fits = min(ROWS_AT_A_TIME, game.engine.memory.fits("answers", 64 + 32 * K))
    step = max(1, min(fits // per_game, game.engine.rows_at_a_time))
    for n in range(0, rows.games, step):
        chosen = np.arange(n, min(n + step, rows.games))
        moments = TermMoments.zeros(len(chosen), rows.strata, design.terms, K, joint)
        yield Sampling(game, design, rows, chosen, moments)


@dataclass
class TermMoments:
    """Running means and sums of squares of terms, per stratum, float64."""

    count: np.ndarray  # int64 [G]
    mean: np.ndarray  # [n, G, T, K]
    square: np.ndarray  # [n, G, T, T', K]: products of deviations, T' = T or 1 (the diagonal)

    @classmethod
    def zeros(cls, n: int, G: int, T: int, K: int, joint: bool) -> TermMoments:
        """Sums with nothing added yet; joint: also the products of different terms."""
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
            by_score = np.moveaxis(rest, 3, 1)  # [n, K, D, T]
            square = np.moveaxis(by_score.swapaxes(2, 3) @ by_score, 1, 3)
        else:
            square = np.square(rest).sum(axis=1)[:, :, None]
        before, gap = self.count[g], mean - self.mean[:, g]
        total = before + D
        share = before * D / total
        across = gap[:, :, None] * gap[:, None] if joint else np.square(gap)[:, :, None]
        self.square[:, g] += square + share * across
        self.mean[:, g] += gap * (D / total)
        self.count[g] = total


def linear(moments: TermMoments, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(value, standard error) of sum_g factors[g] mean_g, if moments are not joint; [n, T, K] each.

    Errors are NaN if a stratum has fewer than two draws.
    """
    assert moments.square.shape[3] == 1, "joint moments"
    value = np.tensordot(factors, moments.mean, axes=(0, 1))
    count = moments.count.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(count > 1, factors**2 / (count * (count - 1)), np.nan)
    return value, np.sqrt(np.tensordot(scale, moments.square[:, :, :, 0], axes=(0, 1)))


def smooth(
    moments: TermMoments, function: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(value, standard error) of function([n, G, T, K]) -> [n, V, K] of the means, by the delta
    method: the function's slopes, by central differences, and the means' covariance.
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


def degrees_of_freedom(moments: TermMoments) -> float:
    """Degrees of freedom of the standard errors: the smallest stratum's draws minus one."""
    return float(max(moments.count.min() - 1, 0))


def bernstein_half_width(
    moments: TermMoments, factors: np.ndarray, width: Any, delta: float
) -> np.ndarray:
    """Half-widths that hold together with probability 1 - delta, float64 [n, T, K].

    They are empirical Bernstein bounds (Audibert, Munos and Szepesvari 2009, theorem 1) for terms
    of width `width`, each stratum with its share of delta: sqrt(2 V log(3/delta) / n) + 3 width
    log(3/delta) / n.
    """
    log = math.log(3 * len(factors) / delta)
    out: Any = 0.0
    for g, factor in enumerate(factors):
        n = max(int(moments.count[g]), 1)
        variance = moments.square[:, g, :, 0] / n
        out = out + abs(factor) * (np.sqrt(2 * variance * log / n) + 3 * width * log / n)
    return np.asarray(out)
