"""The kernel estimator with a Gaussian process as its control variate.

The weighted regression of `kernel.py` treats interactions of three and more players as noise.
`OddProcess` g predicts them, each output from the others only. The values of g are known in closed
form, and so is the regression applied to g. Their difference is the regression's noise in g, and a
share beta of it is subtracted,

    phi = regression(v) + beta (phi(g) - regression(g)),

a control variate (Lavenberg and Welch 1981, "A perspective on the use of control variables to
increase the efficiency of Monte Carlo simulations") whose parts are predicted across folds
(Chernozhukov et al. 2018, "Double/debiased machine learning"). What g does not predict is sampled.
beta, from 0 to 1, minimises the residuals.

The drawn pairs are halved, every other one of each size. A half is predicted by a process whose
rates were chosen by the other half, so that an output never predicts itself. The process uses the
full other half, and all but one of FOLDS parts of its own half. With alpha = K^-1 y, the residual
of part I is (K^-1)_II^-1 alpha_I, and the weights without it are alpha - (K^-1)_:I times that
(Rasmussen and Williams 2006, "Gaussian processes for machine learning", section 5.4.2, for parts of
one): one factorisation serves all parts.

g consists of several games, one per held-out part. For a size with M pairs, D of them drawn, a part
of b pairs represents the M - D + b that its game g_I has not seen. Averaged over the parts, the
regression's input for a pair d in part I is (1 - D/M) g_I(d) + D/M times the mean game.

The rates of a process are chosen by the half that it does not predict. beta is chosen by all
outputs, and the process is fitted to the residuals of the kernel's values, which matters little
because its prior of single players is flat: the bias is of the order of one over the number of
pairs, as for a regression.

Letters: N instances, P players, C coalitions evaluated, K outputs, D pairs drawn, E of them that a
process uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xaijax.core.process import cores, in_order, one_thread_of_blas
from xaijax.estimators.estimator import Result, SamplingCost, chunks
from xaijax.estimators.kernel import (
    SINGLES_BELOW,
    SPARE,
    Kernel,
    KernelState,
    Regression,
    fits,
    total_pairs,
)
from xaijax.estimators.process import (
    BY,
    NOISE,
    STEPS,
    Nodes,
    OddProcess,
    factor,
    inverse_of,
    nodes_of,
)
from xaijax.players.index import Index

SMALLEST_SET = 3  # players of the interactions that the regression treats as noise
# Share of an output's size below which residuals of the regression are rounding, and not predicted.
ROUNDING = 1e-12
FOLDS = 4  # parts of each half: the predicting process has seen seven eighths of the pairs
# Maximum number of pairs that a process uses; the others are predicted from these. Its matrix is
# then 128 MiB.
MOST = 4_096


class GaussianProcess(Kernel):
    """The kernel estimator, minus a process's prediction of its noise."""

    no_interactions = "its process is of sets of odd size"
    reports_tails = False

    def smallest_budget(self, P: int, index: Any) -> int:
        """The number of coalitions that gives standard errors and more pairs in each half than
        players.
        """
        return min(2 * self.first_stop(P), 2 * total_pairs(P))

    def first_stop(self, P: int) -> int:
        """Pairs at the first checkpoint."""
        return max(P + SPARE, -(-SINGLES_BELOW * P // 2))

    def cost(self, P: int, index: Index, budget: int, K: int) -> SamplingCost:
        """The kernel's cost, plus four matrices of a process's pairs for each output at a time:
        two factors, and the inverses that choose rates, as measured. Small matrices reach only a
        part of a core's rate, and the overhead equals 2e9 operations.
        """
        kernel, D = super().cost(P, index, budget, K), self.units(P, index, budget)
        E, fitted = min(D, MOST), min(D // 2, max(BY, 2 * P))
        rates = 12.0 * STEPS * fitted**2 * (fitted + 4.0 * P + 200)
        each = 2e9 + rates + E**2 * (E + 4.0 * P + 200)
        return SamplingCost(kernel.held + 32 * E**2 * _at_once(D), kernel.once, each)

    def result(
        self, state: KernelState, answers: np.ndarray, moves: np.ndarray | None = None
    ) -> Result:
        """Values and standard errors; arguments as for `Estimator.result`."""
        result = super().result(state, answers, moves)._replace(heavy=None)
        nodes = nodes_of(state.P, state.index.draws_orders)
        answers = np.concatenate([answers[:, 1::-1], answers[:, 2:]], axis=1)  # the full one first
        outputs = range(answers.shape[2])
        threads = _at_once(state.pairs)
        # Each output has its own process. Small matrices take longer with several threads each.
        with one_thread_of_blas():
            for pattern, rows, fit in fits(state, len(answers), moves):
                if pattern.sum() < SMALLEST_SET:
                    continue  # the regression is exact
                correct = partial(_corrected, state, fit, pattern, nodes)
                places = [(n, slice(None), k) for n in rows for k in outputs]
                kernels = ((answers[at], result.values[at], result.std_errors[at]) for at in places)
                for at, better in zip(places, in_order(correct, kernels, threads), strict=True):
                    result.values[at], result.std_errors[at] = better
        return result


def _at_once(D: int) -> int:
    """Number of outputs whose processes are computed at the same time: their matrices together
    take at most two of the largest.
    """
    return min(cores(), 2 * MOST**2 // min(max(D, 1), MOST) ** 2)


def _corrected(
    state: KernelState, fit: Regression, moves: np.ndarray, nodes: Nodes, kernels: Sequence[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """(values, standard errors) [P] of one instance and output; those of the kernel (beta 0) if
    nothing remains to predict or the factorisation fails by rounding.

    fit: the kernel's, for the players that change anything. kernels: the outputs [2 + 2 D], a
    coalition and its complement in turn, the full one first; then the kernel's values and standard
    errors.
    """
    answers, phi, errors = kernels
    everyone, P = np.ones((1, state.P), bool), state.P
    signs = np.where(np.concatenate([everyone, state.sets])[:, moves], 1.0, -1.0)

    def regression(y: np.ndarray, span: float) -> tuple[np.ndarray, np.ndarray]:
        """(coefficients [P+E], residuals [D]) of the fit of a game."""
        y = y - fit.shift * span
        gamma = fit.solve @ y + fit.full * span
        return gamma, y - fit.columns @ gamma

    odd = (answers[0::2] - answers[1::2]) / 2
    even = (answers[0::2] + answers[1::2]) / 2
    span, y = 2 * odd[0], 2 * odd[1:]
    left, level = odd - signs @ phi[moves] / 2, even - even.mean()
    size, of_even = (float(np.sqrt(np.mean(part**2))) for part in (left, level))
    least = ROUNDING * float(np.abs(answers).max())
    if not size > least or not np.isfinite(size):
        return phi, errors
    scaled = level / of_even if of_even > least else None
    try:
        game = predicted(signs, left / size, scaled, state.sizes, nodes)
    except np.linalg.LinAlgError:
        return phi, errors
    _, left_over = regression(y, span)
    _, residual = regression(2 * size * game.pairs, 2 * size * game.ends)
    # A part is drawn from what its game has not seen. For each size the part represents the share
    # that is not drawn, and the game itself the share that is drawn.
    mixed = fit.unseen * game.pairs + (1 - fit.unseen) * game.mean
    regressed, _ = regression(2 * size * mixed, 2 * size * game.ends)
    weights = fit.variance.sum(axis=0)
    squares = float(weights @ residual**2)
    beta = min(max(float(weights @ (left_over * residual)) / squares, 0.0), 1.0) if squares else 0.0
    more = -regressed[:P]
    more[moves] += size * game.values
    # both add up to the process's value for the full coalition, up to rounding
    if state.index.efficient:
        more[moves] -= more[moves].mean()
    # With few outputs all may be predicted by luck: assume that one pair in D is not.
    variance = fit.variance @ (left_over - beta * residual) ** 2
    return phi + beta * more, np.sqrt(variance + errors**2 / len(left_over))


class Predicted(NamedTuple):
    """The mean of the games of both halves and all parts."""

    pairs: np.ndarray  # [D], the odd part of each pair, by games that have not seen it
    mean: np.ndarray  # [D], by the mean of all the games
    ends: float  # the odd part of (all, none), by the mean
    values: np.ndarray  # [P], of the mean


def folds(sizes: np.ndarray, count: int) -> np.ndarray:
    """The part of each pair, int [D], from 0 to count - 1: in turn, in order of size."""
    place = np.empty(len(sizes), np.int64)
    place[np.argsort(sizes, kind="stable")] = np.arange(len(sizes))
    return place % count


def predicted(
    signs: np.ndarray, odd: np.ndarray, even: np.ndarray | None, sizes: np.ndarray, nodes: Nodes
) -> Predicted:
    """Predictions by processes of odd parts [1 + D], (all, none) first, scaled to about 1.

    signs: [1 + D, P]; even: the even parts in the same order, None if they are all equal; sizes:
    [D]. Pairs are in the order of drawing: the first ones have all sizes.
    """
    E = min(len(sizes), MOST)
    half = folds(sizes[:E], 2)
    pairs, mean, values = np.zeros(len(odd)), np.zeros(len(odd)), np.zeros(signs.shape[1])
    for number in range(2):
        held, others = (np.flatnonzero(half == side) + 1 for side in (number, 1 - number))
        by = np.append(0, others[: max(BY, 2 * signs.shape[1])])
        process = OddProcess.likeliest(signs[by], odd[by], None if even is None else even[by])
        at = np.concatenate([[0], others, held])
        off, weights = _held_out(process, signs[at], odd[at], folds(sizes[held - 1], FOLDS))
        pairs[held] = odd[held] - off[-len(held) :]
        # (K + NOISE) weights = y - off / FOLDS, and the game is K weights.
        mean[at] += (odd[at] - off / FOLDS - NOISE * weights) / 2
        for chunk in chunks(len(odd) - E - 1, E):
            rest = slice(E + 1 + chunk.start, E + 1 + chunk.stop)
            mean[rest] += process.between(signs[rest], signs[at]) @ weights / 2
        values += process.values(signs[at], weights, nodes) / 2
    pairs[E + 1 :] = mean[E + 1 :]  # which no game has seen
    return Predicted(pairs[1:], mean[1:], float(mean[0]), values)


def _held_out(
    process: OddProcess, signs: np.ndarray, y: np.ndarray, part: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(residuals [E + 1] of the last outputs, 0 for the others; the mean weights over the parts).

    signs: [E + 1, P]; y: [E + 1]; part: int [H], of the last H outputs. With K = L L^T, the last
    corner of K^-1 is the inverse of that of L times its transpose.
    """
    from scipy.linalg import cho_solve  # noqa: PLC0415 - `import xaijax` loads no scipy

    K = process.between(signs, signs)
    K[np.diag_indices(len(K))] += NOISE
    lower = factor(K)
    alpha = cho_solve((lower, True), y)
    first = len(y) - len(part)
    inverse = inverse_of(lower[first:, first:])
    off = np.zeros(len(y))
    for number in np.unique(part):
        at = np.flatnonzero(part == number)
        off[first + at] = np.linalg.solve(inverse[np.ix_(at, at)], alpha[first + at])
    return off, alpha - cho_solve((lower, True), off) / FOLDS
