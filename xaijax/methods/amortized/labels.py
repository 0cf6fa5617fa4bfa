"""Sampled values of many rows whose errors are not all of the same draws.

An explainer draws coalitions once for all rows of a call. The errors of its values then belong to
these draws: a network would learn them as if they were the model's. Here rows are explained in
GROUPS groups, each by draws of its own. What is common to the errors of all rows is the mean of so
many independent ones of mean 0.

Letters: N rows, n of them sampled.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from xaijax.core.typing import Progress
from xaijax.estimators.driver import Sampled, sampled
from xaijax.games.game import Game
from xaijax.methods.explainer.choice import Choice, tell_long, tell_unmet
from xaijax.methods.explainer.explainer import Explainer
from xaijax.methods.explainer.record import Answer, explanation, with_one_base
from xaijax.methods.progress import progress_bar
from xaijax.players.index import named
from xaijax.players.players import of_some_rows
from xaijax.results.explanation import Explanation

GROUPS = 256


def labelled(explainer: Explainer, X: Any, seed: int, progress: Progress) -> Explanation:
    """The values of rows as the explainer would give them, those sampled by groups.

    seed: with the explainer's own, of the draws.
    """
    started = time.perf_counter()

    def progressed(done: int) -> None:
        bar.update(done)

    with of_some_rows():
        rows, game, survey, choice = explainer._begun(X, progressed, explainer._choose)
    if choice.sampler is None:
        with of_some_rows():
            return explainer(X, progress=progress)
    closed = partial(explainer._closed, game)
    coming = tell_long(game, survey, choice, named(explainer.index), closed)
    before = game.evaluator.start()
    bar = progress_bar(progress, coming)
    with bar:
        answer = _answer(explainer, game, choice, seed)
        bar.total = bar.n  # agreeing hybrids and early stops leave rows unasked
    seconds = time.perf_counter() - started
    return explanation(explainer, X, rows, game, choice, answer, before, seconds)


def _answer(explainer: Explainer, game: Game, choice: Choice, seed: int) -> Answer:
    own, others = np.flatnonzero(choice.exact), np.flatnonzero(~choice.exact)
    groups = np.array_split(others, min(GROUPS, len(others)))
    seeds = np.random.SeedSequence([explainer.seed, seed]).generate_state(len(groups))
    assert choice.sampler is not None
    asked = choice.sampler, named(explainer.index), choice.budget
    parts = [
        sampled(game, some, *asked, int(one), choice.rule)
        for some, one in zip(groups, seeds, strict=True)
    ]
    names = Sampled.__dataclass_fields__
    whole = Sampled(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in names})
    tell_unmet(whole, choice)
    drawn = Answer.of_sampled(whole)
    if len(own):
        exact = Answer.of_exact(explainer._enumerated(game, own))
        drawn = Answer.mixed(choice.exact, exact, drawn)
    return with_one_base(game, choice, drawn)
