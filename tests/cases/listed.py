"""A list of coalitions: games to ask it of, rows that agree as much as wanted, and the oracle."""

from __future__ import annotations

from typing import Any

import games
import numpy as np

from xaijax.games.engine.evaluator import Evaluator
from xaijax.games.engine.plan import limits_of
from xaijax.games.measure.quantity import quantity_of
from xaijax.games.measure.replacement.rows import replacement_of
from xaijax.games.run import GameRun
from xaijax.players.players import players_from


def game_of(
    model: Any,
    X: np.ndarray,
    donors: np.ndarray,
    players: Any = None,
    weights: Any = None,
    link: Any = "identity",
    **options: Any,
) -> GameRun:
    """The game of the instances X, ready to be asked for lists of coalitions."""
    replacement = replacement_of(model, donors, weights)
    table = replacement.table
    players = players_from(players, table.feature_names, table.shape)
    evaluator = Evaluator(model, replacement, players, limits_of(**options))
    return GameRun(evaluator, table.read(X, "X", model.allow_nan), quantity_of(link))


def coalitions_of(P: int, C: int, seed: int = 5) -> np.ndarray:
    """bool [C, P]: empty, full, one twice, and of all sizes between."""
    rng = np.random.default_rng(seed)
    masks = rng.random((C, P)) < rng.random((C, 1))
    masks[0], masks[1], masks[-1] = False, True, masks[2]
    return masks


def agreeing(P: int, F: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Four instances and four donors, F columns, that differ in 0 to 5 columns, or in all.

    The first instance and the last donor are their own in every column.
    """
    F = P if F is None else F
    rng = np.random.default_rng(11)
    base = rng.normal(size=F)
    X, donors = np.tile(base, (4, 1)), np.tile(base, (4, 1))
    for n in range(3):
        X[n + 1, rng.choice(F, n, replace=False)] += 1.0 + n
        donors[n, rng.choice(F, n + 1, replace=False)] -= 1.5 + n
    X[0], donors[3] = rng.normal(size=(2, F))
    return X.astype(np.float32), donors.astype(np.float32)


def rows_of(kind: str, P: int) -> tuple[np.ndarray, np.ndarray]:
    """Instances and four donors: "agreeing", or all of another value in every column."""
    if kind == "agreeing":
        return agreeing(P)
    return games.rows(3, P, "continuous", 1), games.rows(4, P, "continuous", 2)


def oracle(
    f: Any,
    X: np.ndarray,
    donors: np.ndarray,
    masks: np.ndarray,
    weights: Any = None,
    groups: Any = None,
    link: Any = None,
) -> np.ndarray:
    """link(sum_b w_b f(x on S, b elsewhere)) with loops; float64 [N, C] or [N, C, K]."""
    X, donors = np.asarray(X, np.float64), np.asarray(donors, np.float64)
    w = np.full(len(donors), 1.0) if weights is None else np.asarray(weights, float)
    w = w / w.sum()
    groups = [[j] for j in range(X.shape[1])] if groups is None else groups
    out = []
    for x in X:
        for mask in masks:
            rows = donors.copy()
            for p in np.flatnonzero(mask):
                rows[:, groups[p]] = x[groups[p]]
            v = np.tensordot(w, np.asarray(f(rows), np.float64), axes=1)
            out.append(v if link is None else link(v))
    return np.array(out).reshape(len(X), len(masks), *np.shape(out[0]))


def differing_players(X: np.ndarray, donors: np.ndarray, groups: Any = None) -> np.ndarray:
    """How many players differ of each pair; int [N, B]."""
    unequal = X[:, None] != donors[None]
    if groups is not None:
        unequal = np.stack([unequal[..., g].any(axis=-1) for g in groups], axis=-1)
    return unequal.sum(axis=-1)


def planned_rows(k: np.ndarray, C: int) -> np.ndarray:
    """Rows that the design says an instance is asked for, from its k [N, B]; int [N].

    Its distinct hybrids where they are at least a quarter fewer than C times B, else all.
    """
    distinct = np.minimum(2.0 ** np.minimum(k, 60), C).sum(axis=1)
    plain = C * k.shape[1]
    return np.where(distinct <= 0.75 * plain, distinct, plain).astype(int)
