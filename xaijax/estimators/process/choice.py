"""Which rate is likeliest, and which pairs are too large for the scale of the others.

rho is the likeliest of RATES, for each answer by itself; tau^2 and the trend are profiled out
(Rasmussen and Williams 2006, "Gaussian processes for machine learning", chapter 5).

The process gives all pairs one scale. Where a few are far above it, it would draw them towards 0 as
it does the others, and be sure of that. They can be seen: under the process the score of a pair,
the product of its turned column with what is left, over its size and tau, is a standard normal
number. Pairs whose score is beyond what the largest of all would be by chance get a column with a
flat prior, largest first, a few at a time, until none is left (orthogonal matching pursuit: Pati,
Rezaiifar and Krishnaprasad 1993; several at a time: Donoho et al. 2012, "Sparse solution of
underdetermined systems by stagewise orthogonal matching pursuit"). Then the rate is chosen
again. Where so few coalitions were drawn that two pairs may look like two others, none is taken.

Letters: R answers explained, one for each instance and output; D coalitions whose even part is
known.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from xaijax.estimators.process.posterior import RATES, Chosen, Read, trends
from xaijax.estimators.process.turned import DECIDE, Process
from xaijax.estimators.result import stretches

BY_CHANCE = 0.05  # that the largest score of a game that follows the process is beyond the bound
APART = 1e-6  # share of a column, below which others hold it: roundings of white numbers, squared
BESIDE = 0.7  # of the largest score: pairs above it are taken together with it
TURNS = 3  # of the choice of a rate, then of pairs


def choose(process: Process, y: np.ndarray) -> Chosen:
    """How each answer is read; y: even parts [R, D]."""
    rates, pairs = np.full(len(y), -1), np.full((len(y), _most(process)), -1)
    rows = np.arange(len(y))
    for _ in range(TURNS):
        found = _likeliest(process, y[rows], pairs[rows])
        other = found != rates[rows]
        rows = rows[other]
        rates[rows] = found[other]
        pairs[rows] = _large(process, y[rows], rates[rows])
        rows = rows[pairs[rows, 0] >= 0]  # without pairs the rate stays what it is
        if not len(rows):
            break
    return Chosen(rates, pairs)


def _most(process: Process) -> int:
    """Pairs of one answer: so many that both steps keep half of what they see, or more."""
    return max(1, min(process.D // 4, DECIDE // 2, len(process.pairs)))


def _likeliest(process: Process, y: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Places in RATES, int64 [R], given the pairs with flat priors [R, most]."""
    best, found = np.full(len(y), np.inf), np.zeros(len(y), np.int64)
    some = min(process.D, DECIDE)
    for number in range(len(RATES)):
        as_if = Chosen(np.full(len(y), number), pairs)
        for read in trends(process, y, as_if, some):
            own, rows = read.trend, read.rows
            with np.errstate(divide="ignore"):
                criterion = own.freedom * np.log(own.squares) + read.fit.log_det + own.log_det
            better = rows[criterion < best[rows]]
            best[rows] = np.minimum(best[rows], criterion)
            found[better] = number
    return found


def _large(process: Process, y: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """The pairs with flat priors, int64 [R, most], at these rates."""
    most = _most(process)
    bound = NormalDist().inv_cdf(1 - BY_CHANCE / (2 * max(1, len(process.pairs))))
    pairs, counts = np.full((len(y), most), -1), np.zeros(len(y), np.int64)
    if not process.tells_apart:
        return pairs
    before = counts.copy()
    for number in np.unique(rates):
        searched = np.flatnonzero(rates == number)
        while len(searched):
            grown = []
            chosen = Chosen(rates[searched], pairs[searched])
            for read in trends(process, y[searched], chosen, process.D):
                rows, scores = searched[read.rows], _scores(process, read)
                # Pairs that hold each other's columns are not told apart by the coalitions drawn:
                # those that came last have the prior again, by which they share what there is.
                alike = read.trend.apart < APART
                back = rows[alike]
                counts[back] = before[back]
                pairs[back] = np.where(np.arange(most) < before[back, None], pairs[back], -1)
                rows, scores = rows[~alike], scores[~alike]
                order = np.argsort(-scores, axis=1, kind="stable")[:, :most]
                ranked = np.take_along_axis(scores, order, axis=1)
                taken = ranked >= np.maximum(bound, BESIDE * ranked[:, :1])
                taken &= np.arange(order.shape[1]) < (most - counts[rows])[:, None]
                n, place = np.nonzero(taken)
                pairs[rows[n], counts[rows[n]] + place] = order[n, place]
                before[rows] = counts[rows]
                counts[rows] += taken.sum(axis=1)
                grown.append(rows[taken.any(axis=1)])
            searched = np.concatenate(grown)
    return pairs


def _scores(process: Process, read: Read) -> np.ndarray:
    """Of all pairs, [some, pairs]: standard normal numbers' sizes where a game follows the process.

    The columns that a trend holds already take a little of each pair's column: left out here, so
    that scores are smaller than they might be, never larger.
    """
    signs, (i, j) = process.signs, process.pairs.T
    towards = np.matmul(read.fit.white.T, read.trend.left[..., None])
    deviation = np.sqrt(read.trend.squares / read.trend.freedom)
    size = deviation[:, None] * np.sqrt(np.maximum(process.tells(read.fit.rate), 0))
    scores = np.zeros((len(read.rows), len(i)))
    for some in stretches(len(scores), signs.size):
        found = np.matmul(signs.T, towards[some] * signs)[:, i, j]
        np.divide(np.abs(found), size[some], out=scores[some], where=size[some] > 0)
    n, place = np.nonzero(read.pairs >= 0)
    scores[n, read.pairs[n, place]] = 0.0
    return scores
