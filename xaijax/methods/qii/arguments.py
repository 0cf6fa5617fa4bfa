"""Further arguments of QII as read: how to sample, the pool, the prior of binary data.

Letters: D data rows, P players.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.games.measure.replacement import Baseline
from xaijax.methods.qii.sampled import Plan
from xaijax.players.players import Players
from xaijax.tables.frames import frame_kind

EPSILON, DELTA = 0.01, 0.05  # of stop="bernstein", unless given


def plan_of(
    samples: Any, scheme: Any, stop: Any, seed: Any, epsilon: Any, delta: Any, width: float
) -> Plan:
    """Read samples=, scheme=, stop=, seed=, epsilon= and delta=."""
    checks.one_of(scheme, "scheme", ("fresh", "fixed-pool"))
    if stop is not None:
        checks.one_of(stop, "stop", ("bernstein",))
    seed = checks.whole_number(seed, "seed", least=0)
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            raise InputTypeError(f"{name} must be a number between 0 and 1, got {value!r}.")
        if not 0 < value < 1:
            raise InputError(f"{name} must be between 0 and 1, got {value!r}.")
        if stop is None:
            raise InputError(f"{name}= goes with stop='bernstein'. Leave it out, or say stop=.")
    count = 0 if samples is None else checks.whole_number(samples, "samples")
    if samples is None and (scheme != "fresh" or stop is not None):
        raise InputError(
            "scheme= and stop= are ways to sample, and samples=None is exact. Say samples=n."
        )
    if stop is not None and scheme != "fresh":
        raise InputError(
            "stop='bernstein' needs independent draws: scheme='fresh'. A fixed pool's are not."
        )
    epsilon = EPSILON if epsilon is None else float(epsilon)
    delta = DELTA if delta is None else float(delta)
    return Plan(count, scheme, stop, seed, epsilon, delta, width)


def pool_rows(
    pool: Any, data: Any, pool_weights: Any, plan: Plan, samples: int | None
) -> tuple[Any, str]:
    """(donor rows or a Baseline, "rows" | "baseline" | "sampler")."""
    if pool is None:
        return data, "rows"
    if isinstance(pool, Baseline):
        return pool, "baseline"
    if not callable(pool):
        return pool, "rows"
    if samples is None:
        raise InputError(
            "pool is a sampler, which has no end: say samples=n, or give the rows themselves."
        )
    if pool_weights is not None:
        raise InputError(
            "pool_weights belong to pool rows; a sampler draws as often as it wants to. Leave them "
            "out, or give the rows themselves."
        )
    if plan.scheme != "fresh":
        raise InputError("pool is a sampler, which makes fresh donors: say scheme='fresh'.")
    rows = pool(np.random.default_rng(plan.seed), plan.samples)
    came = len(rows) if isinstance(rows, Sized) else type(rows).__name__
    if came != plan.samples:
        raise InputError(f"pool(rng, {plan.samples}) must return {plan.samples} rows, got {came}.")
    return rows, "sampler"


def prior_of(rows: Any, players: Players, weights: np.ndarray) -> np.ndarray:
    """`binary_prior` of rows as read, or as the model takes them."""
    array = rows.to_numpy() if frame_kind(rows) else np.asarray(rows[:]).reshape(len(rows), -1)
    return binary_prior(array, players, weights)


def binary_prior(rows: np.ndarray, players: Players, weights: np.ndarray) -> np.ndarray:
    """The share by weights [D] of rows [D, F] whose ones are exactly S, float64 [2^P]."""
    P = players.count
    if P > 20:
        raise InputError(f"players: Pr[S] has 2^{P} entries; at most 20 players.")
    bits = np.zeros(len(rows), np.int64)
    for p, columns in enumerate(players.all_columns()):
        if len(columns) != 1:
            raise InputError(
                f"players: {players.names[p]!r} has {len(columns)} columns; the prior over sets is "
                "that of single columns of zeros and ones."
            )
        values = rows[:, columns[0]]
        if not np.isin(values, (0, 1)).all():
            raise InputError(
                f"data: column {players.names[p]!r} holds other values than 0 and 1, so a row is "
                "no set of players. Give Pr[S] as an array."
            )
        bits |= values.astype(np.int64) << p
    return np.bincount(bits, weights, 1 << P)
