"""`Explainer`: Shapley, Banzhaf and other semivalues of a model's answers.

Letters: N instances, F features, P players, B background rows, K outputs.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from xaijax import _checks
from xaijax._errors import InputError, InputTypeError
from xaijax._explanation import Explanation
from xaijax._index import Index, index_weights
from xaijax._intervals import half_widths
from xaijax._players import players_from
from xaijax._public import public_class
from xaijax.estimators.exact import Estimate, exact
from xaijax.estimators.sampled import METHODS, Sampled, default_budget, sampled
from xaijax.games._work import tell_long_run, why_long
from xaijax.games.evaluator import Evaluator
from xaijax.games.game import Game, Survey
from xaijax.games.quantity import quantity_of
from xaijax.games.replacement import replacement_of
from xaijax.methods._choice import ESTIMATORS, Choice, choose, refuse_index
from xaijax.methods._progress import progress_bar
from xaijax.methods._record import Answer, explanation


@public_class
class Explainer:
    """How much each player's values move a model's answer, for all instances at once.

    The value of a coalition S of instance x is v(S) = link(mean over background rows b of
    f(x on S, b elsewhere)): interventional (marginal) replacement, one donor row at a time.

    Arguments:
        model: from `as_model`.
        background: rows [B, F] (array, or a frame for a host model), or a `Baseline`.
        players: None (each column), {"name": [columns]}, [[columns], ...], or an integer array
            shaped like one instance. Columns that no group names stay single players.
        index: "shapley", "banzhaf", `SizeLimited(k)` (counts KEPT players), or a callable w(s).
        estimator: "auto", "exact", "permutation" (antithetic pairs of orders) or "kernel" (paired
            least squares with leverage weights). "auto" decides for each instance from its own row
            and the background: exact where its corners (sum over background rows of 2^k, k players
            that differ) are at most B (budget + 2), or B 2^16 when no budget is given; else
            permutations, or the kernel when budget >= 16 P and P <= 128.
        budget: distinct coalitions per sampled instance, the empty and the full one not counted;
            None: max(2 P + 2,048, 4 P). One that covers all coalitions makes the values exact,
            with a warning.
        link: "identity", "logit" or a callable; acts on v(S), after the mean over all background
            rows. Sampled values are of link(v(S)), so their errors need no delta method.
        seed: of sampled estimators. Coalitions are drawn from (seed, draw) and shared by all
            instances: the same values in any order or batch, and correlated errors.
        batch_size: model rows per dispatch (per call, for a host model), rounded up to whole tiles.
        max_memory: bytes; None: half of what is free (or XAIJAX_MEMORY_LIMIT).
        devices: None (all local ones), a number, or a list of JAX devices.
        weights: [B], of the background rows.
        tolerance: largest half-width of a 95 % interval that is wanted: each sampled instance stops
            at the first checkpoint (the number of draws doubles) where all of its intervals meet
            it. Exact values meet any. The looks are several and the intervals those of one look, so
            that stopped instances are covered somewhat less often than 95 %.
        tile: model rows in one tile, a power of two from 256; None: chosen from the model's layers.

    Standard errors cover the sampling of coalitions; the background is taken as given.

    Raises `InputError`, `InputTypeError` for arguments that are not accepted. The model is not
    called, traced or compiled before the first explanation.
    """

    efficient = True  # base value plus Shapley values is f(x) but for rounding

    def __init__(
        self,
        model: Any,
        background: Any,
        players: Any = None,
        index: Index = "shapley",
        estimator: str = "auto",
        budget: int | None = None,
        link: Any = "identity",
        seed: int = 0,
        batch_size: int | str = "auto",
        max_memory: int | None = None,
        devices: Any = None,
        weights: Any = None,
        tolerance: float | None = None,
        tile: int | None = None,
    ) -> None:
        self.estimator = _checks.one_of(estimator, "estimator", ESTIMATORS)
        self.budget = None if budget is None else _checks.whole_number(budget, "budget")
        self.seed = _checks.whole_number(seed, "seed", least=0)
        self.tolerance = _tolerance(tolerance)
        self.quantity = quantity_of(link)
        if not hasattr(model, "probe"):
            raise InputTypeError(
                f"model must come from xaijax.as_model, got {type(model).__name__}. Say "
                "xaijax.Explainer(xaijax.as_model(f), background)."
            )
        self.model = model
        replacement = replacement_of(model, background, weights)
        table = replacement.table
        self.players = players_from(players, table.feature_names, table.shape)
        self.weights, self.index = self._weights(index)
        refuse_index(self.estimator, self.index)
        listed = default_budget(self.players.count) if self.budget is None else self.budget
        self._evaluator = Evaluator(
            model,
            replacement,
            self.players,
            batch_size=batch_size,
            max_memory=max_memory,
            devices=devices,
            tile=tile,
            coalitions=0 if self.estimator == "exact" else listed + 2,
            offsets=True,
        )
        _checks.on_devices(background, "background", self._evaluator.devices)

    def __call__(self, X: Any, progress: bool | None = None) -> Explanation:
        """Explain the instances X [N, *F]; an `Explanation` with values [N, P] or [N, P, K].

        progress: None (a bar in terminals and notebooks once a run takes a while), True or False.

        Raises, before the model is called: InputError and InputTypeError for rows that are not
        accepted, EnumerationLimitError for what is too large to enumerate, MemoryPlanError for what
        does not fit. After: ModelOutputError, NonDeterministicModelError, and whatever the model
        itself raises.

        Warns before it starts (`xaijax.LongRunWarning`) of a run of more than about a minute: where
        the model rows that are coming, times the operations of one by the model's trace, exceed
        1.5e12 a CPU core or 1e15 an accelerator; of a model on the host, 10 million rows.
        """
        started = time.perf_counter()
        evaluator = self._evaluator
        table = evaluator.replacement.table
        evaluator.refuse_overflow(_checks.rows_given(X))
        rows = table.read(X, "X", self.model.allow_nan)
        _checks.on_devices(X, "X", evaluator.devices)

        def progressed(done: int) -> None:
            bar.update(done)

        game = Game(evaluator, rows, self.quantity, progressed)
        survey = game.survey()
        choice = choose(game, survey, self.estimator, self.index, self.budget)
        evaluator.refuse_too_little_memory()
        rows_coming = self._tell_long_run(game, survey, choice)
        bar = progress_bar(progress, rows_coming)
        before = evaluator.clock.copy()
        with bar:
            answer = self._answer(game, choice)
            bar.total = bar.n  # agreeing hybrids and early stops leave rows unasked
        seconds = time.perf_counter() - started
        return explanation(self, X, rows, game, choice, answer, before, seconds)

    def check(self, X: Any) -> None:
        """Raise InputError or InputTypeError for instances that a call would not accept."""
        self._evaluator.replacement.table.read(X, "X", self.model.allow_nan)

    def _answer(self, game: Game, choice: Choice) -> Answer:
        """The exact and the sampled instances, each in one go."""
        own, others = np.flatnonzero(choice.exact), np.flatnonzero(~choice.exact)
        enumerated = Answer.of_exact(self._enumerated(game, own)) if len(own) else None
        if choice.sampler is None:
            assert enumerated is not None
            return enumerated
        budget, seed, tolerance = choice.budget, self.seed, self.tolerance
        part = sampled(game, others, choice.sampler, self.index, budget, seed, tolerance)
        self._tell_too_wide(part, choice)
        drawn = Answer.of_sampled(part)
        return drawn if enumerated is None else Answer.mixed(choice.exact, enumerated, drawn)

    def _weights(self, index: Index) -> tuple[np.ndarray, str]:
        """Weights of single sets, by size, [P]; and the name of the index."""
        return index_weights(index, self.players.count)

    def _tell_long_run(self, game: Game, survey: Survey, choice: Choice) -> int:
        """Warn of a long run before it starts; returns the model rows that are coming at most."""
        each = len(game.evaluator.replacement.codes) * (choice.budget + 2)
        enumerated = int(survey.corners[choice.exact].sum())
        drawn = int(np.minimum(survey.corners[~choice.exact], each).sum()) if choice.sampler else 0
        rows, beside = enumerated + drawn, 0.0
        if choice.sampler is not None:
            beside = METHODS[choice.sampler].drawing(game.P, self.index, choice.budget, 1)[1]
        coming = rows
        if enumerated and why_long(game.ask, rows, beside) and self._closed(game):
            coming = drawn
        budget = f"budget= (now {choice.budget:,} coalitions an instance)"
        ways = (
            f"a smaller {budget}"
            if choice.sampler
            else "estimator='permutation', whose budget= bounds the rows"
        )
        ways += ", fewer background rows, or columns united to fewer players"
        tell_long_run(game.ask, coming, ways, beside)
        return rows

    def _closed(self, game: Game) -> bool:
        """Whether exact values come from a closed form, which asks no hybrid."""
        return game.closed(self.weights) is not None

    def _enumerated(self, game: Game, rows: np.ndarray) -> Estimate:
        """What all coalitions of the instances `rows` come to."""
        return exact(game, self.weights, rows)

    def _tell_too_wide(self, part: Sampled, choice: Choice) -> None:
        """Warn of instances that used their budget up before their intervals were narrow."""
        if self.tolerance is None:
            return
        widths = half_widths(part.std_errors, part.dof).reshape(len(part.dof), -1)
        wide = int((~(widths <= self.tolerance).all(axis=1)).sum())
        if wide:
            _checks.warn(
                f"tolerance={self.tolerance:g} is not met by {wide:,} of {len(widths):,} sampled "
                f"instances within budget={choice.budget:,}; their std_errors say how far. Raise "
                "budget= or tolerance=."
            )


def _tolerance(tolerance: Any) -> float | None:
    if tolerance is None:
        return None
    if isinstance(tolerance, bool) or not isinstance(
        tolerance, int | float | np.integer | np.floating
    ):
        raise InputTypeError(f"tolerance must be a positive number, got {tolerance!r}.")
    if not 0 < float(tolerance) < math.inf:
        raise InputError(f"tolerance must be a positive number, got {tolerance!r}.")
    return float(tolerance)
