"""Rules that no data row satisfies, refused by name where the space needs one.

Letters: N instances, F columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.games.rules.bins import Bins
from xaijax.methods.anchors.problem import AnchorProblem
from xaijax.results.rules import Rules
from xaijax.tables.rows import rows_of


def refuse_empty(
    problem: AnchorProblem, game: Any, rule: np.ndarray, bins: Bins, numbers: np.ndarray, rows: Any
) -> None:
    """Raise InputError for the rule bool [1, F] of one instance, numbers int32 [1, F] its bins."""
    if game.cover is None or problem.space is None:
        return
    needs = problem.space.with_bins(bins).needs_support()
    together = problem.space.OF_ROWS
    single = np.eye(rule.shape[1], dtype=bool)[None] & rule[:, None]
    lost = (game.cover.of(np.zeros(1, int), single)[0] == 0) & needs & rule[0]
    if together and game.cover.of(np.zeros(1, int), rule[:, None])[0, 0] == 0:
        lost = rule[0]
    if lost.any():
        text = _words(bins, numbers[0], rows, np.flatnonzero(lost))
        raise InputError(
            f"predicates: no data row satisfies {text}, so perturbation={problem.space_name!r} has "
            "nothing to draw. Widen the rule, or say perturbation='row'."
        )


def refuse_unsupported(problem: AnchorProblem, game: Any, before: int) -> None:
    """Raise InputError for an instance none of whose predicates any data row satisfies."""
    lost = np.flatnonzero(~game.allowed().any(axis=1))
    if len(lost) and problem.space is not None and problem.bins is not None:
        n = int(lost[0])
        rows = rows_of(game.rows).part(n, n + 1)
        text = _words(problem.bins, game.bins[n], rows, np.array([0]))
        raise InputError(
            f"X row {before + n}: no data row satisfies any of its predicates, such as {text!r}, "
            f"so perturbation={problem.space_name!r} has nothing to draw. Use coarser bins, or "
            "perturbation='row'."
        )


def refuse_strangers(problem: AnchorProblem, rules: Rules, rows: Any) -> None:
    """Raise InputError where a row, as read, does not satisfy its rule."""
    if problem.bins is None:
        return
    given = rows_of(rows)
    for n, rule in enumerate(rules):
        if not rule.applies(given.part(n, n + 1))[0]:
            raise InputError(
                f"X row {n} does not satisfy its rule (IF {' AND '.join(rule.rule)}). Give the "
                "rows that explain had, in their order."
            )


def _words(bins: Bins, numbers: np.ndarray, rows: Any, columns: np.ndarray) -> str:
    """The predicates of one row in these columns; numbers int32 [F]."""
    words = []
    for j in columns:
        value = rows_of(rows).column(int(j))[0]
        value = value.item() if isinstance(value, np.generic) else value
        one = bins.columns[int(j)]
        words.append(one.words(one.predicate(int(numbers[j]), value), value))
    return " AND ".join(words)
