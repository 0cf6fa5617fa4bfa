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
from xaijax.estimators.driver import METHODS, EstimatorName, InstanceValues
from xaijax.estimators.exact import Exact
from xaijax.estimators.stopping import Top, narrow
from xaijax.games import ask
from xaijax.games.ask import ExactCost
from xaijax.games.engine.evaluator import Evaluator
from xaijax.games.engine.plan import limits_of
from xaijax.games.measure.players_of_rows import players_of_rows
from xaijax.games.measure.quantity import quantity_of
from xaijax.games.measure.replacement.baseline import Baseline, stand_ins_of
from xaijax.games.measure.replacement.per_instance import with_own
from xaijax.games.measure.replacement.rows import replacement_of
from xaijax.games.measure.score import chosen_column, read_outputs, refuse_columns
from xaijax.games.run import GameRun
from xaijax.methods.explainer.choice import (
    ESTIMATORS,
    EstimatorChoice,
    choose,
    cost_of,
    refuse_index,
    tell_long,
)
from xaijax.methods.explainer.record import answered, explanation, provenance_of
from xaijax.methods.explainer.sets import SetsAsked
from xaijax.methods.progress import progress_bar
from xaijax.methods.record import digests
from xaijax.models import explainer_class
from xaijax.models.model import Model
from xaijax.players.index import IndexLike, index_weights, named
from xaijax.results.asked import asked_output
from xaijax.results.explanation import Explanation
from xaijax.results.fingerprint import Fingerprint, fingerprint_of, output_names
from xaijax.results.interactions import Interactions
from xaijax.results.plan import Plan
from xaijax.tables.rows import rows_of


@explainer_class
class Explainer:
    """How much each player moves a model's answer, for all instances of a batch at once.

    A player is an input column, or a group of columns that are kept or replaced together. The value
    of a coalition S of players, for the instance x, is

        v(S) = link(mean over background rows b of f(x on the players of S, b on the others)).

    The result tells how much each player adds to v, by the Shapley value or another semivalue
    (`index`). Each other column is replaced by that of a background row, whatever the kept columns
    are: this is the interventional (marginal) value, which asks what the model does with a column.

    Args:
        model: a `Model` of `as_model`, or what `as_model` takes without options: a function of
            rows, a fitted estimator or its `predict_proba`, a module.
        background: rows [B, *F] that the values of absent players come from: an array, a frame for
            a host model, or several arrays [B, ...] in a dict, tuple or other pytree, as the model
            takes them; what `xaijax.background` returns; or a `Baseline`: one row, or one for each
            instance. A JAX model gets whole numbers or bools as such where background and X both
            are; else floats.
        players: who plays. None: each column is a player. {"name": [columns]}, [[columns], ...] or
            whole numbers [*F] that say which group each entry belongs to: groups of columns; a
            column that no group names is a player of its own. Number -1: never replaced. Numbers
            [N, *F] are of the entries of each instance: segments of an image, words of a sentence.
            Numbers may leave the channels of images out ([H, W]), and the columns of steps ([T]).
            A player that an instance lacks has the value 0, see `Explanation.present`. Of rows in
            several arrays: a container of the same structure with such numbers for each of them,
            one for a whole array, or None for one whose entries are players each.
        index: "shapley", "banzhaf", `SizeLimited(k)` (coalitions of at most k kept players), or a
            function w(s), the weight of what a player adds to one single set of s others.
        estimator: how the values are found.
            "exact" takes every coalition into account. An instance that differs from background row
            b in k_b players costs up to sum over b of 2^k_b rows; additive models, trees need none.
            "permutation" averages what players add along an order of them and its reverse
            (Mitchell et al. 2022). "kernel" fits a weighted regression to coalitions and their
            complements, drawn by leverage (Musco and Witter 2025). "gaussian-process" takes out
            what a process tells of larger interactions, each answer by the others alone, in tenths
            of a second or more for each output. All three give standard errors.
            "auto" (the default) decides for each instance, before the model is called: "exact" if
            the sum above is at most B (budget + 2), or B 2^16 when budget is None; else "kernel" if
            the budget (of None the default one) is at least 5 P and 2 P + 40, P <= 128, and no
            instance lacks a player; else "permutation".
            `SizeLimited` and functions are never sampled: what cannot be enumerated is an
            EnumerationLimitError. A random model (deterministic=False) is never given to "kernel"
            or "gaussian-process", and all its players count as differing. To be enumerated, at most
            24 players may differ in a pair of rows (with a link: at most 20 players in all).
        budget: int or None. The most distinct coalitions asked for each sampled instance, without
            the empty and the full one. None: the larger of 2 P + 2,048 and 4 P. A budget that
            covers all coalitions makes the values exact, with a warning. With estimator="exact"
            leave it out.
        link: "identity", "logit" or a function of arrays. It acts on the mean over the background
            rows, so all values, sampled ones and their errors too, are in units of the link.
        seed: int. Of sampled estimators. Coalitions are drawn from (seed, draw) alone and shared by
            all instances: the same values in any order or batch, and correlated errors.
        weights: float [B] or None. Weights of the background rows. None: equal ones.
        tolerance: float or None. How far a value may be off, in units of link(f). Each sampled
            instance stops at the first check, after 1, 2, 4, ... times the first number of draws,
            at which all of its values are known that well: each with 95 %, however often it was
            checked (docs/certain_top.md). stats["certain"] says which instances came so far within
            the budget. Exact values meet any tolerance.
        {limits}

    Returns:
        A callable: `explainer(X)` gives an `Explanation`; see `__call__`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted. The model is neither called
            nor traced nor compiled before the first explanation.

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

    Standard errors are those of the draw of coalitions, and with deterministic=False of the model's
    own noise. The background is taken as given.

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
        self._rule = narrow(self.tolerance)
        self.quantity = quantity_of(link)
        self.model = model
        limits = limits_of(batch_size, max_memory, devices, tile)
        self._given = background, weights, players, index, limits
        self._evaluator: Evaluator | None = None
        self._of_each = stand_ins_of(background)
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
        """Read the arguments that hang on the rows' shape: the background's, or that of X."""
        if self._evaluator is not None:
            return self._evaluator
        background, weights, players, index, limits = self._given
        asked = cast(Model, self.model)  # what as_model makes keeps both contracts
        donors = replacement_of(asked, background, weights, X)
        self.players = players_of_rows(players, donors.table)
        self.weights, self.index = self._weights(index)
        self.output_facts = asked_output(asked)
        self.exact = Exact(self.weights, named(self.index))
        refuse_index(self.estimator, self.index)
        self._parts = asked, *with_own(asked, donors, self.players, self._of_each), limits
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
        """Explain the instances X.

        Args:
            X: rows [N, *F] of the background's shape.
            outputs: one output for each instance, of a model with several. "predicted": the largest
                of its answer to the instance, the first of equal ones. Or class labels or column
                numbers [N]. It is chosen where the model runs, so that a thousand outputs cost as
                much as one. stats["outputs"] has the columns. None: all outputs.
            progress: None (a bar in terminals and notebooks once a run takes a while), True or
                False.
            top: int from 1 to P, or None. Each sampled instance stops when its set of the `top`
                largest |values| and their signs are certain, by independent antithetic pairs
                ("auto" samples by "permutation" then). The budget is the most. stats["certain"]
                says which came so far; see docs/certain_top.md and `Explanation.top`.
            confidence: float between 0 and 1; None: 0.95. The chance that nothing is wrong of what
                is called certain of an instance, of all its outputs together, whenever it stops.
            bounds: (low, high) that v(S) is never outside, or None. With them the claims of top=
                hold at any number of pairs, and take many; without, as that number grows.

        Returns:
            An `Explanation` with values [N, P], or [N, P, K] of a model with K outputs and without
            outputs=.

        Raises:
            InputError, InputTypeError: rows that are not accepted. EnumerationLimitError: more than
                can be enumerated. MemoryPlanError: more than fits. Rows, and what can be known from
                sizes, are refused before the model is asked to explain. A translated estimator is
                compared first, and some memory errors need the model's probe (32 rows).
            ModelOutputError, NonDeterministicModelError: for what the model answers; its own
                exceptions come through.

        Warns before it starts (`xaijax.LongRunWarning`) of a run of more than about a minute: where
        the model rows that are coming, times the operations of one by the model's trace, exceed
        1.5e12 a CPU core or 1e15 an accelerator; of a model on the host, 10 million rows.
        """
        started = time.perf_counter()

        def progressed(done: int) -> None:
            bar.update(done)

        rule = top_rule(self, self._open(X).engine.players.count, top, confidence, bounds)
        choose_by = partial(self._choose, rule=rule)
        rows, game, survey, choice = self._begun(X, progressed, choose_by, outputs=outputs)
        evaluator = game.evaluator
        rows_coming = tell_long(game, survey, choice, self.exact)
        bar = progress_bar(progress, rows_coming)
        before = evaluator.start()
        with bar:
            answer = self._answer(game, choice)
            bar.total = bar.n  # agreeing hybrids and early stops leave rows unasked
        seconds = time.perf_counter() - started
        return told_top(explanation(self, X, rows, game, choice, answer, before, seconds), rule)

    def interactions(
        self,
        X: Rows,
        order: int = 2,
        index: str = "sii",
        progress: Progress = None,
        outputs: Outputs = None,
        unbiased: bool = False,
    ) -> Interactions:
        """How much sets of players move the answer together, of the instances X.

        No model row is asked more than for exact values: the same corners of every pair of an
        instance and a background row give the interactions of all sets at once. Additive models and
        sums of trees have closed forms, of any number of players. What else is too much to
        enumerate is sampled, with standard errors, at order 2 of "sii", "k-sii" and "banzhaf"; the
        intervals of the largest pairs hold less often than in 95 %, but for unbiased=True.
        `index=` of the explainer plays no part. docs/interactions.md says which index tells what.

        Args:
            X: rows [N, *F] of the background's shape.
            order: int, 1 to P. The largest size of a set.
            index: "sii" Shapley interactions (players alone have their Shapley values), "k-sii"
                n-Shapley values, "stii" Shapley-Taylor and "fsii" faithful Shapley interactions
                (the base value and all of these add up to link(f(x))), "banzhaf" Banzhaf
                interactions, "moebius" dividends.
            progress, outputs: as of a call.
            unbiased: of what is sampled. False: drawn towards 0 by what is not known yet, with the
                smaller error. True: the mean of a pair over seeds is its interaction. It is
                accepted for "sii" and "k-sii" at order 2 only, since nothing else is sampled so.

        Returns:
            `Interactions` with values [N, M], or [N, M, K] of a model with K outputs: all sets of 1
            to `order` players.

        Raises:
            InputError, InputTypeError: rows, an order or an index that are not accepted.
                EnumerationLimitError: more than can be enumerated, of what is not sampled.
                MemoryPlanError: more than fits. And what a call raises.

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
        asked = SetsAsked(self, index, order, self._open(X).engine.players.count, unbiased)
        return asked.run(X, self._begun, progress, outputs)

    def plan(self, X: Rows, outputs: Outputs = None) -> Plan:
        """What explaining X would ask for, told before it is asked.

        Args:
            X: rows [N, *F], as of a call.
            outputs: as of a call.

        Returns:
            A `Plan`. The model is asked no more than its probe; a translated estimator is
            compared on its first rows.

        Raises:
            What a call raises before it asks.
        """
        _, game, _, choice = self._begun(X, lambda rows: None, self._choose, False, outputs)
        return cost_of(game, choice, self.seed, self.exact)

    def fingerprint(self, X: Rows | None = None, outputs: Outputs = None) -> Fingerprint:
        """Tells what an explanation of X would answer, before it is asked.

        Args:
            X: rows [N, *F], as of a call; None: a background row. The fingerprint depends on them
                only where a baseline or players are given for each instance.
            outputs: as of a call.

        Returns:
            A `Fingerprint`, equal to `explainer(X, outputs=outputs).fingerprint`. The model is
            asked no more than its probe.

        Raises:
            InputError, InputTypeError: rows that are not accepted, or None for a baseline of each
                instance. ModelOutputError: what the probe of the model finds.

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
        own = None
        if outputs is not None:
            names = getattr(self.model, "output_names", None)
            own = read_outputs(outputs, len(rows_of(rows)), self.model.classes, names)
        game = GameRun(evaluator, rows, self.quantity, asks=False, own=own)
        engine = game.probe()
        return fingerprint_of(
            digests(game) | ({} if outputs is None else {"outputs": outputs}),
            provenance_of(self, game, ""),
            feature_names=self.players.names,
            output_names=output_names(engine.findings.output_names, engine.outputs),
            kind=self.index,
        )

    def _begun(
        self,
        X: Any,
        progressed: Callable[[int], None],
        choose: Callable[[GameRun, ExactCost], EstimatorChoice],
        asks: bool = True,
        outputs: Any = None,
    ) -> tuple[Any, GameRun, ExactCost, EstimatorChoice]:
        """(rows as read, their game, what exact values ask, who answers); refuses what it can."""
        evaluator = self._open(X)
        evaluator = evaluator if outputs is None else self._of_one_output
        evaluator.engine.refuse_overflow(checks.rows_given(X))
        rows = evaluator.engine.replacement.table.read(X, "X", self.model.allow_nan)
        checks.on_devices(X, "X", evaluator.engine.devices)
        self.players.refuse_unclear(len(rows_of(rows)))
        own = None
        if outputs is not None:
            names = getattr(self.model, "output_names", None)
            own = read_outputs(outputs, len(rows_of(rows)), self.model.classes, names)
        game = GameRun(evaluator, rows, self.quantity, progressed, asks, own=own)
        survey = ask.exact_cost(game)
        choice = choose(game, survey)
        evaluator.engine.refuse_too_little_memory()
        if own is not None:
            refuse_columns(own, game.probe().findings.outputs)
        return rows, game, survey, choice

    def _choose(self, game: GameRun, survey: ExactCost, rule: Top | None = None) -> EstimatorChoice:
        by = game, survey, self.estimator, self.exact.index, self.budget
        return replace(choose(*by, independent=rule is not None), rule=rule or self._rule)

    @cached_property
    def _of_one_output(self) -> Evaluator:
        """The evaluator of `outputs=`, with programs of its own."""
        asked, donors, players, limits = self._parts
        return Evaluator(asked, donors, players, limits, score=chosen_column())

    def check(self, X: Rows) -> None:
        """Raise InputError or InputTypeError for instances that a call would not accept."""
        table = self._open(X).engine.replacement.table
        table.read(X, "X", self.model.allow_nan)

    def _answer(self, game: GameRun, choice: EstimatorChoice) -> InstanceValues:
        """The values of all instances."""
        enumerated = partial(self.exact.estimate, game)
        return answered(game, choice, enumerated, self.exact.index, self.seed)

    def _weights(self, index: IndexLike) -> tuple[np.ndarray, str]:
        """Weights of single sets, by size, [P]; and the name of the index."""
        return index_weights(index, self.players.count)


CONFIDENCE = 0.95


def top_rule(asking: Explainer, P: int, top: Any, confidence: Any, bounds: Any) -> Top | None:
    """The rule of top=, confidence= and bounds=; None: there is none.

    Raises InputError or InputTypeError for what does not go together, before any work.
    """
    if top is None:
        for name, value in (("confidence", confidence), ("bounds", bounds)):
            if value is not None:
                raise InputError(
                    f"{name}={value!r} is of top=, which is not given. Say top=3, say."
                )
        return None
    k = checks.whole_number(top, "top")
    if k > P:
        raise InputError(f"top={k:,}, but there are {P:,} players. Pass a number from 1 to {P:,}.")
    level = CONFIDENCE if confidence is None else checked_level(confidence, "confidence")
    pair = None if bounds is None else _pair(bounds)
    if asking.tolerance is not None:
        raise InputError(
            f"top={k} and tolerance={asking.tolerance:g} are two rules of when to stop. Make an "
            "explainer without tolerance=, or call this one without top=."
        )
    if asking.estimator in METHODS and not METHODS[asking.estimator].independent:
        raise InputError(
            f"top={k} needs independent pairs, and estimator={asking.estimator!r} draws without "
            "replacement and fits all draws together. Say estimator='permutation' or 'auto'."
        )
    if not asking.model.deterministic:
        raise InputError(
            f"top={k} is of a deterministic model: the pairs of a random one share the noise of "
            "v(nothing kept) and v(all kept), and are not independent. Leave top= out; "
            "explanation.top() tells what the standard errors do."
        )
    return Top(k, level, pair)


def _pair(bounds: Any) -> tuple[float, float]:
    """(low, high) of bounds=; raises InputError or InputTypeError for anything else."""
    wanted = "pass two numbers, (0, 1) for probabilities: v(S) is never outside."
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise InputTypeError(f"bounds: got {checks.shown(bounds)}; {wanted}")
    for one in bounds:
        if isinstance(one, bool) or not isinstance(one, int | float | np.integer | np.floating):
            raise InputTypeError(f"bounds: got {checks.shown(bounds)}; {wanted}")
    low, high = map(float, bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"bounds: got ({low:g}, {high:g}); {wanted}")
    return low, high


def told_top(found: Explanation, rule: Top | None) -> Explanation:
    """The same, with what was asked for and which instances came so far.

    Exact values are judged by their rounding; of others the run has said what it found.
    """
    if rule is None:
        return found
    sure = found.top(rule.k, rule.confidence).certain.reshape(len(found), -1).all(axis=1)
    stats = dict(found.stats)
    if "certain" in stats:
        sure = np.where(stats["exact_rows"], sure, stats["certain"])
    told = {"top": rule.k, "confidence": rule.confidence, "certain": sure}
    return replace(found, stats={"bound": "rounding", **stats, **told})
