"""`AnchorExplainer`: IF-THEN rules that hold a model's prediction, for many instances at once.

Letters: N instances, B data rows, F columns, P players, M rows of a sampler.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax import _checks
from xaijax._errors import InputError, InputTypeError
from xaijax._public import public_class
from xaijax._rules import Rule, Rules
from xaijax.games.rules import RuleGame
from xaijax.methods._anchor_plan import SEARCHES, auto_search, refuse_search
from xaijax.methods._anchor_problem import Problem
from xaijax.methods._anchor_record import record, rules_of
from xaijax.methods._anchor_search import Found
from xaijax.methods._anchor_search import search as run_search
from xaijax.methods._anchor_settings import DEFAULTS, fraction, one_row, settings_of
from xaijax_kernels.bernoulli import lower


@public_class
class AnchorExplainer:
    """Anchors: Ribeiro, Singh and Guestrin 2018; Interpretable Machine Learning, chapter 5.8.

    A rule A is a set of predicates that x satisfies, one a column: "in the same bin", or "the same
    category". Its precision is the chance that the model predicts for a row of D(z given A) what it
    predicts for x; its coverage the (weighted) share of data rows that satisfy A. Searched is the
    rule of largest coverage whose precision reaches a threshold.

    Arguments:
        model: from `as_model`; a classifier, or with `tolerance` any model of one number a row.
        data: rows [B, F] (array, or a frame for a host model) that perturbations are made of.
        feature_names: [F], of an array's columns.
        categories: columns that go by equality: None (those that are not numeric), a list of
            columns, or {column: names}, names a list by code or {code: name}.
        bins: "quartile", "decile", {column: increasing cuts} (columns not listed: by equality) or
            None (all by equality). Bin i is (cut i - 1, cut i]; equal quantiles become one.
        perturbation: the space D(z given A). "row": a random data row, kept columns with x's own
            values. "row_bin": a random row, a kept column stays where it is in x's bin already,
            else is drawn from the data in the bin. "flip": x, each free column with chance
            `flip_probability` taken from one random row, a kept one drawn from its bin (the
            chapter). "joint": kept columns together from a row that satisfies A, the rest from
            another. "conditional": a row that satisfies A. Or a sampler f(X [M, *F], kept bool
            [M, P], u [M, P]) -> rows [M, *F], made of the uniform numbers u and nothing random.
        flip_probability: the chance that a free column takes the donor's value.
        tolerance: for regression: z agrees where |f(z) - f(x)| <= tolerance.
        seed: draws depend on (seed, the instance's bytes, the rule, draw): the same rules in any
            order, batch or company.
        weights: [B], of data rows; or "balanced": every predicted class has the same total weight.
            They change coverage as well as draws.
        players: for a sampler: what rules are about, as of `Explainer` (superpixels, say); then
            coverage is None. None: single columns.
        target: what is predicted, for the sentence ("Survived").
        table_rows: draws in the table of search="table".
        max_memory, devices, tile: as of `Explainer`.

    Raises `InputError`, `InputTypeError` for arguments that are not accepted. The model is not
    called before the first explanation.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        feature_names: Any = None,
        categories: Any = None,
        bins: Any = "quartile",
        perturbation: str | Callable[..., Any] = "row_bin",
        flip_probability: float = 0.5,
        tolerance: float | None = None,
        seed: int = 0,
        weights: Any = None,
        players: Any = None,
        target: str | None = None,
        table_rows: int = 1_000,
        max_memory: int | None = None,
        devices: Any = None,
        tile: int | None = None,
    ) -> None:
        self._problem = Problem(
            model,
            data,
            feature_names=feature_names,
            categories=categories,
            bins=bins,
            perturbation=perturbation,
            flip_probability=flip_probability,
            tolerance=tolerance,
            seed=seed,
            weights=weights,
            players=players,
            table_rows=table_rows,
            max_memory=max_memory,
            devices=devices,
            tile=tile,
        )
        self.target = None if target is None else str(target)
        self._choice = auto_search(self._problem.space, model)

    def __repr__(self) -> str:
        problem, choice = self._problem, self._choice
        space = "a sampler" if problem.space is None else repr(problem.space.kind)
        return (
            f"AnchorExplainer(perturbation={space}, {problem.B:,} data rows, {problem.F} features, "
            f"search={choice.search!r} by auto: {choice.reason})"
        )

    def explain(
        self,
        X: Any,
        threshold: float = 0.95,
        delta: float | None = None,
        epsilon: float | None = None,
        stop_epsilon: float | None = None,
        batch_size: int = 100,
        beam_size: int | None = 4,
        max_size: int | None = None,
        coverage_samples: int = 10_000,
        search: str = "auto",
        confirm: float | None = None,
    ) -> Rules:
        """The rules of the instances X [N, F]: `Rules`, one `Rule` an instance.

        Arguments:
            threshold: tau, the precision asked for, in (0, 1].
            delta, epsilon, stop_epsilon: 0.1, 0.15, 0.05 where the search uses them. delta: the
                chance of error that is accepted. epsilon: how far below the best candidates a
                chosen one may be (KL-LUCB). stop_epsilon: a rule is accepted where its mean reaches
                threshold and its lower bound is above threshold - stop_epsilon: what is promised is
                P(precision >= threshold - stop_epsilon) >= 1 - delta.
            batch_size: draws of a pull (with "sar": of a candidate, on average).
            beam_size: rules kept of each size; None: the optimum over all rules, by best-first
                search ("exact" and "table").
            max_size: predicates at most; None: F. 0: only the empty rule.
            coverage_samples: for a sampler without players=: draws that coverage is measured on.
            search: "exact": the average over all rows of the space; accepted where it reaches
                threshold on this data. "table": the same over a table of `table_rows` draws that
                all rules share; precision_lower is the one-sided bound at delta. "kl-lucb": draws,
                identified and validated. "sar": the same with a fixed budget for identification.
                "auto": see the repr.
            confirm: a share of the data in (0, 1) to be held out ("exact", "table"): rules found
                on the rest are tried on it, and precision and precision_lower are those of it, with
                delta split over the rules tried. Where D is an in-bin draw, bins use all data.

        Where no rule is accepted, the one of highest precision comes back with `accepted` False.

        Raises, before the model is called: InputError, InputTypeError for arguments and rows that
        are not accepted (a category that the data lack), EnumerationLimitError for a space that
        cannot be enumerated. After: ModelOutputError, and whatever the model itself raises.
        """
        problem = self._problem
        chosen = self._resolved(search)
        settings = settings_of(
            problem.F,
            chosen,
            search,
            threshold=threshold,
            delta=delta,
            epsilon=epsilon,
            stop_epsilon=stop_epsilon,
            batch_size=batch_size,
            beam_size=beam_size,
            max_size=max_size,
            coverage_samples=coverage_samples,
            confirm=confirm,
        )
        if confirm is not None and problem.B < 2:
            raise InputError("confirm= needs at least 2 data rows, one of them to be held out.")
        rows = problem.read(X)
        started, before = time.perf_counter(), problem.evaluator.clock.copy()
        rules: list[Rule] = []
        rounds = asked = 0
        for _, game in problem.games(rows, settings.coverage_samples, settings.beam_size or 1):
            problem.refuse_answers(game.own)
            self._refuse_unsupported(game, len(rules))
            found = run_search(game, settings, problem.seed)
            rules += self._rules(game, found, chosen)
            rounds += found.rounds
            asked += game.rows_asked + game.questions.count.distinct
        facts = {"threshold": settings.threshold, "perturbation": self._space_name}
        facts |= {"beam_size": settings.beam_size, "max_size": settings.max_size}
        facts |= {"delta": settings.delta, "confirm": settings.confirm, "data_rows": problem.B}
        return record(
            rules,
            problem.names,
            evaluator=problem.evaluator,
            before=before,
            rounds=rounds,
            rows=asked,
            seconds=time.perf_counter() - started,
            search=chosen,
            reason="as asked" if search != "auto" else self._choice.reason,
            seed=problem.seed,
            facts=facts,
        )

    def evaluate(
        self,
        predicates: Any,
        x: Any,
        threshold: float = 0.95,
        delta: float = 0.1,
        samples: int = 10_000,
        search: str = "auto",
    ) -> Rule:
        """A rule of one's own at the instance x [F] (or a frame of one row), like `rules[0]`.

        Arguments:
            predicates: a list of (feature, low, high) for low < v <= high, (feature, categories),
                or a feature alone (x's own bin); features by place or name.
            threshold: accepted where the precision (of draws: their lower bound too) reaches it.
            delta: of precision_lower, a one-sided bound.
            samples: draws, where the space is not a finite list; coverage of a sampler likewise.
            search: as of `explain`; "sar" is "kl-lucb" here.

        Raises InputError for predicates that x does not satisfy, or that no data row satisfies
        where the space needs one.
        """
        problem = self._problem
        tau, error = fraction(threshold, "threshold", top=True), fraction(delta, "delta")
        count = _checks.whole_number(samples, "samples")
        chosen = self._resolved(search)
        rows = problem.read(one_row(x))
        if problem.bins is None:
            raise InputError(
                "evaluate: rules about players= have no predicates; use explain(max_size=)."
            )
        bins, used = problem.bins.with_predicates(predicates)
        numbers = bins.of(rows)
        for j in used:
            column = bins.columns[j]
            if (column.interval or column.members) and numbers[0, j] == 0:
                text = column.words(column.predicate(1, None))
                raise InputError(f"predicates: x does not satisfy {text!r}.")
        game = self._game_of(rows, bins, count)
        problem.refuse_answers(game.own)
        rule = np.zeros((1, problem.F), bool)
        rule[0, used] = True
        self._refuse_empty(game, rule, bins, numbers, rows)
        found = Found.empty(1, problem.F)
        found.rules = rule
        zero = np.zeros(1, np.int64)
        if game.cover is not None:
            found.cover = game.cover.of(zero, rule[:, None])[:, 0]
        if chosen in ("exact", "table"):
            D = len(game.space.listed(chosen)[1])
            means, sizes = game.precisions(zero, rule, chosen, np.ones((D, 1), bool))
            found.precision, found.samples = means[:, 0], np.array([D])
            found.accepted = found.precision >= tau
            draws = sizes[:, 0] if chosen == "table" else None
        else:
            hits = game.hits(zero, rule, zero, np.array([count]))
            found.precision, found.samples = hits / count, np.array([count])
            draws = np.array([float(count)])
        p = found.precision
        if draws is not None:
            found.lower = lower(p, np.log(1 / error) / draws)
            found.error = np.sqrt(p * (1 - p) / draws)
        if chosen not in ("exact", "table"):
            goal = tau - DEFAULTS["stop_epsilon"]
            found.accepted = (p >= tau) & (found.lower > goal)
        return self._rules(game, found, chosen)[0]

    def check(self, rules: Rules, X: Any, samples: int = 10_000, seed: int = 1) -> np.ndarray:
        """The share of fresh draws of the space that agree, for each rule; float64 [N].

        Rules are chosen for their precision, so what they were chosen by flatters them: here are
        draws of their own. rules: of `explain`, for the same rows X [N, F].
        Raises InputError for rules of other rows, or a seed that the search has used.
        """
        count = _checks.whole_number(samples, "samples")
        seed = _checks.whole_number(seed, "seed", least=0)
        problem = self._problem
        if not isinstance(rules, Rules):
            raise InputTypeError(f"rules must be Rules of explain, got {type(rules).__name__}.")
        if seed == problem.seed:
            raise InputError(
                f"seed={seed} is that of the search; its draws are not fresh. Change it."
            )
        rows = problem.read(X)
        if len(rows) != len(rules):
            raise InputError(f"X has {len(rows)} rows, but there are {len(rules)} rules.")
        kept = np.zeros((len(rules), problem.F), bool)
        for n, rule in enumerate(rules):
            kept[n, list(rule.features)] = True
        found = []
        for first, game in problem.games(rows, 1, 1, seed):
            own = kept[first : first + game.N]
            every, zero = np.arange(game.N), np.zeros(game.N, np.int64)
            step = max(1, (1 << 22) // count)
            for n in range(0, game.N, step):
                part = slice(n, n + step)
                draws = np.full(len(every[part]), count)
                found.append(game.hits(every[part], own[part], zero[part], draws) / count)
        return np.concatenate(found)

    @property
    def _space_name(self) -> str:
        return "sampler" if self._problem.space is None else self._problem.space.kind

    def _resolved(self, search: Any) -> str:
        _checks.one_of(search, "search", SEARCHES)
        chosen = self._choice.search if search == "auto" else search
        refuse_search(chosen, self._problem.space)
        return chosen

    def _game_of(self, rows: Any, bins: Any, samples: int) -> Any:
        problem = self._problem
        if problem.space is None:
            own, problem.bins = problem.bins, bins
            try:
                return problem.game(rows, samples)
            finally:
                problem.bins = own
        problem.asker()  # settles the weights
        return RuleGame(problem.asker(problem.space.with_bins(bins)), rows)

    def _refuse_empty(
        self, game: Any, rule: np.ndarray, bins: Any, numbers: np.ndarray, rows: Any
    ) -> None:
        """Raise InputError for a rule that no data row satisfies, where one is needed."""
        if game.cover is None or self._problem.space is None:
            return
        needs = self._problem.space.with_bins(bins).needs_support()
        together = self._problem.space.kind in ("joint", "conditional")
        single = np.eye(rule.shape[1], dtype=bool)[None] & rule[:, None]
        lost = (game.cover.of(np.zeros(1, int), single)[0] == 0) & needs & rule[0]
        if together and game.cover.of(np.zeros(1, int), rule[:, None])[0, 0] == 0:
            lost = rule[0]
        if lost.any():
            text = self._words(bins, numbers, rows, np.flatnonzero(lost))
            raise InputError(
                f"predicates: no data row satisfies {text}, so perturbation="
                f"{self._space_name!r} has nothing to draw. Widen the rule, or say "
                "perturbation='row'."
            )

    def _words(self, bins: Any, numbers: np.ndarray, rows: Any, columns: np.ndarray) -> str:
        found = Found.empty(1, numbers.shape[1])
        found.rules[0, columns] = True
        found.precision[:] = 0
        problem = self._problem
        made = rules_of(
            found,
            rows,
            bins,
            numbers,
            [None],
            player_names=problem.names,
            names=problem.names,
            search="",
            target=None,
            tolerance=None,
            own_values=np.zeros(numbers.shape[1], bool),
            has_cover=False,
        )
        return " AND ".join(made[0].rule)

    def _refuse_unsupported(self, game: Any, before: int) -> None:
        """Raise InputError for an instance none of whose predicates any data row satisfies."""
        allowed = game.allowed()
        lost = np.flatnonzero(~allowed.any(axis=1))
        if len(lost) and self._problem.space is not None and self._problem.bins is not None:
            n = int(lost[0])
            rows = game.questions.table_of_rows.decode(game.questions.codes[n : n + 1])
            text = self._words(self._problem.bins, game.bins[n : n + 1], rows, np.array([0]))
            raise InputError(
                f"X row {before + n}: no data row satisfies any of its predicates, such as "
                f"{text!r}, so perturbation={self._space_name!r} has nothing to draw. Use coarser "
                "bins, or perturbation='row'."
            )

    def _rules(self, game: Any, found: Found, chosen: str) -> list[Rule]:
        problem = self._problem
        bins = problem.bins if problem.space is None else game.space.bins
        rows = game.questions.table_of_rows.decode(game.questions.codes)
        own_values = np.zeros(problem.F, bool)
        if problem.space is not None and problem.space.kind == "row":
            own_values = game.space.binned
        return rules_of(
            found,
            rows,
            bins,
            game.bins,
            problem.predictions(game.own),
            player_names=problem.players.names,
            names=problem.names,
            search=chosen,
            target=self.target,
            tolerance=problem.tolerance,
            own_values=own_values,
            has_cover=game.cover is not None,
        )
