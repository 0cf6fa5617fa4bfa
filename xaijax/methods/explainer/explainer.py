"""`Explainer`: Shapley, Banzhaf and other semivalues of a model's answers.

Letters: N instances, F features, P players, B background rows, K outputs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Literal, cast

import numpy as np

from xaijax.core import checks, html
from xaijax.core.typing import (
    AnswerPath,
    AnyModel,
    ArrayLike,
    Devices,
    Levels,
    Outputs,
    PlayerSpec,
    Progress,
    Rows,
)
from xaijax.estimators.driver import EstimatorName, Exact, InstanceValues
from xaijax.estimators.stopping import Narrow, Top
from xaijax.games.engine.evaluator import Evaluator
from xaijax.games.engine.plan import MOST_ROWS, Limits, limits_of
from xaijax.games.measure.players_of_rows import players_of_rows
from xaijax.games.measure.quantity import quantity_of
from xaijax.games.measure.replacement.base import ReplacementSource
from xaijax.games.measure.replacement.baseline import Baseline, baseline_fn_of
from xaijax.games.measure.replacement.rows import replacement_of, with_own
from xaijax.games.measure.replacement.tree_paths import TreePaths
from xaijax.games.measure.score import refuse_columns, target_column
from xaijax.games.queries import require_closed_form
from xaijax.games.run import GameRun
from xaijax.methods.explainer.choice import (
    ESTIMATORS,
    EstimatorChoice,
    choose,
    cost_of,
    refuse_index,
    top_rule,
    warn_long,
    with_top_claims,
)
from xaijax.methods.explainer.levels import (
    both_of,
    by_levels,
    plan_of_both,
    read_levels,
    refuse_levels,
)
from xaijax.methods.explainer.record import ExplainerRun, answered, explanation, provenance_of
from xaijax.methods.explainer.sets import InteractionQuery
from xaijax.methods.record import digests, progress_bar, target_columns
from xaijax.models import explainer_class
from xaijax.models.identity.identity import kept_digest
from xaijax.models.model import Model
from xaijax.models.queries.comparison import TranslationCheck
from xaijax.players.index import IndexLike, index_weights, named
from xaijax.results.describe_question import output_question
from xaijax.results.explanation import Explanation
from xaijax.results.fingerprint import Fingerprint, fingerprint_of, output_names
from xaijax.results.interactions import Interactions
from xaijax.results.plan import Plan
from xaijax.tables.rows import rows_of


@explainer_class
class Explainer:
    """Explains a model's answers: how much each player moves them, for a whole batch at once.

    A player is an input column, or a group of columns that are kept or replaced together. The value
    of a coalition S of players, for the instance x, is

        v(S) = link(mean over background rows b of
                    f(x on the players of S, b on the others)).

    The result is how much each player adds to v, by the Shapley value or another semivalue
    (`index`). Absent columns take their values from a background row, whatever the kept columns
    are. This is the interventional (marginal) value: it says what the model does with a column.

    Args:
        model: a `Model` from `as_model`, or what `as_model` accepts without options: a function of
            rows, a fitted estimator or its `predict_proba`, a module.
        background: rows [B, *F] that the values of absent players come from: an array, a frame for
            a host model, or several arrays [B, ...] in a dict, tuple or other pytree, as the model
            takes them; what `xaijax.background` returns; a `Baseline`: one row, or one for each
            instance; or `TreePaths()`, which takes the covers of a tree's nodes in place of rows.
            A JAX model gets integers or bools if both background and X are of that type, and
            floats otherwise.
        players: the players. None: each column is a player. Groups of columns are given as {"name":
            [columns]}, as [[columns], ...], or as whole numbers [*F] that say which group each
            entry belongs to. A column in no group is a player of its own. Entries with number -1
            are never replaced. Numbers [N, *F] group the entries of each instance: segments of an
            image, words of a sentence. Numbers may omit the channels of images ([H, W]) and the
            columns of steps ([T]). A player that an instance lacks has the value 0, see
            `Explanation.present`. For rows in several arrays, pass a container of the same
            structure: such numbers for each array, one number for a whole array, or None if each
            entry is a player.
        index: "shapley", "banzhaf", `SizeLimited(k)` (coalitions of at most k kept players), or a
            function w(s), the weight of a player's contribution to one single set of s others.
        estimator: how the values are computed.
            "exact" takes every coalition into account. An instance that differs from background row
            b in k_b players costs up to sum over b of 2^k_b rows; additive models and trees need
            none.
            "permutation" averages the players' contributions along an order of them and its reverse
            (Mitchell et al. 2022). "kernel" fits a weighted regression to coalitions and their
            complements, drawn by leverage (Musco and Witter 2025). "gaussian-process" uses a
            Gaussian process over coalitions, fitted leave-one-out, as a control variate for
            interactions of order three and higher. It costs 0.1 s or more per output. All three
            give standard errors.
            "auto" (the default) decides for each instance, before the model is called: "exact" if
            the sum above is at most B (budget + 2), or B 2^16 when budget is None; else "kernel" if
            `budget` (or its default) is at least max(5 P, 2 P + 40), P <= 128, and no instance
            lacks a player; else "permutation".
            `SizeLimited` and functions are never sampled: if they cannot be enumerated,
            EnumerationLimitError is raised. A random model (deterministic=False) is never used with
            "kernel" or "gaussian-process", and all its players count as differing. An instance can
            be enumerated if at most 24 players differ from any background row (with a link: at most
            20 players in all).
        budget: int or None. The largest number of distinct coalitions evaluated for each sampled
            instance, without the empty and the full one. None: the larger of 2 P + 2,048 and 4 P. A
            budget that covers all coalitions makes the values exact, with a warning. Leave it out
            with estimator="exact".
        link: "identity", "logit" or a function of arrays. It acts on the mean over the background
            rows. All values and standard errors are in units of the link.
        seed: int, used by sampled estimators. Coalitions are drawn from (seed, draw) alone and
            shared by all instances: values are the same in any order or batch, and errors are
            correlated.
        weights: float [B] or None. Weights of the background rows. None: equal weights.
        tolerance: float or None. The largest accepted error of a value, in units of link(f). Checks
            are made after 1, 2, 4, ... times the first number of draws. Each sampled instance stops
            at the first check at which all of its values are within the tolerance, each with 95 %
            probability, however often it was checked (docs/certain_top.md). stats["certain"] marks
            the instances that reached the tolerance within the budget. Exact values meet any
            tolerance.
        {batch_size}
        {memory}
        {path}
        {levels}

    Returns:
        A callable: `explainer(X)` gives an `Explanation`; see `__call__`.

    Raises:
        InputError, InputTypeError: an argument is not accepted. The model is neither called nor
            traced nor compiled before the first explanation.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> def f(X):
        ...     return X[:, 0] * X[:, 1] + X[:, 2]
        >>> background = np.zeros((1, 3), np.float32)
        >>> explanation = xj.Explainer(xj.as_model(f), background)(np.array([[2.0, 3.0, 1.0]]))
        >>> explanation.values.round(3)
        array([[3., 3., 1.]])

        The product of the first two inputs is 6; each gets half of it.

    Standard errors measure the draw of coalitions and, with deterministic=False, the model's own
    noise. They take the background as given.

    References:
        Shapley, "A value for n-person games" (1953). Dubey, Neyman and Weber, "Value theory without
        efficiency" (1981): semivalues. Lundberg and Lee, "A unified approach to interpreting model
        predictions" (NeurIPS 2017). Mitchell, Cooper, Frank and Holmes, "Sampling permutations for
        Shapley value estimation" (JMLR 2022). Musco and Witter, "Provably accurate Shapley value
        estimation via leverage score sampling" (ICLR 2025).
    """

    def __init__(
        self,
        model: AnyModel,
        background: Rows | Baseline | TreePaths,
        players: PlayerSpec | None = None,
        index: IndexLike = "shapley",
        estimator: EstimatorName = "auto",
        budget: int | None = None,
        link: Literal["identity", "logit"] | Callable[[Any], Any] = "identity",
        seed: int = 0,
        batch_size: int | Literal["auto"] = "auto",
        max_memory: int | None = None,
        devices: Devices = None,
        weights: ArrayLike | None = None,
        tolerance: float | None = None,
        tile: int | None = None,
        path: AnswerPath = "auto",
        levels: Levels = None,
    ) -> None:
        self.estimator = checks.one_of(estimator, "estimator", ESTIMATORS)
        self.budget = None if budget is None else checks.whole_number(budget, "budget")
        self.seed = checks.whole_number(seed, "seed", least=0)
        self.tolerance = None if tolerance is None else checks.positive(tolerance, "tolerance")
        self._rule = None if self.tolerance is None else Narrow(self.tolerance)
        self.quantity = quantity_of(link)
        self.model = model
        limits = limits_of(batch_size, max_memory, devices, tile, path)
        self.path = limits.path
        self._given = background, weights, players, index, limits
        self.levels = None if levels is None else read_levels(levels, self)
        self._both: tuple[Explainer, Explainer] | None = None  # of levels=
        self._evaluator: Evaluator | None = None
        self._waits = False  # the translation of an estimator
        self._of_each = baseline_fn_of(background)
        if not (isinstance(background, ReplacementSource) and background.of_instances):
            self._open()

    _repr_html_ = html.shown("model", "budget", "tolerance", "seed", "players.names")

    def __repr__(self) -> str:
        said = [self.model.name]
        if isinstance(self._given[0], TreePaths):
            said += [repr(self._given[0]), f"index={self._given[3]!r}"]
        elif self._evaluator is None:
            said += ["a baseline of each instance"]
        else:
            rows = self._evaluator.engine.replacement
            count = f"{len(rows.codes):,} background rows"
            said += ["one baseline" if rows.kind == "baseline" else count]
            said += [f"{self.players.count:,} players", f"index={self.index!r}"]
        return f"{type(self).__name__}({', '.join(said)}, estimator={self.estimator!r})"

    def _open(self, X: Any = None) -> Evaluator:
        """Parses the arguments that depend on the row shape, taken from the background or from
        X.
        """
        if self._evaluator is not None:
            return self._evaluator
        background, weights, players, index, limits = self._given
        model = cast(Model, self.model)  # models from as_model keep both contracts
        donors = replacement_of(model, background, weights, X, hybrids=False)
        self.players = players_of_rows(players, donors.table)
        self.weights, self.index = self._weights(index)
        self.output_facts = output_question(model)
        self.exact = Exact(self.weights, named(self.index))
        refuse_index(self.estimator, self.index)
        self._parts = model, *with_own(model, donors, self.players, self._of_each), limits
        self._waits = donors.HYBRIDS and self._translation_waits(model, limits)
        self._evaluator = evaluator = Evaluator(*self._parts, offsets=True)
        checks.on_devices(background, "background", evaluator.engine.devices)
        return evaluator

    def __call__(
        self,
        X: Rows,
        progress: Progress = None,
        outputs: Outputs = None,
        top: int | None = None,
        confidence: float | None = None,
        bounds: tuple[float, float] | None = None,
    ) -> Explanation:
        """Explains the instances X.

        Args:
            X: rows [N, *F] of the background's shape.
            outputs: which output of a model with several is explained, one for each instance.
                "predicted": the largest output for the instance, the first one if several are
                equal. Or class labels or column numbers [N]. The output is selected where the model
                runs, so a thousand outputs cost as much as one. stats["outputs"] has the columns.
                None: all outputs.
            progress: None (a bar in terminals and notebooks once a run takes a while), True or
                False.
            top: int from 1 to P, or None. Each sampled instance stops when its set of the `top`
                largest |values| and their signs are certain, by independent antithetic pairs
                ("auto" samples by "permutation" then), or when the budget is used up.
                stats["certain"] marks the instances that became certain; see docs/certain_top.md
                and `Explanation.top`.
            confidence: float between 0 and 1; None: 0.95. Probability that all claims made about
                one instance, over all outputs, are correct, whenever sampling stops.
            bounds: (low, high) that v(S) is never outside, or None. With bounds the top-k guarantee
                holds for any sample size but needs many samples; without, it holds asymptotically.

        Returns:
            An `Explanation` with values [N, P], or [N, P, K] if the model has K outputs and
            outputs= is not given.

        Raises:
            InputError, InputTypeError: the rows are not accepted. EnumerationLimitError: there are
                too many coalitions to enumerate. MemoryPlanError: the run does not fit into memory.
                Rows and sizes are checked before the model is run to explain. A translation that
                answers is compared first, and some memory errors need the model's probe (32 rows).
            ModelOutputError, NonDeterministicModelError: the model's answers are not accepted. The
                model's own exceptions are passed on.

        A `xaijax.LongRunWarning` is given before a run of more than about a minute starts: if model
        rows x operations per row exceeds 1.5e12 per CPU core or 1e15 per accelerator, or, for a
        model on the host, if there are more than 10 million rows.
        """
        started = time.perf_counter()
        rule = None
        if any(one is not None for one in (top, confidence, bounds)):
            rule = top_rule(self, self._open(X).engine.players.count, top, confidence, bounds)
        if self.levels is not None:
            return by_levels(self, X, progress, outputs, rule)
        choose_by = partial(self._choose, rule=rule)
        run = self._run(X, progress, choose_by, self._warn_long, self._answer, outputs, started)
        result = explanation(self, run)
        return result if rule is None else with_top_claims(result, rule)

    def interactions(
        self,
        X: Rows,
        order: int = 2,
        index: str = "sii",
        progress: Progress = None,
        outputs: Outputs = None,
        unbiased: bool = False,
    ) -> Interactions:
        """Computes how much sets of players move the answer together, for the instances X.

        They need no more model rows than exact values: the same sub-coalitions of every pair of an
        instance and a background row give the interactions of all sets at once. Additive models and
        sums of trees have closed forms for any number of players. Larger games are sampled, with
        standard errors, at order 2 of "sii", "k-sii" and "banzhaf". Unless unbiased=True, intervals
        of the largest pairs cover less than 95 %. The explainer's `index=` is not used.
        docs/interactions.md compares the indices.

        Args:
            X: rows [N, *F] of the background's shape.
            order: int, 1 to P. The largest size of a set.
            index: "sii" Shapley interactions (players alone have their Shapley values), "k-sii"
                n-Shapley values, "stii" Shapley-Taylor and "fsii" faithful Shapley interactions
                (the base value and all of these add up to link(f(x))), "banzhaf" Banzhaf
                interactions, "moebius" dividends.
            progress, outputs: as for a call.
            unbiased: used when sampling only. False: shrunk towards 0, with lower error. True:
                unbiased over seeds. It is accepted for "sii" and "k-sii" at order 2 only.

        Returns:
            `Interactions` with values [N, M], or [N, M, K] for a model with K outputs: all sets of
            1 to `order` players.

        Raises:
            InputError, InputTypeError: the rows, the order or the index are not accepted.
                EnumerationLimitError: the game is too large to enumerate, and is not sampled.
                MemoryPlanError: the run does not fit into memory. The errors of a call are raised
                as well.

        Example:
            >>> import numpy as np
            >>> import xaijax as xj
            >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), np.zeros((1, 3)))
            >>> found = explainer.interactions(np.array([[2.0, 3.0, 1.0]]))
            >>> found.matrix[0].round(3) + 0.0
            array([[3., 6., 0.],
                   [6., 3., 0.],
                   [0., 0., 0.]])
        """
        if self.levels is not None:
            refuse_levels(self, "interactions have one level")
        players = self._open(X).engine.players.count
        return InteractionQuery(self, index, order, players, unbiased).run(X, progress, outputs)

    def plan(self, X: Rows, outputs: Outputs = None) -> Plan:
        """Computes the cost of explaining X before it is run.

        Args:
            X: rows [N, *F], as for a call.
            outputs: as for a call.

        Returns:
            A `Plan`. Only the model's probe is run; a translation that would answer is compared on
            its first rows.

        Raises:
            The errors that a call raises before it runs the model.
        """
        if self.levels is not None:
            low, apart = (one.plan(X, outputs) for one in both_of(self, X))
            return plan_of_both(low, apart)
        _, game, choice = self._begun(X, lambda rows: None, self._choose, False, outputs)
        return cost_of(game, choice, self.seed, self.exact)

    def fingerprint(self, X: Rows | None = None, outputs: Outputs = None) -> Fingerprint:
        """Identifies the question that an explanation of X would answer, before it is computed.

        Args:
            X: rows [N, *F], as for a call; None: a background row. The fingerprint depends on them
                only if a baseline or players are given for each instance.
            outputs: as for a call.

        Returns:
            A `Fingerprint`, equal to `explainer(X, outputs=outputs).fingerprint`. Only the model's
            probe is run.

        Raises:
            InputError, InputTypeError: the rows are not accepted, or X is None although each
                instance has a baseline. ModelOutputError: the model's probe failed.

        Example:
            >>> import numpy as np
            >>> import xaijax as xj
            >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), np.zeros((1, 2)))
            >>> saved = explainer(np.ones((3, 2)))
            >>> other = xj.Explainer(explainer.model, np.ones((1, 2)))
            >>> explainer.fingerprint() == saved.fingerprint
            True
            >>> other.fingerprint().why_not(saved.fingerprint)
            ['rows']
        """
        if self.levels is not None:
            of_copy = both_of(self, X)[0].fingerprint(X, outputs)
            return replace(of_copy, question={**of_copy.question, "levels": self.levels})
        evaluator = self._open(X)
        if outputs is not None:
            evaluator = self._of_one_output
        donors = evaluator.engine.replacement
        if X is None:
            X = rows_of(donors.as_read).part(0, 1)
        rows = donors.table.read(X, "X", self.model.allow_nan)
        columns = None if outputs is None else target_columns(self.model, outputs, rows)
        game = GameRun(evaluator, rows, self.quantity, asks=False, own=columns)
        engine = game.probe()
        return fingerprint_of(
            digests(game) | ({} if outputs is None else {"outputs": outputs}),
            provenance_of(self, game, ""),
            feature_names=self.players.names,
            output_names=output_names(engine.findings.output_names, engine.outputs),
            kind=self.index,
        )

    def _run(
        self,
        X: Any,
        progress: Progress,
        choose: Callable[[GameRun], EstimatorChoice],
        warn: Callable[[GameRun, EstimatorChoice], int],
        answer: Callable[[GameRun, EstimatorChoice], InstanceValues],
        outputs: Any = None,
        started: float | None = None,
    ) -> ExplainerRun:
        """Runs a question of the instances X: what `choose` decides and `answer` computes.

        warn: returns the largest number of model rows, and warns of a long run. started: when the
            call began; None: now.
        """
        started = time.perf_counter() if started is None else started
        with progress_bar(progress, None) as bar:
            rows, game, choice = self._begun(X, bar.update, choose, outputs=outputs)
            bar.clear()  # a warning begins a line
            bar.expect(warn(game, choice))
            before = game.evaluator.start()
            values = answer(game, choice)
            bar.total = int(bar.n)  # agreeing hybrids and early stops need fewer rows
        return ExplainerRun(X, rows, game, choice, values, before, time.perf_counter() - started)

    def _begun(
        self,
        X: Any,
        progressed: Callable[[int], object],
        choose: Callable[[GameRun], EstimatorChoice],
        asks: bool = True,
        outputs: Any = None,
    ) -> tuple[Any, GameRun, EstimatorChoice]:
        """The rows as read, their game, and who answers.

        All that can be refused at this point is refused.
        """
        N = checks.rows_given(X)
        self._open(X).engine.refuse_overflow(N)
        evaluator = self._who_answers(X, outputs, asks)
        rows = evaluator.engine.replacement.table.read(X, "X", self.model.allow_nan)
        checks.on_devices(X, "X", evaluator.engine.devices)
        self.players.refuse_others(N or len(rows_of(rows)))
        columns = None if outputs is None else target_columns(self.model, outputs, rows)
        game = GameRun(evaluator, rows, self.quantity, progressed, asks, own=columns)
        evaluator.engine.refuse_too_little_memory()
        choice = choose(game)
        game.coalitions = choice.most_coalitions
        if columns is not None:
            refuse_columns(columns, game.probe().findings.outputs)
        return rows, game, choice

    def _choose(self, game: GameRun, rule: Top | None = None) -> EstimatorChoice:
        if not game.engine.replacement.HYBRIDS:
            require_closed_form(game, self.exact.weights, self.estimator)
        by = game, self.exact, self.estimator, self.budget
        return replace(choose(*by, independent=rule is not None), rule=rule or self._rule)

    def _translation_waits(self, model: Model, limits: Limits) -> bool:
        """Whether a translated estimator may answer itself as long as few rows are asked.

        It may not where JAX was named, by its backend, precision, devices or tiles; where the
        translation has answered before; and where coalitions are drawn.
        """
        check = model.comparison
        if not isinstance(check, TranslationCheck) or check.done or check.forced or check.reason:
            return False
        named = limits.named or limits.path == "tiled" or model.precision != "float32"
        every = self.budget is None or self.budget >= 1 << self.players.count
        enumerates = self.estimator in ("auto", "exact") and self.tolerance is None and every
        return enumerates and not named and model.deterministic

    def _who_answers(self, X: Any, outputs: Any, asks: bool) -> Evaluator:
        """The evaluator of a call: of the estimator itself, until one call asks enough rows to
        be worth the time that it takes to compile the translation.
        """
        if outputs is not None:
            return self._of_one_output
        evaluator = self._open(X)
        if not self._waits:
            return evaluator
        N = checks.rows_given(X)  # 0: unknown
        rows = N * evaluator.engine.replacement.count << self.players.count
        by_estimator = None
        if 0 < rows <= MOST_ROWS["cpu"] // SLOWER:
            self.model.check_unchanged()
            by_estimator = self._of_estimator
        if asks:  # a plan changes nothing
            self._waits = by_estimator is not None or not N
        return by_estimator or evaluator

    @cached_property
    def _of_estimator(self) -> Evaluator | None:
        """The evaluator of a translated estimator on the host; None: no two fits of it could be
        told apart, as those of its translation can.
        """
        model, donors, players, limits = self._parts
        check = cast(TranslationCheck, model.comparison)
        if kept_digest(check.estimator, check.fingerprint) is None:
            return None
        return Evaluator(model.as_fitted, donors, players, limits, offsets=True)

    @cached_property
    def _of_one_output(self) -> Evaluator:
        """The evaluator of `outputs=`, with compiled programs of its own."""
        return Evaluator(*self._parts, score=target_column())

    def check(self, X: Rows) -> None:
        """Raises InputError or InputTypeError for instances that a call would not accept."""
        table = self._open(X).engine.replacement.table
        table.read(X, "X", self.model.allow_nan)

    def _warn_long(self, game: GameRun, choice: EstimatorChoice) -> int:
        return warn_long(game, choice, self.exact.index)

    def _answer(self, game: GameRun, choice: EstimatorChoice) -> InstanceValues:
        """The values of all instances."""
        enumerated = partial(self.exact.estimate, game)
        return answered(game, choice, enumerated, self.exact.index, self.seed)

    def _weights(self, index: IndexLike) -> tuple[np.ndarray, str]:
        """Weights of single sets, by size, [P]; and the index's name."""
        return index_weights(index, self.players.count)


# An estimator is asked fewer rows than path="small" asks a program, since it may be slow, as a
# machine of thousands of vectors is. The number is chosen, not measured.
SLOWER = 4
