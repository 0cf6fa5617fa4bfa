"""The exact estimator: every coalition of every instance, asked once.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from xaijax.core.errors import InputError
from xaijax.games import queries
from xaijax.games.run import GameRun
from xaijax.games.strategies.totals import OfSets, Weights
from xaijax.players.index import Index
from xaijax_kernels.games.semivalues import count, of_tables, semivalue

LARGEST_MATRIX = 1 << 25  # entries of what makes interactions of a pair's sub-coalitions
PIECE = 14  # log2 of the sub-coalitions that are summed in one go, about


class Estimate(NamedTuple):
    """The values of all instances, float64."""

    values: np.ndarray  # [N, P, K]
    base: np.ndarray  # [N, K], the value with everything replaced
    full: np.ndarray  # [N, K], the value with nothing replaced
    std_errors: np.ndarray | None  # like values; None: exact
    span: np.ndarray  # [N], largest change of the answer within what was summed
    summed: np.ndarray  # [N], sub-coalitions in the largest sum that a loop took in its own dtype
    fitted: bool = False  # whether each base is fitted, as an intercept is, not a mean of answers


def _summed(
    game: GameRun, weights: Weights, by_size: Sequence[np.ndarray], rows: np.ndarray
) -> Estimate:
    """Sums over the sub-coalitions of each pair.

    by_size: weights [P - s + 1] of sets of s = 1, 2, ...

    If the model is declared random, every sub-coalition is one independent answer with the standard
    deviation that the probe found. With weights w over donors, Var phi_i = sigma^2 sum w^2 times
    the sum of the squared weights of all sub-coalitions in a value.
    """
    totals = queries.semivalues(game, weights, rows)
    noise, errors = game.engine.findings.noise, None
    if noise is not None:
        donors = float((game.engine.replacement.weights**2).sum())
        of_value = np.sqrt(_squares(by_size, game.P) * donors)[:, None] * noise
        errors = np.broadcast_to(of_value, (len(rows), *of_value.shape)).copy()
    return Estimate(totals.phi, totals.empty, totals.full, errors, totals.span, totals.summed)


def _squares(by_size: Sequence[np.ndarray], P: int) -> np.ndarray:
    """The sum of squares of the weights of all sub-coalitions in each set of P players; [M]."""
    parts = []
    for s, p in enumerate(by_size, start=1):
        total = math.fsum(math.comb(P - s, t) * w**2 for t, w in enumerate(p.tolist()))
        parts.append(np.full(math.comb(P, s), 2**s * total))
    return np.concatenate(parts)


@dataclass(frozen=True)
class Exact:
    """The semivalue with weights p [P], of one single set of each size: what an explainer asks for
    instances that it enumerates.
    """

    p: np.ndarray
    index: Index
    name = "exact"
    efficient = True  # base value plus Shapley values is f(x) but for rounding

    @cached_property
    def weights(self) -> Weights:
        """The matrices of `p`, which all calls share."""
        return Weights.semivalue(self.p)

    def in_closed_form(self, game: GameRun) -> bool:
        """Whether the values come from full rows alone; probes the model."""
        return queries.in_closed_form(game, self.weights)

    def cost(self, game: GameRun, rows: np.ndarray) -> None:
        """Adds what `estimate` asks for the instances `rows` [n] to the game's cost."""
        if game.quantity.linear:
            queries.semivalues_cost(game, self.weights, rows)
        else:
            queries.tables_cost(game, rows)

    def estimate(self, game: GameRun, rows: np.ndarray) -> Estimate:
        """The values of the instances `rows` [n]."""
        if game.quantity.linear:
            return _summed(game, self.weights, [self.p], rows)
        return by_tables(game, rows, lambda table: (semivalue(table, self.p), table[:, 0]))


def exact_sets(game: GameRun, of: OfSets, rows: np.ndarray) -> Estimate:
    """Interactions of the instances `rows`; values [n, M, K] of sets of 1 to `of.order` players.

    They come in closed form if there is one, else by pairs (`by_pairs`), else by full tables.
    """
    if not by_pairs(game, of)[rows].all() and not queries.in_closed_form(game, Weights(of)):
        if game.engine.findings.noise is not None:
            raise InputError(
                f"order={of.order}: sets of this size go by full tables, which do not show "
                "the noise of a random model (deterministic=False). Lower order=."
            )
        p = of(game.P)
        return by_tables(game, rows, lambda table: (of_tables(table, p), table[:, 0]))
    return _summed(game, Weights(of), of(game.P), rows)


def by_pairs(game: GameRun, of: OfSets) -> np.ndarray:
    """Whether an instance's interactions may be summed pair by pair, bool [N]: the quantity is
    linear, and the matrices of its widest pair are no larger than LARGEST_MATRIX. `exact_cost`
    counted the game's pairs.
    """
    widest, place = np.unique(game.largest, return_inverse=True)
    fits = np.zeros(len(widest), bool)
    for number, k in enumerate(widest.tolist()):
        low = min(k, PIECE)
        entries = (count(low, of.order) << low) * (k - low + 1)
        fits[number] = game.quantity.linear and entries <= LARGEST_MATRIX
    return fits[place]


def by_tables(game: GameRun, rows: np.ndarray, read: Callable[[np.ndarray], Any]) -> Estimate:
    """What `read` makes of full tables [n, 2^P, K]: values [n, P, K] and base values [n, K]."""
    parts = []
    for table in queries.tables(game, rows):
        span = np.abs(table - table[:, :1]).max(axis=(1, 2))
        parts.append((*read(table), table[:, -1], span))
    values, base, full, span = map(np.concatenate, zip(*parts, strict=True))
    return Estimate(values, base, full, None, span, np.full(len(rows), 2.0**game.P))
