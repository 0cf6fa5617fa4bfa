"""Samples marginal contributions antithetically, along random orders or around random coalitions.

Shapley: a unit is a random order and its reverse (Mitchell, Cooper, Frank and Holmes 2022,
"Sampling permutations for Shapley value estimation", section 4.1). The prefixes of one are the
complements of the prefixes of the other, so a unit has 2 (P-1) coalitions, and its estimate is
exact for games with interactions of two players: i and j occur in both orders once.

Banzhaf: a unit is a uniform coalition S and its complement, each with all its P neighbours S xor
{i}: every player's marginal contribution to both, 2 (P+1) coalitions. This is also exact for
pairwise games. (Orders with marginals weighted by size would need fewer coalitions, but are not
exact even for additive games: a player's weights add up to one only on average.)

Letters: N instances, P players, C coalitions evaluated, K outputs, D pairs drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from xaijax.estimators.estimator import Estimator, Result, SamplingCost, chunks, heavy_tail
from xaijax.players.index import Index
from xaijax_kernels.games import sampling

# A repeated coalition costs nothing, so with few players more pairs can be drawn, up to a limit.
REREAD, ENOUGH = 4, 8
LEAST_PAIRS = 8  # at the first checkpoint


@dataclass(frozen=True)
class PermutationState:
    """The pairs drawn so far. In `places`, 0 is empty, 1 is full, 2 + c is the c-th coalition."""

    P: int
    index: Index
    budget: int
    seed: int
    drawn: np.ndarray  # [D, P], the first of each pair: int32, an order; Banzhaf: bool, a coalition
    places: np.ndarray  # int32 [D, 2, P+1]: prefixes by size; or S, then S xor {i}
    seen: dict[bytes, int]  # the position of each coalition by its key
    used_up: bool  # the next pair does not fit the budget

    @property
    def pairs(self) -> int:
        """Number of drawn pairs."""
        return len(self.places)


class Permutation(Estimator):
    """Antithetic pairs of permutations, or of coalitions with their neighbours."""

    # Pairs are independent, and the values are their mean.
    independent = True
    no_interactions = "few coalitions of an order say anything of a pair"
    reports_tails = True

    def smallest_budget(self, P: int, index: Index) -> int:
        """The coalitions of one pair."""
        return min(_cost(P, index), 2**P - 2)

    def units(self, P: int, index: Index, budget: int) -> int:
        """The most pairs that are drawn.

        It is the number that fits the budget if all coalitions are new; above ENOUGH up to REREAD
        times as many, while new coalitions fit. Below ENOUGH, a number that depends on repetitions
        would select orders: the last pairs would all repeat the first, without spread.
        """
        if P == 1:
            return 2
        pairs = max(1, budget // _cost(P, index))
        return pairs if pairs < ENOUGH else REREAD * pairs

    def first_stop(self, P: int) -> int:
        """Pairs at the first checkpoint: intervals from fewer are unreliable."""
        return LEAST_PAIRS

    def cost(self, P: int, index: Index, budget: int, K: int) -> SamplingCost:
        """Each coalition is a key of 16 bytes in a dict, a position and a row of three numbers:
        175 to 335 measured bytes, plus up to 100 per output; about a microsecond.
        """
        count = min(budget, 2**P - 2)
        return SamplingCost(count * (340 + 100 * K), 3e4 * count, 10.0 * count)

    def scans_orders(self, index: Index) -> bool:
        """Whether orders are drawn."""
        return index.draws_orders

    def init(self, P: int, index: Index, budget: int, seed: int) -> PermutationState:
        """State with nothing drawn yet."""
        total = np.bitwise_xor.reduce(sampling.player_keys(seed, P))
        drawn = np.zeros((0, P), bool)  # joined arrays keep their dtype
        places, seen = np.zeros((0, 2, P + 1), np.int32), {bytes(16): 0, total.tobytes(): 1}
        return PermutationState(P, index, budget, seed, drawn, places, seen, False)

    def step(self, state: PermutationState, pairs: int) -> tuple[PermutationState, np.ndarray]:
        """Draws until there are `pairs` pairs, or the next one would exceed the budget.

        Returns the new coalitions as cuts, from which `masks` makes them: int32
        [C_new, 3], (pair, 0 or 1 for its second half, size of the prefix of the order or of the
        reversed order). For Banzhaf the last is 0 for S itself, i + 1 for S xor {i}.
        """
        P, first = state.P, state.pairs
        stop = min(pairs, self.units(P, state.index, state.budget))
        if state.used_up or stop <= first:
            return state, np.zeros((0, 3), np.int32)
        by_orders = state.index.draws_orders
        draw = sampling.orders if by_orders else sampling.coalitions
        drawn = draw(state.seed, P, first, stop)
        table, total = sampling.player_keys(state.seed, P), np.bitwise_xor.reduce
        seen, places, cuts, used_up = dict(state.seen), [], [], False
        for d, unit in enumerate(drawn, start=first):
            half = _prefix_keys(table, unit) if by_orders else _neighbour_keys(table, unit)
            other = half ^ total(table)
            both = np.stack([half, other[::-1] if by_orders else other])
            keys = np.ascontiguousarray(both).view("V16").ravel().tolist()
            new = dict.fromkeys(key for key in keys if key not in seen)
            if len(seen) - 2 + len(new) > state.budget:
                used_up = True
                break
            seen.update(zip(new, range(len(seen), len(seen) + len(new)), strict=True))
            place = np.fromiter(map(seen.__getitem__, keys), np.int32, len(keys))
            # New coalitions have the highest positions, in the order of their first occurrence in
            # `keys`.
            where = np.unique(place, return_index=True)[1]
            where = where[len(where) - len(new) :]
            cuts.append(
                np.stack([np.full(len(where), d), where // (P + 1), where % (P + 1)], axis=1)
            )
            places.append(place.reshape(2, P + 1))
        new_state = replace(
            state,
            drawn=np.concatenate([state.drawn, drawn[: len(places)]]),
            places=np.concatenate([state.places, *(p[None] for p in places)]),
            seen=seen,
            used_up=used_up,
        )
        new_cuts = np.concatenate([np.zeros((0, 3), np.int32), *cuts]).astype(np.int32)
        return new_state, new_cuts

    def masks(self, state: PermutationState, cuts: np.ndarray) -> np.ndarray:
        """The coalitions of all or some of the cuts (pair, half, cut); bool [C, P]."""
        pair, half, cut = cuts.astype(np.int64).T
        if state.index.draws_orders:
            # In the reverse a player's position is P - 1 - rank, below the cut where rank >= P -
            # cut.
            threshold = np.where(half == 1, state.P - cut, cut)[:, None]
            out = np.empty((len(cuts), state.P), bool)
            starts = np.flatnonzero(np.diff(pair, prepend=-1))
            # One pair at a time: ranks for all coalitions would take four times the memory of the
            # masks.
            for first, last in pairwise([*starts, len(cuts)]):
                rank = np.argsort(state.drawn[pair[first]])
                np.less(rank, threshold[first:last], out=out[first:last])
            out ^= (half == 1)[:, None]
            return out
        out = state.drawn[pair] ^ (half[:, None] == 1)
        flipped = np.flatnonzero(cut)
        out[flipped, cut[flipped] - 1] ^= True
        return out

    def result(
        self, state: PermutationState, answers: np.ndarray, moves: np.ndarray | None = None
    ) -> Result:
        """The mean over pairs, and its standard error from the spread of the pairs' estimates.

        The values of players that change nothing are exactly 0. Arguments as for
        `Estimator.result`.
        """
        N, C, K = answers.shape
        P, D = state.P, state.pairs
        moves = np.ones((N, P), bool) if moves is None else moves
        phi, errors, dof = np.zeros((N, P, K)), np.full((N, P, K), np.nan), np.zeros((N, K))
        heavy = np.zeros(N, bool)
        spread = D > 1 and not _all_alike(state)
        # About eight arrays of the size of a chunk's values exist at once, and fit the cache of a
        # core. Steps per pair should have at least 8,192 numbers, otherwise the calls dominate.
        for rows in chunks(N, max(C, min(8 * C, 128 * P)) * K):
            # From v - v(empty), so that rounding is relative to the span and not to the level.
            table = answers[rows] - answers[rows, :1]
            # Added pair by pair: an instance's result does not depend on the others in the call.
            block = max(1, (1 << 20) // (len(table) * (P + 1) * K))
            blocks = [slice(d, d + block) for d in range(0, D, block)]
            last = np.zeros((0, 0))
            for pairs in blocks:
                last = self.estimates(state, table, pairs)
                for d in range(last.shape[1]):
                    phi[rows] += last[:, d]
            phi[rows] /= D
            still = ~moves[rows]
            if state.index.efficient:
                # A model may round equal hybrids differently by their positions in a batch. The
                # differences of players that change nothing go to the others, so that the sum is
                # unchanged.
                stray = np.where(still[:, :, None], phi[rows], 0.0).sum(axis=1, keepdims=True)
                phi[rows] += stray / np.maximum(1, moves[rows].sum(axis=1))[:, None, None]
            phi[rows][still] = 0.0
            if not spread:
                errors[rows][still] = 0.0
                continue
            second, fourth = np.zeros_like(phi[rows]), np.zeros_like(phi[rows])
            terms = np.empty((len(table), D))
            for pairs in blocks:
                values = last if len(blocks) == 1 else self.estimates(state, table, pairs)
                squares = (values - phi[rows][:, None]) ** 2
                moving = np.where(still[:, None, :, None], 0.0, squares)
                terms[:, pairs] = moving.sum(axis=(2, 3))
                for d in range(squares.shape[1]):
                    second += squares[:, d]
                    fourth += squares[:, d] ** 2
            second[still], fourth[still] = 0.0, 0.0
            variance, dof[rows] = _borrowed(second, fourth, D, moves[rows])
            errors[rows] = np.sqrt(variance / D)
            heavy[rows] = heavy_tail(terms)
        return Result(phi, errors, dof, heavy)

    def estimates(self, state: PermutationState, answers: np.ndarray, pairs: slice) -> np.ndarray:
        """The values [N, D, P, K] from each of these pairs alone."""
        first, second = (np.take(answers, state.places[pairs, half], axis=1) for half in (0, 1))
        if state.index.draws_orders:
            # Player order[s] joins the prefix of size s; in the reverse it joins that of size
            # P-1-s.
            rank = np.argsort(state.drawn[pairs], axis=1)
            both = np.diff(first, axis=2)
            both += np.diff(second, axis=2)[:, :, ::-1]
            both /= 2
            # By one array of positions: `take_along_axis` makes one per instance.
            at = (rank + state.P * np.arange(len(rank))[:, None]).ravel()
            listed = both.reshape(len(both), rank.size, both.shape[3])
            return listed.take(at, axis=1).reshape(both.shape)
        sign = np.where(state.drawn[pairs], 0.5, -0.5)[..., None]
        return sign * ((first[:, :, :1] - first[:, :, 1:]) - (second[:, :, :1] - second[:, :, 1:]))


def _cost(P: int, index: Index) -> int:
    return 2 * (P - 1) if index.draws_orders else 2 * (P + 1)


def _prefix_keys(table: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Keys of the prefixes of sizes 0..P; uint64 [P+1, 2]. Those of the reverse are complements."""
    return np.pad(np.bitwise_xor.accumulate(table[order]), ((1, 0), (0, 0)))


def _neighbour_keys(table: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Keys of S and of S xor {i} for all i; uint64 [P+1, 2]."""
    key = np.bitwise_xor.reduce(table[members])
    return np.concatenate([key[None], key ^ table])


def _all_alike(state: PermutationState) -> bool:
    """Whether all pairs have the coalitions of the first, and these are not all coalitions.

    With three or four players the few pairs of a small budget may all be the same: their spread is
    then 0 and meaningless.
    """
    first = np.unique(state.places[:1]).size
    return np.unique(state.places).size == first < 2**state.P


def _borrowed(
    second: np.ndarray, fourth: np.ndarray, D: int, moves: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Variances of a pair's estimate, [N, P, K], and their degrees of freedom, [N, K].

    The variance s^2 of a player's few estimates is itself uncertain. If a player matters rarely but
    much (a threshold game: one player is pivotal in each order), it is often zero or far too small:
    t intervals from it cover in 40 to 70 % of cases. Each s^2 is therefore shrunk towards the mean
    over players by the James-Stein share of Opgen-Rhein and Strimmer (2007, "Accurate ranking of
    differentially expressed genes by a distribution-free shrinkage approach", equations 8-10),
    lambda = sum Var(s^2) / sum (s^2 - mean)^2, where Var(s^2), from the fourth powers, is at least
    that of normal estimates, 2 s^4 / (D-1). lambda falls like 1 / D, so many draws borrow little.
    A player's own s^2 is never lowered, which would affect those who matter most.

    lambda s0^2 + (1 - lambda) s^2 with P players of D-1 degrees each has, by Satterthwaite,
    (D-1) / ((1 - lambda)^2 + (1 - (1 - lambda)^2) / P).

    second, fourth: sums over D of the squared deviations, and of their squares; 0 where not moves.
    """
    P = np.maximum(1, moves.sum(axis=1))[:, None]
    alone_square = second / (D - 1)
    spread = (fourth - second**2 / D) * D / (D - 1) ** 3
    spread = np.maximum(spread, 2 * alone_square**2 / (D - 1))
    mean = _added(alone_square / P[:, None])
    uncertain = _added(spread)
    between = _added(np.where(moves[:, :, None], (alone_square - mean[:, None]) ** 2, 0.0))
    tiny = np.finfo(float).tiny
    share = np.minimum(1.0, (uncertain + tiny) / (between + tiny))
    alone = (1 - share) ** 2
    pooled = share[:, None] * mean[:, None] + (1 - share[:, None]) * alone_square
    pooled = np.where(moves[:, :, None], pooled, 0.0)
    return np.maximum(alone_square, pooled), (D - 1) / (alone + (1 - alone) / P)


def _added(numbers: np.ndarray) -> np.ndarray:
    """Sums over axis 1, in one order for any number of instances."""
    return np.add.accumulate(numbers, axis=1)[:, -1]
