"""What explaining would ask for, told before it is asked.

Letters: N instances.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xaijax.estimators.driver import plan_sampled
from xaijax.games.game import Game
from xaijax.games.planned import Planned, nothing, semivalues, tables, whole_rows
from xaijax.games.ways.totals import Weights
from xaijax.methods.explainer.choice import Choice
from xaijax.methods.planned import plan_of
from xaijax.players.index import Index
from xaijax.results.plan import Plan


def plan_enumerated(game: Game, weights: np.ndarray, rows: np.ndarray, planned: Planned) -> None:
    """Add what all coalitions of the instances `rows` ask for; weights: of single sets, [P]."""
    if game.quantity.linear:
        semivalues(game, Weights.semivalue(weights), rows, planned)
    else:
        tables(game, rows, planned)


def planned_of(
    game: Game,
    choice: Choice,
    index: Index,
    seed: int,
    enumerated: Callable[[Game, np.ndarray, Planned], None],
    exact_name: str,
) -> Plan:
    """The plan of a game; enumerated: adds what exact instances ask for."""
    planned = nothing(game)
    whole_rows(game, planned)
    own, others = np.flatnonzero(choice.exact), np.flatnonzero(~choice.exact)
    if len(own):
        enumerated(game, own, planned)
    if choice.sampler is not None:
        plan_sampled(game, others, choice.sampler, index, choice.budget, seed, planned)
    names = np.where(choice.exact, exact_name, choice.sampler or "exact")
    return plan_of(game, planned, names)
