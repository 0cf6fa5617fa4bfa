"""Which strategy answers: the whole decision, made from sizes and the probe, never from an answer.

**Semivalues** of an explanation whose quantity is linear: each instance goes to the first strategy
that takes it.

1. closed form, where the model's trace shows one (additive models, sums of trees): every instance,
   no hybrid is asked.
2. averaged tables, where the model's structure answers sub-coalitions on a device: instances that
   differ from every donor in every player. They need four donors at least, 2^P rows that fit a
   tile, and a score that is no vector of chances.
3. pairs: all others, by the 2^k sub-coalitions of a pair that differs in k players; answered by the
   structure where its products are at least a 32nd of the model's (`Engine.worthwhile`), else by
   the model.

**All coalitions**, where an outer function acts on the mean or a table is asked for: full tables,
made of the sub-coalitions of pairs as in 3.

**Listed coalitions**, of sampled estimators and of sets that the user names:

1. a few sets, where their distinct donors are at most three quarters of the list's rows: crossed
   with the instances by the model's structure, where its table of values fits the memory; else
   each distinct donor once.
2. sub-coalitions of pairs, for instances where they are at most three quarters of the list's rows.
3. sums of parts, by a layer that adds and saves enough of the model, with four donors or more.
4. the list: one row for each coalition and donor.

**Coalitions that each instance has for itself**: one row for each and each donor (`own_lists`).

**Orders** of players: walked by a first layer, where it may be (`GameRun.may_scan`); else as listed
coalitions.

**Drawn hybrids** of QII: by an additive first layer, where its parts fit the memory and a draw has
few coalitions (`drawn.drawn_values`); else a row each. **Private sums**: one row each, in places
that follow from sizes alone (`plain`).

**The two ends** of a game, nothing kept and f(x), are asked with the coalitions where these are
asked; else apart (`certify.py`), by a table of the players' values where the structure adds.

A structure answers only rows whose numbers are finite, and never if the score looks at f(x).

Letters: n instances, P players, C coalitions, L coalitions of a draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from xaijax.games.run import GameRun
from xaijax.games.strategies.averaged import ByAveragedTables
from xaijax.games.strategies.by_pairs import ByPairs
from xaijax.games.strategies.by_parts import ByParts
from xaijax.games.strategies.closed_form import ByClosedForm, ClosedForm, closed_form
from xaijax.games.strategies.distinct_donors import (
    ByCrossing,
    ByDistinctDonors,
    entries_worth_it,
)
from xaijax.games.strategies.listed import ByList, ByRows, BySubsets, Masks
from xaijax.games.strategies.totals import Weights

SemivalueStrategy = ByClosedForm | ByAveragedTables | ByPairs
ListStrategy = ByCrossing | ByDistinctDonors | ByList


def solved(run: GameRun, weights: Weights) -> ClosedForm | None:
    """The closed form that gives the values with these weights; None: hybrids are asked. Probes
    the model.
    """
    engine = run.probe()
    linear = run.quantity.linear and engine.affine is not None
    return closed_form(engine, weights) if linear and run.may_solve() else None


def semivalues(run: GameRun, weights: Weights) -> list[Callable[[], SemivalueStrategy]]:
    """Makers of the ways to the values with these weights, in order; says in `run` what answers.
    Probes the model.
    """
    form = solved(run, weights)
    run.closed = form is not None
    if form is not None:
        run.structure = form.name
        return [partial(ByClosedForm, run, form)]
    pairs = partial(ByPairs, run, weights)
    if not run.may_structure():
        run.structure = None
        return [pairs]
    run.structure = run.engine.structure_name
    return [partial(ByAveragedTables, run, weights), pairs]


def listed(run: GameRun, masks: Masks, K: int, few: bool) -> Iterator[ListStrategy]:
    """The ways to the values of coalitions, bool [C, P], in order; each is made when the one
    before leaves the instances to it. Probes the model.

    few: they are few, so that their distinct donors may be fewer than the list's rows.
    """
    own = masks[0 : len(masks)] if few else None
    entries = None if own is None else entries_worth_it(run, own)
    if own is None or entries is None:
        yield by_list(run, masks, K)
    else:
        yield ByCrossing(run, own, entries, K)
        yield ByDistinctDonors(run, own, entries, K)


def by_list(run: GameRun, masks: Masks, K: int) -> ByList:
    """The strategy for a list of coalitions: sub-coalitions, a layer or rows answer an instance."""
    return ByList(run, [BySubsets(run), ByParts(run), ByRows(run)], masks, K)
