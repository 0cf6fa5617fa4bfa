"""Pairs drawn by hand, shown to a stopping rule check by check, for its tests.

Letters: n instances (or runs), D pairs, P players, K outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.estimators.estimator import Result
from xaijax.estimators.race import RaceLimits, few_undecided, run_race
from xaijax.estimators.stopping import Checkpoint

STOPS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def look_at(drawn: np.ndarray, number: int = 1, most: int = 1) -> Checkpoint:
    """What a rule sees of these pairs [n, D, P, K]."""
    n, D = drawn.shape[:2]
    values = drawn.mean(axis=1)
    errors = drawn.std(axis=1, ddof=1) / np.sqrt(D)
    result = Result(values, errors, np.full((n, drawn.shape[3]), D - 1.0))
    bounds = np.zeros(n), np.ones(n)
    estimates = lambda rows, pairs: drawn[rows, pairs]  # noqa: E731
    return Checkpoint(number, most, D, result, *bounds, np.zeros(n), estimates)


def stopped(rule: Any, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values [n, P, K] where each run stops, whether it was met, pairs); drawn [n, D, P, K]."""
    values, met = drawn.mean(axis=1), np.zeros(len(drawn), bool)
    pairs, left = np.full(len(drawn), drawn.shape[1]), np.arange(len(drawn))
    stops = [stop for stop in STOPS if stop <= drawn.shape[1]]
    for number, D in enumerate(stops, start=1):
        check = look_at(drawn[left, :D], number, len(stops))
        now = ~rule.undecided(check).any(axis=1)
        values[left], pairs[left], met[left] = check.result.values, D, now
        left = left[~now]
        if not len(left):
            break
    return values, met, pairs


def contended(rule: Any, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values where each run stops, whether it was met, whether it ended with a few players alone).

    As `stopped`, but runs that hang on a few players ask these alone from there on.
    """
    values, met = drawn.mean(axis=1), np.zeros(len(drawn), bool)
    alone, left = np.zeros(len(drawn), bool), np.arange(len(drawn))
    stops = [stop for stop in STOPS if stop <= drawn.shape[1]]
    for D in stops:
        check = look_at(drawn[left, :D])
        undecided = rule.undecided(check)
        values[left], met[left] = check.result.values, ~undecided.any(axis=1)
        goes_on = undecided.any(axis=1)
        chosen = np.flatnonzero(few_undecided(undecided, D))
        limits = RaceLimits([stop for stop in stops if stop > D], 1 << 40, 0)
        if len(chosen):
            remaining = drawn[left]

            def ask(rows, who, first, stop, remaining=remaining):
                listed = who[:, None, :, None]
                pairs = np.take_along_axis(remaining[rows, first:stop], listed, axis=2)
                yield slice(None), pairs, np.zeros(len(rows))

            ended = run_race(rule, check, chosen, undecided[chosen], ask, limits)
            assert ended is not None
            values[left[chosen]], met[left[chosen]] = ended.values, ended.met
            alone[left[chosen]], goes_on[chosen] = True, False
        left = left[goes_on]
        if not len(left):
            break
    return values, met, alone
