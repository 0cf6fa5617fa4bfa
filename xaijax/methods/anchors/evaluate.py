"""The precision of a given rule at one instance.

Letters: F columns, D listed draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.games.rules.bins import Bins
from xaijax.games.rules.game import RuleGame, reaching
from xaijax.methods.anchors.problem import AnchorProblem, refuse_empty, refuse_strangers
from xaijax.methods.anchors.search import SearchResult, bounds_of
from xaijax.methods.anchors.settings import DEFAULTS, one_row, refuse_search
from xaijax.results.rules import Rules
from xaijax.tables.rows import rows_of


def evaluated(
    problem: AnchorProblem,
    searches: tuple[str, str],
    predicates: Any,
    x: Any,
    options: tuple[float, float, int],
) -> tuple[Any, SearchResult, str]:
    """(the game of x, what was found, the search); options: threshold, delta, number of draws.

    searches: as requested, and as resolved for `explain`. If a given interval is on a column that
    was compared by equality, its values are drawn, and then no average is exact.

    It raises InputError for predicates that x does not satisfy, or that no data row satisfies if
    the space needs one.
    """
    tau, delta, count = options
    if problem.bins is None:
        raise InputError(
            "evaluate: rules about players= have no predicates. Say explain(max_size=)."
        )
    rows = problem.read(one_row(x, problem.data))
    bins, used = problem.bins.with_predicates(predicates)
    numbers = bins.of(rows)
    for j in used:
        column = bins.columns[j]
        if (column.interval or column.members) and numbers[0, j] == 0:
            text = column.words(column.predicate(1, None))
            raise InputError(f"predicates: x does not satisfy {text!r}.")
    search = _search(problem, searches, bins)
    row_count = count
    if search in ("exact", "table"):
        assert problem.space is not None
        row_count = len(problem.space.with_bins(bins).listed(search)[1])
    game = problem.game(rows, count, bins=bins, row_count=row_count)
    problem.refuse_answers(game.own)
    rule = np.zeros((1, problem.F), bool)
    rule[0, used] = True
    refuse_empty(problem, game, rule, bins, numbers, rows)
    result = SearchResult.empty(1, problem.F)
    result.rules = rule
    zero = np.zeros(1, np.int64)
    if game.cover is not None:
        result.cover = game.cover.of(zero, rule[:, None])[:, 0]
    if search in ("exact", "table"):
        D = len(game.space.listed(search)[1])
        means, sizes = game.precisions(zero, rule, search, np.ones((D, 1), bool))
        result.precision, result.samples = means[:, 0], np.array([D])
        result.accepted = result.precision >= reaching(tau)
        if search == "table":
            result.lower, result.error = bounds_of(result.precision, delta, sizes[:, 0])
    else:
        hits = game.hits(zero, rule, zero, np.array([count]))
        result.precision, result.samples = hits / count, np.array([count])
        result.lower, result.error = bounds_of(result.precision, delta, count)
        floor = tau - DEFAULTS["stop_epsilon"]
        result.accepted = (result.precision >= tau) & (result.lower > floor)
    return game, result, search


def _search(problem: AnchorProblem, searches: tuple[str, str], bins: Bins) -> str:
    """The search to use with the bins that the predicates make."""
    requested, chosen = searches
    if problem.space is None:
        return chosen
    space = problem.space.with_bins(bins)
    if requested == "auto" and chosen == "exact" and space.finite == "table":
        return "table"
    refuse_search(chosen, space)
    return chosen


def measured_again(problem: AnchorProblem, rules: Any, X: Any, draws: int, seed: int) -> np.ndarray:
    """The precision of the rules of rows X on fresh draws, float64 [N]; see `check`."""
    if not isinstance(rules, Rules):
        raise InputTypeError(f"rules must be Rules of explain, got {type(rules).__name__}.")
    if seed == problem.seed:
        raise InputError(f"seed={seed} is that of the search; its draws are not fresh. Change it.")
    rows = problem.read(X)
    N = len(rows_of(rows))
    if N != len(rules):
        raise InputError(f"X has {N} rows, but there are {len(rules)} rules.")
    refuse_strangers(problem, rules, rows)
    features = np.zeros((len(rules), problem.F), bool)
    for n, rule in enumerate(rules):
        features[n, list(rule.features)] = True
    low, high = _ranges(problem, rules, rows)
    precisions = []
    for first, game in problem.games(rows, draws, 1, 1, seed):
        masks = features[first : first + game.N]
        if isinstance(game, RuleGame):
            game.keep_ranges(low[first : first + game.N], high[first : first + game.N])
        every, zero = np.arange(game.N), np.zeros(game.N, np.int64)
        step = max(1, (1 << 22) // draws)
        for n in range(0, game.N, step):
            part = slice(n, n + step)
            count = np.full(len(every[part]), draws)
            precisions.append(game.hits(every[part], masks[part], zero[part], count) / draws)
    return np.concatenate(precisions)


def _ranges(problem: AnchorProblem, rules: Rules, rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """(first bin, last bin) that each rule keeps in a column, int32 [N, F]; x's own bin elsewhere.

    They are not checked if draws do not read bins: a kept column has x's own value, or a sampler's.
    """
    if problem.bins is None or problem.space is None or problem.space.KEEPS_OWN:
        none = np.zeros((len(rules), problem.F), np.int32)
        numbers = none if problem.bins is None else problem.bins.of(rows)
        return numbers, numbers
    low, ranged = problem.bins.of(rows), problem.asker().space.ranges()  # computes the weights
    high = low.copy()
    for n, rule in enumerate(rules):
        for predicate in rule.predicates:
            j = predicate[0]
            if len(predicate) != 3:
                continue
            bounds = problem.bins.columns[j].range_of(predicate)
            wider = bounds is not None and bounds != (low[n, j], low[n, j])
            if bounds is None or (wider and not ranged[j]):
                said = problem.bins.columns[j].words(predicate)
                why = "its weights= draw within one bin"
                why = "its bins have other edges" if bounds is None else why
                raise InputError(
                    f"rules: that of X row {n} says {said!r}, which this explainer cannot draw: "
                    f"{why}. Check rules by the explainer that found them."
                )
            low[n, j], high[n, j] = bounds
    return low, high
