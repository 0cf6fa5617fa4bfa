"""Sampled interactions of two players: a Gaussian process over coalitions, fitted to pairs of them.

Coalitions are drawn, with their complements, by the kernel estimator, which gives the values of the
players alone.
Half the sum of v(S) and v(complement) holds what sets of even size add, alone: neither single
players nor triples disturb it, of which the kernel's differences are made. A Gaussian process over
coalitions (`process/`) gives the pairs by it; the few that are far larger than the others are
measured beside it, each by itself.

An estimate is the mean given the data, drawn towards 0 by what is not known yet; its standard error
is the deviation given the data, which holds this shrinking. Both vanish for games of pairs once the
data determine them. Measured on networks, forests and games of high order, at equal coalitions, it
has a fraction of the error of KernelSHAP-IQ, SVARM-IQ, SHAP-IQ and permutations: `bench`, T30.

Letters: N instances, P players, C coalitions asked, D pairs drawn and the ends, K outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from xaijax.estimators import kernel
from xaijax.estimators.process.choice import choose
from xaijax.estimators.process.posterior import HELD, RATES, interactions
from xaijax.estimators.process.turned import DECIDE, KEEPS, TOGETHER, Process
from xaijax.estimators.result import Result
from xaijax.players.index import Index, named
from xaijax.players.interaction_index import InteractionIndex

ROUNDS, COLUMNS = 8, 16  # of the search for large pairs, and their number: as on T30's models


@dataclass(frozen=True)
class State:
    """The pairs drawn so far, by the kernel estimator."""

    index: InteractionIndex
    drawn: kernel.State

    @property
    def pairs(self) -> int:
        """How many pairs have been drawn."""
        return self.drawn.pairs

    @cached_property
    def process(self) -> Process:
        """At the coalitions drawn, the full one first."""
        ends = np.ones((1, self.drawn.P), bool)
        signs = np.where(np.concatenate([ends, self.drawn.sets]), 1.0, -1.0)
        return Process(signs, _of_players(self.index).draws_orders)


def _of_players(index: InteractionIndex) -> Index:
    """The index whose values players alone have, but for what k-SII takes out of them."""
    return named(index.singles)


def smallest_budget(P: int, index: InteractionIndex) -> int:
    """The coalitions from which the players' values are determined."""
    return kernel.smallest_budget(P, _of_players(index))


def units(P: int, index: InteractionIndex, budget: int) -> int:
    """How many pairs the budget allows."""
    return kernel.units(P, _of_players(index), budget)


def drawing(P: int, index: InteractionIndex, budget: int, K: int) -> tuple[float, float]:
    """(bytes on the host, operations of a core) of all that a budget draws.

    Beside the kernel's: matrices of the answers that decide, for each rate; some of all answers,
    of the sets that are worked out together, and of the trends.
    """
    D = units(P, index, budget) + 1
    some, rates = min(D, DECIDE), len(RATES)
    held, once = kernel.drawing(P, _of_players(index), budget, K)
    columns = 2 * min(KEEPS, D * count(P))
    held += 8 * (rates * some**2 + D * (D * 7 + 3 * TOGETHER + 2 * P) + 5 * HELD + columns)
    return held, once


def work(P: int, index: InteractionIndex, budget: int) -> float:
    """The rates, scores of all pairs some times over, what so many columns tell of the pairs."""
    D = units(P, index, budget) + 1
    rates = len(RATES) * min(D, DECIDE) ** 2
    return 2.0 * (rates + 2.0 * D * D + (ROUNDS + COLUMNS) * D * P**2)


def first_stop(P: int) -> int:
    """Pairs at the first checkpoint."""
    return kernel.first_stop(P)


def independent() -> bool:
    """The pairs are not: they are drawn without replacement, and fitted together."""
    return False


def walks(index: InteractionIndex) -> bool:
    """No orders are drawn."""
    return False


def count(P: int) -> int:
    """Sets of one and of two players."""
    return P * (P + 1) // 2


def init(P: int, index: InteractionIndex, budget: int, seed: int) -> State:
    """Nothing drawn yet."""
    return State(index, kernel.init(P, _of_players(index), budget, seed))


def step(state: State, pairs: int) -> tuple[State, np.ndarray]:
    """As of the kernel estimator; the new coalitions, bool [C_new, P]."""
    drawn, new = kernel.step(state.drawn, pairs)
    return replace(state, drawn=drawn), new


def masks(state: State, new: np.ndarray) -> np.ndarray:
    """What `step` returns are the coalitions."""
    return new


def result(
    state: State,
    values: np.ndarray,
    empty: np.ndarray,
    full: np.ndarray,
    moves: np.ndarray | None = None,
) -> Result:
    """Players, then pairs, and their standard errors; values [N, M, K].

    `heavy` is that of the players' values: errors of pairs are posterior deviations, which no
    single draw carries.

    values: [N, C, K], of all coalitions asked, in their order; empty, full: [N, K]. moves: whether
    a player changes anything, bool [N, P]; pairs with another are known to be 0. None: all do.
    """
    alone = kernel.result(state.drawn, values, empty, full, moves)
    y = even_parts(values, empty, full)
    rows = answers_of(y)
    found = interactions(state.process, rows, choose(state.process, rows))
    dof = np.minimum(alone.dof, found.freedom.reshape(alone.dof.shape))
    means, deviations = by_instance(found.means, y), by_instance(found.deviations, y)
    return joined(state.index, alone._replace(dof=dof), means, deviations, moves)


def joined(
    index: InteractionIndex,
    players: Result,
    found: np.ndarray,
    spread: np.ndarray,
    moves: np.ndarray | None,
) -> Result:
    """Players, then pairs; found and their errors, spread: [N, P + pairs, K], the sums of all pairs
    with each player first.
    """
    alone, errors, dof, heavy = players
    P = alone.shape[1]
    pairs, pair_errors = found[:, P:], spread[:, P:]
    i, j = np.triu_indices(P, 1)
    if moves is not None:
        known = ~(moves[:, i] & moves[:, j])
        pairs[known], pair_errors[known] = 0.0, 0.0
        spread[:, :P][~moves] = 0.0
    if index.efficient:  # n-Shapley values of order 2: a player less half of its pairs
        for end in (i, j):
            np.subtract.at(alone.swapaxes(0, 1), end, pairs.swapaxes(0, 1) / 2)
        errors = np.sqrt(errors**2 + spread[:, :P] ** 2 / 4)
    return Result(
        np.concatenate([alone, pairs], axis=1),
        np.concatenate([errors, pair_errors], axis=1),
        dof,
        heavy,
    )


def answers_of(y: np.ndarray) -> np.ndarray:
    """The answers one by one, [N K, D], of y [N, D, K]."""
    return np.moveaxis(y, 2, 1).reshape(-1, y.shape[1])


def by_instance(found: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[N, ..., K] of what was found for the answers of y one by one, [N K, ...]."""
    return np.moveaxis(found.reshape(len(y), y.shape[2], -1), 1, 2)


def even_parts(values: np.ndarray, empty: np.ndarray, full: np.ndarray) -> np.ndarray:
    """Half the sums of answers to complements, [N, D, K], of the two ends first."""
    return np.concatenate([(full + empty)[:, None], values[:, 0::2] + values[:, 1::2]], axis=1) / 2
