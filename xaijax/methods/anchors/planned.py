"""What a search for rules would ask for, about: how many rules it looks at follows from answers.

Letters: N instances.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.games.asking.questions import Questions
from xaijax.games.rules.device import shorten_tiles
from xaijax.games.rules.game import as_asked
from xaijax.methods.anchors.choice import rows_of_search
from xaijax.methods.anchors.problem import Problem
from xaijax.methods.anchors.settings import Settings
from xaijax.results.plan import Plan


def plan_of_search(problem: Problem, settings: Settings, rows: Any) -> Plan:
    """What a search for the rules of these rows asks for, about; probes the model."""
    rows = as_asked(problem.evaluator, rows)
    ask = Questions(problem.evaluator, rows, lambda done: None, asks=False)
    shorten_tiles(ask)
    backend, N = ask.backend(), ask.N
    asked = np.ones(N, np.int64)  # f(x)
    parts = _parts(N, problem.evaluator.setting.rows_at_a_time)
    calls = sum(backend.calls(n, scored=False) for n in parts)
    recipes = [backend.recipe("rows", scored=False)]
    if problem.space is not None and problem.space.ASKS_DATA:
        asked[:1] += problem.B
        calls += backend.calls(problem.B)
    else:
        rules, draws = rows_of_search(problem.space, settings, problem.F)
        asked += rules * draws
        calls += backend.calls(N * rules * draws)
    compiled = problem.evaluator.probed.compiled
    return Plan(
        estimator=np.full(N, settings.search),
        model_rows=asked,
        structure=None,
        tile=problem.evaluator.clock.tile,
        model_calls=calls,
        memory=backend.bytes,
        programs=sum(map(compiled.lacks, recipes)),
        backend=problem.evaluator.setting.model.backend,
    )


def _parts(N: int, step: int) -> list[int]:
    return [min(step, N - first) for first in range(0, N, step)]
