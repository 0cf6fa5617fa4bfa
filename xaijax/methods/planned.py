"""A plan as a person gets it, out of what a game would ask for."""

from __future__ import annotations

import numpy as np

from xaijax.games.game import Game
from xaijax.games.planned import Planned
from xaijax.results.plan import Plan


def plan_of(game: Game, planned: Planned, names: np.ndarray) -> Plan:
    """The plan of a game; names str [N]: who answers each instance."""
    evaluator, backend = game.evaluator, game.ask.backend()
    compiled = evaluator.probed.compiled
    return Plan(
        estimator=names,
        model_rows=planned.rows,
        structure=planned.structure,
        tile=evaluator.clock.tile,
        model_calls=planned.calls,
        memory=backend.bytes,
        programs=sum(compiled.lacks(recipe) for recipe in planned.recipes.values()),
        backend=evaluator.setting.model.backend,
    )
