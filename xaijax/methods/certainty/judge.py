"""`judge`: measures how far an attribution is from the truth that this library computes.

Letters: N instances, P players, K outputs, F entries of a row.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast, overload

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.core.typing import Outputs, Rows
from xaijax.estimators.driver import METHODS, Exact, InstanceValues, sampled
from xaijax.games import queries
from xaijax.games.engine.evaluator import Evaluator
from xaijax.games.measure.replacement.rows import replacement_of, with_own
from xaijax.games.measure.replacement.tree_paths import TreePaths
from xaijax.games.measure.score import read_outputs, target_column
from xaijax.games.run import GameRun
from xaijax.methods.explainer.choice import EstimatorChoice, choose, default_budget
from xaijax.methods.explainer.explainer import Explainer
from xaijax.methods.explainer.record import ExplainerRun, explanation, with_one_base
from xaijax.methods.record import functions_of
from xaijax.models.model import Model
from xaijax.players.index import Index, named
from xaijax.players.players import PerInstancePlayers, player_names
from xaijax.results import same_question
from xaijax.results.describe_question import output_question
from xaijax.results.explanation import Explanation
from xaijax.results.judgement import Curves, Judgement, Judgements
from xaijax.tables.rows import rows_of


@overload
def judge(  # pyright: ignore[reportOverlappingOverload]
    values: Mapping[str, Any],
    explainer: Explainer,
    X: Rows,
    *,
    outputs: Outputs = ...,
    budget: int | None = ...,
    seed: int | None = ...,
    curves: bool = ...,
) -> Judgements: ...
@overload
def judge(
    values: Any,
    explainer: Explainer,
    X: Rows,
    *,
    outputs: Outputs = ...,
    budget: int | None = ...,
    seed: int | None = ...,
    curves: bool = ...,
) -> Judgement: ...
@public
def judge(
    values: Any,
    explainer: Explainer,
    X: Rows,
    *,
    outputs: Outputs = None,
    budget: int | None = None,
    seed: int | None = None,
    curves: bool = False,
) -> Judgement | Judgements:
    """Measures how far an attribution is from the true values of the explainer's question.

    The truth is defined by `explainer`: its model, background, players, index and link. It is exact
    where estimator="auto" would enumerate, whatever the explainer's own estimator is. Other
    instances are sampled: the truth t is the mean of 8 runs of antithetic permutation pairs, with
    seeds that none of the attributions records as used. The mean of |phi^ - t|^2 over such samples
    is |phi^ - phi|^2 plus the variance of t. The spread of the runs estimates this variance without
    bias, and it is subtracted. |phi|^2 is estimated in the same way. A single row may therefore be
    below 0 (in `p95` and `row_errors` it counts as 0).
    Attributions by another method, index or background (gradients, for example) are judged against
    this truth. An `Explanation` of another quantity, link, output or class raises InputError.

    Args:
        values: the attribution: an `Explanation` of xaijax or shap, a frame, an array or a torch
            tensor [N, P] or [N, P, K] (for rows with one entry for each player, also shaped like
            the rows). A dict of names and such attributions compares all of them with one truth.
        explainer: `Explainer` that defines the truth.
        X: rows [N, *F], the instances that the values belong to.
        outputs: as in a call of the explainer: one output for each instance, for values [N, P] of a
            model with several outputs.
        budget: int or None. Budget for the truth, as in `Explainer`: instances with more rows
            are sampled with this number of coalitions over all runs. None: the explainer's rule,
            and at least 32 P.
        seed: int or None. First seed of a sampled truth, whose 8 runs use it and the next ones.
            None: the first after the explainer's own that no attribution records as used.
        curves: bool. Whether deletion and insertion curves are computed too, with 2 P coalitions
            for each instance (and output).

    Returns:
        A `Judgement`; for a dict a `Judgements`, a mapping that is displayed as a table.

    Raises:
        InputError, InputTypeError: the values have other players, outputs, quantities, links or
            shapes or are not finite, an attribution was drawn with `seed`, or the explainer raises
            it.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> def f(X):
        ...     return X[:, 0] * X[:, 1]
        >>> X = np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 1.0]])
        >>> explainer = xj.Explainer(xj.as_model(f), np.zeros((1, 2)))
        >>> gradient_times_input = np.stack([X[:, 1] * X[:, 0], X[:, 0] * X[:, 1]], axis=1)
        >>> judged = xj.judge(gradient_times_input, explainer, X)
        >>> round(judged.relative_error, 4), round(judged.efficiency, 4)
        (1.0, 3.0)

        Each input gets the whole product; the true values share it.

    References:
        Petsiuk, Das and Saenko, "RISE: randomized input sampling for explanation of black-box
        models" (BMVC 2018): deletion and insertion.
    """
    checks.passed(explainer, "explainer", Explainer, "the xaijax.Explainer of the true values")
    TreePaths.refuse(explainer._given[0], "explainer has TreePaths(), which make no hybrid rows.")
    budget = None if budget is None else checks.whole_number(budget, "budget")
    checks.yes_or_no(curves, "curves")
    named = attributions(values)
    refuse_other_amounts_of(named, explainer)
    known = {_count_of(item, "seed") for item in named.values()}
    seeds = _seeds(seed, explainer.seed, {used for used in known if used is not None})
    truth = truth_of(explainer, X, outputs, budget, seeds)
    shape, players = truth.values.shape, truth.explanation.feature_names
    refuse_other_outputs_of(named, truth.explanation)
    read = {name: as_values(name, item, players, shape) for name, item in named.items()}
    judged = Judgements(
        {
            name: Judgement(
                name=name,
                model_rows=_count_of(named[name], "model_rows"),
                truth=truth.explanation,
                curves=curves_of(explainer, X, numbers, outputs) if curves else None,
                **measures(numbers, truth),
            )
            for name, numbers in read.items()
        }
    )
    return judged if isinstance(values, Mapping) else judged["values"]


def _seeds(seed: int | None, start: int, used: set[int]) -> range:
    """Returns the truth's seeds: none that an attribution was drawn with, since errors would
    correlate.

    It raises InputError if an attribution was drawn with one of the seeds from `seed` on.
    """
    if seed is not None:
        first = checks.whole_number(seed, "seed", least=0)
        shared = used & set(range(first, first + RUNS))
        if shared:
            raise InputError(
                f"seed={first}: a run of the truth would use seed {min(shared)}, as an attribution "
                "did, and their errors would correlate. Say another seed."
            )
        return range(first, first + RUNS)
    first = start + 1
    while shared := used & set(range(first, first + RUNS)):
        first = max(shared) + 1
    return range(first, first + RUNS)


LARGE = 0.1  # share of a row's span from which the sign of a value is checked
CLEAR = 3.0  # standard errors of a sampled truth from which its sign counts as known
TIE = 1e-6  # share of a row's largest |value|; float32 sums of equal values differ by less


def measures(values: np.ndarray, truth: Truth) -> dict[str, Any]:
    """Returns the error fields of a `Judgement`; values float64 [N, P, K]."""
    true, off = truth.values, values - truth.values
    noise = truth.variances.sum(axis=1)  # [N, K]
    squared = (off**2).sum(axis=1) - noise
    size = (true**2).sum(axis=1) - noise
    rows = squared.reshape(-1)
    known = size.reshape(-1) > 0
    relative = rows[known] / size.reshape(-1)[known]
    n = len(relative)
    flips, large = _flips(values, truth)
    residual = np.abs(values.sum(axis=1) - truth.change)
    return {
        "relative_error": float(relative.mean()) if n else np.nan,
        "relative_std_error": float(relative.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan,
        "pooled_error": float(rows.sum() / size.sum()) if size.sum() > 0 else np.nan,
        "p95": float(np.quantile(np.sqrt(np.maximum(rows, 0)), 0.95)),
        "top1": _overlap(values, true, 1),
        "top3": _overlap(values, true, 3),
        "sign_flips": float(flips / large) if large else np.nan,
        "efficiency": float(residual.mean()) if truth.efficient else np.nan,
        "row_errors": np.sqrt(np.maximum(squared, 0)),
    }


def _overlap(values: np.ndarray, true: np.ndarray, k: int) -> float:
    """Share of the k largest |values| that are among the k largest true ones, mean over rows.

    Players that tie with the k-th true value count too.
    """
    P = values.shape[1]
    k = min(k, P)
    largest = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :k]
    size = np.sort(np.abs(true), axis=1)
    least = size[:, [P - k]] - TIE * size[:, [-1]]
    return float((np.take_along_axis(np.abs(true), largest, axis=1) >= least).mean())


def _flips(values: np.ndarray, truth: Truth) -> tuple[int, int]:
    """Returns (number of large true values with the other sign, number of large true values)."""
    true = truth.values
    span = np.maximum(true.max(axis=1), 0) - np.minimum(true.min(axis=1), 0)  # [N, K]
    least = np.maximum(LARGE * span[:, None], CLEAR * np.sqrt(truth.variances))
    large = (np.abs(true) >= least) & (true != 0)
    return int((large & (np.sign(values) == -np.sign(true))).sum()), int(large.sum())


# Each instance has its own order. The players of each instance are numbered by their rank in it, so
# that one list of coalitions ("the first s", "all but the first s") fits every instance, and the
# engine evaluates all of them at once.


def curves_of(explainer: Explainer, X: Any, values: np.ndarray, outputs: Outputs) -> Curves:
    """Computes both curves of the values [N, P, K]."""
    N, P, K = values.shape
    held = rows_of(X).take(np.repeat(np.arange(N), K)) if K > 1 else X
    game = _game(explainer, held, _ranked(explainer, values), outputs)
    first = np.arange(P) < np.arange(P + 1)[:, None]  # [P + 1, P]: the first s are kept
    answers = queries.values(game, np.concatenate([first, ~first[1:-1]]))  # [N K, 2 P, K]
    each = answers.reshape(N, K, 2 * P, K)
    curves = np.stack([each[:, k, :, k] for k in range(K)], axis=2)  # [N, 2 P, K]
    insertion, rest = curves[:, : P + 1], curves[:, P + 1 :]
    deletion = np.concatenate([insertion[:, -1:], rest, insertion[:, :1]], axis=1)
    return Curves(insertion, deletion, int(game.count.distinct))


def _ranked(explainer: Explainer, values: np.ndarray) -> np.ndarray:
    """Player of each entry, by the player's rank in its row's order; int64 [N K, F]."""
    N, P, K = values.shape
    each = values.transpose(0, 2, 1).reshape(N * K, P)
    rank = np.argsort(np.argsort(-each, axis=1, kind="stable"), axis=1, kind="stable")
    players = explainer.players
    of_entry = (
        players.of_entry if isinstance(players, PerInstancePlayers) else players.of_column[None]
    )
    owner = np.repeat(np.broadcast_to(of_entry, (N, of_entry.shape[1])), K, axis=0)
    return np.where(owner < 0, -1, np.take_along_axis(rank, np.maximum(owner, 0), axis=1))


def _game(explainer: Explainer, X: Any, numbers: np.ndarray, outputs: Outputs) -> GameRun:
    """The game of the explainer for these rows, each with players of its own."""
    background, weights, *_, limits = explainer._given
    model = cast(Model, explainer.model)
    donors = replacement_of(model, background, weights, X)
    players = PerInstancePlayers(numbers, player_names(explainer.players.count))
    parts = with_own(model, donors, players, explainer._of_each)
    score = None if outputs is None else target_column()
    evaluator = Evaluator(model, *parts, limits, score=score, offsets=outputs is None)
    rows = evaluator.engine.replacement.table.read(X, "X", model.allow_nan)
    chosen = None
    if outputs is not None:
        names = getattr(model, "output_names", None)
        chosen = read_outputs(outputs, len(rows_of(X)), explainer.model.classes, names)
    return GameRun(evaluator, rows, explainer.quantity, own=chosen)


def attributions(values: Any) -> dict[str, Any]:
    """Returns the attributions of a mapping by name; a single one is called "values"."""
    if not isinstance(values, Mapping):
        return {"values": values}
    if not values:
        raise InputError("values: got an empty dict; name at least one attribution.")
    return {str(name): item for name, item in values.items()}


def refuse_other_amounts_of(named: Mapping[str, Any], explainer: Explainer) -> None:
    """Raises InputError for explanations of another quantity or link, before any model evaluation.

    It also raises for another order of outputs if the model names its outputs.
    """
    facts = output_question(explainer.model) | {"link": explainer.quantity.name}
    amount = same_question.amount_of(facts)
    functions = functions_of(explainer.quantity)
    known = explainer.model.output_names
    for name, attribution in named.items():
        if isinstance(attribution, Explanation):
            called = f"values: {name!r}", "the explainer"
            mine = same_question.amount_of(attribution.provenance, attribution.kind)
            same_question.refuse_other_amounts(mine, amount, called)
            same_question.refuse_other_functions(attribution.stats, functions, called)
        if known is not None:
            _refuse_turned(name, attribution, known)


def refuse_other_outputs_of(named: Mapping[str, Any], truth: Explanation) -> None:
    """Raises InputError for explanations of other outputs than the truth's, [N] or [K]."""
    for name, item in named.items():
        _refuse_turned(name, item, truth.output_names or ())
        if isinstance(item, Explanation) and len(item) == len(truth):
            item = item[:, :, 0] if item.values.shape[2:] == (1,) else item
            called = f"values: {name!r}", "the explainer's answer"
            same_question.refuse_other_outputs(item, truth, called, paired=True)


def _refuse_turned(name: str, value: Any, known: Sequence[str]) -> None:
    """Raises InputError if an explanation, also of shap, has these outputs in another order."""
    order = getattr(value, "output_names", None)
    if not isinstance(order, list | tuple) or len(order) != len(known):
        return
    order = list(map(str, order))
    if order != list(known) and sorted(order) == sorted(known):
        raise InputError(
            f"values: {name!r} has the outputs {_few(tuple(order))}; give them in the explainer's "
            f"order, {_few(tuple(known))}."
        )


def _count_of(attribution: Any, name: str) -> int | None:
    """A number in the stats of an xaijax Explanation; None: not known."""
    count = attribution.stats.get(name) if isinstance(attribution, Explanation) else None
    return int(count) if isinstance(count, int | np.integer) else None


def as_values(
    name: str, value: Any, players: tuple[str, ...], shape: tuple[int, ...]
) -> np.ndarray:
    """Returns the numbers of one attribution, float64 [N, P, K].

    value: an xaijax or shap Explanation, an array or a torch tensor; players: the names of the P
        players; shape: (N, P, K) of the truth. Arrays shaped like the rows are read in C order if a
        row has P entries. It raises InputError for other shapes, other names or numbers that are
        not finite.
    """
    names = _names(value)
    if names is not None and names != players:
        raise InputError(
            f"values: {name!r} is of the players {_few(names)}; explain by the explainer's, in the "
            f"same order, {_few(players)}."
        )
    held = getattr(value, "values", value)
    held = held if not callable(held) else value
    held = held.detach().cpu().numpy() if hasattr(held, "detach") else held
    numbers = checks.real_numbers(held, "values")
    N, P, K = shape
    if K > 1 and numbers.shape == (N, P):
        raise InputError(
            f"values: {name!r} has shape {numbers.shape}, and the model has {K} outputs. Give "
            "[N, P, K], or say which output each instance is of by outputs=."
        )
    if K > 1 and numbers.shape == (N, K, P) and K != P:
        raise InputError(
            f"values: {name!r} has shape {numbers.shape}, outputs before players. Give [N, P, K]: "
            "values.transpose(0, 2, 1)."
        )
    other = K > 1 and numbers.shape[-1:] != (K,)
    if numbers.ndim < 1 or len(numbers) != N or numbers.size != N * P * K or other:
        raise InputError(
            f"values: {name!r} has shape {numbers.shape}; with {N:,} rows, {P:,} players and "
            f"{K:,} outputs, {(N, P) if K == 1 else (N, P, K)} is needed."
        )
    if not np.isfinite(numbers).all():
        raise InputError(f"values: {name!r} holds numbers that are not finite; leave rows out.")
    return numbers.reshape(N, P, K)


def _names(value: Any) -> tuple[str, ...] | None:
    """Names of the players, or None if the attribution has none."""
    names = getattr(value, "feature_names", None)
    if names is None and hasattr(value, "columns") and hasattr(value, "dtypes"):
        names = value.columns  # a frame of values
    return None if names is None else tuple(map(str, names))


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:4])) + (", ..." if len(names) > 4 else "")


# A sampled truth is the mean of RUNS runs of their own seeds, so that its variance is known
# without bias from how far the runs are apart. (Standard errors of one run are meant for intervals
# and are rather too wide: taken off, they would take off too much.)

RUNS = 8
SAMPLER = "permutation"  # its values have no bias, whatever the budget


@dataclass(frozen=True)
class Truth:
    """The truth, always with an axis for the outputs."""

    explanation: Explanation
    values: np.ndarray  # float64 [N, P, K]
    variances: np.ndarray  # float64 [N, P, K], of the draws; 0 where exact
    change: np.ndarray  # float64 [N, K], f(x) minus the base value, as the engine computed both
    efficient: bool  # whether the values of the index add up to that


def truth_of(
    explainer: Explainer, X: Any, outputs: Outputs, budget: int | None, seeds: Sequence[int]
) -> Truth:
    """Computes the true values of the explainer's question, whatever its own estimator is.

    seeds: [RUNS], the seeds of the sampled runs.
    """
    started, index = time.perf_counter(), named(explainer.index)
    decide = partial(_choice, exact=explainer.exact, budget=budget)
    rows, game, choice = explainer._begun(X, lambda done: None, decide, outputs=outputs)
    before = game.evaluator.start()
    answer = _answer(explainer, game, choice, index, seeds)
    seconds = time.perf_counter() - started
    result = explanation(explainer, ExplainerRun(X, rows, game, choice, answer, before, seconds))
    run_stats = {"seed": int(seeds[0]), "tolerance": None, "budget": choice.budget * RUNS}
    result = replace(result, stats={**result.stats, **run_stats})
    errors = np.zeros_like(answer.values) if answer.std_errors is None else answer.std_errors
    return Truth(result, answer.values, errors**2, answer.full - answer.base, index.efficient)


def _choice(game: GameRun, exact: Exact, budget: int | None) -> EstimatorChoice:
    """Chooses exact values where "auto" would; `SAMPLER` takes the rest, with a run's share of the
    budget.
    """
    choice = choose(game, exact, "auto", budget)
    if choice.sampler is None:
        return choice
    least = METHODS[SAMPLER].smallest_budget(game.P, exact.index)
    total = max(default_budget(game.P), 4 * RUNS * game.P) if budget is None else budget
    if total < RUNS * least:
        raise InputError(
            f"budget={total:,} is less than {RUNS} runs of {least:,} coalitions, which a sampled "
            f"truth needs. Say budget={RUNS * least:,} or more."
        )
    return replace(choice, sampler=SAMPLER, budget=total // RUNS)


def _answer(
    explainer: Explainer, game: GameRun, choice: EstimatorChoice, index: Index, seeds: Sequence[int]
) -> InstanceValues:
    """Values of all instances: enumerated once, or sampled once with each seed."""
    listed, others = np.flatnonzero(choice.exact), np.flatnonzero(~choice.exact)
    exact = None
    if len(listed):
        exact = InstanceValues.exact(explainer.exact.estimate(game, listed))
    if choice.sampler is None or not len(others):
        assert exact is not None
        return with_one_base(game, choice, exact)
    runs = [sampled(game, others, choice.sampler, index, choice.budget, seed) for seed in seeds]
    values = np.stack([run.values for run in runs])
    drawn = replace(
        runs[0],
        values=values.mean(axis=0),
        std_errors=values.std(axis=0, ddof=1) / np.sqrt(RUNS),
        dof=np.full(len(others), RUNS - 1.0),
        coalitions=np.sum([run.coalitions for run in runs], axis=0),
    )
    whole = drawn if exact is None else InstanceValues.mixed(choice.exact, exact, drawn)
    return with_one_base(game, choice, whole)
