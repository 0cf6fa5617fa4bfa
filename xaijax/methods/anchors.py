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
from xaijax.methods._anchor_evaluate import evaluated
from xaijax.methods._anchor_plan import SEARCHES, auto_search, refuse_search, tell_long_search
from xaijax.methods._anchor_problem import Problem
from xaijax.methods._anchor_record import found_rules, record
from xaijax.methods._anchor_search import search as run_search
from xaijax.methods._anchor_settings import fraction, settings_of
from xaijax.methods._anchor_support import refuse_strangers, refuse_unsupported
from xaijax.methods._progress import progress_bar


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
            They change coverage as well as draws. A sampler has none.
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
        progress: bool | None = None,
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
                delta split over the rules tried, and a rule is accepted by these two as one of
                draws is; what is held out is asked for these alone. Where
                D is an in-bin draw, bins use all data.
            progress: None (a bar in terminals and notebooks once a run takes a while), True or
                False; it counts instances that are done.

        Where no rule is accepted, the one of highest precision comes back with `accepted` False.

        Raises, before the model is called: InputError, InputTypeError for arguments and rows that
        are not accepted (a category that the data lack), EnumerationLimitError for a space that
        cannot be enumerated, MemoryPlanError for draws or a beam that cannot be held. After:
        ModelOutputError, and whatever the model itself raises. Warns of a long run as `Explainer`
        does, by the rules of up to three columns.
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
        beam = settings.beam_size or 1
        problem.at_a_time(beam, settings.coverage_samples)
        if not settings.finite:  # of every candidate, or of two
            together = settings.batch_size * (problem.F if chosen == "sar" else 2)
            problem.refuse_draws(together, f"batch_size={settings.batch_size:,}")
        started, before = time.perf_counter(), problem.evaluator.clock.copy()
        rules: list[Rule] = []
        rounds = asked = 0
        with progress_bar(progress, len(rows), "instances") as bar:
            for _, game in problem.games(rows, settings.coverage_samples, beam):
                problem.refuse_answers(game.own)
                if not rules:
                    tell_long_search(problem, game, settings, len(rows))
                refuse_unsupported(problem, game, len(rules))
                found = run_search(game, settings, problem.seed, bar.update)
                rules += found_rules(problem, game, found, chosen, self.target)
                rounds += found.rounds
                asked += game.rows_asked + game.questions.count.distinct
        facts = {"threshold": settings.threshold, "perturbation": problem.space_name}
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
        tau, error = fraction(threshold, "threshold", top=True), fraction(delta, "delta")
        count = _checks.whole_number(samples, "samples")
        self._problem.refuse_draws(count, f"samples={count:,}")
        searches = (search, self._resolved(search))
        game, found, used = evaluated(self._problem, searches, predicates, x, (tau, error, count))
        return found_rules(self._problem, game, found, used, self.target)[0]

    def check(self, rules: Rules, X: Any, samples: int = 10_000, seed: int = 1) -> np.ndarray:
        """The share of fresh draws of the space that agree, for each rule; float64 [N].

        Rules are chosen for their precision, so what they were chosen by flatters them: here are
        draws of their own. rules: of `explain`, for the same rows X [N, F].
        Raises InputError where a row does not satisfy its rule (rules of other rows, or in another
        order), or for a seed that the search has used.
        """
        count = _checks.whole_number(samples, "samples")
        seed = _checks.whole_number(seed, "seed", least=0)
        problem = self._problem
        problem.refuse_draws(count, f"samples={count:,}")
        if not isinstance(rules, Rules):
            raise InputTypeError(f"rules must be Rules of explain, got {type(rules).__name__}.")
        if seed == problem.seed:
            raise InputError(
                f"seed={seed} is that of the search; its draws are not fresh. Change it."
            )
        rows = problem.read(X)
        if len(rows) != len(rules):
            raise InputError(f"X has {len(rows)} rows, but there are {len(rules)} rules.")
        refuse_strangers(problem, rules, rows)
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

    def _resolved(self, search: Any) -> str:
        _checks.one_of(search, "search", SEARCHES)
        chosen = self._choice.search if search == "auto" else search
        refuse_search(chosen, self._problem.space)
        return chosen
