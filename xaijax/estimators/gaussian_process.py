"""The kernel estimator with a Gaussian process as its control variate.

The weighted regression of `kernel.py` takes all interactions of three players and more for noise.
The process of `odd_process/` predicts them, each answer by the others alone. Its own values are
known in closed form. So are those that the regression would make of its answers: what the two
differ by is the noise of the regression in the process, and a share beta of it is taken out,

    phi = regression(v) + beta (phi(g) - regression(g)),

a control variate (Lavenberg and Welch 1981, "A perspective on the use of control variables to
increase the efficiency of Monte Carlo simulations") whose parts are predicted across folds
(Chernozhukov et al. 2018, "Double/debiased machine learning"). What g misses stays sampled. beta is
the share, from 0 to 1, that leaves the least of the residuals.

Several games make g, one for each part that is held out. Of a size of M pairs, D drawn, a part of
b stands for the M - D + b that its game g_I has not seen. Averaged over the parts, what the
regression should be given for a pair d in part I is (1 - D/M) g_I(d) + D/M times the mean game.

The rates of a process are chosen by the half that it does not predict. beta is chosen by all
answers, and the process is at what the kernel's values leave over, which makes next to no matter
since its variance of single players is flat: the bias is of the order of one over the pairs drawn,
as that of a regression.

Letters: N instances, P players, C coalitions asked, K outputs, D pairs drawn.
"""

from __future__ import annotations

import numpy as np

from xaijax.core.threads import cores, in_order, one_thread_of_blas
from xaijax.estimators import kernel
from xaijax.estimators.kernel import count, independent, init, masks, step, units, walks
from xaijax.estimators.kernel_design import SINGLES_BELOW, SPARE, Design, total_pairs
from xaijax.estimators.odd_process.covariance import Nodes, nodes_of
from xaijax.estimators.odd_process.held_out import MOST, predicted
from xaijax.estimators.odd_process.rates import BY, STEPS
from xaijax.estimators.result import Result
from xaijax.players.index import Index

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

SMALLEST_SET = 3  # players of the interactions that the regression takes for noise
# Share of an answer's size below which what the regression leaves over is rounding: nothing is
# predicted then.
ROUNDING = 1e-12


def smallest_budget(P: int, index: Index) -> int:
    """The coalitions from which standard errors are known, and half of the pairs are more than the
    players.
    """
    return min(2 * first_stop(P), 2 * total_pairs(P))


def first_stop(P: int) -> int:
    """Pairs at the first checkpoint."""
    return max(P + SPARE, -(-SINGLES_BELOW * P // 2))


def drawing(P: int, index: Index, budget: int, K: int) -> tuple[float, float]:
    """(bytes on the host, operations of a core) of all that a budget draws.

    Beside the kernel's: four matrices of the pairs that a process is at, for each answer at a time.
    """
    held, once = kernel.drawing(P, index, budget, K)
    D = units(P, index, budget)
    return held + 32 * min(D, MOST) ** 2 * _at_once(D), once


def work(P: int, index: Index, budget: int) -> float:
    """Two factors of such a matrix, and the inverses by which rates are chosen, as measured: small
    matrices reach a part of a core's rate, and what is around them takes as long as 2e9 operations.
    """
    D = units(P, index, budget)
    E, some = min(D, MOST), min(D // 2, max(BY, 2 * P))
    rates = 12.0 * STEPS * some**2 * (some + 4.0 * P + 200)
    return 2e9 + rates + E**2 * (E + 4.0 * P + 200)


def result(
    state: kernel.State,
    values: np.ndarray,
    empty: np.ndarray,
    full: np.ndarray,
    moves: np.ndarray | None = None,
) -> Result:
    """Values and standard errors; arguments as of `kernel.result`."""
    found = kernel.result(state, values, empty, full, moves)._replace(heavy=None)
    nodes = nodes_of(state.P, state.index.draws_orders)
    answers = np.concatenate([full[:, None], empty[:, None], values], axis=1)
    outputs = range(values.shape[2])
    threads = _at_once(state.pairs)
    # An answer's process is its own. Small matrices take longer in several threads each.
    with one_thread_of_blas():
        for pattern, rows, fit in kernel.fits(state, len(values), moves):
            if pattern.sum() < SMALLEST_SET:
                continue  # the regression is exact
            of_answer = _Predicting(state, fit, pattern, nodes)
            places = [(n, slice(None), k) for n in rows for k in outputs]
            given = ((answers[at], found.values[at], found.std_errors[at]) for at in places)
            corrected = in_order(lambda one, f=of_answer: f(*one), given, threads)
            for at, better in zip(places, corrected, strict=True):
                found.values[at], found.std_errors[at] = better
    return found


def _at_once(D: int) -> int:
    """Answers whose processes are made beside each other: their matrices are no more than two of
    the largest.
    """
    return min(cores(), 2 * MOST**2 // min(max(D, 1), MOST) ** 2)


class _Predicting:
    """The answers of one instance and output; of instances whose same players move."""

    def __init__(self, state: kernel.State, fit: Design, moves: np.ndarray, nodes: Nodes) -> None:
        self.fit, self.moves, self.sizes, self.nodes = fit, moves, state.sizes, nodes
        self.efficient = state.index.efficient
        everyone = np.ones((1, state.P), bool)
        self.signs = np.where(np.concatenate([everyone, state.sets])[:, moves], 1.0, -1.0)

    def __call__(
        self, answers: np.ndarray, phi: np.ndarray, errors: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(values, standard errors) [P]; the kernel's own, a beta of 0, where nothing is left to
        predict and where rounding leaves the process no factor.

        answers: [2 + 2 D], of a coalition and its complement in turn, of all players first; phi,
        errors: the kernel's.
        """
        fit, P = self.fit, len(phi)
        odd = (answers[0::2] - answers[1::2]) / 2
        even = (answers[0::2] + answers[1::2]) / 2
        span, y = 2 * odd[0], 2 * odd[1:]
        left, level = odd - self.signs @ phi[self.moves] / 2, even - even.mean()
        size, of_even = (float(np.sqrt(np.mean(one**2))) for one in (left, level))
        least = ROUNDING * float(np.abs(answers).max())
        if not size > least or not np.isfinite(size):
            return phi, errors
        scaled = level / of_even if of_even > least else None
        try:
            game = predicted(self.signs, left / size, scaled, self.sizes, self.nodes)
        except np.linalg.LinAlgError:
            return phi, errors
        _, own = self._regression(y, span)
        _, residual = self._regression(2 * size * game.pairs, 2 * size * game.ends)
        # A part is drawn from what its game has not seen. Of a size of which a share is drawn, the
        # part stands for the other share, and for the share drawn stands the game itself.
        mixed = fit.unseen * game.pairs + (1 - fit.unseen) * game.whole
        regressed, _ = self._regression(2 * size * mixed, 2 * size * game.ends)
        weights = fit.variance.sum(axis=0)
        squares = float(weights @ residual**2)
        beta = min(max(float(weights @ (own * residual)) / squares, 0.0), 1.0) if squares else 0.0
        more = -regressed[:P]
        more[self.moves] += size * game.values
        if self.efficient:  # both add up to what the process has for all, but for rounding
            more[self.moves] -= more[self.moves].mean()
        # Of few answers all may be predicted by luck: as if one pair in D were not.
        variance = fit.variance @ (own - beta * residual) ** 2
        return phi + beta * more, np.sqrt(variance + errors**2 / len(own))

    def _regression(self, y: np.ndarray, span: float) -> tuple[np.ndarray, np.ndarray]:
        """(the fit's numbers [P+E], what it leaves over [D]) of a game."""
        y = y - self.fit.shift * span
        gamma = self.fit.solve @ y + self.fit.full * span
        return gamma, y - self.fit.columns @ gamma
