"""Regression sampling: a weighted least-squares fit of an additive game to sampled coalitions.

Shapley values are the fit with the Shapley kernel's weights under the efficiency constraint
(Charnes et al. 1988; Lundberg and Lee 2017), Banzhaf values that with equal weights (Hammer and
Holzman 1992). Coalitions are asked in complementary pairs, without replacement, stratified by
size; Shapley's by leverage (Musco and Witter 2025, "Provably accurate Shapley value estimation via
leverage score sampling"). Both are exact for games with interactions of two players, and for any
game once all coalitions are asked. `kernel_design.py` has the mathematics.

The paper draws each coalition of a size with equal chance independently, so that the numbers of
the sizes vary. Fixed numbers in every size leave that variation out; among allocations, equal
numbers had the least error for the games measured (against (s (P-s))^-a, a from 1/4 to 1).

Letters: N instances, P players, C coalitions asked, K outputs, D pairs drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from xaijax.estimators import kernel_design as design
from xaijax.estimators.result import Result, heavy_tail, stretches
from xaijax.players.index import Index

# Draws that leave a value undetermined are drawn again. One chance in millions, or less.
ATTEMPTS = 100


@dataclass(frozen=True)
class State:
    """The pairs drawn so far. Coalitions are asked as S, complement, S, complement, ..."""

    P: int
    index: Index
    budget: int
    seed: int
    attempt: int
    sizes: np.ndarray  # int64 [D], the size of the first of each pair, at most P / 2
    sets: np.ndarray  # bool [D, P], the first of each pair

    @cached_property
    def design(self) -> design.Design:
        """One factorisation for all instances, outputs and calls of `result`."""
        return design.design(self.P, self.index, self.sizes, self.sets)

    def without(self, null: np.ndarray) -> design.Design:
        """The same for instances in which these players, places int [n], change nothing."""
        return design.without(self.design, null, self.index.efficient)

    @property
    def asked(self) -> int:
        """How many coalitions have been asked, empty and full not counted."""
        return 2 * self.pairs

    @property
    def pairs(self) -> int:
        """How many pairs have been drawn."""
        return len(self.sizes)


def smallest_budget(P: int, index: Index) -> int:
    """The coalitions from which the values are determined, whatever the seed."""
    return 2 * design.fewest_pairs(P, index, 0)


def units(P: int, index: Index, budget: int) -> int:
    """How many pairs the budget allows."""
    return min(budget // 2, design.total_pairs(P))


def drawing(P: int, index: Index, budget: int, K: int) -> tuple[int, float]:
    """(bytes on the host, operations of a core) of all that a budget draws.

    For each pair the fit holds nine rows of P + 3 numbers at once, 33 to 35 bytes a player and
    coalition as measured; it multiplies by P^2 twice and finds the eigenvalues of [P, P].
    """
    count = 2 * units(P, index, budget)
    held = count * (36 * (P + 3) + 16 * K) + 24 * P * P
    return held, 3e4 * count + 2.0 * count * P * P + 12.0 * P**3


def work(P: int, index: Index, budget: int) -> float:
    """Three products with a matrix of the fit."""
    return 6.0 * units(P, index, budget) * P


def init(P: int, index: Index, budget: int, seed: int) -> State:
    """Nothing drawn yet; which draw will be taken is settled."""
    fewest = design.fewest_pairs(P, index, budget)
    for attempt in range(ATTEMPTS):
        sizes, sets = design.draw(P, index, budget, seed, attempt, fewest)
        if P == 1 or design.determined(sets, index):
            return State(P, index, budget, seed, attempt, sizes[:0], sets[:0])
    raise ValueError(f"{ATTEMPTS} draws of {fewest} pairs leave a value of {P} undetermined")


def count(P: int) -> int:
    """Players."""
    return P


def first_stop(P: int) -> int:
    """Pairs at the first checkpoint: those that determine the values, and some for their errors."""
    return P + design.SPARE


def independent() -> bool:
    """The pairs are not: they are drawn without replacement, and fitted together."""
    return False


def walks(index: Index) -> bool:
    """No orders are drawn."""
    return False


def masks(state: State, new: np.ndarray) -> np.ndarray:
    """What `step` returns are the coalitions."""
    return new


def step(state: State, pairs: int) -> tuple[State, np.ndarray]:
    """Goes on until `pairs` pairs are drawn in all, at least those that determine the values.

    Returns the coalitions not asked before, masks bool [C_new, P]. Steps give the same pairs as
    one step; a larger budget gives the same and more (on each side of 5 P coalitions, where the
    order of sizes differs).
    """
    P, index, budget = state.P, state.index, state.budget
    count = max(pairs, design.fewest_pairs(P, index, budget))
    count = max(min(count, units(P, index, budget)), state.pairs)
    sizes, sets = design.draw(P, index, budget, state.seed, state.attempt, count)
    new = sets[state.pairs :]
    both = np.stack([new, ~new], axis=1).reshape(-1, P)
    return replace(state, sizes=sizes, sets=sets), both


def result(
    state: State,
    values: np.ndarray,
    empty: np.ndarray,
    full: np.ndarray,
    moves: np.ndarray | None = None,
) -> Result:
    """The fit, and its standard errors where at least P + 20 pairs (or all) were asked.

    values: [N, C, K], of all coalitions asked, in their order; empty, full: [N, K]. moves: which
    players change anything, bool [N, P]; None: all. The others have value and error exactly 0, and
    are left out of their instance's fit.
    """
    N, _, K = values.shape
    P, D = state.P, state.pairs
    zero, heavy = np.zeros((N, P, K)), np.zeros(N, bool)
    found = Result(zero, zero.copy(), np.full((N, K), math.inf), heavy)
    shown = D >= min(P + design.SPARE, design.total_pairs(P))
    for pattern, same, fit in fits(state, N, moves):
        for part in stretches(len(same), 2 * D * K):
            rows = same[part]
            span = (full[rows] - empty[rows])[:, None]
            y = values[rows, 0::2] - values[rows, 1::2] - fit.shift[:, None] * span
            # matmul multiplies instance by instance, always in one shape: the bits of an instance
            # do not depend on the others in the call, as they would in one product for all.
            gamma = np.matmul(fit.solve, y) + fit.full[:, None] * span
            found.values[rows], found.dof[rows] = gamma[:, :P], fit.dof
            if shown:
                squares = (y - np.matmul(fit.columns, gamma)) ** 2
                found.std_errors[rows] = np.sqrt(np.matmul(fit.variance, squares))
                share = fit.variance.sum(axis=0)
                drawn = share > 0  # all pairs of the other sizes were asked
                heavy[rows] = heavy_tail((share * squares.sum(axis=2))[:, drawn])
            else:
                found.std_errors[rows] = np.where(pattern[:, None], np.nan, 0.0)
    return found


def fits(
    state: State, N: int, moves: np.ndarray | None
) -> Iterator[tuple[np.ndarray, np.ndarray, design.Design]]:
    """(players bool [P], instances int [n] in which these alone move, their fit); moves [N, P].

    Instances in which nobody moves are left out: all their values are 0.
    """
    moves = np.ones((N, state.P), bool) if moves is None else moves
    patterns, own = np.unique(moves, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        if pattern.any():
            fit = state.design if pattern.all() else state.without(np.flatnonzero(~pattern))
            yield pattern, np.flatnonzero(own.reshape(-1) == number), fit
