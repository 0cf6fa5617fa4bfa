"""How far rounding may have taken the entries of QII's tables: ties with a threshold.

Letters: N games, B donors, D data rows, P players, K scores.
"""

from __future__ import annotations

import numpy as np

from xaijax.games.game import Game
from xaijax.games.measure.scores import Agrees, Chances, Column, IsClass

UNIT = 2.0**-53  # of one float64 rounding
BESIDE = 16  # roundings beside the sums: weights made to sum 1, products, the difference of two


def table_rounding(game: Game, v: np.ndarray, full: np.ndarray, subtract: bool) -> np.ndarray:
    """How far v [N, 2^P, K] of a full table is from its true value by rounding; float64 [N].

    full [N, K]: Q(nothing replaced). A table is made on the host in float64: sums over B donors,
    and over D data rows where groups are measured. A sum of n terms in any order, weights of sum 1,
    is within n u M of the true one, u = 2^-53 and M the largest score (Higham 2002, 4.2). Each of
    the (at most two) groups' means has this error, v is made of two of them, and a distance adds up
    to K. For a ratio, of sums without a negative term, the errors are relative: M is its own size.

    Near a probability of 0 "kl" and "js" are steeper than this says. What the model itself rounds
    is not in it: scores are taken as they come.
    """
    groups = game.quantity.groups
    donors = len(game.evaluator.replacement.codes)
    terms = donors + BESIDE + (0 if groups is None else groups.shape[1])
    means = 2 * (1 if groups is None else len(groups)) * (1 if subtract else game.outputs)
    return means * terms * UNIT * _largest(game, v, full)


def _largest(game: Game, v: np.ndarray, full: np.ndarray) -> np.ndarray:
    """M of each game, [N]."""
    found = np.abs(v).max(axis=(1, 2)) + np.abs(full).max(axis=1)  # at least every |Q(S)|
    known = _bound(game)
    if known is None:
        return found
    if callable(game.quantity.combine):
        return np.maximum(found, known)
    return np.full(len(v), known)


def _bound(game: Game) -> float | None:
    """The largest |score| of a row; None for a score of the user's own."""
    function = None if game.evaluator.score is None else game.evaluator.score.function
    if isinstance(function, Column):
        return max(abs(function.low), abs(function.high))
    return 1.0 if isinstance(function, IsClass | Agrees | Chances) else None
