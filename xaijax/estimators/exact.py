"""The exact estimator: every coalition of every instance, asked once.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xaijax.games.game import Game
from xaijax_kernels.indices import semivalue


class Estimate(NamedTuple):
    """What an estimator hands over, float64."""

    values: np.ndarray  # [N, P, K]
    base: np.ndarray  # [N, K], the value with everything replaced
    full: np.ndarray  # [N, K], the value with nothing replaced
    std_errors: np.ndarray | None  # like values; None: exact
    span: np.ndarray  # [N], largest change of the answer within what was summed
    largest_pair: int  # players of the largest lattice that was summed


def exact(game: Game, p: np.ndarray) -> Estimate:
    """The semivalue with weights p [P] (of one single set of each size) of all instances."""
    if game.quantity.linear:
        totals = game.index(p)
        return Estimate(totals.phi, totals.empty, totals.full, None, totals.span, game.largest_pair)
    values, base, full, span = [], [], [], []
    for _first, table in game.tables():
        span.append(np.abs(table - table[:, :1]).max(axis=(1, 2)))
        values.append(semivalue(table, p))
        base.append(table[:, 0])
        full.append(table[:, -1])
    return Estimate(
        np.concatenate(values),
        np.concatenate(base),
        np.concatenate(full),
        None,
        np.concatenate(span),
        game.P,
    )
