"""The run of `explain`: instances part by part, a search for their rules, what is told of it."""

from __future__ import annotations

import time
from typing import Any

from xaijax.core.typing import Progress
from xaijax.methods.anchors.choice import tell_long_search
from xaijax.methods.anchors.problem import Problem
from xaijax.methods.anchors.record import found_rules, record
from xaijax.methods.anchors.search import search
from xaijax.methods.anchors.settings import Settings
from xaijax.methods.anchors.support import refuse_unsupported
from xaijax.methods.progress import progress_bar
from xaijax.results.rules import Rule, Rules
from xaijax.tables.rows import rows_of


def explained(
    problem: Problem,
    settings: Settings,
    rows: Any,
    progress: Progress,
    target: str | None,
    reason: str,
) -> Rules:
    """The rules of the rows, as read; target: what is predicted; reason: why this search."""
    started, before = time.perf_counter(), problem.evaluator.start()
    rules: list[Rule] = []
    rounds = asked = widened = 0
    with progress_bar(progress, len(rows_of(rows)), "instances") as bar:
        for _, game in problem.games(rows, settings.coverage_samples, settings.beam_size or 1):
            problem.refuse_answers(game.own)
            if not rules:
                tell_long_search(problem, game, settings, len(rows_of(rows)))
            refuse_unsupported(problem, game, len(rules))
            found = search(game, settings, problem.seed, bar.update)
            rules += found_rules(problem, game, found, settings.search, target)
            rounds += found.rounds
            widened += found.widened
            asked += game.rows_asked + game.questions.count.distinct
    asked -= problem.evaluator.clock.spared_rows - before.spared_rows
    how = {"rounds": rounds, "model_rows": asked, "seconds": time.perf_counter() - started}
    how |= {"widened": widened, "reason": reason}
    return record(rules, problem, settings, before, how)
