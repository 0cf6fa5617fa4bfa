"""`Explainer`: Shapley, Banzhaf and other semivalues of a model's answers.

Letters: N instances, F features, P players, B background rows, K outputs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Literal, cast

import numpy as np

from xaijax.core import checks, html
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.sequences import checked_level
from xaijax.core.typing import AnyModel, ArrayLike, Devices, Outputs, PlayerSpec, Progress, Rows
from xaijax.estimators.driver import METHODS, EstimatorName, Exact, InstanceValues
from xaijax.estimators.stopping import Narrow, Top
from xaijax.games import queries
from xaijax.games.engine.evaluator import Evaluator
from xaijax.games.engine.plan import limits_of
from xaijax.games.measure.players_of_rows import players_of_rows
from xaijax.games.measure.quantity import quantity_of
from xaijax.games.measure.replacement.baseline import Baseline, baseline_fn_of
from xaijax.games.measure.replacement.rows import replacement_of, with_own
from xaijax.games.measure.score import refuse_columns, target_column
from xaijax.games.queries import ExactCost
from xaijax.games.run import GameRun
from xaijax.methods.explainer.choice import (
    ESTIMATORS,
    EstimatorChoice,
    choose,
    cost_of,
    refuse_index,
    warn_long,
)
from xaijax.methods.explainer.record import ExplainerRun, answered, explanation, provenance_of
from xaijax.methods.explainer.sets import InteractionQuery
from xaijax.methods.progress import progress_bar
from xaijax.methods.record import digests, target_columns
from xaijax.models import explainer_class
from xaijax.models.model import Model
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

        v(S) = link(mean over background rows b of f(x on the players of S, b on the others)).

    The result is how much each player adds to v, by the Shapley value or another semivalue
    (`index`). Absent columns take their values from a background row, whatever the kept columns
    are. This is the interventional (marginal) value: it says what the model does with a column.

    Args:
        model: a `Model` from `as_model`, or what `as_model` accepts without options: a function of
            rows, a fitted estimator or its `predict_proba`, a module.
        background: rows [B, *F] that the values of absent players come from: an array, a frame for
            a host model, or several arrays [B, ...] in a dict, tuple or other pytree, as the model
            takes them; what `xaijax.background` returns; or a `Baseline`: one row, or one for each
            instance. A JAX model gets integers or bools if both background and X are of that type,
            and floats otherwise.
        players: who plays. None: each column is a player. Groups of columns are given as {"name":
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
        {limits}

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
        background: Rows | Baseline,
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
    ) -> None:
        self.estimator = checks.one_of(estimator, "estimator", ESTIMATORS)
        self.budget = None if budget is None else checks.whole_number(budget, "budget")
        self.seed = checks.whole_number(seed, "seed", least=0)
        self.tolerance = None if tolerance is None else checks.positive(tolerance, "tolerance")
        self._rule = None if self.tolerance is None else Narrow(self.tolerance)
        self.quantity = quantity_of(link)
        self.model = model
        limits = limits_of(batch_size, max_memory, devices, tile)
        self._given = background, weights, players, index, limits
        self._evaluator: Evaluator | None = None
        self._of_each = baseline_fn_of(background)
        if self._of_each is None:
            self._open()

    _repr_html_ = html.shown("model", "budget", "tolerance", "seed", "players.names")

    def __repr__(self) -> str:
        said = [self.model.name]
        if self._evaluator is None:
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
        donors = replacement_of(model, background, weights, X)
        self.players = players_of_rows(players, donors.table)
        self.weights, self.index = self._weights(index)
        self.output_facts = output_question(model)
        self.exact = Exact(self.weights, named(self.index))
        refuse_index(self.estimator, self.index)
        self._parts = model, *with_own(model, donors, self.players, self._of_each), limits
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
                Rows and sizes are checked before the model is run to explain. A translated
                estimator is compared first, and some memory errors need the model's probe (32
                rows).
            ModelOutputError, NonDeterministicModelError: the model's answers are not accepted. The
                model's own exceptions are passed on.

        A `xaijax.LongRunWarning` is given before a run of more than about a minute starts: if model
        rows x operations per row exceeds 1.5e12 per CPU core or 1e15 per accelerator, or, for a
        model on the host, if there are more than 10 million rows.
        """
        started = time.perf_counter()
        rule = top_rule(self, self._open(X).engine.players.count, top, confidence, bounds)
        choose_by = partial(self._choose, rule=rule)
        run = self._run(X, progress, choose_by, self._warn_long, self._answer, outputs, started)
        return with_top_claims(explanation(self, run), rule)

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
        players = self._open(X).engine.players.count
        return InteractionQuery(self, index, order, players, unbiased).run(X, progress, outputs)

    def plan(self, X: Rows, outputs: Outputs = None) -> Plan:
        """Computes the cost of explaining X before it is run.

        Args:
            X: rows [N, *F], as for a call.
            outputs: as for a call.

        Returns:
            A `Plan`. Only the model's probe is run; a translated estimator is compared on its first
            rows.

        Raises:
            The errors that a call raises before it runs the model.
        """
        _, game, _, choice = self._begun(X, lambda rows: None, self._choose, False, outputs)
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
        choose: Callable[[GameRun, ExactCost], EstimatorChoice],
        warn: Callable[[GameRun, ExactCost, EstimatorChoice], int],
        answer: Callable[[GameRun, EstimatorChoice], InstanceValues],
        outputs: Any = None,
        started: float | None = None,
    ) -> ExplainerRun:
        """Runs a question of the instances X: what `choose` decides and `answer` computes.

        warn: returns the largest number of model rows, and warns of a long run. started: when the
            call began; None: now.
        """
        started = time.perf_counter() if started is None else started

        def progressed(done: int) -> None:
            bar.update(done)

        rows, game, costs, choice = self._begun(X, progressed, choose, outputs=outputs)
        bar = progress_bar(progress, warn(game, costs, choice))
        before = game.evaluator.start()
        with bar:
            values = answer(game, choice)
            bar.total = bar.n  # agreeing hybrids and early stops need fewer rows
        return ExplainerRun(X, rows, game, choice, values, before, time.perf_counter() - started)

    def _begun(
        self,
        X: Any,
        progressed: Callable[[int], None],
        choose: Callable[[GameRun, ExactCost], EstimatorChoice],
        asks: bool = True,
        outputs: Any = None,
    ) -> tuple[Any, GameRun, ExactCost, EstimatorChoice]:
        """The rows as read, their game, the cost of exact values, and who answers.

        All that can be refused at this point is refused.
        """
        evaluator = self._open(X)
        evaluator = evaluator if outputs is None else self._of_one_output
        evaluator.engine.refuse_overflow(checks.rows_given(X))
        rows = evaluator.engine.replacement.table.read(X, "X", self.model.allow_nan)
        checks.on_devices(X, "X", evaluator.engine.devices)
        self.players.refuse_unclear(len(rows_of(rows)))
        columns = None if outputs is None else target_columns(self.model, outputs, rows)
        game = GameRun(evaluator, rows, self.quantity, progressed, asks, own=columns)
        costs = queries.exact_cost(game)
        choice = choose(game, costs)
        evaluator.engine.refuse_too_little_memory()
        if columns is not None:
            refuse_columns(columns, game.probe().findings.outputs)
        return rows, game, costs, choice

    def _choose(self, game: GameRun, costs: ExactCost, rule: Top | None = None) -> EstimatorChoice:
        by = game, costs, self.estimator, self.exact.index, self.budget
        return replace(choose(*by, independent=rule is not None), rule=rule or self._rule)

    @cached_property
    def _of_one_output(self) -> Evaluator:
        """The evaluator of `outputs=`, with compiled programs of its own."""
        return Evaluator(*self._parts, score=target_column())

    def check(self, X: Rows) -> None:
        """Raises InputError or InputTypeError for instances that a call would not accept."""
        table = self._open(X).engine.replacement.table
        table.read(X, "X", self.model.allow_nan)

    def _warn_long(self, game: GameRun, costs: ExactCost, choice: EstimatorChoice) -> int:
        return warn_long(game, costs, choice, self.exact)

    def _answer(self, game: GameRun, choice: EstimatorChoice) -> InstanceValues:
        """The values of all instances."""
        enumerated = partial(self.exact.estimate, game)
        return answered(game, choice, enumerated, self.exact.index, self.seed)

    def _weights(self, index: IndexLike) -> tuple[np.ndarray, str]:
        """Weights of single sets, by size, [P]; and the index's name."""
        return index_weights(index, self.players.count)


CONFIDENCE = 0.95


def top_rule(explainer: Explainer, P: int, top: Any, confidence: Any, bounds: Any) -> Top | None:
    """The rule of top=, confidence= and bounds=; None if there is none.

    It raises InputError or InputTypeError for arguments that do not go together, before any work.
    """
    if top is None:
        for name, value in (("confidence", confidence), ("bounds", bounds)):
            if value is not None:
                raise InputError(f"{name}={value!r} needs top=, which is not given. Say top=3.")
        return None
    k = checks.whole_number(top, "top")
    if k > P:
        raise InputError(f"top={k:,}, but there are {P:,} players. Pass a number from 1 to {P:,}.")
    level = CONFIDENCE if confidence is None else checked_level(confidence, "confidence")
    pair = None if bounds is None else _pair(bounds)
    if explainer.tolerance is not None:
        raise InputError(
            f"top={k} and tolerance={explainer.tolerance:g} are two rules of when to stop. Leave "
            "out one."
        )
    if explainer.estimator in METHODS and not METHODS[explainer.estimator].independent:
        raise InputError(
            f"top={k} needs independent pairs, and estimator={explainer.estimator!r} fits all "
            "draws together. Say estimator='permutation' or 'auto'."
        )
    if not explainer.model.deterministic:
        raise InputError(
            f"top={k} needs a deterministic model. Leave top= out; explanation.top() uses standard "
            "errors."
        )
    return Top(k, level, pair)


REAL = int | float | np.integer | np.floating


def _pair(bounds: Any) -> tuple[float, float]:
    """(low, high) of bounds=; raises InputError or InputTypeError for anything else."""
    wanted = "pass two numbers, (0, 1) for probabilities: v(S) is never outside."
    two = isinstance(bounds, tuple | list) and len(bounds) == 2
    if not two or any(isinstance(end, bool) or not isinstance(end, REAL) for end in bounds):
        raise InputTypeError(f"bounds: got {checks.shown(bounds)}; {wanted}")
    low, high = map(float, bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"bounds: got ({low:g}, {high:g}); {wanted}")
    return low, high


def with_top_claims(result: Explanation, rule: Top | None) -> Explanation:
    """The same explanation, with `top` and `confidence`, and which instances are certain.

    Exact values are judged by their rounding; for others the run has recorded what it found.
    """
    if rule is None:
        return result
    sure = result.top(rule.k, rule.confidence).certain.reshape(len(result), -1).all(axis=1)
    stats = dict(result.stats)
    if "certain" in stats:
        sure = np.where(stats["exact_rows"], sure, stats["certain"])
    claims = {"top": rule.k, "confidence": rule.confidence, "certain": sure}
    return replace(result, stats={"bound": "rounding", **stats, **claims})
