"""Samples interactions of two players by a Gaussian process over complementary coalitions.

The kernel estimator draws coalitions with their complements, and gives the values of single
players. Half the sum of v(S) and v(complement) contains contributions of sets of even size only,
not of single players or triples, which make up the kernel's differences. `EvenProcess` estimates
the pairs from it; the few pairs that are far larger than the others are estimated separately.

An estimate of `PairSampler` is the posterior mean, shrunk towards 0 where data are missing; its
standard error is the posterior deviation, which includes the shrinkage. Both errors vanish for
games of pairs once the data determine them. On networks, forests and games of high order, with
equal numbers of coalitions, its error is a fraction of that of KernelSHAP-IQ, SVARM-IQ, SHAP-IQ and
permutations: `bench`, T30.

`UnbiasedPairSampler` is unbiased. A Shapley interaction is a sum over all coalitions of a known
weight times the output (Grabisch and Roubens 1999; as SHAP-IQ samples it, Fumagalli et al. 2023,
"SHAP-IQ: unified approximation of any-order Shapley interactions", theorem 4.1). For a pair {i, j}
and a coalition of size s the weight is p(s - 2) with both, -p(s - 1) with one of them, p(s) with
none, where p(t) = 1 / ((P - 1) C(P - 2, t)). p(t) = p(P - 2 - t), so only the even part y of
complements counts, half the sum of their outputs, with twice the weight. The pairs of complements
are halved: every other one of each size. One half fits the process g. For a size s with M
coalitions, a in the first half and b in the second, the second half is a random set of b of the M -
a others, independent of the first, so that

    I(g) + sum over s of (M - a) * mean over the second half of 2 * weight * (y - g)

has the interaction as its mean for any g (a control variate, with sample splitting as in
Chernozhukov et al. 2018, "Double/debiased machine learning"). The halves swap roles, and the two
estimates are averaged. Only the part that g does not predict adds variance. The standard error is
that of the stratified means (Cochran 1977, "Sampling techniques", theorem 5.3) of all draws.

Large pairs are not searched if the drawn coalitions may not distinguish two pairs from two others
(`EvenProcess.tells_apart`). A single large pair then has the scale of all others. This depends on
the draws only, which all instances share: `looked_for`.

Letters: N instances, P players, C coalitions evaluated, D pairs drawn and the pair (all, empty), K
outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.estimators.estimator import Result, SamplingCost, chunks, heavy_tail
from xaijax.estimators.kernel import Kernel, KernelState
from xaijax.estimators.process import DECIDE, HELD, KEEPS, RATES, TOGETHER, EvenProcess
from xaijax.players.index import named
from xaijax.players.interaction_index import InteractionIndex
from xaijax_kernels.games import sampling

SEARCHES, COLUMNS = 8, 16  # for large pairs, and their number: as for T30's models
# Coalitions per player from which each half has two of every size: a size has budget / P pairs,
# size P / 2 half of that.
LEAST = 10
# Coalitions per player, and additional ones, from which large pairs are searched for any draws;
# half as many suffice for 4 to 1,000 players.
SURELY = 4, 400
STEP = 1.1  # factor between budgets that are tried


@dataclass(frozen=True)
class PairsState(KernelState):
    """The pairs drawn so far; `index` is that of single players, before k-SII subtracts pairs."""

    interactions: InteractionIndex

    @cached_property
    def process(self) -> EvenProcess:
        """The process at all drawn coalitions."""
        return self._at(np.ones(self.pairs, bool))

    @cached_property
    def halves(self) -> list[tuple[np.ndarray, EvenProcess]]:
        """(bool [D], the process at these) for both halves."""
        half = every_other(self.sizes)
        return [(chosen, self._at(chosen)) for chosen in (half, ~half)]

    def _at(self, chosen: np.ndarray) -> EvenProcess:
        """The process at the full coalition and at the drawn ones marked by bool [D]."""
        sets = np.concatenate([np.ones((1, self.P), bool), self.sets[chosen]])
        return EvenProcess(np.where(sets, 1.0, -1.0), self.index.draws_orders)


class PairSampler(Kernel):
    """Players by the kernel, pairs by the mean of the process."""

    def smallest_budget(self, P: int, index: Any) -> int:
        """The number of coalitions that determines the players' values."""
        return super().smallest_budget(P, named(index.singles))

    def cost(self, P: int, index: Any, budget: int, K: int) -> SamplingCost:
        """The kernel's cost, plus matrices of the outputs that choose the rate, for each rate;
        some for all outputs, for the sets processed together, and for the trends. An output
        takes all rates, several rounds of scores of all pairs, and its columns.
        """
        kernel = super().cost(P, index, budget, K)
        D = self.units(P, index, budget) + 1
        decide = len(RATES) * min(D, DECIDE) ** 2
        columns = 2 * min(KEEPS, D * self.count(P))
        held = 8 * (decide + D * (D * 7 + 3 * TOGETHER + 2 * P) + 5 * HELD + columns)
        each = 2.0 * (decide + 2.0 * D * D + (SEARCHES + COLUMNS) * D * P**2)
        return SamplingCost(kernel.held + held, kernel.once, each)

    def count(self, P: int) -> int:
        """Sets of one and of two players."""
        return P * (P + 1) // 2

    def init(self, P: int, index: Any, budget: int, seed: int) -> PairsState:
        """State with nothing drawn yet."""
        of_players = super().init(P, named(index.singles), budget, seed)
        return PairsState(**vars(of_players), interactions=index)

    def result(self, state: Any, answers: np.ndarray, moves: np.ndarray | None = None) -> Result:
        """Players, then pairs, and their standard errors; values [N, M, K].

        Arguments as for `Estimator.result`: pairs with a player that changes nothing are 0. `heavy`
        is that of the players' values: errors of pairs are posterior deviations, which no single
        draw dominates.
        """
        players = super().result(state, answers, moves)
        # Half the sums of outputs of complements, [N, D, K], (all, empty) first.
        even = (answers[:, 0::2] + answers[:, 1::2]) / 2
        sums, spread, dof, heavy = self._sums_and_pairs(state, even)
        P, alone, errors = state.P, players.values, players.std_errors
        pairs, pair_errors = sums[:, P:], spread[:, P:]
        i, j = np.triu_indices(P, 1)
        if moves is not None:
            known = ~(moves[:, i] & moves[:, j])
            pairs[known], pair_errors[known] = 0.0, 0.0
            spread[:, :P][~moves] = 0.0
        if state.interactions.efficient:  # n-Shapley values: a player minus half of its pairs
            for end in (i, j):
                np.subtract.at(alone.swapaxes(0, 1), end, pairs.swapaxes(0, 1) / 2)
            errors = np.sqrt(errors**2 + spread[:, :P] ** 2 / 4)
        return Result(
            np.concatenate([alone, pairs], axis=1),
            np.concatenate([errors, pair_errors], axis=1),
            np.minimum(players.dof, dof),
            players.heavy | heavy,
        )

    def _sums_and_pairs(self, state: PairsState, y: np.ndarray) -> tuple[Any, Any, Any, Any]:
        """(estimates, standard errors [N, P + pairs, K], degrees of freedom [N, K], heavy tails
        [N]) by even parts y [N, D, K]: the sums of all pairs with each player first, then the
        pairs. Infinity and False keep the kernel's.
        """
        rows = _answers_of(y)
        means, deviations, freedom = state.process.interactions(rows, state.process.choose(rows))
        sums, spread = _by_instance(means, y), _by_instance(deviations, y)
        return sums, spread, freedom.reshape(len(y), -1), False


class UnbiasedPairSampler(PairSampler):
    """Players by the kernel, pairs by the process plus the mean of its residuals."""

    def smallest_budget(self, P: int, index: Any) -> int:
        """The number of coalitions with two of every size in both halves."""
        return min(LEAST * P, max(0, 2**P - 2))

    def _sums_and_pairs(self, state: PairsState, y: np.ndarray) -> tuple[Any, Any, Any, Any]:
        """See `PairSampler`; degrees of freedom are the kernel's."""
        halves = [_corrected(state, y, first, process) for first, process in state.halves]
        means, variances, terms = zip(*halves, strict=True)
        variance = variances[0] / 4 + variances[1] / 4
        heavy = heavy_tail(np.concatenate(terms, axis=1))
        return means[0] / 2 + means[1] / 2, np.sqrt(variance), np.inf, heavy


def _answers_of(y: np.ndarray) -> np.ndarray:
    """The outputs as rows, [N K, D], from y [N, D, K]."""
    return np.moveaxis(y, 2, 1).reshape(-1, y.shape[1])


def _by_instance(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[N, ..., K] from results for the outputs of y as rows, [N K, ...]."""
    return np.moveaxis(values.reshape(len(y), y.shape[2], -1), 1, 2)


def every_other(sizes: np.ndarray) -> np.ndarray:
    """Every other pair of each size, bool [D]."""
    order = np.argsort(sizes, kind="stable")
    place = np.empty(len(sizes), np.int64)
    starts = np.searchsorted(sizes[order], sizes[order])
    place[order] = np.arange(len(sizes)) - starts
    return place % 2 == 0


def _corrected(
    state: PairsState, y: np.ndarray, first: np.ndarray, process: EvenProcess
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(estimates, variances) [N, P + pairs, K] of the sums of all pairs with each player and of the
    pairs, and the contribution of each draw of the second half to the variances of all pairs, [N,
    b].

    y: even parts [N, 1 + D, K], (all, empty) first; first: bool [D], the half that fits the
    process.
    """
    second = ~first
    rows = _answers_of(y[:, np.concatenate([[True], first])])
    chosen = process.choose(rows)
    means = _by_instance(process.interactions(rows, chosen)[0], y)
    signs = np.where(state.sets[second], 1.0, -1.0)
    left = y[:, 1:][:, second] - _by_instance(process.expected(rows, chosen, signs), y)
    variance, terms = np.zeros_like(means), np.zeros(left.shape[:2])
    sets, sizes = state.sets[second].astype(float), state.sizes[second]
    for s in np.unique(sizes).tolist():
        at, a = sizes == s, int((state.sizes[first] == s).sum())
        for chunk in chunks(len(y), state.P**2 * y.shape[2]):
            more, spread = _of_size(sets[at], left[chunk][:, at], s, state.P, a)
            means[chunk] += more
            variance[chunk] += spread
        residuals = left[:, at] - left[:, at].mean(axis=1)[:, None]
        terms[:, at] = _share_of_draws(s, state.P, a, int(at.sum())) * (residuals**2).sum(axis=2)
    return means, variance, terms


def _weights(s: int, P: int) -> tuple[float, float, float]:
    """M times twice the weight of a coalition of size s with both, one, none of {i, j}."""
    times = 1.0 if 2 * s == P else 2.0  # with P / 2 players both complements have this size
    both = times * P / (s * (s - 1)) if s > 1 else 0.0
    single = -times * P / (s * (P - s))
    none = times * P / ((P - s) * (P - s - 1)) if P - s > 1 else 0.0
    return both, single, none


def _share_of_draws(s: int, P: int, a: int, b: int) -> float:
    """Returns the factor of a squared residual of size s in the sum of all variances."""
    M = sampling.pairs_of_size(P, s)
    if a + b >= M or b < 2:
        return 0.0
    both, single, none = _weights(s, P)
    sets = math.comb(s, 2) * both**2 + s * (P - s) * single**2 + math.comb(P - s, 2) * none**2
    return (1 - (a + b) / M) * sets / (b * (b - 1))


def _of_size(
    sets: np.ndarray, left: np.ndarray, s: int, P: int, a: int
) -> tuple[np.ndarray, np.ndarray]:
    """The contribution of coalitions of size s, and its variance; [N, P + pairs, K].

    sets: [b, P] of 0 and 1; left: [N, b, K], the process's residuals for them; a: number of this
    size in the first half.
    """
    M = sampling.pairs_of_size(P, s)
    b = len(sets)
    share = float(1 - a / M)  # coalitions of the size not seen by the process
    both, single, none = _weights(s, P)
    with_it, without = (s - 1) * both + (P - s) * single, s * single + (P - s - 1) * none
    i, j = np.triu_indices(P, 1)

    def summed(r: np.ndarray, power: int) -> np.ndarray:
        """The sum over coalitions of r [N, b, K] times a power of their weights."""
        w2, w1, w0, u, v = (w**power for w in (both, single, none, with_it, without))
        rows = np.ascontiguousarray(np.moveaxis(r, 2, 1))  # [N, K, b], for any N
        total, held = rows.sum(axis=2), rows @ sets
        joint = (rows[..., None, :] * sets.T) @ sets
        of_pairs = (w2 - 2 * w1 + w0) * joint[..., i, j]
        of_pairs += (w1 - w0) * (held[..., i] + held[..., j]) + w0 * total[..., None]
        of_players = u * held + v * (total[..., None] - held)
        return np.moveaxis(np.concatenate([of_players, of_pairs], axis=2), 1, 2)

    mean = summed(left, 1) / b
    if a + b >= M:  # every coalition of the size is evaluated
        return share * mean, np.zeros_like(mean)
    if b < 2:
        return share * mean, np.full_like(mean, np.nan)
    square = np.maximum(0.0, summed(left**2, 2) / b - mean**2) * b / (b - 1)
    # Both halves are known when the estimates are averaged: the error is that of predicting the
    # mean of the M - a - b others by that of the a + b drawn, (M - a - b) M square / (a + b) in
    # total.
    return share * mean, (1 - (a + b) / M) * square / b


def looked_for(
    index: InteractionIndex, P: int, budget: int, seed: int, coalitions: np.ndarray
) -> np.ndarray:
    """Whether large pairs are searched for each instance, bool [N].

    coalitions: int [N], sampled coalitions of each; 0: exact.
    """
    counts, place = np.unique(coalitions, return_inverse=True)
    sought = [C == 0 or _told_apart(index, P, budget, seed, C) for C in counts.tolist()]
    return np.array(sought, bool)[place]


def warn_not_looked_for(
    index: InteractionIndex, P: int, seed: int, coalitions: np.ndarray, sought: np.ndarray
) -> None:
    """Warns of instances whose large pairs were not searched, if any."""
    lacking = int((~sought).sum())
    if lacking:
        drawn, most = int(coalitions[~sought].max()), (1 << P) - 2
        C = drawn  # raised to about the smallest budget that searches them
        while C < most and not _told_apart(index, P, C, seed, C):
            C = max(C + 2, int(C * STEP))
        checks.warn(
            f"{lacking:,} of {len(sought):,} instances were asked {drawn:,} coalitions of {P:,} "
            "players, so few that they may not tell two pairs from two others: no pair that is far "
            "larger than the others was looked for. A single large pair is shrunk towards 0, and "
            f"its interval may miss it. Raise budget= to about {min(most, -(-C // 10) * 10):,}, or "
            f"say unbiased=True, which needs budget={LEAST * P:,} at least."
        )


def _told_apart(index: InteractionIndex, P: int, budget: int, seed: int, C: int) -> bool:
    if C >= SURELY[0] * P + SURELY[1]:
        return True
    sampler = PairSampler()
    units = min(C // 2, sampler.units(P, index, budget))
    state, _ = sampler.step(sampler.init(P, index, budget, seed), units)
    return state.process.tells_apart
