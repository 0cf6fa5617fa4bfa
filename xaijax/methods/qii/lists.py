"""How QII asks for listed sets: exactly, or by draws; see `exact` and `sampled`.

Letters: N games, P players, L sets, K scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.games.game import Game
from xaijax.games.measure.quantity import refuse_not_finite
from xaijax.methods.qii import exact
from xaijax.methods.qii.limits import refuse_long_list, tell_long_list
from xaijax.methods.qii.problem import Problem
from xaijax.methods.qii.sampled import of_a_list, refuse_long_draws, refuse_stop, sampled_list


def singles(problem: Problem, game: Game) -> exact.Influences:
    """iota({i}) of every player, with Q(all replaced) and Q(nothing replaced)."""
    P, subtract = game.P, problem.distance is None
    replaced = np.concatenate([np.zeros((1, P), bool), np.eye(P, dtype=bool)])
    _refuse_long(problem, game, replaced)
    problem.ready()
    if problem.samples is None:
        tell_long_list(game, replaced)
    base, full = exact.ends(game) if subtract else _distance_ends(problem, game)
    if problem.samples is None:
        v = exact.list_of(game, replaced[1:], subtract)
        return exact.Influences(v, base, full, exact.noise_errors(game, np.full(v.shape[1], 2)))
    contrast = np.concatenate([np.ones((P, 1)), -np.eye(P)], axis=1)
    drawn = sampled_list(game, replaced, contrast, problem.plan)
    return exact.Influences(drawn.values, base, full, drawn.std_errors, stats=drawn.stats)


def _distance_ends(problem: Problem, game: Game) -> tuple[np.ndarray, np.ndarray]:
    zero = np.zeros((game.N if problem.groups is None else 1, 1))
    return zero, zero


def change(
    problem: Problem, game: Game, before: np.ndarray, after: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(iota(after) - iota(before), its standard error) of sets replaced bool [P]; [N, K] each."""
    replaced, factors = np.stack([before, after]), np.array([1.0, -1.0])
    _refuse_long(problem, game, replaced)
    problem.ready()
    if problem.samples is None:
        tell_long_list(game, replaced)
    if problem.samples is not None and not _ends_only(problem, replaced):
        drawn = sampled_list(game, replaced, factors[None], problem.plan)
        return drawn.values[:, 0], drawn.std_errors[:, 0]
    Q = exact.values_of(game, replaced)
    sign = 1.0 if problem.distance is None else -1.0  # distances grow as Q falls
    value = sign * np.tensordot(factors, Q, axes=(0, 1))
    noise = exact.noise_errors(game, np.array([factors @ factors]))
    return value, np.zeros_like(value) if noise is None else noise[:, 0]


def _refuse_long(problem: Problem, game: Game, replaced: np.ndarray) -> None:
    refuse_stop(game, problem.plan)
    if problem.samples is None:
        refuse_long_list(game, replaced)
    elif not _ends_only(problem, replaced):
        refuse_long_draws(game, len(replaced), of_a_list(game, problem.plan))


def _ends_only(problem: Problem, replaced: np.ndarray) -> bool:
    """Whether each set is nothing or all, which are never sampled but by a user's sampler."""
    sampler = problem.evaluator.setting.replacement.kind == "sampler"
    ends = replaced.all(axis=1) if not sampler else np.zeros(len(replaced), bool)
    return bool((ends | ~replaced.any(axis=1)).all())


def direct(problem: Problem, game: Game, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """d(Q(before), Q(after)), [N]; the game measures Q itself."""
    assert problem.distance is not None
    replaced = np.stack([before, after])
    refuse_long_list(game, replaced)
    problem.ready()
    tell_long_list(game, replaced)
    Q = exact.values_of(game, replaced)
    d = problem.distance(Q[:, 0], Q[:, 1])
    who = f"difference={problem.difference!r}"
    remedy = "Say floor=, or another difference."
    refuse_not_finite(d[:, None, None], Q[:, 1:], lambda _: "S + i", who, remedy)
    return d


def shown(value: np.ndarray, error: np.ndarray, return_std: bool) -> Any:
    """[N] where there is one score; with the errors if wanted."""
    if value.shape[1] == 1:
        value, error = value[:, 0], error[:, 0]
    return (value, error) if return_std else value
