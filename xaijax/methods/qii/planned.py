"""What an index of QII would ask for, told before it is asked.

Letters: N games, D draws, L sets of a draw.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.estimators.draws.fixed_pool import sizes
from xaijax.estimators.draws.run import chunk_of
from xaijax.games.ask import (
    Planned,
    nothing,
    plan_semivalues,
    plan_tables,
    plan_whole_rows,
)
from xaijax.games.run import GameRun
from xaijax.games.ways.choose import parts_of_draws
from xaijax.games.ways.distinct_donors import entries_worth_it
from xaijax.games.ways.totals import Coming, Weights
from xaijax.methods.progress import plan_of
from xaijax.methods.qii.exact import (
    QiiIndex,
    kept_weights,
    needs_table,
    refuse_random_index,
    refuse_unaffordable,
)
from xaijax.methods.qii.problem import QIIProblem
from xaijax.methods.qii.sampled import SamplingPlan as Draws
from xaijax.methods.qii.sampled import checked_design
from xaijax.results.plan import Plan


def plan_of_index(problem: QIIProblem, index: QiiIndex, X: Any) -> Plan:
    """What `QII.explain` of these rows asks for; raises what it raises before it asks."""
    game, *_ = problem.begin(X, evaluator=problem.planner())
    chosen, planned = game.quantity.asked(game.N), nothing(game)
    if problem.samples is None:
        full = needs_table(game, index)
        if index.simple:
            refuse_random_index(game, "index='deegan-packel'")
        refuse_unaffordable(game, full, "index")
        if full:
            plan_tables(game, chosen, planned)
        else:
            assert index.weights is not None
            plan_semivalues(game, Weights.semivalue(kept_weights(index.weights)), chosen, planned)
    else:
        _draws(game, index, problem.plan, planned)
    plan_whole_rows(game, planned)
    if game.quantity.groups is not None:  # one number for the data
        planned.rows = planned.rows.sum(keepdims=True)
    name = "exact" if problem.samples is None else "sampled"
    return plan_of(game, planned, np.full(len(planned.rows), name))


def _draws(game: GameRun, index: QiiIndex, plan: Draws, planned: Planned) -> None:
    """Add the draws of all games, if none stops early, and the two ends of each."""
    design, _ = checked_design(game, index, plan)
    L, D = design.coalitions, plan.samples
    backend, groups = game.backend(), game.quantity.groups
    N, strata = (game.N, 1) if groups is None else (1, len(groups))
    chunk = chunk_of(design)
    calls = -(-D // chunk) * backend.calls(N * min(D, chunk) * L)
    if plan.scheme == "fixed-pool":  # a game after the other, some orders with some rows at a time
        orders, pool = sizes(D, strata)
        step = max(1, chunk // pool)
        each = backend.calls(min(orders, step) * min(pool, chunk) * L)
        D, calls = orders * pool, N * -(-orders // step) * -(-pool // chunk) * each
    elif parts_of_draws(game, L) is not None:  # of these rows the model is asked none
        planned.structure, calls = game.engine.structure_name, 0
    recipes = [backend.recipe("rows")] if calls else []
    planned.add(np.arange(N), Coming(np.full(N, D * L), calls, recipes))
    ends = np.repeat([[False], [True]], game.P, axis=1)
    entries = entries_worth_it(game, ends)
    B, asked = game.engine.replacement.count, len(game.quantity.asked(game.N))
    each = 1 + (2 * B if entries is None else len(entries))
    planned.rows[:N] += -(-(each * asked + B) // N)
    if game.may_cross() and entries is not None:  # the ends are answered by tables of values
        planned.structure = game.engine.structure_name
    else:
        planned.calls += backend.calls(each * asked) + backend.calls(B)
