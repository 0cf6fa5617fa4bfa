"""Interactions and other coalitions, given the even parts of some.

An answer's rate, and the pairs that have flat priors in it, are chosen by `choice.py`. Given both,
an interaction's mean and deviation are those of a linear function of a Gaussian process with a
trend (Rasmussen and Williams 2006, "Gaussian processes for machine learning", equation 2.42;
O'Hagan 1991, "Bayes-Hermite quadrature", for integrals of one).

Letters: R answers explained, one for each instance and output; P players; D coalitions whose even
part is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from xaijax.estimators.process.covariance import distance, of_distance
from xaijax.estimators.process.trend import Fit, Trend, columns_of, trend, variance
from xaijax.estimators.process.turned import Process
from xaijax.estimators.result import stretches

RATES = (0.001, 0.01, 0.03, 0.06, 0.1, 0.15, 0.22, 0.32, 0.45, 0.6, 0.8, 0.95)  # of rho
HELD = 1 << 21  # numbers of the trends that are held at a time


class Chosen(NamedTuple):
    """How each answer is read."""

    rates: np.ndarray  # int64 [R], places in RATES
    pairs: np.ndarray  # int64 [R, most], places in `np.triu_indices(P, 1)`; -1: no more


class Interactions(NamedTuple):
    """What is known of them."""

    means: np.ndarray  # [R, P + pairs]
    deviations: np.ndarray  # [R, P + pairs]
    freedom: np.ndarray  # [R], degrees of freedom of the deviations


class Read(NamedTuple):
    """Some answers, by one rate and so many pairs at most."""

    rows: np.ndarray  # int64 [some], which answers
    pairs: np.ndarray  # int64 [some, width]
    fit: Fit
    trend: Trend


def trends(process: Process, y: np.ndarray, chosen: Chosen, D: int) -> Iterator[Read]:
    """Answers [R, D] with what is fitted to the first D, some at a time."""
    counts = (chosen.pairs >= 0).sum(axis=1)
    width = np.where(counts > 0, 2 ** np.ceil(np.log2(np.maximum(counts, 1))), 0).astype(int)
    for number, wide in np.unique(np.stack([chosen.rates, width]), axis=1).T.tolist():
        whole = np.flatnonzero((chosen.rates == number) & (width == wide))
        own = process.fit(RATES[number], D)
        step = max(1, HELD // (D * (wide + 1)))
        for start in range(0, len(whole), step):
            rows = whole[start : start + step]
            # Widths are powers of two, of the answer's own count: its digits do not hang on which
            # others are beside it. A pair past the end of the list is -1.
            pairs = np.full((len(rows), wide), -1)
            kept = chosen.pairs[rows, :wide]
            pairs[:, : kept.shape[1]] = kept
            columns = process.columns(own, pairs, D)
            yield Read(rows, pairs, own, trend(own, y[rows, :D], columns))


def interactions(process: Process, y: np.ndarray, chosen: Chosen) -> Interactions:
    """Given y [R, D]: of the sums of all pairs with each player first, then of the pairs."""
    means, deviations = (np.zeros((len(y), len(process.sets))) for _ in range(2))
    freedom = np.zeros(len(y))
    for rows, pairs, own, read in trends(process, y, chosen, process.D):
        spread, freedom[rows] = variance(own, read), read.freedom
        for part, turned, untold in process.of_sets(own.rate):
            for some in stretches(len(rows), turned.shape[1] * (pairs.shape[1] + 1) * 3):
                of_trend = _in_trend(process, part, pairs[some])
                found = np.matmul(turned.T, read.left[some, :, None])[..., 0]
                found += np.matmul(read.weights[some, None], of_trend)[:, 0]
                unknown = of_trend - np.matmul(read.columns[some].swapaxes(1, 2), turned)
                left = untold + (unknown * np.matmul(read.inverse[some], unknown)).sum(axis=1)
                means[rows[some], part] = found
                deviations[rows[some], part] = np.sqrt(np.maximum(left, 0) * spread[some, None])
    return Interactions(means, deviations, freedom)


def expected(process: Process, y: np.ndarray, chosen: Chosen, signs: np.ndarray) -> np.ndarray:
    """The mean even parts [R, D'] of other coalitions, signs [D', P], given y [R, D]."""
    apart = distance(process.signs, signs)
    found = np.zeros((len(y), len(signs)))
    for rows, pairs, own, read in trends(process, y, chosen, process.D):
        turned = own.white @ of_distance(process.P, own.rate)[0][apart]  # [D, D']
        for some in stretches(len(rows), len(signs) * (pairs.shape[1] + 1)):
            more = np.matmul(columns_of(signs, pairs[some]), read.weights[some, :, None])
            more += np.matmul(turned.T, read.left[some, :, None])
            found[rows[some]] = more[..., 0]
    return found


def _in_trend(process: Process, part: slice, pairs: np.ndarray) -> np.ndarray:
    """What a unit of each column adds to the interactions of sets, [R, 1 + width, part]: z_i z_j
    has 4 in the pair's own, and in the sums of both players; the level nothing.
    """
    a, b = (process.pairs[pairs, end][..., None] for end in (0, 1))
    first, second = process.sets[part].T
    single = (second < 0) & ((a == first) | (b == first))
    found = 4.0 * ((single | ((a == first) & (b == second))) & (pairs >= 0)[..., None])
    return np.concatenate([np.zeros((len(pairs), 1, len(first))), found], axis=1)
