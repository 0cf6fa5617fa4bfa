"""The authors' scheme: m orders, each combined with all n rows of one pool that is drawn once.

The scheme is easy to describe and shared by all instances, but it does not give m n independent
draws: given the pool it converges to the values *of the pool* (spec 2.6). The standard errors
include both sources: terms X[a, b] of order a and pool row b are crossed, and the variance of their
mean is s_rows^2 / m + s_columns^2 / n - s_rest^2 / (m n), from the row means, the column means and
the residuals of the two-way table.

Letters: N games, P players, m orders, n pool rows, G strata, K scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xaijax.core.errors import MemoryPlanError
from xaijax.estimators.draws.designs import Design
from xaijax.estimators.draws.run import DrawnRows, asked_terms, chunk_of
from xaijax.games.run import GameRun

LEVEL = 0.05  # error probability of the bound for the pool


def sizes(samples: int, strata: int) -> tuple[int, int]:
    """(orders, pool rows) with orders x pool rows <= samples, both near the square root."""
    orders = math.isqrt(samples)
    pool = samples // orders
    return orders, max(strata, pool - pool % strata)


def pool_bound(pool: int, width: float = 1.0) -> float:
    """Hoeffding bound at 95 % on the error of one rate from a pool of this number of rows."""
    return width * math.sqrt(math.log(2 / LEVEL) / (2 * pool))


def refuse_means(game: GameRun, design: Design, samples: int, strata: int, K: int = 1) -> None:
    """Raises MemoryPlanError if the means of orders and pool rows do not fit; K: at least this
    many."""
    m, n = sizes(samples, strata)
    numbers = (m * strata + 2 * n) * design.terms * K
    memory = game.engine.memory
    if 8 * numbers > memory.share("results"):
        least = memory.needed("results", 8 * numbers)
        raise MemoryPlanError(
            f"samples={samples:,} makes {m:,} orders and {n:,} pool rows, whose means take "
            f"{least:,} bytes, more than max_memory={memory.whole:,}. Say "
            "fewer samples=, raise max_memory=, or say scheme='fresh'."
        )


def crossed(
    game: GameRun, design: Design, rows: DrawnRows, factors: np.ndarray, samples: int
) -> list[np.ndarray]:
    """Combines every order with every row of the pool, for all games. Returns (values, their
    standard errors, the pool's part of these); [N, T, K] each.
    """
    refuse_means(game, design, samples, rows.strata, game.probe().outputs)
    m, n = sizes(samples, rows.strata)
    parts = [_one(game, design, rows.drawn(g, 0, n), factors, m) for g in range(rows.games)]
    return [np.stack(part) for part in zip(*parts, strict=True)]


def _one(
    game: GameRun, design: Design, drawn: Sequence[np.ndarray], factors: np.ndarray, m: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values, errors, the pool's part of these) of one game; [T, K] each."""
    n, G, T, K = len(drawn[0]), len(factors), design.terms, game.probe().outputs
    by_order = np.zeros((m, G, T, K))  # means over the pool rows of a stratum
    by_row = np.zeros((n, T, K))  # means over orders
    squares = np.zeros((G, T, K))
    sizes_of = [len(range(g, n, G)) for g in range(G)]
    chunk = chunk_of(design)
    step = max(1, chunk // n)
    for first in range(0, m, step):
        last = min(first + step, m)
        for low in range(0, n, chunk):
            part = slice(low, min(low + chunk, n))
            # Every order with each of these rows.
            both = [np.repeat(array[part, None], last - first, axis=1) for array in drawn]
            terms = asked_terms(game, design, both, first)
            assert terms is not None
            by_row[part] += terms.sum(axis=1) / m
            for g in range(G):
                stratum = terms[(g - low) % G :: G]
                by_order[first:last, g] += stratum.sum(axis=0) / sizes_of[g]
                squares[g] += np.square(stratum).sum(axis=(0, 1))
    value, row_part, rest_part = np.zeros((T, K)), np.zeros((T, K)), np.zeros((T, K))
    for g, factor in enumerate(factors):
        stratum = by_row[g::G]
        count, mean = len(stratum), stratum.mean(axis=0)
        value += factor * mean
        row_part += factor**2 * _variance(stratum) / count
        rest = squares[g] - m * count * mean**2
        rest -= m * np.square(stratum - mean).sum(axis=0)
        rest -= count * np.square(by_order[:, g] - mean).sum(axis=0)
        freedom = (m - 1) * (count - 1)
        mean_square = np.maximum(rest, 0) / freedom if freedom else np.full_like(rest, np.nan)
        rest_part += factor**2 * mean_square / (m * count)
    order_part = _variance(np.tensordot(by_order, factors, axes=(1, 0))) / m
    variance = np.maximum(order_part + row_part - rest_part, 0.0)
    return value, np.sqrt(variance), np.sqrt(row_part)


def _variance(values: np.ndarray) -> np.ndarray:
    """The variance along the first axis; NaN for a single value."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.nan)
    return values.var(axis=0, ddof=1)
