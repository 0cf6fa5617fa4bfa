"""Gaussian processes over coalitions: the posterior of a game, given some of its outputs.

In signs z (1 for members, -1 for others) a game is a sum of c_R chi_R, chi_R = product of z_i over
R (its Walsh, or Fourier, coefficients). Half the sum of v(S) and v(complement), the even part of
the game, holds the sets R of even size: interactions of two players depend on it alone. Half the
difference, the odd part, holds those of odd size: values of players depend on it alone.

The c_R are assumed independent and normal, with variance tau^2 times the product of rho_i over R:
interactions of many players are small, and the data determine how small. The sum over all R is a
product over players, (1 + rho_i z_i z'_i) (O'Donnell 2014, "Analysis of Boolean functions", section
2.4: the noise operator). With a = sum of log(1 - rho_i^2) / 2, w_i = artanh(rho_i) and x = sum of
w_i z_i z'_i, the covariance of two coalitions is e^a cosh(x) for even parts, and e^a sinh(x) for
odd parts. The level of even parts and the single players of odd parts have flat priors, because
they tell nothing about the rest.

`EvenProcess` serves many outputs at the same coalitions. All players have one rate, so the
covariance depends on the distance of two coalitions only. The process would shrink pairs far above
the scale of the others, with false certainty. They can be detected: under the process the score of
a pair, the product of its whitened column with the residuals, divided by its norm and tau, is
standard normal. Pairs whose score exceeds the expected maximum of all scores get a column with a
flat prior, largest first, a few at a time, until none is left (orthogonal matching pursuit: Pati,
Rezaiifar and Krishnaprasad 1993; several at a time: Donoho et al. 2012, "Sparse solution of
underdetermined systems by stagewise orthogonal matching pursuit").

`OddProcess` serves one output. Each player has its own rate, so players without interactions do not
enter the process. Equations are numbered as in Rasmussen and Williams 2006, "Gaussian processes for
machine learning".

Letters: R outputs, one per instance and output; P players; D coalitions with known even or odd
part; q columns with flat priors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from xaijax.estimators.estimator import chunks

# Nodes of Legendre's rule: the mean of u^k is exact up to k = 47, and to 1e-9 up to 128.
NODES = 24

# Constants of even parts.
RATES = (0.001, 0.01, 0.03, 0.06, 0.1, 0.15, 0.22, 0.32, 0.45, 0.6, 0.8, 0.95)  # of rho
JITTER = 1e-9  # share of the variance: far above the squared rounding of float32 outputs
ALIKE = 1e-12  # added to the products of unit columns: not more than rounding
SEEN = 1e-6  # share of a coalition's precision below which the trend alone determines its output
DECIDE = 400  # number of outputs that decide the rate
# Probability in `tells_apart` above which no large pairs are searched. Over 60 seeds two pairs were
# confused with two others 5 times for three large pairs of 30 players at 80 coalitions (0.21), 3
# times for fifteen of 25 players at 100 (0.015), and never for three of 30 at 120 (0.005).
CONFUSED = 0.01
BY_CHANCE = 0.05  # probability that the largest score under the process exceeds the bound
APART = 1e-6  # share of a column below which others contain it: squared roundings
CLOSE = 0.7  # share of the largest score: pairs above it are taken together
ROUNDS = 3  # rounds of choosing a rate, then pairs
TOGETHER = 512  # pairs, or sets, that are whitened at a time
KEEPS = 1 << 23  # numbers in all pairs' columns up to which those of one rate are cached
HELD = 1 << 21  # numbers of the trends that are held at a time

# Constants of odd parts.
FLAT = 100.0  # variance of flat priors, relative to that of all larger sets
NOISE = 1e-6  # share of the variance of larger sets: keeps the matrix positive definite
BY = 256  # outputs that choose the rates, or two per player; time is cubic in it
STEPS = 10  # steps of L-BFGS; twice as many changed no error by more than 1 %
SPREAD = 1.5  # a rate is within a factor of 20 of the usual one with 95 % probability
SMALLEST, LARGEST = 1e-4, 0.9
SUM = 200.0  # maximum sum of artanh(rate): its exponential is in range

Nodes = tuple[np.ndarray, np.ndarray]  # values of u, and their weights


def nodes_of(P: int, draws_orders: bool) -> Nodes:
    """Values of u and their weights, by which an index is a mean over u.

    The value of i is 2 sum over R with i of c_R E[u^(|R| - 1)], and the interaction I(S) is the sum
    over R with S of 2^s c_R E[u^(|R| - s)], with u = 2 q - 1: q is uniform from 0 to 1 for Shapley,
    whose sets have each other player with probability q (Owen 1972, "Multilinear extensions of
    games"; Grabisch and Roubens 1999), and 1/2 for Banzhaf. Only even powers of u play a part.
    """
    if not draws_orders:
        return np.zeros(1), np.ones(1)
    u, weights = np.polynomial.legendre.leggauss(min(P // 2 + 1, NODES))
    return (u + 1) / 2, weights / 2


class Whitening(NamedTuple):
    """The whitening transform of a covariance of D outputs, scaled to variance 1."""

    rate: float
    white: np.ndarray  # [D, D], the inverse of its Cholesky factor
    log_det: float


class Chosen(NamedTuple):
    """The rate and the large pairs of each output."""

    rates: np.ndarray  # int64 [R], positions in RATES
    pairs: np.ndarray  # int64 [R, most], positions in `np.triu_indices(P, 1)`; -1: no more


class Trend(NamedTuple):
    """Columns with flat priors, fitted to the outputs `rows` (universal kriging: section 2.7)."""

    rows: np.ndarray  # int64 [R], outputs
    pairs: np.ndarray  # int64 [R, q - 1], their large pairs
    fit: Whitening
    columns: np.ndarray  # [R, D, q], whitened; zeros if an output has fewer
    inverse: np.ndarray  # [R, q, q], of their products
    weights: np.ndarray  # [R, q]
    left: np.ndarray  # [R, D], residuals of the whitened outputs
    freedom: np.ndarray  # [R], D minus their number
    log_det: np.ndarray  # [R], of their products
    apart: np.ndarray  # [R], the smallest share of a column that the others do not contain

    @property
    def squares(self) -> np.ndarray:
        """The residual sum of squares, [R]."""
        return (self.left**2).sum(axis=1)

    @property
    def variance(self) -> np.ndarray:
        """tau^2, [R], by the likelihood, or by the leave-one-out residuals if these are larger:
        a game may be rougher than the process assumes (section 5.4.2; Bachoc 2013, "Cross
        validation and maximum likelihood estimations of hyper-parameters of Gaussian processes
        with model misspecification").
        """
        white = self.fit.white
        trend = np.matmul(white.T, self.columns)
        total = (white**2).sum(axis=0)
        precision = total - (np.matmul(trend, self.inverse) * trend).sum(axis=2)
        off = np.matmul(white.T, self.left[..., None])[..., 0] ** 2
        seen = precision > SEEN * total
        alone = np.where(seen, off / np.where(seen, precision, 1.0), 0.0).sum(axis=1)
        return np.maximum(self.squares / self.freedom, alone / np.maximum(1, seen.sum(axis=1)))


class EvenProcess:
    """The process of even parts at D coalitions, for all outputs y [R, D]."""

    def __init__(self, signs: np.ndarray, draws_orders: bool) -> None:
        """signs: float64 [D, P], 1 for members, -1 others; draws_orders: for Shapley's index."""
        self.signs, (self.D, self.P) = signs, signs.shape
        self.pairs = np.stack(np.triu_indices(self.P, 1), axis=1)  # [pairs, 2]
        alone = np.stack([np.arange(self.P), np.full(self.P, -1)], axis=1)
        self.sets = np.concatenate([alone, self.pairs])  # (i, -1): all pairs with a player
        self._nodes, self._distance = nodes_of(self.P, draws_orders), _distance(signs, signs)
        self._fits: dict[tuple[float, int], Whitening] = {}
        self._sizes: dict[float, np.ndarray] = {}
        # Whether all columns are whitened once per rate: decided by the process alone, so that an
        # output's result does not depend on the other outputs of the call.
        self._keeps = self.D * len(self.pairs) <= KEEPS
        self._kept: dict[str, tuple[float, list[Any]]] = {}

    @cached_property
    def tells_apart(self) -> bool:
        """Whether the coalitions distinguish two pairs {a, b} and {c, d} from {a, d} and {c, b}.

        They do if one has z_a != z_c and z_b != z_d, since z_a z_b + z_c z_d is z_a z_d + z_c z_b
        in all others. A coalition with a share q of the players has that for a given four with
        probability (2 q (1 - q))^2. It must be as rare as CONFUSED that none has.
        """
        q = (self.signs > 0).mean(axis=1)
        return bool(np.log1p(-((2 * q * (1 - q)) ** 2)).sum() < math.log(CONFUSED))

    def interactions(
        self, y: np.ndarray, chosen: Chosen
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(means, deviations [R, P + pairs], degrees of freedom [R]) of `sets`: the sums of all
        pairs with each player first, then the pairs.

        An interaction is a linear function of a process with a trend (equation 2.42; O'Hagan 1991,
        "Bayes-Hermite quadrature", for integrals of one).
        """
        means, deviations = (np.zeros((len(y), len(self.sets))) for _ in range(2))
        freedom = np.zeros(len(y))
        for trend in self._trends(y, chosen, self.D):
            rows, pairs, variance = trend.rows, trend.pairs, trend.variance
            freedom[rows] = trend.freedom
            for part, white, unseen in self._once("sets", trend.fit.rate, self._white_sets):
                for chunk in chunks(len(rows), white.shape[1] * (pairs.shape[1] + 1) * 3):
                    of_trend = self._in_trend(part, pairs[chunk])
                    mean = np.matmul(white.T, trend.left[chunk, :, None])[..., 0]
                    mean += np.matmul(trend.weights[chunk, None], of_trend)[:, 0]
                    unknown = of_trend - np.matmul(trend.columns[chunk].swapaxes(1, 2), white)
                    more = (unknown * np.matmul(trend.inverse[chunk], unknown)).sum(axis=1)
                    spread = np.maximum(unseen + more, 0) * variance[chunk, None]
                    means[rows[chunk], part] = mean
                    deviations[rows[chunk], part] = np.sqrt(spread)
        return means, deviations, freedom

    def expected(self, y: np.ndarray, chosen: Chosen, signs: np.ndarray) -> np.ndarray:
        """The posterior mean of even parts [R, D'] of other coalitions, signs [D', P]."""
        apart = _distance(self.signs, signs)
        means = np.zeros((len(y), len(signs)))
        for trend in self._trends(y, chosen, self.D):
            rows, pairs = trend.rows, trend.pairs
            white = trend.fit.white @ _by_distance(self.P, trend.fit.rate)[0][apart]  # [D, D']
            for chunk in chunks(len(rows), len(signs) * (pairs.shape[1] + 1)):
                columns = self._columns_of(signs, pairs[chunk])
                more = np.matmul(columns, trend.weights[chunk, :, None])
                more += np.matmul(white.T, trend.left[chunk, :, None])
                means[rows[chunk]] = more[..., 0]
        return means

    def choose(self, y: np.ndarray) -> Chosen:
        """The likeliest rate and the large pairs of each output.

        tau^2 and the trend are profiled out of the likelihood (chapter 5). No pair is taken if the
        coalitions may not distinguish two pairs from two others.
        """
        # The maximum that leaves both steps at least half of their degrees of freedom.
        most = max(1, min(self.D // 4, DECIDE // 2, len(self.pairs)))
        rates, pairs = np.full(len(y), -1), np.full((len(y), most), -1)
        rows = np.arange(len(y))
        for _ in range(ROUNDS):
            likely = self._likeliest(y[rows], pairs[rows])
            other = likely != rates[rows]
            rows = rows[other]
            rates[rows] = likely[other]
            pairs[rows] = self._large(y[rows], rates[rows], most)
            rows = rows[pairs[rows, 0] >= 0]  # without pairs the rate does not change
            if not len(rows):
                break
        return Chosen(rates, pairs)

    def _likeliest(self, y: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """Positions in RATES, int64 [R], given the pairs with flat priors [R, most]."""
        best, places = np.full(len(y), np.inf), np.zeros(len(y), np.int64)
        for number in range(len(RATES)):
            as_if = Chosen(np.full(len(y), number), pairs)
            for trend in self._trends(y, as_if, min(self.D, DECIDE)):
                rows = trend.rows
                with np.errstate(divide="ignore"):
                    criterion = trend.freedom * np.log(trend.squares)
                    criterion = criterion + trend.fit.log_det + trend.log_det
                better = rows[criterion < best[rows]]
                best[rows] = np.minimum(best[rows], criterion)
                places[better] = number
        return places

    def _large(self, y: np.ndarray, rates: np.ndarray, most: int) -> np.ndarray:
        """The pairs with flat priors, int64 [R, most], at these rates."""
        bound = NormalDist().inv_cdf(1 - BY_CHANCE / (2 * max(1, len(self.pairs))))
        pairs, counts = np.full((len(y), most), -1), np.zeros(len(y), np.int64)
        if not self.tells_apart:
            return pairs
        before = counts.copy()
        for number in np.unique(rates):
            searched = np.flatnonzero(rates == number)
            while len(searched):
                grown = []
                chosen = Chosen(rates[searched], pairs[searched])
                for trend in self._trends(y[searched], chosen, self.D):
                    rows, scores = searched[trend.rows], self._scores(trend)
                    # Pairs with dependent columns cannot be distinguished: those added last get the
                    # prior again, under which they share the effect.
                    alike = trend.apart < APART
                    back = rows[alike]
                    counts[back] = before[back]
                    pairs[back] = np.where(np.arange(most) < before[back, None], pairs[back], -1)
                    rows, scores = rows[~alike], scores[~alike]
                    order = np.argsort(-scores, axis=1, kind="stable")[:, :most]
                    ranked = np.take_along_axis(scores, order, axis=1)
                    taken = ranked >= np.maximum(bound, CLOSE * ranked[:, :1])
                    taken &= np.arange(order.shape[1]) < (most - counts[rows])[:, None]
                    n, place = np.nonzero(taken)
                    pairs[rows[n], counts[rows[n]] + place] = order[n, place]
                    before[rows] = counts[rows]
                    counts[rows] += taken.sum(axis=1)
                    grown.append(rows[taken.any(axis=1)])
                searched = np.concatenate(grown)
        return pairs

    def _scores(self, trend: Trend) -> np.ndarray:
        """The absolute scores of all pairs, [R, pairs]. The trend's share of a pair's column is
        ignored, so scores may be too small, but not too large.
        """
        i, j = self.pairs.T
        towards = np.matmul(trend.fit.white.T, trend.left[..., None])
        deviation = np.sqrt(trend.squares / trend.freedom)
        size = deviation[:, None] * np.sqrt(np.maximum(self._column_sizes(trend.fit.rate), 0))
        scores = np.zeros((len(trend.rows), len(i)))
        for chunk in chunks(len(scores), self.signs.size):
            sums = np.matmul(self.signs.T, towards[chunk] * self.signs)[:, i, j]
            np.divide(np.abs(sums), size[chunk], out=scores[chunk], where=size[chunk] > 0)
        n, place = np.nonzero(trend.pairs >= 0)
        scores[n, trend.pairs[n, place]] = 0.0
        return scores

    def _trends(self, y: np.ndarray, chosen: Chosen, D: int) -> Iterator[Trend]:
        """Yields fits to the first D of each output [R, D], some outputs at a time."""
        counts = (chosen.pairs >= 0).sum(axis=1)
        width = np.where(counts > 0, 2 ** np.ceil(np.log2(np.maximum(counts, 1))), 0).astype(int)
        for number, wide in np.unique(np.stack([chosen.rates, width]), axis=1).T.tolist():
            alike = np.flatnonzero((chosen.rates == number) & (width == wide))
            fit = self._whitening(RATES[number], D)
            step = max(1, HELD // (D * (wide + 1)))
            for start in range(0, len(alike), step):
                rows = alike[start : start + step]
                # Widths are powers of two, by the output's own count, so that its result does not
                # depend on the other outputs of the call. A pair past the end of the list is -1.
                pairs = chosen.pairs[rows, :wide]
                missing = wide - pairs.shape[1]
                pairs = np.pad(pairs, ((0, 0), (0, missing)), constant_values=-1)
                yield _fitted(rows, pairs, fit, y[rows, :D], self._columns(fit, pairs, D))

    def _whitening(self, rate: float, D: int) -> Whitening:
        """Returns the whitening of the first D outputs; caches that of one rate above DECIDE."""
        from scipy.linalg import solve_triangular  # noqa: PLC0415 - `import xaijax` loads no scipy

        if (rate, D) not in self._fits:
            if D > DECIDE:
                self._fits = {key: fit for key, fit in self._fits.items() if key[1] <= DECIDE}
            covariance = _by_distance(self.P, rate)[0][self._distance[:D, :D]]
            covariance[np.diag_indices(len(covariance))] += JITTER
            factor = np.linalg.cholesky(covariance)
            white = solve_triangular(factor, np.eye(len(factor)), lower=True)
            log_det = 2 * float(np.log(np.diag(factor)).sum())
            self._fits[rate, D] = Whitening(rate, white, log_det)
        return self._fits[rate, D]

    def _columns_of(self, signs: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """The level, and z_i z_j of pairs [R, width] (-1: none), of any D'; [R, D', 1 + width]."""
        i, j = self.pairs.T
        picked = np.moveaxis(signs[:, i[pairs]] * signs[:, j[pairs]], 0, 1)
        picked = picked * (pairs >= 0)[:, None]
        return np.concatenate([np.ones((*picked.shape[:2], 1)), picked], axis=2)

    def _columns(self, fit: Whitening, pairs: np.ndarray, D: int) -> np.ndarray:
        """`_columns_of` at the first D coalitions of the process, whitened."""
        if D < self.D or not self._keeps:
            return np.matmul(fit.white, self._columns_of(self.signs[:D], pairs))
        (white,) = self._once("columns", fit.rate, self._all_white_pairs)
        picked = np.moveaxis(white[:, pairs], 0, 1) * (pairs >= 0)[:, None]
        level = np.broadcast_to(fit.white.sum(axis=1)[:, None], (*picked.shape[:2], 1))
        return np.concatenate([level, picked], axis=2)

    def _column_sizes(self, rate: float) -> np.ndarray:
        """The squares of each pair's whitened column without its part along the level, [pairs]."""
        if rate not in self._sizes:
            level = self._whitening(rate, self.D).white.sum(axis=1)
            sizes = [
                (white**2).sum(axis=0) - (level @ white) ** 2 / (level @ level)
                for white in self._white_pairs(rate)
            ]
            self._sizes[rate] = np.concatenate(sizes)
        return self._sizes[rate]

    def _white_pairs(self, rate: float) -> Iterator[np.ndarray]:
        """The whitened columns of all pairs, [D, some] at a time."""
        for start in range(0, len(self.pairs), TOGETHER):
            i, j = self.pairs[start : start + TOGETHER].T
            yield self._whitening(rate, self.D).white @ (self.signs[:, i] * self.signs[:, j])

    def _all_white_pairs(self, rate: float) -> Iterator[np.ndarray]:
        yield np.concatenate([np.zeros((self.D, 0)), *self._white_pairs(rate)], axis=1)

    def _white_sets(self, rate: float) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """(a part of `sets`, whitened covariances with them [D, part], their variances [part] given
        the answers).
        """
        white = self._whitening(rate, self.D).white
        for start in range(0, len(self.sets), TOGETHER):
            part = slice(start, start + TOGETHER)
            cross, prior = _with_interactions(self.signs, self.sets[part], rate, self._nodes)
            whitened = white @ cross
            yield part, whitened, prior - (whitened**2).sum(axis=0)

    def _once(
        self, name: str, rate: float, make: Callable[[float], Iterator[Any]]
    ) -> list[Any] | Iterator[Any]:
        """Returns what `make` yields; cached for one rate at a time if it is small."""
        if not self._keeps:
            return make(rate)
        if name not in self._kept or self._kept[name][0] != rate:
            self._kept[name] = rate, list(make(rate))
        return self._kept[name][1]

    def _in_trend(self, part: slice, pairs: np.ndarray) -> np.ndarray:
        """The contribution of a unit of each column to the interactions of sets, [R, 1 + width,
        part]: z_i z_j adds 4 to its pair, and to the sums of both players; the level adds
        nothing.
        """
        a, b = (self.pairs[pairs, end][..., None] for end in (0, 1))
        first, second = self.sets[part].T
        single = (second < 0) & ((a == first) | (b == first))
        added = 4.0 * ((single | ((a == first) & (b == second))) & (pairs >= 0)[..., None])
        return np.concatenate([np.zeros((len(pairs), 1, len(first))), added], axis=1)


def _fitted(
    rows: np.ndarray, pairs: np.ndarray, fit: Whitening, y: np.ndarray, columns: np.ndarray
) -> Trend:
    """Whitened columns [R, D, q] fitted to y [R, D]; shapes depend on each output alone."""
    size = np.sqrt((columns**2).sum(axis=1))
    used = size > 0
    scale = 1 / np.where(used, size, 1.0)
    unit = columns * scale[:, None]
    products = np.matmul(unit.swapaxes(1, 2), unit)
    # Columns may depend on each other if few coalitions were drawn, see `Trend.apart`.
    products += np.eye(products.shape[1]) * np.where(used, ALIKE, 1.0)[:, None]
    inverse = np.linalg.inv(products)
    left = np.matmul(fit.white, y[..., None])
    weights = np.zeros((*used.shape, 1))
    for _ in range(2):  # the second pass removes rounding errors
        more = np.matmul(inverse, np.matmul(unit.swapaxes(1, 2), left))
        weights += more
        left = left - np.matmul(unit, more)
    log_det = np.linalg.slogdet(products)[1] - 2 * np.log(scale).sum(axis=1)
    apart = 1 / np.diagonal(inverse, axis1=1, axis2=2).max(axis=1)
    inverse *= scale[:, :, None] * scale[:, None]
    freedom = np.maximum(1, y.shape[1] - used.sum(axis=1))
    fitted = columns, inverse, weights[..., 0] * scale, left[..., 0]
    return Trend(rows, pairs, fit, *fitted, freedom, log_det, apart)


def _distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Players in which coalitions differ, int64 [D, D']; signs float64 [D, P] and [D', P]."""
    return np.rint((first.shape[1] - first @ second.T) / 2).astype(np.int64)


def _by_distance(P: int, rate: float) -> tuple[np.ndarray, float]:
    """(covariances of even parts at distances 0..P, scaled to a variance of 1; the scale)."""
    d = np.arange(P + 1)
    up, down = np.log1p(rate), np.log1p(-rate)
    # `_even_sets` without the set of size 0, which is the level. For small rates it is near 0, and
    # a difference would lose the digits that keep the matrix of all coalitions positive definite.
    cov = (np.expm1((P - d) * up + d * down) + np.expm1(d * up + (P - d) * down)) / 2
    return cov / cov[0], float(cov[0])


def _with_interactions(
    signs: np.ndarray, sets: np.ndarray, rate: float, nodes: Nodes
) -> tuple[np.ndarray, np.ndarray]:
    """(covariances of even parts with the interactions of sets [D, sets], their own variances).

    Scaled as `_by_distance`. sets int [sets, 2]: (i, j) is a pair, 4 rho^2 E[sum over R of the
    others of (rho u)^|R| chi_R], |R| even; (i, -1) the sum of all pairs with i.
    """
    D, P = signs.shape
    u, w = nodes
    _, scale = _by_distance(P, rate)
    low = (signs < 0).astype(np.int64)
    minus = low.sum(axis=1)
    rest = max(P - 2, 0)
    m = np.arange(rest + 1)
    of_rest = 4 * rate**2 / scale * (_even_sets(rate * u, (rest - m)[:, None], m[:, None]) @ w)
    squares = _even_sets(np.multiply.outer(u, u) * rate, np.array(rest), np.array(0))
    cross, prior = np.empty((D, len(sets))), np.full(len(sets), float(w @ squares @ w))
    prior *= 16 * rate**2 / scale
    i, j = sets.T
    pair = j >= 0
    at = minus[:, None] - low[:, i[pair]] - low[:, j[pair]]
    cross[:, pair] = signs[:, i[pair]] * signs[:, j[pair]] * of_rest[at]
    for place in np.flatnonzero(~pair):  # number of the others at -1
        left = minus - low[:, i[place]]
        plus = (P - 1 - left) * of_rest[np.minimum(left, rest)]
        less = left * of_rest[np.maximum(left - 1, 0)]
        cross[:, place] = signs[:, i[place]] * (plus - less)
    r = np.arange(2, P + 1, 2)  # a set R with i holds |R| - 1 pairs with i
    moments = np.array([(w * u ** (k - 2)).sum() for k in r])
    sizes = np.array([float(math.comb(P - 1, k - 1)) for k in r])
    prior[~pair] = ((4 * (r - 1) * moments) ** 2 * rate**r * sizes).sum() / scale
    return cross, prior


def _even_sets(x: np.ndarray, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """The sum of x^|R| chi_R over R of even size, with `plus` players at 1 and `minus` at -1."""
    return ((1 + x) ** plus * (1 - x) ** minus + (1 - x) ** plus * (1 + x) ** minus) / 2


@dataclass(frozen=True)
class OddProcess:
    """The process of odd parts, scaled so that sets of three and more have variance 1."""

    rates: np.ndarray  # [P], from 0 to below 1

    @property
    def scale(self) -> float:
        """The variance of a coalition's output from sets of three and more, before scaling."""
        log, w = self._logs(1.0)
        return float(np.exp(log) * np.sinh(w.sum()) - self.rates.sum())

    def between(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The covariances [D, D'] of coalitions, signs [D, P] and [D', P]."""
        log, w = self._logs(1.0)
        cov = (first * w) @ second.T
        np.sinh(cov, out=cov)
        cov *= np.exp(log) / self.scale
        cov += (first * (FLAT / len(w) - self.rates / self.scale)) @ second.T
        return cov

    def values(self, signs: np.ndarray, weights: np.ndarray, nodes: Nodes) -> np.ndarray:
        """The values [P] of the game that is sum of weights [D] times covariances with signs.

        Player i's value of k(., z) is 2 E[rho_i z_i times the even part of the product over the
        others of (1 + rho_j u z_j)] minus 2 rho_i z_i. With r = rho_i u and x, a of the rates rho u
        that even part is e^a (cosh x - r z_i sinh x) / (1 - r^2).
        """
        singles = signs.T @ weights
        total = np.zeros(len(self.rates))
        for u, share in zip(*nodes, strict=True):
            log, w = self._logs(float(u))
            x, r = signs @ w, self.rates * u
            even, odd = np.exp(log) * np.cosh(x), np.exp(log) * np.sinh(x)
            towards = signs.T @ (even * weights) - r * (odd @ weights)
            total += share * towards / (1 - r**2)
        larger = self.rates * (total - singles) / self.scale
        return 2 * (larger + FLAT / len(self.rates) * singles)

    def _logs(self, u: float) -> tuple[float, np.ndarray]:
        """(a, w [P]) of the rates times u."""
        r = self.rates * u
        return float(np.log1p(-(r**2)).sum()) / 2, np.arctanh(r)

    @classmethod
    def likeliest(cls, signs: np.ndarray, odd: np.ndarray, even: np.ndarray | None) -> OddProcess:
        """The process with the likeliest rates; signs [D, P], odd and even parts of outputs [D],
        scaled to about 1; even None if it is equal for all outputs.

        The logarithms of the rates have a normal prior around their free mean, with deviation
        SPREAD: a few hundred outputs do not determine many rates. Without it a process of 100
        players was worse than none at 512 coalitions.
        """
        from scipy.optimize import minimize  # noqa: PLC0415 - not loaded by `import xaijax`

        P = signs.shape[1]
        start = np.full(P, np.log(min(0.3, 3.0 / P)))
        most = min(LARGEST, float(np.tanh(SUM / P)))
        limits = {"bounds": [(np.log(SMALLEST), np.log(most))] * P, "options": {"maxiter": STEPS}}
        parts = signs, odd, even
        return cls(np.exp(minimize(unlikeliness, start, parts, "L-BFGS-B", jac=True, **limits).x))


def unlikeliness(
    logs: np.ndarray, signs: np.ndarray, odd: np.ndarray, even: np.ndarray | None
) -> tuple[float, np.ndarray]:
    """Minus the logarithm of the likelihood times the prior, and its gradient [P] by log rates.

    tau^2 is profiled out (section 5.4.1 has the gradient). With f = e^a sinh x, f' = e^a cosh x, s
    the scale and A = (alpha alpha^T / tau^2 - K^-1) / 2 the gradient of the logarithm is the sum
    over A dK, dK = d(k / s), where for log rho_i da = -rho^2 / (1 - rho^2), dw_i = rho / (1 -
    rho^2): d f = da f + dw_i z_i z'_i f'. For the even part cosh and sinh change places, and the
    level, the set of nobody, has the flat prior.
    """
    D, P = signs.shape
    rates = np.exp(logs)
    squares = 1 - rates**2
    w, size = np.arctanh(rates), np.sqrt(np.prod(squares))
    x = (signs * w) @ signs.T
    functions = (size * np.sinh(x), size * np.cosh(x))  # not by exp: near 0 the rest is tiny
    parts = (size * np.sinh(w.sum()), size * np.cosh(w.sum()))
    da, dw = -(rates**2) / squares, rates / squares
    apart = logs - logs.mean()
    value, gradient = float(apart @ apart) / (2 * SPREAD**2), apart / SPREAD**2
    for parity, y in enumerate([odd] if even is None else [odd, even]):
        f, slope = functions[parity], functions[1 - parity]
        small = 1.0 if parity else (signs * rates) @ signs.T
        scale = parts[parity] - (1.0 if parity else rates.sum())
        larger = f - small
        K = larger / scale + (FLAT if parity else FLAT / P * (signs @ signs.T))
        K[np.diag_indices(D)] += NOISE
        lower = factor(K)
        inverse = inverse_of(lower)
        alpha = inverse @ y
        freedom, square = D - (1 if parity else P), float(y @ alpha)
        value += freedom * np.log(square) / 2 + np.log(np.diag(lower)).sum()
        A = (freedom / square * np.outer(alpha, alpha) - inverse) / 2
        # Sums over all entries times z_i z'_i, [P].
        slopes = ((A * slope @ signs) * signs).sum(axis=0) * dw + da * float((A * f).sum())
        of_scale = da * parts[parity] + dw * parts[1 - parity]
        if not parity:
            slopes -= ((A @ signs) * signs).sum(axis=0) * rates
            of_scale = of_scale - rates
        gradient = gradient - slopes / scale + float((A * larger).sum()) / scale**2 * of_scale
    return value, gradient


def factor(K: np.ndarray) -> np.ndarray:
    """L of K = L L^T; K is in C order and is overwritten."""
    from scipy.linalg import cholesky  # noqa: PLC0415 - `import xaijax` loads no scipy

    return cholesky(K.T, lower=True, overwrite_a=True, check_finite=False)  # K.T is K for LAPACK


def inverse_of(lower: np.ndarray) -> np.ndarray:
    """(L L^T)^-1."""
    from scipy.linalg import get_lapack_funcs  # noqa: PLC0415 - `import xaijax` loads no scipy

    (potri,) = get_lapack_funcs(("potri",), dtype=np.float64)
    inverse = np.tril(potri(lower, lower=1)[0])
    inverse += np.tril(inverse, -1).T
    return inverse
