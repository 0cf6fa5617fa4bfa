"""`GradientExplainer`: integrated and expected gradients.

Letters: N instances, F features, P players, B background rows, K outputs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from xaijax.core import checks, html
from xaijax.core.checks import warn_slow
from xaijax.core.errors import EnumerationLimitError, InputError
from xaijax.core.process import before_jax
from xaijax.core.typing import AnyModel, ArrayLike, Devices, Outputs, PlayerSpec, Progress, Rows
from xaijax.games.engine.dispatch import placed, refuse_described
from xaijax.games.engine.evaluator import Evaluator
from xaijax.games.engine.plan import limits_of
from xaijax.games.measure.players_of_rows import players_of_rows
from xaijax.games.measure.replacement.base import Replacement
from xaijax.games.measure.replacement.baseline import Baseline, baseline_fn_of
from xaijax.games.measure.score import TargetColumn, largest, refuse_columns
from xaijax.games.refuse import minute
from xaijax.methods import record
from xaijax.methods.derivatives.gradients import reading, slopes
from xaijax.methods.derivatives.gradients import run as programs
from xaijax.methods.derivatives.gradients.space import Between, LineSpace, Pair, space_of
from xaijax.methods.record import progress_bar
from xaijax.models import gradient_class
from xaijax.players.players import Players, column_labels
from xaijax.results.describe_question import output_question
from xaijax.results.explanation import Explanation
from xaijax.results.fingerprint import Fingerprint, fingerprint_of, output_names
from xaijax.results.plan import Plan
from xaijax.tables.rows import rows_of
from xaijax.tables.table import MappedRows
from xaijax_kernels.engine.steps import operations

PATHS = ("expected", "integrated")
MOST_STEPS = 1_000  # finding more points takes seconds, and no smooth model needs them
MOST_ROWS = 1 << 20  # gradient rows of one instance with a quadrature
FEW = 32  # instances that the probe uses


@gradient_class
class GradientExplainer:
    """Computes integrated or expected gradients: gradients on the way from a baseline to each row.

    The value of entry j of the instance x, with a baseline b, is

        (x_j - b_j) * integral over t in [0, 1] of df/dz_j at z = b + t (x - b),

    and the value of a player is the sum over its entries. path="integrated" has one baseline;
    path="expected" is the mean of these values over the rows of a background. The base value plus
    all values is f(x), up to the error of the integral: stats["completeness"] is this error,
    measured with the model's own answers.

    These are not Shapley values, and may be far from them although the sums agree:
    docs/derivatives.md has measurements, and `judge` measures it for your own model. They take one
    derivative for each point on the way, whatever the number of players.

    Args:
        model: a `Model` from `as_model` that JAX traces, or what `as_model` accepts without
            options: a function of rows, a module. For rows of tokens it is a tuple (embed, head):
            head is a model of arrays of numbers, and embed a function of jax.numpy that makes such
            arrays of rows, with the axes of a row in front: ids [R, L] -> [R, L, D]. Lines then run
            between embedded rows, and a token's value is the sum over its D numbers. If the model
            has params, embed takes them first: embed(params, rows).
        background: rows [B, *F], an array or several in a dict, tuple or other pytree, as the model
            takes them; or a `Baseline`: one row, or one for each instance. "integrated" takes one
            row or a `Baseline`.
        path: "expected" or "integrated".
        steps: int, 1 to 1,000. Number of points of the Gauss-Legendre quadrature on each line.
            Without samples= each instance takes B * steps derivatives.
        samples: even int or None, for path="expected". None: every background row, by quadrature,
            with at most 1,048,576 derivatives per instance. A number: the number of draws of a
            background row (by its weight) and a point on the line, two in each of samples / 2
            strata, with standard errors.
        seed: int. Seed of the draws, which all instances share.
        players: as for `Explainer`: the value of a group is the sum over its entries. Entries
            numbered -1 stay as they are in the instance, in the base value too.
        weights: float [B] or None. Weights of the background rows. None: equal weights.
        {batch_size}
        {memory}

    Returns:
        A callable: `explainer(X)` gives an `Explanation`; see `__call__`.

    Raises:
        InputError, InputTypeError: an argument is not accepted: a model on the host or one that
            returns labels, several rows for path="integrated", whole numbers that would have to
            change, samples= for path="integrated". The model is not called before the first
            explanation. EnumerationLimitError: an instance takes more derivatives than the limit
            above.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> model = xj.as_model(lambda X: X[:, 0] * X[:, 1] + X[:, 2])
        >>> explainer = xj.GradientExplainer(model, np.zeros((1, 3)), path="integrated")
        >>> explanation = explainer(np.array([[2.0, 3.0, 1.0]]))
        >>> explanation.values.round(3)
        array([[3., 3., 1.]])

    References:
        Sundararajan, Taly and Yan, "Axiomatic attribution for deep networks" (ICML 2017), equation
        1: integrated gradients. Erion, Janizek, Sturmfels, Lundberg and Lee, "Improving performance
        of deep learning models with axiomatic attribution priors and expected gradients" (Nature
        Machine Intelligence 2021): the mean over a background.
    """

    def __init__(
        self,
        model: AnyModel | tuple[Callable[..., Any], AnyModel],
        background: Rows | Baseline,
        path: Literal["expected", "integrated"] = "expected",
        steps: int = 50,
        samples: int | None = None,
        seed: int = 0,
        players: PlayerSpec | None = None,
        weights: ArrayLike | None = None,
        batch_size: int | Literal["auto"] = "auto",
        max_memory: int | None = None,
        devices: Devices = None,
        tile: int | None = None,
    ) -> None:
        self.path = checks.one_of(path, "path", PATHS)
        self.steps = checks.whole_number(steps, "steps")
        if self.steps > MOST_STEPS:
            raise InputError(f"steps must be at most {MOST_STEPS:,}, got {steps:,}.")
        self.samples = _samples(samples, self.path, self.steps)
        self.seed = checks.whole_number(seed, "seed", least=0)
        self._pair = Pair(model) if isinstance(model, tuple) else None
        self.model: Any = model if self._pair is None else self._pair.whole
        if self._pair is None:
            slopes.refuse_model(self.model)
        limits = limits_of(batch_size, max_memory, devices, tile)
        self._given = background, weights, players, limits
        self._of_each = baseline_fn_of(background)
        self._evaluator: Evaluator | None = None
        self._runs: dict[int, programs.GradientPrograms] = {}
        if self._of_each is None:
            self._open()

    _repr_html_ = html.shown("model", "players.names")

    def __repr__(self) -> str:
        said = [self.model.name, f"path={self.path!r}"]
        if self._evaluator is not None:
            donors = self._evaluator.engine.replacement
            single = donors.rows_given == 1
            said += ["one baseline" if single else f"{donors.count:,} background rows"]
            said += [f"{self.players.count:,} players"]
        how = f"steps={self.steps}" if self.samples is None else f"samples={self.samples}"
        return f"GradientExplainer({', '.join([*said, how])})"

    def __call__(self, X: Rows, progress: Progress = None, outputs: Outputs = None) -> Explanation:
        """Explains the instances X.

        Args:
            X: rows [N, *F] of the background's shape.
            progress: None (a bar in terminals and notebooks once a run takes a while), True or
                False.
            outputs: which output of a model with several is explained, one for each instance.
                "predicted": the largest output for the instance, the first one if several are
                equal. Or class labels or column numbers [N]. Only the selected output's derivative
                is taken. stats["outputs"] has the columns. None: all outputs.

        Returns:
            An `Explanation` of kind "integrated_gradients" or "expected_gradients" with values
            [N, P], or [N, P, K] if the model has K outputs and outputs= is not given.
            stats["completeness"] [N] or [N, K] is f(x) minus the base value and all values.
            std_errors are those of samples=; a quadrature has none, and is not `exact`.

        Raises:
            InputError, InputTypeError: the rows are not accepted, or the model calls back to
                Python, returns whole numbers or holds trees. MemoryPlanError: the run does not fit
                into memory. ModelOutputError: gradients are not finite, or the model's probe
                failed. The model's own exceptions are passed on.

        A `xaijax.LongRunWarning` is given before a run of more than about a minute starts, and a
        `xaijax.XaiWarning` afterwards if all gradients are 0 although the answers differ.
        """
        started = time.perf_counter()
        rows, work, names = self._read(X, outputs)
        run, before = self._run(work)
        refuse_described(run.engine.devices[0])
        if outputs is not None:
            TargetColumn().refuse(run.outputs)
        if names is not None:
            refuse_columns(names, run.outputs)
        self._warn_long(run, len(work))
        allowed = self.model.nonfinite == "propagate"
        with progress_bar(progress, len(work) * run.lines.rows, "gradients") as bar:
            full = run.answers(work.codes)
            slopes.refuse_answers(full, "X row", allowed)
            start = programs.base_answers(run, work)
            slopes.refuse_answers(start, "the background as seen from X row", allowed)
            base = np.broadcast_to(start, full.shape)
            if outputs is not None:
                place = (largest(full) if names is None else names).astype(np.int64)
                work = replace(work, column=place[:, 0].astype(np.int32))
                full, base = (np.take_along_axis(array, place, axis=1) for array in (full, base))
            values, variances = run.values(work, bar.update)
        slopes.refuse_not_finite(values, allowed)
        slopes.warn_of_steps(values, full, base, run.lines.drawn)
        seconds = time.perf_counter() - started
        answer = values, variances, full, base
        return explanation(self, X, rows, run, work, *answer, before, seconds)

    def plan(self, X: Rows, outputs: Outputs = None) -> Plan:
        """Computes the cost of explaining X before it is run.

        Args:
            X, outputs: as for a call.

        Returns:
            A `Plan`, with the estimator "quadrature" or "sampled". Its model rows are those whose
            derivative is taken. Only the model's probe is run.

        Raises:
            The errors that a call raises before it runs the model.
        """
        _, work, _ = self._read(X, outputs)
        run, _ = self._run(work)
        if outputs is not None:
            TargetColumn().refuse(run.outputs)
            work = replace(work, column=np.zeros(len(work), np.int32))
        N, compiled = len(work), run.engine.compiled
        counts = N, programs.base_rows(run, work)
        recipe, answers = run.recipe(work), run.answer_recipe
        recipes = [recipe, *[answers] * any(map(run.in_tiles, counts))]
        runs = {recipe.name: run.dispatches(N), answers.name: sum(map(run.answer_calls, counts))}
        return Plan(
            estimator=np.full(N, run.estimator),
            model_rows=np.full(N, run.lines.rows, np.int64),
            structure=run.space.name,
            tile=run.sizes.rows,
            model_calls=sum(runs.values()),
            shares=run.held(N),
            programs=compiled.lacking(recipes, runs),
            backend="jax",
        )

    def fingerprint(self, X: Rows | None = None, outputs: Outputs = None) -> Fingerprint:
        """Identifies the question that an explanation of X would answer, before it is computed.

        Args:
            X: rows [N, *F], as for a call; None: a background row.
            outputs: as for a call.

        Returns:
            A `Fingerprint`, equal to `explainer(X, outputs=outputs).fingerprint`. Only the model's
            probe is run.

        Raises:
            The errors that a call raises before it runs the model.
        """
        if X is None:
            X = rows_of(self._open().engine.replacement.as_read).part(0, 1)
        _, work, _ = self._read(X, outputs)
        run, _ = self._run(work)
        K = 1 if outputs is not None else run.outputs
        return fingerprint_of(
            _digests(run) | ({} if outputs is None else {"outputs": outputs}),
            _provenance(self, run, work),
            feature_names=self.players.names,
            output_names=output_names(run.engine.findings.output_names, K),
            kind=KINDS[self.path],
        )

    def check(self, X: Rows) -> None:
        """Raises InputError or InputTypeError for instances that a call would not accept."""
        self._open(X).engine.replacement.table.read(X, "X", self.model.allow_nan)

    def _open(self, X: Any = None) -> Evaluator:
        """Parses the arguments that depend on the row shape, from the background or from X."""
        if self._evaluator is not None:
            return self._evaluator
        background, weights, players, limits = self._given
        donors = reading.donors_of(self.model, background, weights, self._pair is not None, X)
        reading.refuse_background(donors, self.path)
        self.players = players_of_rows(players, donors.table)
        self._owner, P = reading.owner_of(self.players), self.players.count
        self._lines = self._lines_for(donors)
        if self._pair is None:
            self._space: Any = LineSpace(donors.columns)
            reading.refuse_whole_numbers(donors, self._owner, P)
        else:
            self._space = Between(self._pair, donors.table)
            self._space.refuse(self.model.params, donors.for_loops, self._owner, P)
        labels = donors.table.feature_names or column_labels(donors.table.shape)
        columns = Players(np.arange(len(labels)), tuple(labels))
        self._evaluator = Evaluator(self.model, donors, columns, limits, offsets=True)
        checks.on_devices(background, "background", self._evaluator.engine.devices)
        return self._evaluator

    def _lines_for(self, donors: Replacement) -> programs.Lines:
        """The points on lines; raises EnumerationLimitError for too many."""
        B, weights = donors.count, donors.weights
        if self.samples is not None:
            return programs.drawn(weights, self.samples, self.seed)
        if B * self.steps > MOST_ROWS:
            raise EnumerationLimitError(
                f"{B:,} background rows with {self.steps:,} steps each are {B * self.steps:,} "
                f"derivatives for one instance; at most {MOST_ROWS:,} are taken. Say samples= (a "
                "number of draws), or give fewer rows or steps."
            )
        return programs.quadrature(weights, self.steps)

    def _read(self, X: Any, outputs: Any) -> tuple[Any, reading.Work, np.ndarray | None]:
        """(rows as read, the work for them, column numbers [N, 1] if they were given)."""
        before_jax()
        evaluator = self._open(X)
        table = evaluator.engine.replacement.table
        rows = table.read(X, "X", self.model.allow_nan)
        checks.on_devices(X, "X", evaluator.engine.devices)
        N = len(rows_of(rows))
        self.players.refuse_others(N)
        names = None if outputs is None else record.target_columns(self.model, outputs, rows)
        _, codes = evaluator.encoded(rows)
        slopes.refuse_host(evaluator.engine.model)
        baselines = None
        if self.model.allow_nan and not isinstance(codes, MappedRows):  # else refused above
            reading.refuse_nan(codes, "X")
        if self._of_each is not None:
            baselines = reading.baseline_fn(
                self._of_each, evaluator.engine.replacement, rows, self.model.allow_nan
            )
        return rows, reading.Work(codes, baselines, self._owner), names

    def _run(self, work: reading.Work) -> tuple[programs.GradientPrograms, Any]:
        """(the programs, the clock before them); probes the model."""
        evaluator = self._open()
        before = replace(evaluator.clock)
        table = evaluator.engine.replacement.table
        engine = evaluator.probe(table, np.asarray(work.codes[:FEW]))
        key = id(engine)
        if key not in self._runs:
            slopes.refuse_findings(engine.model, engine.findings)
            placement = placed(engine.devices, engine.model.params)
            sizes = programs.sizes_of(engine, self._lines, placement.mesh.size)
            lines, P = self._lines.cut(sizes.steps), self.players.count
            space = space_of(self._space, engine, sizes.rows)
            self._runs = {key: programs.GradientPrograms(engine, space, lines, sizes, placement, P)}
        run = self._runs[key]
        evaluator.clock.tile = run.sizes.rows
        return run, before

    def _warn_long(self, run: programs.GradientPrograms, N: int) -> None:
        """Warns of a run of more than about a minute."""
        findings, rows = run.engine.findings, N * run.lines.rows
        K = run.outputs
        each = operations(findings.jaxpr, findings.rows) * (
            programs.PASSES + max(0, K - 1) * (programs.PASSES - 1)
        )
        if rows * each > minute(run.engine.devices):
            ways = "fewer rows, steps= or background rows, samples=, or outputs= of several"
            warn_slow(
                f"{rows:,} derivatives are coming, of about {each:,.0f} operations each", ways
            )


def _samples(samples: Any, path: str, steps: int) -> int | None:
    """Reads `samples=`."""
    if samples is None:
        return None
    if path == "integrated":
        raise InputError("samples= needs path='expected'. Leave it out, or say steps=.")
    count = checks.whole_number(samples, "samples", least=2)
    if count % 2:
        raise InputError(f"samples must be even, got {count}. Say {count + 1}.")
    if steps != 50:
        raise InputError("steps= is for the quadrature, and samples= draws. Give one of them.")
    return count


KINDS = {"integrated": "integrated_gradients", "expected": "expected_gradients"}


def explanation(
    explainer: GradientExplainer,
    X: Any,
    rows: Any,
    run: programs.GradientPrograms,
    work: reading.Work,
    values: np.ndarray,
    errors: np.ndarray | None,
    full: np.ndarray,
    base: np.ndarray,
    before: Any,
    seconds: float,
) -> Explanation:
    """The explanation: values, stats and provenance; before: the clock when the run began.

    values: float64 [N, P, K]; errors: the variances of drawn ones; full, base: float64 [N, K], the
    model's own answers to the instances and at the starts of the lines.
    """
    scalar = values.shape[2] == 1
    engine, N = run.engine, len(work)
    residual = full - base - values.sum(axis=1)  # [N, K]
    if errors is not None:
        errors = np.sqrt(errors, out=errors)  # in place: it is as large as the values
    stats: dict[str, Any] = {
        **record.cost(engine, engine.clock, before, seconds),
        "model_rows": N * run.lines.rows,
        "structure": run.space.name,
        "tile": run.sizes.rows,
        "estimator": run.estimator,
        **record.sources(explainer.seed, X, engine),
        "completeness": residual[:, 0] if scalar else residual,
        **_digests(run),
    }
    if work.column is not None:
        stats |= record.outputs_of(work.column, engine.findings.output_names)
    if run.lines.drawn:
        stats["dof"] = np.full(N, run.lines.dof)
    return Explanation(
        **record.numbers(values, base, errors, scalar),
        **record.instances(X, rows),
        feature_names=explainer.players.names,
        output_names=None if scalar else engine.findings.output_names,
        exact=False,
        kind=KINDS[explainer.path],
        stats=stats,
        provenance=_provenance(explainer, run, work),
        present=getattr(explainer.players, "present", None),
    )


def _digests(run: programs.GradientPrograms) -> dict[str, str | None]:
    donors = run.engine.replacement.digest.hexdigest()
    return {"fingerprint": donors, "model_fingerprint": run.engine.model_fingerprint}


def _provenance(
    explainer: GradientExplainer, run: programs.GradientPrograms, work: reading.Work
) -> dict[str, Any]:
    """The public facts of how the values were made."""
    engine = run.engine
    return {
        "method": "GradientExplainer",
        **output_question(engine.model),
        "path": explainer.path,
        "steps": None if run.lines.drawn else explainer.steps,
        "samples": explainer.samples,
        "estimator": run.estimator,
        **record.background(engine.replacement),
        **record.sizes(engine, explainer.players, len(work), run.players),
    }
