"""Sampled interactions of two players without bias: a Gaussian process, and what it leaves over.

A Shapley interaction is a sum over all coalitions of a known weight times the answer (Grabisch and
Roubens 1999; as SHAP-IQ samples it, Fumagalli et al. 2023, "SHAP-IQ: unified approximation of
any-order Shapley interactions", theorem 4.1). For a pair {i, j} and a coalition of size s the
weight is p(s - 2) with both, -p(s - 1) with one of them, p(s) with none, where p(t) = 1 /
((P - 1) C(P - 2, t)). p(t) = p(P - 2 - t), so that of complements only the even part y of their
answers counts, half their sum, with twice the weight.

The pairs of complements that the kernel estimator draws are halved: every other one of each size.
One half fits the Gaussian process of `process/`, g. Of a size s with M coalitions, a in
the first half and b in the second, the second half is a random b of the M - a others, whatever was
seen in the first, so that

    I(g) + sum over s of (M - a) * mean over the second half of 2 * weight * (y - g)

has the interaction as its mean, and no less where g is far off (a control variate, with sample
splitting as in Chernozhukov et al. 2018, "Double/debiased machine learning"). The halves change
roles, and the two estimates are averaged. What g knows costs no variance; what it does not know is
sampled. The standard error is that of the stratified means (Cochran 1977, "Sampling techniques",
theorem 5.3) of all that was drawn.

Letters: N instances, P players, C coalitions asked, D pairs drawn, K outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from xaijax.estimators import kernel, pairs
from xaijax.estimators.pairs import (
    answers_of,
    by_instance,
    count,
    drawing,
    even_parts,
    first_stop,
    independent,
    masks,
    step,
    units,
    walks,
    work,
)
from xaijax.estimators.process.choice import choose
from xaijax.estimators.process.posterior import expected, interactions
from xaijax.estimators.process.turned import Process
from xaijax.estimators.result import Result, heavy_tail, stretches
from xaijax.players.interaction_index import InteractionIndex
from xaijax_kernels.games import sampling

__all__ = [
    "count",
    "drawing",
    "first_stop",
    "independent",
    "init",
    "masks",
    "result",
    "smallest_budget",
    "step",
    "units",
    "walks",
    "work",
]

# Coalitions a player from which each half has two of every size: a size has budget / P pairs, that
# of P / 2 half as many.
LEAST = 10


def smallest_budget(P: int, index: InteractionIndex) -> int:
    """The coalitions from which every size is in both halves, twice."""
    return min(LEAST * P, max(0, 2**P - 2))


@dataclass(frozen=True)
class State(pairs.State):
    """The pairs drawn so far, and a process at each half of them."""

    @cached_property
    def halves(self) -> list[tuple[np.ndarray, Process]]:
        """(bool [D], the process at the ends and these) of the first half and of the second."""
        sizes, signs = self.drawn.sizes, np.where(self.drawn.sets, 1.0, -1.0)
        ends, half = np.ones((1, self.drawn.P)), every_other(sizes)
        both = (half, ~half)
        return [(own, Process(np.concatenate([ends, signs[own]]), True)) for own in both]


def init(P: int, index: InteractionIndex, budget: int, seed: int) -> State:
    """Nothing drawn yet."""
    begun = pairs.init(P, index, budget, seed)
    return State(begun.index, begun.drawn)


def result(
    state: State,
    values: np.ndarray,
    empty: np.ndarray,
    full: np.ndarray,
    moves: np.ndarray | None = None,
) -> Result:
    """Players, then pairs, and their standard errors; arguments as of `pairs.result`.

    Players alone have the kernel estimator's values.
    """
    alone = kernel.result(state.drawn, values, empty, full, moves)
    y, P = even_parts(values, empty, full), state.drawn.P
    found, variance = (np.zeros((len(y), P + P * (P - 1) // 2, y.shape[2])) for _ in range(2))
    terms = []  # of both halves, [N, D]
    for first, process in state.halves:
        means, spread, squares = _corrected(state.drawn, y, first, process)
        found += means / 2
        variance += spread / 4
        terms.append(squares)
    heavy = heavy_tail(np.concatenate(terms, axis=1))
    alone = alone._replace(heavy=heavy if alone.heavy is None else heavy | alone.heavy)
    return pairs.joined(state.index, alone, found, np.sqrt(variance), moves)


def every_other(sizes: np.ndarray) -> np.ndarray:
    """Every other pair of each size, bool [D]."""
    order = np.argsort(sizes, kind="stable")
    place = np.empty(len(sizes), np.int64)
    starts = np.searchsorted(sizes[order], sizes[order])
    place[order] = np.arange(len(sizes)) - starts
    return place % 2 == 0


def _corrected(
    drawn: kernel.State, y: np.ndarray, first: np.ndarray, process: Process
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(estimates, variances), [N, P + pairs, K]: the sums of all pairs with each player, the pairs;
    and what each draw of the second half adds to the variances of all pairs, [N, b].

    y: even parts [N, 1 + D, K], of the two ends first; first: bool [D], the half that the process
    is at.
    """
    second = ~first
    seen = y[:, np.concatenate([[True], first])]
    rows = answers_of(seen)
    chosen = choose(process, rows)
    means = by_instance(interactions(process, rows, chosen).means, y)
    signs = np.where(drawn.sets[second], 1.0, -1.0)
    left = y[:, 1:][:, second] - by_instance(expected(process, rows, chosen, signs), y)
    variance, terms = np.zeros_like(means), np.zeros(left.shape[:2])
    sets, sizes = drawn.sets[second].astype(float), drawn.sizes[second]
    for s in np.unique(sizes).tolist():
        own, a = sizes == s, int((drawn.sizes[first] == s).sum())
        for rows in stretches(len(y), drawn.P**2 * y.shape[2]):
            more, spread = _of_size(sets[own], left[rows][:, own], s, drawn.P, a)
            means[rows] += more
            variance[rows] += spread
        share = _share_of_draws(s, drawn.P, a, int(own.sum()))
        terms[:, own] = share * ((left[:, own] - left[:, own].mean(axis=1)[:, None]) ** 2).sum(
            axis=2
        )
    return means, variance, terms


def _weights(s: int, P: int) -> tuple[float, float, float]:
    """M times twice the weight of a coalition of size s with both, one, none of {i, j}."""
    times = 1.0 if 2 * s == P else 2.0  # of P / 2 players both complements are of this size
    both = times * P / (s * (s - 1)) if s > 1 else 0.0
    one = -times * P / (s * (P - s))
    none = times * P / ((P - s) * (P - s - 1)) if P - s > 1 else 0.0
    return both, one, none


def _share_of_draws(s: int, P: int, a: int, b: int) -> float:
    """By what a squared residual of size s counts in the variances of all pairs together."""
    M = sampling.pairs_of_size(P, s)
    if a + b >= M or b < 2:
        return 0.0
    both, one, none = _weights(s, P)
    sets = math.comb(s, 2) * both**2 + s * (P - s) * one**2 + math.comb(P - s, 2) * none**2
    return (1 - (a + b) / M) * sets / (b * (b - 1))


def _of_size(
    sets: np.ndarray, left: np.ndarray, s: int, P: int, a: int
) -> tuple[np.ndarray, np.ndarray]:
    """What the coalitions of size s add, and its variance; [N, P + pairs, K].

    sets: [b, P] of 0 and 1; left: [N, b, K], what the process leaves over of their answers; a: how
    many of their size are in the first half.
    """
    M = sampling.pairs_of_size(P, s)
    b = len(sets)
    share = float(1 - a / M)  # of the size, not seen by the process
    both, one, none = _weights(s, P)
    with_it, without = (s - 1) * both + (P - s) * one, s * one + (P - s - 1) * none
    i, j = np.triu_indices(P, 1)

    def summed(r: np.ndarray, power: int) -> np.ndarray:
        """Sum over coalitions of r [N, b, K] times their weights to a power."""
        w2, w1, w0, u, v = (w**power for w in (both, one, none, with_it, without))
        rows = np.ascontiguousarray(np.moveaxis(r, 2, 1))  # [N, K, b], whatever N is
        total, held = rows.sum(axis=2), rows @ sets
        joint = (rows[..., None, :] * sets.T) @ sets
        of_pairs = (w2 - 2 * w1 + w0) * joint[..., i, j]
        of_pairs += (w1 - w0) * (held[..., i] + held[..., j]) + w0 * total[..., None]
        of_players = u * held + v * (total[..., None] - held)
        return np.moveaxis(np.concatenate([of_players, of_pairs], axis=2), 1, 2)

    mean = summed(left, 1) / b
    if a + b >= M:  # every coalition of the size is known
        return share * mean, np.zeros_like(mean)
    if b < 2:
        return share * mean, np.full_like(mean, np.nan)
    square = np.maximum(0.0, summed(left**2, 2) / b - mean**2) * b / (b - 1)
    # Both halves are known when the estimates are averaged: the error is that of the mean of the
    # a + b drawn against that of the M - a - b others, (M - a - b) M square / (a + b) in all.
    return share * mean, (1 - (a + b) / M) * square / b
