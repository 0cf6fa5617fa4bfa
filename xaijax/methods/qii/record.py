"""Records a run of QII as an Explanation, with the public facts of how it was made.

The provenance holds sizes, weights, bounds, names and the scheme, never a row. This is all that a
private release needs to bound how far one record can move a value.

Letters: N games, P players, K scores.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from xaijax.estimators.driver import Estimate, InstanceValues
from xaijax.games.run import GameRun
from xaijax.methods.explainer.record import certificate, held
from xaijax.methods.qii import exact
from xaijax.methods.qii.exact import Influences, QiiIndex
from xaijax.methods.qii.problem import QIIProblem, QiiRun
from xaijax.methods.qii.recount import QiiRecount
from xaijax.methods.record import cost_of, digest_of, digests, numbers, sizes
from xaijax.players.index import named
from xaijax.players.sets import all_masks
from xaijax.results.coalition_table import CoalitionTable, TableOrigin
from xaijax.results.explanation import Explanation
from xaijax.results.fingerprint import Fingerprint, fingerprint_of
from xaijax.results.recount import remember


def done(
    problem: QIIProblem, run: QiiRun, influences: Influences, index: QiiIndex | None = None
) -> Explanation:
    """Returns the Explanation of a finished run, which knows how its sums are counted again.

    index: None: unary influences.
    """
    seconds, kind = time.perf_counter() - run.started, "unary" if index is None else index.name
    game, X, rows = run.game, run.X, run.rows
    data, instance_index = problem.kept_of(X, rows)
    scalar = game.probe().outputs == 1 or influences.values.shape[2] == 1
    errors = influences.std_errors
    made = Explanation(
        **numbers(influences.values, influences.base, errors, scalar),
        data=data,
        instance_index=instance_index,
        feature_names=problem.players.names,
        output_names=None if scalar else _output_names(problem, game),
        exact=errors is None,
        kind=kind,
        stats=_stats(problem, run, influences, kind, seconds),
        provenance=provenance(problem, game, index, rows) | {"explained": problem.whose(X)},
        present=getattr(problem.players, "present", None) if game.quantity.groups is None else None,
    )
    remember(made, QiiRecount(problem, rows, index))
    return made


def fingerprint_of_run(
    problem: QIIProblem, game: GameRun, index: QiiIndex, rows: Any
) -> Fingerprint:
    """Returns the fingerprint of the explanation by this index; probes the model."""
    scalar = game.probe().outputs == 1 or problem.distance is not None
    return fingerprint_of(
        digests(game),
        provenance(problem, game, index, rows),
        feature_names=problem.players.names,
        output_names=None if scalar else _output_names(problem, game),
        kind=index.name,
    )


def _output_names(problem: QIIProblem, game: GameRun) -> tuple[str, ...]:
    classes = problem.outcome.classes
    if classes is not None and len(classes) == game.probe().outputs:
        return tuple(str(label) for label in classes)
    return tuple(f"output {k}" for k in range(game.probe().outputs))


def _stats(
    problem: QIIProblem, run: QiiRun, influences: Influences, kind: str, seconds: float
) -> dict[str, Any]:
    game = run.game
    game.evaluator.finish()
    donors = game.engine.replacement.count
    stats: dict[str, Any] = {
        **cost_of(game, run.before, seconds),
        "estimator": "exact" if problem.samples is None else f"draws, {problem.plan.scheme}",
        "budget": problem.samples,
        "seed": problem.plan.seed,
        "checked_rows": 0 if game.structure is None else game.N + donors,
        # Implicit in an Explainer's base + values, but not here: Q(nothing replaced).
        "quantity": influences.full[:, 0] if influences.full.shape[1] == 1 else influences.full,
        **(influences.stats or {}),
        **functions_of(problem),
    }
    if named(kind).efficient and influences.std_errors is None:
        subtract = problem.difference == "subtract"
        # v(all replaced), which distances sum to, is kept in stats["total"].
        full = influences.full if subtract else stats["total"].reshape(len(influences.base), -1)
        stats["efficiency_residual"], stats["efficiency_bound"] = held(
            game,
            lambda whole: _certificate(game, influences, full, whole if subtract else None),
            subtract and game.engine.model.deterministic,
        )
    return stats


def functions_of(problem: QIIProblem) -> dict[str, str]:
    """Fingerprints of the functions of score and difference, since two functions may have one
    name.
    """
    what = problem.interest
    marks = {"quantity_fingerprint": digest_of((what.whom, what.agrees, what.score, what.combine))}
    if problem.distance is not None:
        marks["difference_fingerprint"] = digest_of(problem.distance)
    return marks


def _certificate(
    game: GameRun, influences: Influences, full: np.ndarray, whole: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(residual, bound) [N] each; see `explainer.record.certificate`.

    The error of a mean over data rows, or of the difference of two, is at most twice the largest
    error. Two means that cancel still round as numbers of their own size, which is within the
    outcome's bounds.
    """
    N = len(influences.values)
    span = np.zeros(N) if influences.span is None else influences.span
    summed = np.full(N, 2.0 ** min(game.P, 24))
    answer = InstanceValues.exact(
        Estimate(influences.values, influences.base, full, None, span, summed)
    )
    model, exact = game.engine.model, np.ones(N, bool)
    subtracted = game.subtracted
    residual, bound = certificate(game, model, answer, exact, whole, subtracted=subtracted)
    return residual, 2 * bound if game.quantity.groups is not None else bound


def provenance(
    problem: QIIProblem, game: GameRun, index: QiiIndex | None, rows: Any
) -> dict[str, Any]:
    """The public facts of a run."""
    engine = game.evaluator.engine
    replacement, N = engine.replacement, game.N if game.quantity.groups is None else 1
    facts: dict[str, Any] = {
        "method": "QII",
        "quantity": problem.interest.name,
        "measured": problem.measured,  # for vectors of probabilities "actual" is "individual"
        "quantity_words": problem.words,
        "signed": problem.signed,
        "outcome": problem.outcome.kind,
        "positive": problem.positive,
        "bounds": list(problem.outcome.bounds),
        "difference": problem.difference,
        "floor": problem.floor,
        "index": "none" if index is None else index.name,
        "link": "identity",
        "intervention": replacement.kind,
        "pool_rows": replacement.rows_given,
        "largest_pool_weight": float(replacement.weights.max()),
        "pool_weights": "given" if replacement.weights_sum is not None else "equal",
        **problem.facts,
        "X_is_data": problem.is_data(rows),
        **sizes(engine, problem.players, N, game.P),
        "scheme": "exact" if problem.samples is None else problem.plan.scheme,
        "samples": problem.samples,
        "stop": problem.plan.stop,
        "epsilon": None if problem.plan.stop is None else problem.plan.epsilon,
        "delta": None if problem.plan.stop is None else problem.plan.delta,
    }
    if index is not None:
        facts["index_weights"] = _weights(index, game.P)
        if index.simple:
            facts |= {"threshold": index.threshold, "absolute": index.absolute}
    return facts


def _weights(index: QiiIndex, P: int) -> Any:
    """Weights by the number of players replaced; for Pr[S] the largest sum that any player gets."""
    if index.weights is not None:
        return index.weights.tolist()
    if index.chance is None:
        return None
    without = ~all_masks(P)
    return {"largest_mass": float((index.chance[:, None] * without).sum(axis=0).max())}


def kept_table(problem: QIIProblem, game: GameRun, rows: Any, X: Any) -> CoalitionTable:
    """The table of a game; rows: the individuals X as read, None for quantities of the data.

    Its interactions keep the rows, the provenance of the quantity, and the fingerprints of the pool
    and of the model, by which `merge` recognises one question.
    """
    values, rounding = exact.whole_table(game, problem.distance is None, problem.ready)
    table = CoalitionTable(values[:, :, 0], problem.players.names, rounding)
    marks = {
        **digests(game),
        "backend": game.engine.model.backend,
        "model_rows": game.count.distinct,
        **functions_of(problem),
    }
    data, index = problem.kept_of(X, rows)
    present = getattr(problem.players, "present", None) if game.quantity.groups is None else None
    table.origin = TableOrigin(data, marks, provenance(problem, game, None, rows), present, index)
    return table
