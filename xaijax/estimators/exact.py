"""The exact estimator: every coalition of every instance, asked once.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from xaijax.games.game import Game
from xaijax.games.ways.totals import Weights
from xaijax_kernels.games.semivalues import semivalue


class Estimate(NamedTuple):
    """What an estimator hands over, float64."""

    values: np.ndarray  # [N, P, K]
    base: np.ndarray  # [N, K], the value with everything replaced
    full: np.ndarray  # [N, K], the value with nothing replaced
    std_errors: np.ndarray | None  # like values; None: exact
    span: np.ndarray  # [N], largest change of the answer within what was summed
    summed: np.ndarray  # [N], corners in the largest sum that a loop took in its own dtype


def _noise_errors(game: Game, p: np.ndarray, N: int) -> np.ndarray | None:
    """Standard errors of a model declared random, like values; None for the others.

    Every corner is one independent answer with the standard deviation that the probe found. With
    weights w over donors, Var phi_i = sigma^2 sum w^2 * 2 sum_s C(P-1, s) p(s)^2.
    """
    noise = game.probed.findings.noise
    if noise is None:
        return None
    P = game.P
    corners = 2 * math.fsum(math.comb(P - 1, s) * p[s] ** 2 for s in range(P))
    donors = float((game.setting.replacement.weights**2).sum())
    errors = noise * math.sqrt(corners * donors)
    return np.broadcast_to(errors, (N, P, len(noise))).copy()


def exact(game: Game, p: np.ndarray, rows: np.ndarray) -> Estimate:
    """The semivalue with weights p [P] (of one single set of each size) of the instances `rows`."""
    if game.quantity.linear:
        totals = game.index(Weights.semivalue(p), rows)
        errors = _noise_errors(game, p, len(rows))
        return Estimate(totals.phi, totals.empty, totals.full, errors, totals.span, totals.summed)
    return by_tables(game, rows, lambda table: (semivalue(table, p), table[:, 0]))


def by_tables(
    game: Game,
    rows: np.ndarray,
    read: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> Estimate:
    """What `read` makes of full tables [n, 2^P, K]: values [n, P, K] and base values [n, K]."""
    values, base, full, span = [], [], [], []
    for table in game.tables(rows):
        span.append(np.abs(table - table[:, :1]).max(axis=(1, 2)))
        for parts, part in zip((values, base), read(table), strict=True):
            parts.append(part)
        full.append(table[:, -1])
    return Estimate(
        np.concatenate(values),
        np.concatenate(base),
        np.concatenate(full),
        None,
        np.concatenate(span),
        np.full(len(rows), 2.0**game.P),
    )
