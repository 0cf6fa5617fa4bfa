"""Which search "auto" is, decided once, from the space, F, B and the model; never from X."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from xaijax.core.errors import InputError
from xaijax.games.refuse import tell_long_run
from xaijax.games.rules.space import Perturbation
from xaijax.methods.anchors.problem import AnchorProblem
from xaijax.methods.anchors.settings import SearchSettings

SEARCHES = ("auto", "exact", "table", "kl-lucb", "sar")
# What a KL-LUCB search draws for each rule that an exact search looks at, both at the default
# settings: 200 rows of Adult with the bench's network took 33,900 rows an instance for 93.8 rules
# in "row", 38,800 for 93.0 in "row_bin": 361 and 417. (With beam_size=1: 227 and 271.)
BANDIT_DRAWS = 390
# Operations to draw a row of a rule, and more for each of its columns: hashed numbers, a choice of
# a data row, a gather. A linear model on two cores took 52 million rows a second of 8 columns and
# 28 of 32, which is 960 and 1,780 operations a row at the speed that `why_long` counts with.
OF_A_DRAW, OF_A_DRAWN_COLUMN = 690, 30


@dataclass(frozen=True)
class SearchChoice:
    """A search and why."""

    search: str
    reason: str


def auto_search(space: Perturbation | None, model: Any) -> SearchChoice:
    """What "auto" is; space None: players, or a person's own sampler."""
    if space is None:
        return SearchChoice("kl-lucb", "draws of whole players, or by a sampler, are no list")
    F, finite = len(space.bins.columns), space.finite
    if finite is None:
        rows = f"{space.rows_of_rule:,} rows a rule"
        return SearchChoice(
            "kl-lucb", f"an exact average over perturbation={space.NAME!r} has {rows}"
        )
    if space.ASKS_DATA:
        return SearchChoice("exact", "it asks the data rows once, and nothing else")
    if model.backend == "jax":
        return SearchChoice(finite, "the model is traced, so rows are cheap")
    draws = len(space.listed(finite)[1])
    planned, bandit = F * draws, F * BANDIT_DRAWS
    if planned <= 2 * bandit:
        reason = f"at most twice the bandit's rows: {planned:,} against {bandit:,} for {F} columns"
        return SearchChoice(finite, reason)
    reason = f"a host model, and {planned:,} rows against the bandit's {bandit:,} for {F} columns"
    return SearchChoice("kl-lucb", reason)


def rows_of_search(space: Perturbation | None, settings: SearchSettings, F: int) -> tuple[int, int]:
    """(rules of an instance, draws of each) that a search looks at, about.

    Rules of up to three columns: how far it goes follows from the answers, and on Adult's rows the
    rules looked at are about as many (`BANDIT_DRAWS`).
    """
    beam, sizes = settings.beam_size or 1, range(1, min(3, settings.max_size) + 1)
    rules = sum(min(math.comb(F, s), beam * F) for s in sizes)
    if settings.finite:
        assert space is not None
        return rules, len(space.listed(settings.search)[1])
    return rules, max(BANDIT_DRAWS, settings.batch_size)


def tell_long_search(problem: AnchorProblem, game: Any, settings: SearchSettings, N: int) -> None:
    """Warn of a long search of N instances before it starts; game: of the first of them."""
    rules, draws = rows_of_search(problem.space, settings, problem.F)
    drawn = 0 if settings.finite else OF_A_DRAW + OF_A_DRAWN_COLUMN * problem.F
    ways = "fewer rows of X or of data, max_size=, or table_rows= with search='table'"
    if not settings.finite:
        ways = "fewer rows of X, a larger epsilon= or delta=, max_size=, or a smaller batch_size="
    tell_long_run(game.questions, N * rules * draws, ways, drawn=drawn)


def refuse_search(search: str, space: Perturbation | None) -> None:
    """Raise where the space has no such search."""
    if search in ("kl-lucb", "sar"):
        return
    if space is None:
        raise InputError(
            f"search={search!r}: draws of players or by a sampler cannot be listed. Say "
            "search='kl-lucb' or 'sar'."
        )
    if search == "exact":
        space.refuse_exact()
    else:
        space.refuse_table()
