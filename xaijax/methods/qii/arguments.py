"""Reads further arguments of QII: how to sample, the pool, the prior of binary data.

It refuses axes that cannot be combined, and arguments that would have no effect.

Letters: D data rows, P players, K classes.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.games.measure.quantity import Quantity
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.games.measure.replacement.tree_paths import TreePaths
from xaijax.methods.qii.difference import OF_DISTRIBUTIONS, refuse_high_floor
from xaijax.methods.qii.exact import linear_form
from xaijax.methods.qii.outcome import Outcome
from xaijax.methods.qii.quantities import Interest
from xaijax.methods.qii.sampled import SamplingPlan
from xaijax.players.players import Players
from xaijax.tables.rows import rows_of

EPSILON, DELTA = 0.01, 0.05  # defaults of stop="bernstein"


def plan_of(args: Any, width: float) -> SamplingPlan:
    """Reads the arguments samples, scheme, stop, seed, epsilon and delta from `args`."""
    samples, stop = args.samples, args.stop
    scheme = checks.one_of(args.scheme, "scheme", ("fresh", "fixed-pool"))
    if stop is not None:
        checks.one_of(stop, "stop", ("bernstein",))
    seed = checks.whole_number(args.seed, "seed", least=0)
    shares = {"epsilon": EPSILON, "delta": DELTA}
    for name in shares:
        value = getattr(args, name)
        if value is None:
            continue
        shares[name] = checks.share(value, name)
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
    return SamplingPlan(count, scheme, stop, seed, **shares, width=width)


def pool_rows(
    pool: Any, data: Any, pool_weights: Any, plan: SamplingPlan, samples: int | None
) -> tuple[Any, str]:
    """(donor rows or a Baseline, "rows" | "baseline" | "sampler")."""
    TreePaths.refuse(pool, "pool is TreePaths(), which have no donors for an intervention.")
    if pool is None:
        return data, "rows"
    if isinstance(pool, Baseline):
        return pool, "baseline"
    if not callable(pool):
        return pool, "rows"
    if samples is None:
        raise InputError(
            "pool is a sampler, which has no last row. Say samples=n, or give the rows themselves; "
            "a baseline of each row is xaijax.Baseline(function)."
        )
    if pool_weights is not None:
        raise InputError(
            "pool_weights are weights of pool rows; a sampler has none. Leave them out."
        )
    if plan.scheme != "fresh":
        raise InputError("pool is a sampler, which makes fresh donors: say scheme='fresh'.")
    rows = pool(np.random.default_rng(plan.seed), plan.samples)
    came = len(rows) if isinstance(rows, Sized) else type(rows).__name__
    if came != plan.samples:
        raise InputError(f"pool(rng, {plan.samples}) must return {plan.samples} rows, got {came}.")
    return rows, "sampler"


def prior_of(rows: Any, players: Players, weights: np.ndarray) -> np.ndarray:
    """The share, by weights [D], of rows whose ones are exactly S; float64 [2^P].

    rows: [D, F] as read, or as the model takes them.
    """
    matrix, P = rows_of(rows).matrix(), players.count
    if P > 20:
        raise InputError(f"players: Pr[S] has 2^{P} entries; at most 20 players.")
    matrix = matrix.reshape(len(matrix), -1)
    bits = np.zeros(len(matrix), np.int64)
    for p, columns in enumerate(players.all_columns):
        if len(columns) != 1:
            raise InputError(
                f"players: {players.names[p]!r} has {len(columns)} columns; the prior over sets is "
                "that of single columns of zeros and ones."
            )
        values = matrix[:, columns[0]]
        if not np.isin(values, (0, 1)).all():
            raise InputError(
                f"data: column {players.names[p]!r} holds other values than 0 and 1. Give Pr[S] as "
                "an array."
            )
        bits |= values.astype(np.int64) << p
    return np.bincount(bits, weights, 1 << P)


def signed_of(signed: Any, interest: Interest) -> bool:
    """Reads `signed=`."""
    if checks.yes_or_no(signed, "signed") and interest.name != "disparity":
        raise InputError(
            f"signed= goes with quantity='disparity', not with {interest.name!r}. Leave it out."
        )
    return signed


def refuse_difference(
    difference: str, interest: Interest, outcome: Outcome, floor: float | None
) -> None:
    """Raises InputError for a difference of distributions if the quantity has none."""
    if difference not in OF_DISTRIBUTIONS:
        return
    if outcome.kind != "proba" or interest.score is not None:
        raise InputError(
            f"difference={difference!r} compares vectors of class probabilities. Say "
            "outcome='proba', or difference='l1'."
        )
    if interest.whom == "members and rest":
        raise InputError(
            f"difference={difference!r} compares distributions, not quantity={interest.name!r}. "
            "Say difference='subtract', 'l1', 'l2' or 'linf'."
        )
    if outcome.classes is not None:
        refuse_high_floor(floor, len(outcome.classes))


def refuse_sampled(quantity: Quantity, groups: int, samples: int | None) -> None:
    """Raises InputError if there are no unbiased draws, or fewer draws than groups."""
    if samples is None:
        return
    if quantity.outer is not None:
        raise InputError(
            f"difference={quantity.name!r} of sampled means is biased and has no unbiased draws. "
            "Say difference='subtract', or samples=None, which unary, influence and marginal take "
            "for any P."
        )
    if samples < groups:
        raise InputError(
            f"samples={samples} leaves a group of members without a draw. Say samples={groups} at "
            f"least, and {2 * groups} for standard errors."
        )


def refuse_random(model: Any, quantity: Quantity) -> None:
    """Raises InputError for what a random model's noise would bias, drawn or not."""
    if model.deterministic:
        return
    if quantity.outer is not None:
        raise InputError(
            f"difference={quantity.name!r} of a random model's means is biased by its noise. Say "
            "difference='subtract' with deterministic=False."
        )
    if callable(quantity.combine):
        raise InputError(
            f"quantity={quantity.measured!r} of a random model's means is biased by its noise. Say "
            f"{linear_form(quantity)} with deterministic=False."
        )


def refuse_unused_weights(interest: Interest, data_weights: Any, own_pool: bool) -> None:
    """Raises InputError for data_weights that would weight nothing."""
    if data_weights is not None and own_pool and not interest.of_data:
        raise InputError(
            f"data_weights have no effect on quantity={interest.name!r}, which has a pool or "
            "pool_weights of its own. Leave them out, or say pool_weights=."
        )
