"""`AnchorExplainer`: IF-THEN rules that hold a model's prediction, for many instances at once.

Letters: N instances, B data rows, F columns, P players, M rows of a sampler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from xaijax.core import checks, html
from xaijax.core.errors import InputError
from xaijax.core.typing import AnswerPath, AnyModel, ArrayLike, Devices, PlayerSpec, Progress, Rows
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.games.queries import full_rows_cost
from xaijax.games.rules.game import as_encoded
from xaijax.games.rules.pulls import shorten_tiles
from xaijax.games.run import GameRun
from xaijax.methods.anchors.evaluate import evaluated, measured_again
from xaijax.methods.anchors.problem import AnchorProblem
from xaijax.methods.anchors.search import FIRST, explained, found_rules
from xaijax.methods.anchors.settings import (
    SEARCHES,
    SearchSettings,
    asked_of_search,
    auto_search,
    refuse_search,
    rows_of_search,
    settings_of,
)
from xaijax.methods.anchors.widening import refuse_widening
from xaijax.methods.record import plan_of
from xaijax.models import explainer_class
from xaijax.results.plan import Plan
from xaijax.results.rules import Rule, Rules
from xaijax.tables.rows import rows_of


@explainer_class
class AnchorExplainer:
    """Finds IF-THEN rules (anchors) under which predictions stay the same, for many instances.

    A rule A of the instance x is a set of predicates that x satisfies, at most one per column. A
    predicate says "in the same bin as x", or "the same category as x"; in a widened rule it may say
    "in one of these neighbouring bins". The columns of the rule are kept; the other columns are
    free. D(z given A) is a distribution of rows z around x, in which free columns vary:
    `perturbation` selects it.

        precision(A) = P(the model predicts for z what it predicts for x), z from D(z given A)
        coverage(A)  = the share of the data rows, by their weights, that satisfy A

    `explain` searches for the rule of largest coverage whose precision reaches a threshold.

    Args:
        model: a `Model` from `as_model`, or what `as_model` accepts without options: a function of
            rows, a fitted estimator or its `predict_proba`, a module. It must be deterministic, and
            a classifier; with `tolerance`, it must return one number per row.
        data: rows [B, F] that the rows z are made of: an array, or a frame for a host model. Images
            [B, *F] and several arrays are accepted as for `Explainer`. Whole numbers are compared
            by equality.
        feature_names: names [F] of an array's columns, or None. None: the frame's names, or x0, x1,
            ... for an array.
        categories: None, [columns] or {column: names}. Columns that are compared by equality, not
            by bins. Columns that are not numeric always are, and so is a frame's column of a
            categorical dtype, even if its categories are numbers. Names are a list by code, or
            {code: name}; they are used in sentences and must differ. Columns are given by name or
            position.
        bins: "quartile" (default), "decile", {column: cuts} or None. Increasing cuts make the bins
            (cut i - 1, cut i]; the first bin has no lower end, the last no upper end. Equal
            quantiles make one cut. Missing values are in a bin by themselves. Columns that a dict
            does not list are compared by equality, and so are all columns with None. Quantiles
            count each data row of positive weight once. Sentences round a cut to six digits, or to
            more if needed to leave the instance and all data rows on their side of it.
        perturbation: the distribution D(z given A), by name or as a sampler.
            "row": a random data row; kept columns have x's value. A bin in such a rule was tested
            at x's value only, and `Rule.note` says so.
            "row_bin" (default): a random data row. A kept column whose value is in x's bin stays as
            it is; otherwise its value is drawn from the data values in that bin.
            "flip" (the book's chapter): x itself. Each free column takes, with probability
            `flip_probability`, the value of one random data row; a kept column is drawn from the
            data values in x's bin.
            "joint": the kept columns come together from a random data row that satisfies A, the
            free columns from a second random row, which may be the same.
            "conditional": a random data row that satisfies A.
            A `Baseline`, one row or one for each instance: x itself, in which each free player has
            the baseline's entries with probability `flip_probability` (masked words, blurred
            pixels).
            A sampler f(X [M, *F], kept bool [M, P], u float64 [M, P]) -> rows [M, *F]: row m is
            drawn around X[m]. It must leave a kept column in its bin, and a kept player of
            `players` as it is. It must use the uniform numbers u and nothing else that is random.
        flip_probability: float in (0, 1]. For "flip": the probability that a free column takes the
            value of the random row.
        tolerance: float of at least 0, or None. For regression: the prediction for z counts as the
            same if |f(z) - f(x)| <= tolerance. None: it is the same if the class is.
        seed: int. A draw depends on (seed, the instance's bytes, the rule, the draw's number)
            alone, a draw of a table on the seed and its number alone. Rules are therefore the same
            in any order of X, in any batch and with any other instances.
        weights: float [B], "balanced" or None. Weights of the data rows, in draws and in coverage.
            "balanced": each predicted class has the same total weight; it cannot be used with
            `tolerance`. None: equal weights. Weights cannot be used with a sampler.
        players: the players that rules are about, such as superpixels or words, given as for
            `Explainer`. They need "row", "flip", a `Baseline` or a sampler. A rule keeps them as
            they are, and its coverage is None.
        target: str or None. Name of what is predicted, for the sentence ("Survived").
        table_rows: int. Draws in the table of search="table".
        {memory}
        {path}

    Raises:
        InputError, InputTypeError: an argument is not accepted; raised before the model is called.
        MemoryPlanError: a table does not fit into `max_memory`.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> def f(X):
        ...     return X[:, 0] > 1
        >>> model = xj.as_model(f, output="label")
        >>> data = np.array([[0, 5], [1, 7], [2, 5], [3, 7]])
        >>> names = ["age", "size"]
        >>> anchors = xj.AnchorExplainer(model, data, names, bins={"age": [1]}, target="adult")
        >>> print(anchors.explain(data[2:])[0])
        IF age > 1 THEN PREDICT adult = 1 WITH PRECISION 100% AND COVERAGE 50%
        >>> print(anchors.evaluate([("size", [5, 7])], data[2]))
        IF size in (5, 7) THEN PREDICT adult = 1 WITH PRECISION 50% AND COVERAGE 100% (NOT ACCEPTED)

    References:
        Ribeiro, Singh and Guestrin, "Anchors: high-precision model-agnostic explanations" (AAAI
        2018). Goerke and Lang, "Scoped rules (anchors)", in Molnar, "Interpretable machine
        learning", chapter 5.8. Kaufmann and Kalyanakrishnan, "Information complexity in bandit
        subset selection" (2013): KL-LUCB. Bubeck, Wang and Viswanathan, "Multiple identifications
        in multi-armed bandits" (2013): successive accepts and rejects.
    """

    def __init__(
        self,
        model: AnyModel,
        data: Rows,
        feature_names: Iterable[str] | None = None,
        categories: Sequence[Any] | Mapping[Any, Any] | None = None,
        bins: Literal["quartile", "decile"] | Mapping[Any, ArrayLike] | None = "quartile",
        perturbation: Literal["row", "row_bin", "flip", "joint", "conditional"]
        | Baseline
        | Callable[..., Any] = "row_bin",
        flip_probability: float = 0.5,
        tolerance: float | None = None,
        seed: int = 0,
        weights: ArrayLike | Literal["balanced"] | None = None,
        players: PlayerSpec | None = None,
        target: str | None = None,
        table_rows: int = 1_000,
        max_memory: int | None = None,
        devices: Devices = None,
        tile: int | None = None,
        path: AnswerPath = "auto",
    ) -> None:
        options = {k: v for k, v in locals().items() if k not in ("self", "target")}
        self._problem = AnchorProblem(options)
        self.path = self._problem.evaluator.engine.limits.path
        self.target = checks.text(target, "target", none=True)
        self._choice = auto_search(self._problem.space, model)

    _repr_html_ = html.shown("_problem.model", "_problem.names")

    def __repr__(self) -> str:
        problem, choice, space = self._problem, self._choice, self._problem.space_name
        what = f"{problem.F} {'features' if problem.bins else 'players'}"
        said = f"perturbation={space!r}, {problem.B:,} data rows, {what}, search={choice.search!r}"
        return f"AnchorExplainer({said} by auto: {choice.reason})"

    def explain(
        self,
        X: Rows,
        threshold: float = 0.95,
        delta: float | None = None,
        epsilon: float | None = None,
        stop_epsilon: float | None = None,
        batch_size: int = 100,
        beam_size: int | None = 4,
        max_size: int | None = None,
        coverage_samples: int = 10_000,
        search: Literal["auto", "exact", "table", "kl-lucb", "sar"] = "auto",
        confirm: float | None = None,
        widen: bool = False,
        progress: Progress = None,
    ) -> Rules:
        """Finds a rule for each of the instances X.

        Args:
            X: rows [N, F] of the data's columns.
            threshold: float in (0, 1]. The precision that a rule must reach.
            delta: float in (0, 1), or None (0.1). The accepted probability of error, for "kl-lucb",
                "sar", "table", and "exact" with `confirm`. This argument and the next two are
                refused if the search does not use them.
            epsilon: float in (0, 1), or None (0.15). For "kl-lucb": how far the precision of a
                chosen candidate may be below that of the best candidates.
            stop_epsilon: float in (0, 1), or None (0.05). For "kl-lucb", "sar" and `confirm`: a
                rule is accepted if its measured precision is at least `threshold` and its lower
                bound is above threshold - stop_epsilon. With a number of draws that is fixed
                beforehand, P(precision > threshold - stop_epsilon) >= 1 - delta. "kl-lucb" and
                "sar" check the bound after each batch, which the bound does not account for.
            batch_size: int. Draws of a candidate at a time, with "kl-lucb" and "sar". "sar" spends
                this number on average to choose among the candidates of a size.
            beam_size: int or None. The number of best rules of each size, which the search extends
                by one predicate. None: best-first search for the optimum over all rules, for
                "exact" and "table" only.
            max_size: int or None. The largest number of predicates of a rule. None: F. 0: only the
                empty rule, which every row satisfies.
            coverage_samples: int. Draws with nothing kept, on which coverage is measured; used for
                a sampler without players=.
            search: how precision is computed.
                "exact": the average over all rows of the space. A rule is accepted if it reaches
                `threshold`. The rule is chosen on these data, and its precision is exact for these
                data only.
                "table": the average over `table_rows` draws that all rules share, accepted in the
                same way. Its lower bound, at `delta`, does not account for the choice of the rule.
                "kl-lucb": estimates by draws. KL-LUCB finds the best candidates. Each is then
                validated by fresh draws.
                "sar": the same, but the best candidates are found by successive accepts and rejects
                with a fixed number of draws.
                "auto" (default): one of "exact", "table" and "kl-lucb", chosen from perturbation,
                data and model, never from X. `repr(explainer)` names it and gives the reason.
            confirm: float in (0, 1), or None (default). Share of the data rows that is held out
                from the search; for search="exact" and "table" only. The search runs on the other
                rows. Each rule it proposes is then measured on the held-out rows, and
                `Rule.precision` and `Rule.precision_lower` are those measurements, with delta
                divided by the number of rules measured. A rule is accepted if precision >=
                threshold and precision_lower > threshold - stop_epsilon. Spaces that draw a value
                from x's bin draw it from all rows. Coverage is that of all rows.
            widen: bool. If True, each accepted rule then loses predicates and takes in neighbouring
                bins of x's bin while it holds, one step at a time, the step of largest coverage
                first. A step is judged as in the search. "kl-lucb" and "sar" judge it by fresh
                draws; the search has half of delta, and all checks of all steps the other half.
                Bins are not widened in "row", which tests x's own value only, nor with `weights` in
                "row_bin" and "flip". It cannot be used with `confirm`, a sampler, a `Baseline` or
                players=.
            progress: None (a bar in terminals and notebooks once a run takes a while), True or
                False. The bar counts instances that are done.

        Returns:
            `Rules`, with one `Rule` for each instance, in order. If no rule of an instance is
            accepted, its `Rule` is the one of highest precision, with `accepted` False; with
            `confirm`, the measured rule of highest `precision_lower`.

        Raises:
            InputError, InputTypeError: an argument or a row of X is not accepted, such as a
                category that is not in the data. They are raised before the model is called, except
                for what its answers or a sampler's rows show, and for an instance whose bins
                contain no data row although the space needs one.
            EnumerationLimitError: the search cannot enumerate the space (raised before the model is
                called); with beam_size=None, more than 65,536 rules of an instance are waiting.
            MemoryPlanError: draws or a beam do not fit; raised before the model is called.
            ModelOutputError, NonDeterministicModelError: the model's answers are not accepted. The
                model's own exceptions are passed on.

        A `xaijax.LongRunWarning` is given before a run of more than about a minute starts. Rules of
        up to three columns are counted; the limits are those of `Explainer`.
        """
        options = dict(locals())
        for name in ("self", "X", "search", "progress"):
            del options[name]
        settings = self._settings(search, options)
        rows = self._problem.read(X)
        self._refuse_large(settings)
        reason = "as asked" if search != "auto" else self._choice.reason
        rules = explained(self._problem, settings, rows, progress, self.target, reason)
        return replace(rules, instance_index=rows_of(X).index)

    def plan(
        self,
        X: Rows,
        batch_size: int = 100,
        beam_size: int | None = 4,
        max_size: int | None = None,
        search: Literal["auto", "exact", "table", "kl-lucb", "sar"] = "auto",
    ) -> Plan:
        """Computes the cost of `explain(X)` before it is run.

        The number of rules that a search evaluates depends on the answers. Here rules of up to
        three columns are counted, each with its draws; on Adult's rows a search evaluates about
        this number.

        Args:
            X, batch_size, beam_size, max_size, search: as for `explain`.

        Returns:
            A `Plan`; what all instances share is counted with the first. Only the model's probe is
            run.

        Raises:
            The errors that `explain` raises before it runs the model.
        """
        options = {"batch_size": batch_size, "beam_size": beam_size, "max_size": max_size}
        settings = self._settings(search, options)
        self._refuse_large(settings)
        return plan_of_search(self._problem, settings, self._problem.read(X))

    def evaluate(
        self,
        predicates: Sequence[Any],
        x: Rows,
        threshold: float = 0.95,
        delta: float = 0.1,
        samples: int = 10_000,
        search: Literal["auto", "exact", "table", "kl-lucb", "sar"] = "auto",
    ) -> Rule:
        """Measures a rule that you give, at the instance x; the result is like `explain(X)[0]`.

        Args:
            predicates: a list. Each entry is (feature, low, high), which means low < value <= high;
                (feature, categories); or a feature alone, which means x's bin or category. A
                feature is a name or a position, and occurs at most once. low and high may be
                infinite.
            x: one row [F] or [1, F], or a frame of one row.
            threshold: float in (0, 1]. The rule is accepted if its precision is at least this. With
                "kl-lucb" and "sar", its lower bound must also be above threshold - 0.05.
            delta: float in (0, 1). The one-sided lower bound holds with probability 1 - delta.
                "exact" has no bound.
            samples: int. Number of draws with "kl-lucb" and "sar", and of draws on which a
                sampler's coverage is measured.
            search: as for `explain`. "kl-lucb" and "sar" both measure `samples` draws. If "auto" is
                "exact", but values are drawn from an interval of the predicates, "table" is used.

        Returns:
            The `Rule`.

        Raises:
            InputError, InputTypeError: an argument is not accepted; x does not satisfy the
                predicates, or no data row satisfies them although the space needs one; or rules are
                about players=, which have no predicates.
            EnumerationLimitError: the search cannot enumerate the space.
            MemoryPlanError: there are more draws than fit.
            ModelOutputError, NonDeterministicModelError: the model's answers are not accepted.
        """
        tau, error = checks.share(threshold, "threshold", top=True), checks.share(delta, "delta")
        count = checks.whole_number(samples, "samples")
        self._problem.refuse_draws(count, f"samples={count:,}")
        searches = (search, self._resolved(search))
        game, result, used = evaluated(self._problem, searches, predicates, x, (tau, error, count))
        return found_rules(self._problem, game, result, used, self.target)[0]

    def check(self, rules: Rules, X: Rows, samples: int = 10_000, seed: int = 1) -> np.ndarray:
        """Measures the precision of rules again, on fresh draws.

        A search chooses a rule for its measured precision, which is therefore too high on average.
        The precision on draws that the search did not use is unbiased.

        Args:
            rules: `Rules`, from `explain` of the rows X.
            X: rows [N, F], the rows that `explain` had, in their order.
            samples: int. Draws for each rule.
            seed: int, for the fresh draws. It must differ from the explainer's seed.

        Returns:
            float64 [N]: for each rule the share of draws of D(z given A) that get the instance's
            prediction.

        Raises:
            InputError, InputTypeError: an argument is not accepted; a row does not satisfy its
                rule; the seed is that of the search; or draws read bins and a rule's bins are not
                this explainer's.
            MemoryPlanError: there are more draws than fit.
            ModelOutputError, NonDeterministicModelError: the model's answers are not accepted.
        """
        count = checks.whole_number(samples, "samples")
        seed = checks.whole_number(seed, "seed", least=0)
        self._problem.refuse_draws(count, f"samples={count:,}")
        return measured_again(self._problem, rules, X, count, seed)

    def _settings(self, search: Any, options: dict[str, Any]) -> SearchSettings:
        """The arguments of a search, as read."""
        chosen, problem = self._resolved(search), self._problem
        if checks.yes_or_no(options.get("widen", False), "widen"):
            refuse_widening(problem.space, options["confirm"])
        if options.get("confirm") is not None and problem.B < 2:
            raise InputError("confirm= needs at least 2 data rows, one of them to be held out.")
        return settings_of(problem.F, chosen, search, **options)

    def _refuse_large(self, settings: SearchSettings) -> None:
        """Raises MemoryPlanError for a beam or draws that do not fit into memory."""
        self._problem.at_a_time(settings.beam_size or 1, settings.coverage_samples)
        if not settings.finite:  # of every candidate, or of two
            together = settings.batch_size * (self._problem.F if settings.search == "sar" else 2)
            self._problem.refuse_draws(together, f"batch_size={settings.batch_size:,}")

    def _resolved(self, search: Any) -> str:
        checks.one_of(search, "search", SEARCHES)
        chosen = self._choice.search if search == "auto" else search
        refuse_search(chosen, self._problem.space)
        return chosen


def plan_of_search(problem: AnchorProblem, settings: SearchSettings, rows: Any) -> Plan:
    """About what a search for the rules of these rows asks for; probes the model."""
    rows = as_encoded(problem.evaluator, rows)
    game = GameRun(problem.evaluator, rows, asks=False)
    game.coalitions = problem.coalitions(asked_of_search(problem.space, settings, problem.F))
    shorten_tiles(game)
    backend, cost = game.backend(), game.cost
    full_rows_cost(game)
    if problem.space is not None and problem.space.ASKS_DATA:
        cost.add_rows(0, problem.B)
        cost.add_calls(backend.calls(problem.B))
    else:
        rules, draws = rows_of_search(problem.space, settings, problem.F)
        cost.add_rows(slice(None), rules * draws)
        cost.add_calls(backend.calls(game.N * rules * draws))
        # Weights that balance classes are known once the model has answered the data.
        if problem.space is not None and not problem.balanced:
            first = problem.F * (draws if settings.finite else min(settings.batch_size, FIRST))
            arguments = game, settings.search, settings.finite, first, rules * draws
            recipe, runs = problem.asker().cost(*arguments)
            cost.add_runs(runs, recipe)
    cost.reserve(**backend.held, **problem.held(settings, game.N))
    return plan_of(game, settings.search, pairs=False)
