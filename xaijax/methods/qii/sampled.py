"""Sampled answers of QII: which design of draws a question has, and when sampling stops.

Letters: N games, P players, L sets of a list, V answers, G strata, K scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.checks import warn_slow
from xaijax.core.errors import InputError, MemoryPlanError
from xaijax.core.public import public
from xaijax.estimators.draws import designs, fixed_pool
from xaijax.estimators.draws import run as draws
from xaijax.games.refuse import LARGEST_TABLE, warn_long_run, why_long
from xaijax.games.run import GameRun
from xaijax.games.strategies.distinct_donors import entries_worth_it
from xaijax.games.strategies.drawn import drawn_values
from xaijax.methods.qii.exact import MOST_ROWS, QiiIndex, linear_form
from xaijax.players.index import named

OF_A_DRAWN_ROW = 3e4  # operations of a core: a microsecond for its donor, order and position
FEWER_DRAWS = "fewer samples=, fewer rows of X, or columns united to fewer players"


@dataclass(frozen=True)
class SamplingPlan:
    """The arguments samples=, scheme=, stop= and those that go with them, as read."""

    samples: int
    scheme: str  # "fresh" | "fixed-pool"
    stop: str | None
    seed: int
    epsilon: float
    delta: float
    width: float  # of one score


@dataclass
class SampledValues:
    """The results, float64."""

    values: np.ndarray  # [N, V, K]
    std_errors: np.ndarray  # [N, V, K]
    stats: dict[str, Any]


def _factors(game: GameRun) -> np.ndarray:
    """The factor of each stratum's mean, [G]."""
    combine = game.quantity.combine
    if callable(combine):
        raise InputError(
            f"quantity={game.quantity.measured!r} is made of two means, so its indices have no "
            f"unbiased draws. Say {linear_form(game.quantity)}, or ask unary, influence or "
            f"marginal; or samples=None, up to {LARGEST_TABLE} players."
        )
    return np.ones(1) if combine is None else combine


def checked_design(game: GameRun, index: QiiIndex, plan: SamplingPlan) -> tuple[Any, np.ndarray]:
    """(the draws of an index, the factor of each stratum's mean); raises for what is not
    sampled.
    """
    factors = _factors(game)
    if index.simple:
        raise InputError(
            "index='deegan-packel' jumps at the threshold, and is not sampled. Say samples=None."
        )
    design = design_of(index, game.P, plan.seed)
    if plan.scheme == "fixed-pool":
        fixed_pool.refuse_means(game, design, plan.samples, _strata(game))
    refuse_long_draws(game, design.coalitions, plan)
    return design, factors


def sampled_index(
    game: GameRun, index: QiiIndex, plan: SamplingPlan, ready: Callable[[], None]
) -> SampledValues:
    """A semivalue, Banzhaf or Pr[S] by draws; calls ready() once nothing can be refused any
    more.
    """
    design, factors = checked_design(game, index, plan)
    ordered = isinstance(design, designs.Orders)
    largest = 2 * plan.width * float(np.max(design.factors if ordered else 1.0))
    if index.chance is not None:
        largest *= float(index.chance.sum())
    ready()
    warn_long_draws(game, design.coalitions, plan)
    rows = draws.DrawnRows(game, plan.seed, plan.scheme == "fixed-pool")
    if plan.scheme == "fixed-pool":
        return _fixed(game, design, rows, factors, plan)
    return _fresh(game, design, rows, factors, largest, plan)


def design_of(index: QiiIndex, P: int, seed: int) -> Any:
    """The draws of an index."""
    if index.chance is not None:
        return designs.Sets(seed, P, index.chance)
    if named(index.name).draws_sets:
        return designs.Sets(seed, P)
    return designs.Orders(seed, P, None if named(index.name).draws_orders else index.weights)


def refuse_stop(game: GameRun, plan: SamplingPlan) -> None:
    """Raises InputError for a stopping rule of a quantity that is not a mean."""
    if plan.stop is not None and callable(game.quantity.combine):
        raise InputError(
            f"stop='bernstein' bounds means, and quantity={game.quantity.measured!r} is made of "
            "two. Leave stop= out, or say signed=True for a disparity."
        )


def refuse_long_draws(game: GameRun, coalitions: int, plan: SamplingPlan) -> None:
    """Raises InputError or MemoryPlanError for draws of `coalitions` sets each that would not
    end.
    """
    rows = _games(game) * plan.samples * coalitions
    if plan.stop is None and rows > MOST_ROWS:
        raise InputError(
            f"samples={plan.samples:,} of {coalitions:,} model rows each, for {_games(game):,} "
            f"games, are {rows:.2g} rows, more than 2^36. Say fewer samples= (see "
            "xaijax.samples_needed), explain fewer rows, or say stop='bernstein'."
        )
    held = 16 * coalitions * game.P  # masks of one draw, and what is made of them
    if held > game.engine.memory.whole:
        raise MemoryPlanError(
            f"a draw of samples= needs {coalitions:,} sets of {game.P:,} players, {held:,} bytes, "
            f"more than max_memory={game.engine.memory.whole:,}. Group columns with players=, or "
            "raise max_memory=."
        )


def warn_long_draws(game: GameRun, coalitions: int, plan: SamplingPlan) -> None:
    """Warns of a long run before it starts; for one that may stop early, see `_one_run`."""
    rows = _games(game) * plan.samples * coalitions
    if plan.stop is None:
        warn_long_run(game, rows, FEWER_DRAWS, OF_A_DRAWN_ROW * rows)


def _games(game: GameRun) -> int:
    return game.N if game.quantity.groups is None else 1


def _strata(game: GameRun) -> int:
    return 1 if game.quantity.groups is None else len(game.quantity.groups)


def of_a_list(game: GameRun, plan: SamplingPlan) -> SamplingPlan:
    """The plan for listed sets, which have no orders: the draws of a pool are its rows."""
    if plan.scheme != "fixed-pool":
        return plan
    return replace(plan, samples=fixed_pool.sizes(plan.samples, _strata(game))[1])


def sampled_cost(game: GameRun, index: QiiIndex, plan: SamplingPlan) -> None:
    """Adds the draws of all games, if none stops early, and the two ends of each to the game's
    cost; refuses what `sampled_index` refuses.
    """
    design, _ = checked_design(game, index, plan)
    L, D = design.coalitions, plan.samples
    cost, backend, N = game.cost, game.backend(), _games(game)
    chunk = draws.chunk_of(design)
    calls = -(-D // chunk) * backend.calls(N * min(D, chunk) * L)
    if plan.scheme == "fixed-pool":  # one game at a time, some orders with some rows at a time
        orders, pool = fixed_pool.sizes(D, _strata(game))
        step = max(1, chunk // pool)
        each = backend.calls(min(orders, step) * min(pool, chunk) * L)
        D, calls = orders * pool, N * -(-orders // step) * -(-pool // chunk) * each
    elif drawn_values(game, L) is not None:  # the model is asked none of these rows
        game.structure, calls = game.engine.structure_name, 0
    empty_and_full = np.repeat([[False], [True]], game.P, axis=1)
    entries = entries_worth_it(game, empty_and_full)
    B, queried = game.engine.replacement.count, len(game.quantity.asked(game.N))
    each = 1 + (2 * B if entries is None else len(entries))
    cost.add_rows(slice(N), D * L - (-(each * queried + B) // N))
    if calls:
        cost.add_calls(calls, backend.recipe("rows"))
    if entries is not None and game.may_cross():  # tables of values answer empty and full sets
        game.structure = game.engine.structure_name
    else:
        cost.add_calls(backend.calls(each * queried) + backend.calls(B))


def sampled_list(
    game: GameRun, replaced: np.ndarray, contrast: np.ndarray, plan: SamplingPlan
) -> SampledValues:
    """contrast [V, L] times Q of the sets replaced bool [L, P]."""
    plan = of_a_list(game, plan)
    warn_long_draws(game, len(replaced), plan)
    rows = draws.DrawnRows(game, plan.seed, plan.scheme == "fixed-pool")
    if callable(game.quantity.combine):
        drawn = _of_two(game, replaced, contrast, rows, plan)
    else:
        width = plan.width * float(np.abs(contrast).sum(axis=1).max())
        design = designs.ListedSets(~replaced, contrast)
        drawn = _fresh(game, design, rows, _factors(game), width, plan)
    if plan.scheme == "fixed-pool":
        drawn.stats |= _of_pool(game, plan.samples, rows.strata, drawn.std_errors, plan.width)
    return drawn


def _of_two(
    game: GameRun,
    replaced: np.ndarray,
    contrast: np.ndarray,
    rows: draws.DrawnRows,
    plan: SamplingPlan,
) -> SampledValues:
    """Combines the draws of two means, with errors by the delta method."""
    quantity = game.quantity
    design = designs.ListedSets(~replaced, np.eye(len(replaced)))

    def of(means: np.ndarray) -> np.ndarray:
        Q = np.concatenate([quantity.combined(mean) for mean in means])  # [n, L, K]
        return np.einsum("vl,nlk->nvk", contrast, Q)

    values, errors, freedom = [], [], 0.0
    for run in draws.runs(game, design, rows, joint=True):
        run.step(plan.samples)
        for mean in run.moments.mean:  # raises for a division by 0, and says for which set
            quantity.of(quantity.combined(mean), None, lambda c: game.named(~replaced[c]))
        value, error = draws.smooth(run.moments, of)
        values.append(value)
        errors.append(error)
        freedom = draws.degrees_of_freedom(run.moments)
    stats = _stats(plan, np.full(rows.games, plan.samples), np.full(rows.games, freedom))
    return SampledValues(np.concatenate(values), np.concatenate(errors), stats)


def _fresh(
    game: GameRun,
    design: Any,
    rows: draws.DrawnRows,
    factors: np.ndarray,
    width: float,
    plan: SamplingPlan,
) -> SampledValues:
    """Independent draws, until they are done or the stopping rule is met."""
    runs = draws.runs(game, design, rows)
    parts = zip(*(_one_run(run, factors, width, plan) for run in runs), strict=True)
    values, errors, freedom, counts, bound = map(np.concatenate, parts)
    stats = _stats(plan, counts, freedom)
    if plan.stop is not None:
        stats["bernstein_half_width"] = bound
        wide = int((bound > plan.epsilon).sum())
        if wide:
            checks.warn(
                f"stop='bernstein': {wide:,} of {len(bound):,} did not reach epsilon="
                f"{plan.epsilon:g} within samples={plan.samples:,}; their std_errors say how far "
                "they got. Raise samples= or epsilon=."
            )
    return SampledValues(values, errors, stats)


def looks(samples: int, chunk: int) -> list[int]:
    """Numbers of draws at which a run may stop: a chunk, doubled, and the last one."""
    counts = []
    stop = chunk
    while stop < samples:
        counts.append(stop)
        stop *= 2
    return [*counts, samples]


def _one_run(run: draws.Sampling, factors: np.ndarray, width: float, plan: SamplingPlan) -> Any:
    """(values, errors, degrees of freedom, draws, Bernstein half-width) of some games."""
    n = len(run.chosen)
    stops = [plan.samples]
    if plan.stop is not None:
        # Every stratum has its draws before the first look.
        stops = looks(plan.samples, max(draws.chunk_of(run.design), run.rows.strata))
    T, K = run.design.terms, run.game.probe().outputs
    values, errors = np.zeros((n, T, K)), np.zeros((n, T, K))
    freedom, counts, bounds = np.zeros(n), np.zeros(n, np.int64), np.zeros(n)
    left, before, warned = np.arange(n), 0, plan.stop is None
    for stop in stops:
        coming = len(left) * (stop - before) * run.design.coalitions
        said = "" if warned else why_long(run.game, coming, OF_A_DRAWN_ROW * coming)
        if said:  # before the first long part
            warn_slow(said, f"a larger epsilon=, {FEWER_DRAWS}")
            warned = True
        run.step(stop)
        before = stop
        values[left], errors[left] = draws.linear(run.moments, factors)
        freedom[left], counts[left] = draws.degrees_of_freedom(run.moments), stop
        if plan.stop is None:
            continue
        # A union bound over looks, terms and scores: the bound holds whenever a game stops.
        delta = plan.delta / (len(stops) * T * K)
        half = draws.bernstein_half_width(run.moments, factors, width, delta)
        bounds[left] = half.max(axis=(1, 2))
        wide = bounds[left] > plan.epsilon
        if not wide.any():
            break
        run, left = run.only(wide), left[wide]
    return values, errors, freedom, counts, bounds


def _fixed(
    game: GameRun, design: Any, rows: draws.DrawnRows, factors: np.ndarray, plan: SamplingPlan
) -> SampledValues:
    values, errors, of_pool = fixed_pool.crossed(game, design, rows, factors, plan.samples)
    orders, pool = fixed_pool.sizes(plan.samples, rows.strata)
    freedom = np.full(rows.games, float(min(orders, pool // rows.strata) - 1))
    stats = _stats(plan, np.full(rows.games, orders * pool), freedom)
    stats["orders"] = orders
    stats |= _of_pool(game, pool, rows.strata, of_pool, plan.width)
    return SampledValues(values, errors, stats)


def _of_pool(
    game: GameRun, pool: int, strata: int, errors: np.ndarray, width: float
) -> dict[str, Any]:
    """The error that a pool drawn once leaves; errors [N, V, K]."""
    return {
        "pool": pool,
        "pool_error": fixed_pool.pool_bound(pool // strata, width),
        "pool_std_errors": errors[:, :, 0] if game.probe().outputs == 1 else errors,
    }


def _stats(plan: SamplingPlan, counts: np.ndarray, freedom: np.ndarray) -> dict[str, Any]:
    return {"draws": counts, "dof": freedom, "scheme": plan.scheme}


@public
def samples_needed(
    epsilon: float, delta: float, width: float = 2.0, indices: int = 1, rates: int = 1
) -> int:
    """Computes how many draws give |estimate - value| < epsilon with probability 1 - delta.

    By Hoeffding's inequality, n independent draws in an interval of this width suffice if

        n >= width^2 log(2 / delta) / (2 epsilon^2).

    Args:
        epsilon: float above 0. The largest accepted error.
        delta: float between 0 and 1. The accepted probability of a larger error.
        width: float above 0. 1 for a rate, or for the influence of a set on one individual: scores
            lie in [0, 1], and Q(nothing replaced) is known. 2 for marginal influences and for
            Shapley and Banzhaf values, whose draws lie in [-1, 1].
        indices: int. Number of values that are to hold at once; each gets delta / indices.
        rates: int. Number of rates that a value is made of, 2 for a disparity. Each gets epsilon /
            rates and delta / rates.

    Returns:
        The number of draws, for `samples` of `QII`.

    Raises:
        InputError, InputTypeError: a number is not accepted, or there are more draws than float64
            can count.

    Example:
        >>> import xaijax as xj
        >>> xj.samples_needed(epsilon=0.01, delta=0.05)
        73778
        >>> xj.samples_needed(epsilon=0.01, delta=0.05, width=1)
        18445

    The QII paper (V-B) writes the width without its square. Its 37,000 draws at epsilon = 0.01
    leave delta = 0.31 for width 2.

    References:
        Hoeffding, "Probability inequalities for sums of bounded random variables" (1963). Datta,
        Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE S&P 2016),
        section V-B.
    """
    epsilon, width = checks.positive(epsilon, "epsilon"), checks.positive(width, "width")
    delta = checks.share(delta, "delta")
    indices = checks.whole_number(indices, "indices")
    rates = checks.whole_number(rates, "rates")
    try:
        share = delta / (indices * rates)
        return math.ceil(width**2 * math.log(2 / share) / (2 * (epsilon / rates) ** 2))
    except (ArithmeticError, ValueError):  # 0, infinity, or a whole number beyond the floats
        raise InputError(
            f"epsilon={epsilon:g}, delta={delta:g}, width={width:g}: more draws than floats can "
            "count. Say a larger epsilon or delta, or fewer indices or rates."
        ) from None
