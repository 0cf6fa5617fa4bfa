"""What QII keeps of a run: an Explanation, with the public facts of how it was made.

The provenance holds sizes, weights, bounds, names and the scheme, never a row: all that a private
release needs to bound how far one record can move a value.

Letters: N games, P players, K scores.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np

from xaijax.core.version import __version__
from xaijax.games.game import Game
from xaijax.methods.explainer.record import Answer, certificate, held
from xaijax.methods.fingerprint import digest_of, fingerprint, model_fingerprint
from xaijax.methods.qii import exact
from xaijax.methods.qii.exact import Influences
from xaijax.methods.qii.index import QiiIndex
from xaijax.methods.qii.problem import Problem
from xaijax.methods.qii.recount import QiiRecount
from xaijax.players.index import named
from xaijax.players.sets import all_masks
from xaijax.results.coalition_table import CoalitionTable
from xaijax.results.explanation import Explanation
from xaijax.results.recount import remember
from xaijax.results.table_origin import TableOrigin


def done(
    asked: Problem,
    game: Game,
    found: Influences,
    kind: str,
    index: QiiIndex | None,
    X: Any,
    rows: Any,
    before: Any,
    started: float,
) -> Explanation:
    """The Explanation of a run that is over, which knows how its sums are counted again.

    X, rows: the individuals as given and as read, None for quantities of the data; before, started:
    the clock and the time when the run began.
    """
    seconds = time.perf_counter() - started
    scalar = game.outputs == 1 or found.values.shape[2] == 1
    errors = found.std_errors
    data, instance_index = asked.kept_of(X, rows)
    made = Explanation(
        values=found.values[:, :, 0] if scalar else found.values,
        base_values=found.base[:, 0] if scalar else found.base,
        std_errors=errors if errors is None or not scalar else errors[:, :, 0],
        data=data,
        instance_index=instance_index,
        feature_names=asked.players.names,
        output_names=None if scalar else _output_names(asked, game),
        exact=errors is None,
        kind=kind,
        stats=_stats(asked, game, found, kind, before, seconds),
        provenance=provenance(asked, game, index, rows) | {"explained": asked.whose(X)},
        present=getattr(asked.players, "present", None) if game.quantity.groups is None else None,
    )
    remember(made, QiiRecount(asked, rows, index))
    return made


def _output_names(asked: Problem, game: Game) -> tuple[str, ...]:
    classes = asked.outcome.classes
    if classes is not None and len(classes) == game.outputs:
        return tuple(str(label) for label in classes)
    return tuple(f"output {k}" for k in range(game.outputs))


def _stats(
    asked: Problem, game: Game, found: Influences, kind: str, before: Any, seconds: float
) -> dict[str, Any]:
    evaluator = game.evaluator
    evaluator.finish()
    clock, model = evaluator.clock, evaluator.setting.model
    compile_seconds = clock.compile_seconds - before.compile_seconds
    donors = len(evaluator.setting.replacement.codes)
    stats: dict[str, Any] = {
        "model_rows": game.count.distinct - (clock.spared_rows - before.spared_rows),
        "padded_rows": game.count.padded + clock.padded_rows - before.padded_rows,
        "model_calls": clock.model_calls - before.model_calls,
        "structure": game.structure,
        "tile": clock.tile,
        "seconds": seconds - compile_seconds,
        "compile_seconds": compile_seconds,
        "estimator": "exact" if asked.samples is None else f"draws, {asked.scheme}",
        "budget": asked.samples,
        "seed": asked.seed,
        "backend": model.backend,
        "devices": [str(d) for d in evaluator.setting.devices],
        "checked_rows": 0 if game.structure is None else game.N + donors,
        # What goes without saying in an Explainer's base + values: Q(nothing replaced).
        "quantity": found.full[:, 0] if found.full.shape[1] == 1 else found.full,
        "fingerprint": fingerprint(game),
        "model_fingerprint": model_fingerprint(game),
    }
    stats |= found.stats or {}
    stats |= functions_of(asked)
    if named(kind).efficient and found.std_errors is None:
        subtract = asked.difference == "subtract"
        full = found.full if subtract else _total(found)
        stats["efficiency_residual"], stats["efficiency_bound"] = held(
            game,
            lambda whole: _certificate(asked, game, found, full, whole if subtract else None),
            subtract and game.setting.model.deterministic,
        )
    return stats


def functions_of(asked: Problem) -> dict[str, str]:
    """Fingerprints of what makes a score and a difference: two functions may have one name."""
    one = asked.interest
    marks = {"quantity_fingerprint": digest_of((one.whom, one.agrees, one.score, one.combine))}
    if asked.distance is not None:
        marks["difference_fingerprint"] = digest_of(asked.distance)
    return marks


def _total(found: Influences) -> np.ndarray:
    """v(all replaced), which distances sum to; kept in stats["total"]."""
    assert found.stats is not None
    return found.stats["total"].reshape(found.base.shape[0], -1)


def _certificate(
    asked: Problem, game: Game, found: Influences, full: np.ndarray, whole: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(residual, bound) [N] each; see `explainer.record.certificate`.

    A mean over data rows, or the difference of two, has no larger error than twice the largest. Two
    means that cancel still round as numbers of their own size, which is within the outcome's
    bounds.
    """
    N = len(found.values)
    span = np.zeros(N) if found.span is None else found.span
    zeros = np.zeros(N, np.int64)
    summed = np.full(N, 2.0 ** min(game.P, 24))
    dof, met = np.full(N, np.inf), np.ones(N, bool)
    none = zeros, span, summed, zeros, met, zeros, zeros, np.zeros(N, bool)
    answer = Answer(found.values, found.base, full, None, dof, *none)
    evaluator = game.evaluator
    donors, exact = evaluator.setting.replacement.weights, np.ones(N, bool)
    model, size = evaluator.setting.model, game.subtracted
    residual, bound = certificate(answer, donors, model, exact, whole, subtracted=size)
    return residual, 2 * bound if game.quantity.groups is not None else bound


def provenance(asked: Problem, game: Game, index: QiiIndex | None, rows: Any) -> dict[str, Any]:
    """The public facts."""
    evaluator = game.evaluator
    model = evaluator.setting.model
    replacement = evaluator.setting.replacement
    facts: dict[str, Any] = {
        "method": "QII",
        "quantity": asked.interest.name,
        "measured": asked.measured,  # of vectors of chances "actual" is "individual"
        "quantity_words": asked.words,
        "signed": asked.signed,
        "outcome": asked.outcome.kind,
        "positive": asked.positive,
        "bounds": list(asked.outcome.bounds),
        "difference": asked.difference,
        "floor": asked.floor,
        "index": "none" if index is None else index.name,
        "link": "identity",
        "intervention": replacement.kind,
        "pool_rows": replacement.rows_given,
        "largest_pool_weight": float(replacement.weights.max()),
        "pool_weights": "given" if replacement.weights_sum is not None else "equal",
        **asked.facts,
        "X_is_data": asked.is_data(rows),
        "instances": game.N if game.quantity.groups is None else 1,
        "players": game.P,
        "player_columns": asked.players.all_columns(),
        "precision": model.precision if model.backend == "jax" else "float64",
        "scheme": "exact" if asked.samples is None else asked.scheme,
        "samples": asked.samples,
        "stop": asked.stop,
        "epsilon": None if asked.stop is None else asked.plan.epsilon,
        "delta": None if asked.stop is None else asked.plan.delta,
        "versions": {"xaijax": __version__, "jax": jax.__version__, "numpy": np.__version__},
    }
    if index is not None:
        facts["index_weights"] = _weights(index, game.P)
        if index.simple:
            facts |= {"threshold": index.threshold, "absolute": index.absolute}
    return facts


def _weights(index: QiiIndex, P: int) -> Any:
    """By the number of players replaced; of Pr[S] the largest sum that any player gets."""
    if index.weights is not None:
        return index.weights.tolist()
    if index.chance is None:
        return None
    without = ~all_masks(P)
    return {"largest_mass": float((index.chance[:, None] * without).sum(axis=0).max())}


def kept_table(asked: Problem, game: Game, rows: Any, X: Any) -> CoalitionTable:
    """The table of a game; rows: the individuals X as read, None for quantities of the data.

    Interactions of it keep the rows, the provenance of the quantity, and the marks of the pool and
    of the model, by which `merge` tells what is of one question.
    """
    values, rounding = exact.whole_table(game, asked.distance is None, asked.ready)
    table = CoalitionTable(values[:, :, 0], asked.players.names, rounding)
    marks = {
        "fingerprint": fingerprint(game),
        "model_fingerprint": model_fingerprint(game),
        "backend": game.setting.model.backend,
        "model_rows": game.count.distinct,
        **functions_of(asked),
    }
    data, index = asked.kept_of(X, rows)
    present = getattr(asked.players, "present", None) if game.quantity.groups is None else None
    table.origin = TableOrigin(data, marks, provenance(asked, game, None, rows), present, index)
    return table
