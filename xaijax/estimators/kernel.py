"""Fits an additive game to sampled coalitions by weighted least squares.

Shapley values are the fit with the Shapley kernel's weights under the efficiency constraint
(Charnes et al. 1988; Lundberg and Lee 2017), Banzhaf values that with equal weights (Hammer and
Holzman 1992). Coalitions are sampled in complementary pairs, without replacement, stratified by
size; for Shapley by leverage (Musco and Witter 2025, "Provably accurate Shapley value estimation
via leverage score sampling"). Both are exact for games with interactions of two players, and for
any game once all coalitions are evaluated.

The paper draws each coalition of a size independently with equal probability, so that the counts
per size vary. Fixed counts remove that variation; of the allocations compared, equal counts had the
smallest error on the measured games (compared with (s (P-s))^-a, a from 1/4 to 1).

A pair is a coalition S and its complement; y = v(S) - v(complement) and z = +1 for the members of
S, -1 for the others. For a game without interactions y = sum z_i phi_i, and interactions of two
players cancel in y. The strata are the sizes s = 1..P/2 of the smaller member, M_s pairs each.

Letters: N instances, P players, C coalitions evaluated, K outputs, D pairs drawn, E extra columns.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from xaijax.estimators.estimator import Estimator, Result, SamplingCost, chunks, heavy_tail
from xaijax.players.index import Index
from xaijax_kernels.games import sampling

# Draws that leave a value undetermined are repeated. Their probability is below one in millions.
ATTEMPTS = 100
# Pairs beyond the P unknowns that are needed for standard errors and for extra columns.
SPARE = 20
# Below this number of coalitions per player, coalitions of one player come first. Their P pairs
# determine the values; by measured error they are best up to about this budget (P = 12 to 100).
SINGLES_BELOW = 5
# Odd powers of the size that are fitted in addition to the players; see `_size_columns`.
POWERS = 3


class Regression(NamedTuple):
    """The fit of all right-hand sides at once: gamma = solve @ y + full * (v(all) - v(empty))."""

    columns: np.ndarray  # [D, P+E]: z, then the extra columns
    solve: np.ndarray  # [P+E, D]
    full: np.ndarray  # [P+E], contribution of the pair (all, empty)
    shift: np.ndarray  # [D], Shapley: this times v(all) - v(empty) is subtracted from y
    variance: np.ndarray  # [P, D]: the variance of a value is variance @ (residual squared)
    dof: float
    inverse: np.ndarray  # [P+E, P+E], of the normal equations within their constraint
    unseen: np.ndarray  # [D], 1 - pi: the unsampled share of the pair's size


@dataclass(frozen=True)
class KernelState:
    """The pairs drawn so far. Coalitions are ordered S, complement, S, complement, ..."""

    P: int
    index: Index
    budget: int
    seed: int
    attempt: int
    sizes: np.ndarray  # int64 [D], the size of the first of each pair, at most P / 2
    sets: np.ndarray  # bool [D, P], the first of each pair

    @cached_property
    def fit(self) -> Regression:
        """One factorisation for all instances, outputs and calls of `result`."""
        return regression(self.P, self.index, self.sizes, self.sets)

    @property
    def pairs(self) -> int:
        """Number of drawn pairs."""
        return len(self.sizes)


State = TypeVar("State", bound=KernelState)


class Kernel(Estimator):
    """The weighted regression on complementary pairs of coalitions."""

    reports_tails = True

    def smallest_budget(self, P: int, index: Index) -> int:
        """The number of coalitions that determines the values for any seed."""
        return 2 * fewest_pairs(P, index, 0)

    def units(self, P: int, index: Any, budget: int) -> int:
        """Number of pairs within the budget."""
        return min(budget // 2, total_pairs(P))

    def first_stop(self, P: int) -> int:
        """Pairs at the first checkpoint: enough to determine the values and their errors."""
        return P + SPARE

    def cost(self, P: int, index: Any, budget: int, K: int) -> SamplingCost:
        """Returns memory and operations of the fit.

        The fit holds nine rows of P + 3 numbers per pair at once; 33 to 35 bytes per player and
        coalition were measured. It multiplies by P^2 twice and finds the eigenvalues of [P, P]; an
        output takes three products with a matrix of the fit.
        """
        units = self.units(P, index, budget)
        count = 2 * units
        held = count * (36 * (P + 3) + 16 * K) + 24 * P * P
        once = 3e4 * count + 2.0 * count * P * P + 12.0 * P**3
        return SamplingCost(held, once, 6.0 * units * P)

    def init(self, P: int, index: Index, budget: int, seed: int) -> KernelState:
        """State with nothing drawn yet; the attempt that will be used is already chosen."""
        fewest = fewest_pairs(P, index, budget)
        for attempt in range(ATTEMPTS):
            sizes, sets = draw(P, index, budget, seed, attempt, fewest)
            if P == 1 or determined(sets, index):
                return KernelState(P, index, budget, seed, attempt, sizes[:0], sets[:0])
        raise ValueError(f"{ATTEMPTS} draws of {fewest} pairs leave a value of {P} undetermined")

    def step(self, state: State, pairs: int) -> tuple[State, np.ndarray]:
        """Draws until there are `pairs` pairs in total, at least enough to determine the values.

        Returns the new coalitions, masks bool [C_new, P]. Several steps give the same pairs as one;
        a larger budget gives the same and more (separately below and above 5 P coalitions, where
        the order of sizes differs).
        """
        P, index, budget = state.P, state.index, state.budget
        count = max(pairs, fewest_pairs(P, index, budget))
        count = max(min(count, self.units(P, index, budget)), state.pairs)
        sizes, sets = draw(P, index, budget, state.seed, state.attempt, count)
        new = sets[state.pairs :]
        both = np.stack([new, ~new], axis=1).reshape(-1, P)
        return replace(state, sizes=sizes, sets=sets), both

    def result(
        self, state: KernelState, answers: np.ndarray, moves: np.ndarray | None = None
    ) -> Result:
        """The fit, and its standard errors if at least P + 20 pairs (or all) were evaluated.

        Players that change nothing have value and error exactly 0, and are left out of their
        instance's fit. Arguments as for `Estimator.result`.
        """
        N, _, K = answers.shape
        P, D = state.P, state.pairs
        zero, heavy = np.zeros((N, P, K)), np.zeros(N, bool)
        estimate = Result(zero, zero.copy(), np.full((N, K), math.inf), heavy)
        shown = D >= min(P + SPARE, total_pairs(P))
        for pattern, same, fit in fits(state, N, moves):
            for part in chunks(len(same), 2 * D * K):
                rows = same[part]
                span = answers[rows, 1:2] - answers[rows, :1]
                y = answers[rows, 2::2] - answers[rows, 3::2] - fit.shift[:, None] * span
                # matmul multiplies instance by instance, always in one shape, so that an instance's
                # result does not depend on the others, as it would in one product for all.
                gamma = np.matmul(fit.solve, y) + fit.full[:, None] * span
                estimate.values[rows], estimate.dof[rows] = gamma[:, :P], fit.dof
                if shown:
                    squares = (y - np.matmul(fit.columns, gamma)) ** 2
                    estimate.std_errors[rows] = np.sqrt(np.matmul(fit.variance, squares))
                    share = fit.variance.sum(axis=0)
                    drawn = share > 0  # all pairs of the other sizes were evaluated
                    heavy[rows] = heavy_tail((share * squares.sum(axis=2))[:, drawn])
                else:
                    estimate.std_errors[rows] = np.where(pattern[:, None], np.nan, 0.0)
        return estimate


def fits(
    state: KernelState, N: int, moves: np.ndarray | None
) -> Iterator[tuple[np.ndarray, np.ndarray, Regression]]:
    """Yields (players bool [P], instances int [n] in which exactly these change anything, their
    fit); moves [N, P].

    Instances in which no player changes anything are left out: all their values are 0.
    """
    moves = np.ones((N, state.P), bool) if moves is None else moves
    patterns, group = np.unique(moves, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        if pattern.any():
            null = np.flatnonzero(~pattern)
            fit = without(state.fit, null, state.index.efficient) if len(null) else state.fit
            yield pattern, np.flatnonzero(group.reshape(-1) == number), fit


def total_pairs(P: int) -> int:
    """The number of complementary pairs except (empty, all)."""
    return 2 ** (P - 1) - 1


def singles_first(P: int, index: Index, budget: int) -> bool:
    """Whether the P coalitions of one player come before all others."""
    return index.efficient and budget < SINGLES_BELOW * P


def fewest_pairs(P: int, index: Index, budget: int) -> int:
    """The number of pairs that determines the values; no step draws fewer."""
    fewest = P + SPARE
    if index.efficient:
        fewest = P if singles_first(P, index, budget) else SINGLES_BELOW * P // 2
    return min(fewest, total_pairs(P))


def _masses(P: int, index: Index) -> dict[int, float]:
    """The share of each stratum in the least-squares problem over all coalitions.

    Shapley: its C(P, s) coalitions have the kernel weight (P-1) / (C(P, s) s (P-s)) (Lundberg and
    Lee 2017, theorem 2; Charnes, Golany, Keane and Rousseau 1988). Banzhaf: all coalitions have
    equal weight (Hammer and Holzman 1992); the rest of its mass is the pair (empty, all).
    """
    half = {s: 0.5 if 2 * s == P else 1.0 for s in range(1, P // 2 + 1)}
    if index.efficient:
        mass = {s: share / (s * (P - s)) for s, share in half.items()}
        whole = math.fsum(mass.values())
        return {s: part / whole for s, part in mass.items()}
    pairs = 2 ** (P - 1)
    return {s: float(Fraction(sampling.pairs_of_size(P, s), pairs)) for s in half}


def _sizes_in_turn(P: int, index: Index, budget: int, seed: int) -> Iterator[int]:
    """The stratum of every pair that could be drawn, in the order of drawing.

    The next pair goes to the stratum with the fewest pairs relative to its share. Any number of
    pairs therefore has the best integer allocation, larger numbers only add pairs, and a full
    stratum leaves its share to the others. Shapley: the leverage of a coalition is 1 / C(P, s), so
    that all sizes get the same number (Musco and Witter 2025, lemma 3.2; size P/2 half, since one
    pair has two of its sets). Banzhaf: in proportion to M_s. The first stratum is random.
    """
    mass = _masses(P, index)
    room = {s: sampling.pairs_of_size(P, s) for s in mass}
    if index.efficient:
        share = {s: 0.5 if 2 * s == P else 1.0 for s in mass}
    else:
        share = {s: part for s, part in mass.items() if part > 0}
    taken = dict.fromkeys(mass, 0)
    if P > 1 and singles_first(P, index, budget):
        taken[1] = room[1]
        yield from [1] * room[1]
    drawn = sampling.fractions(seed, (sampling.OFFSETS,), len(mass) + 1)
    queue = [((taken[s] + drawn[s]) / share[s], s) for s in share if taken[s] < room[s]]
    heapq.heapify(queue)
    while queue:
        s = queue[0][1]
        yield s
        taken[s] += 1
        if taken[s] < room[s]:
            heapq.heapreplace(queue, ((taken[s] + drawn[s]) / share[s], s))
        else:
            heapq.heappop(queue)


def draw(
    P: int, index: Index, budget: int, seed: int, attempt: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The first `count` pairs: sizes int64 [D], sets bool [D, P]."""
    turn = _sizes_in_turn(P, index, budget, seed)
    sizes = np.fromiter((s for s, _ in zip(turn, range(count), strict=False)), np.int64)
    sets = np.zeros((len(sizes), P), bool)
    for s in np.unique(sizes):
        at = np.flatnonzero(sizes == s)
        sets[at] = sampling.sets_of_size(seed, P, int(s), len(at), attempt)
    return sizes, sets


def determined(sets: np.ndarray, index: Index) -> bool:
    """Whether these pairs determine all P values."""
    z = np.where(sets, 1.0, -1.0)
    if index.efficient:
        z -= z.mean(axis=1, keepdims=True)
    return _sound(z.T @ z + 1.0)  # the last is the constraint, or the pair (empty, all)


def _sound(gram: np.ndarray) -> bool:
    values = np.linalg.eigvalsh(gram)
    return bool(values[0] > 1e-11 * values[-1])


def _size_columns(P: int, index: Index, mass: dict[int, float], ends: float) -> np.ndarray:
    """Odd polynomials of t = 1 - 2 s / P that do not change the values; [P//2 + 2, E], row s.

    The last row is for (all, empty), t = -1. Over all coalitions such a column is orthogonal to
    every player's, so the least-squares values do not change. In a sample it removes effects of the
    size only (saturation, a threshold), which otherwise are noise. Shapley: z minus its mean sums
    to zero within a size, so any function works. Banzhaf: by symmetry the product of z_i with a
    function of the size equals that of the mean of z, a multiple of t: the powers are made
    orthogonal to t.
    """
    t = 1 - 2 * np.arange(P // 2 + 2) / P
    t[0], t[-1] = 0.0, -1.0
    weight = np.array([0.0, *mass.values(), ends])
    first = 0 if index.efficient else 1
    columns: list[np.ndarray] = []
    for power in range(min(POWERS, (P - 1) // 2 + first)):
        column = t ** (2 * power + 1)
        for _twice in range(2):
            for other in columns:
                column = column - other * (weight * other * column).sum()
        columns.append(column / np.sqrt((weight * column**2).sum()))
    return np.array(columns[first:]).reshape(-1, len(t)).T


def regression(P: int, index: Index, sizes: np.ndarray, sets: np.ndarray) -> Regression:
    """Weighted least squares over all coalitions, estimated from the pairs drawn.

    A pair of size s is in the sample with probability pi = m_s / M_s and represents 1 / pi pairs
    (Horvitz and Thompson 1952), so the m_s pairs share the mass of their stratum. The mass of a
    size without pairs goes to the nearest size with pairs. Shapley: the constraint is projected
    out, phi = phi' + (v(all) - v(empty)) / P with sum phi' = 0.

    Variance: the values are linear in y up to the sampling of the fit, phi ~ sum_d solve_d r_d.
    This gives a sandwich over pairs, the sum of (1 - pi) solve^2 r^2, in which a full stratum adds
    nothing. Residuals are too small by the leverage h of a pair in its own fit; HC2 (MacKinnon and
    White 1985) divides by 1 - h. For a fitted mean of a stratum this is the textbook's (1 - m/M)
    s^2 / m, where s^2 has m - 1 in the denominator for any m / M. Degrees of freedom:
    Satterthwaite's for a sum of independent squares with these weights, minus the share that the
    fit takes.
    """
    mass, ends = _masses(P, index), 0.0 if index.efficient else 0.5 ** (P - 1)
    drawn = {s: int(n) for s, n in zip(*np.unique(sizes, return_counts=True), strict=True)}
    shared = dict.fromkeys(drawn, 0.0)
    # Not to a full size if possible: its residuals would count as free of sampling error.
    hosts = [s for s in drawn if drawn[s] < sampling.pairs_of_size(P, s)] or list(drawn)
    for s, part in mass.items():
        host = s if s in drawn else min(hosts, key=lambda t: (abs(t - s), -t))
        shared[host] += part
    weight = np.array([shared[s] / drawn[s] for s in sizes.tolist()])
    out = 1 - np.array([drawn[s] / sampling.pairs_of_size(P, s) for s in sizes.tolist()])

    z = np.where(sets, 1.0, -1.0)
    mean = z.mean(axis=1, keepdims=True) if index.efficient else np.zeros((len(z), 1))
    extra = _size_columns(P, index, mass, ends)
    E = extra.shape[1] if len(sizes) >= P + SPARE else 0
    while True:
        columns = np.concatenate([z - mean, extra[sizes, :E]], axis=1)
        end = np.concatenate([np.ones(P), extra[-1, :E]])
        weighted = (columns * weight[:, None]).T
        gram = weighted @ columns + ends * np.outer(end, end)
        if index.efficient:
            gram[:P, :P] += 1.0 / P  # fixes sum phi' = 0, without other changes
        if E == 0 or _sound(gram):
            break
        E -= 1
    solved = np.linalg.solve(gram, np.column_stack([weighted, ends * end, np.eye(P + E)]))
    D = len(sizes)
    solve, full, inverse = np.ascontiguousarray(solved[:, :D]), solved[:, D], solved[:, D + 1 :]
    if index.efficient:
        full = np.concatenate([np.full(P, 1.0 / P), np.zeros(E)])
        inverse[:P, :P] -= 1.0 / P  # the term that fixed the sum of phi'
    variance, dof = _spread(solve, columns, out, np.ones(P, bool))
    return Regression(columns, solve, full, mean[:, 0], variance, dof, inverse, out)


def without(fit: Regression, null: np.ndarray, efficient: bool) -> Regression:
    """The same fit with the values of null players, positions int [n] of P, fixed at 0.

    The values of a game solve the least-squares problem over all coalitions, also under a
    constraint that they satisfy. By Lagrange multipliers, with G the inverse and I the null
    players, gamma becomes gamma - G[:, I] inverse(G[I, I]) gamma[I].
    """
    P = len(fit.variance)
    moves = np.ones(P, bool)
    moves[null] = False
    onto = np.linalg.solve(fit.inverse[np.ix_(null, null)], fit.inverse[null]).T
    solve = fit.solve - onto @ fit.solve[null]
    full = fit.full - onto @ fit.full[null]
    solve[null], full[null] = 0.0, 0.0  # not only up to rounding
    if efficient:  # nor are the sums
        solve[:P][moves] -= solve[:P].sum(axis=0) / moves.sum()
        full[:P][moves] += (1 - full[:P].sum()) / moves.sum()
    variance, dof = _spread(solve, fit.columns, fit.unseen, moves)
    return fit._replace(solve=solve, full=full, variance=variance, dof=dof)


def _spread(
    solve: np.ndarray, columns: np.ndarray, out: np.ndarray, moves: np.ndarray
) -> tuple[np.ndarray, float]:
    """(variance [P, D], degrees of freedom) of a fit; moves: players whose values are fitted, bool
    [P]."""
    leverage = np.einsum("ij,ji->j", solve, columns)
    squares = solve[: len(moves)] ** 2 * out
    variance = squares / np.maximum(1 - leverage, 1e-6)
    if not out.any():
        return variance, math.inf
    squares = squares[moves]
    fourth = (squares**2).sum(axis=1)
    effective = np.mean(squares.sum(axis=1) ** 2 / np.maximum(fourth, 1e-300))
    return variance, max(1.0, float(effective * (1 - (leverage * out).sum() / out.sum())))
