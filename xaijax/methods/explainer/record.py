"""Records a run in an explanation: values, errors, and how they were made.

Letters: N instances, P players, K outputs, B background rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import ModelOutputError
from xaijax.estimators.driver import SAMPLERS, InstanceValues, sampled
from xaijax.estimators.estimator import FEWEST
from xaijax.estimators.exact import Estimate
from xaijax.games import queries
from xaijax.games.certify import widen
from xaijax.games.refuse import refuse_lost_sums
from xaijax.games.run import GameRun
from xaijax.methods.explainer.choice import EstimatorChoice, warn_heavy_tail, warn_unmet
from xaijax.methods.record import background, cost_of, functions_of, instances, numbers, sizes
from xaijax.models.queries.whole_numbers import warn_of_digits
from xaijax.players.index import LARGEST_P, Index
from xaijax.players.interaction_index import InteractionIndex
from xaijax.results.explanation import Explanation

if TYPE_CHECKING:
    from xaijax.methods.explainer.explainer import Explainer


def answered(
    game: GameRun,
    choice: EstimatorChoice,
    enumerated: Callable[[np.ndarray], Estimate],
    index: Index | InteractionIndex,
    seed: int,
) -> InstanceValues:
    """The values of all instances: the exact ones and the sampled ones, each in one go.

    enumerated(rows): the values from all coalitions of these instances, int [n].
    """
    own, others = np.flatnonzero(choice.exact), np.flatnonzero(~choice.exact)
    estimate = enumerated(own) if len(own) else None
    exact = None if estimate is None else InstanceValues.exact(estimate)
    if choice.sampler is None or not len(others):
        assert estimate is not None and exact is not None
        return exact if estimate.fitted else with_one_base(game, choice, exact)
    part = sampled(game, others, choice.sampler, index, choice.budget, seed, choice.rule)
    warn_unmet(part, choice)
    warn_heavy_tail(part)
    whole = part if exact is None else InstanceValues.mixed(choice.exact, exact, part)
    return with_one_base(game, choice, whole)


def with_one_base(game: GameRun, choice: EstimatorChoice, answer: InstanceValues) -> InstanceValues:
    """The same answer with one base value for all instances, or for those of one output of
    `outputs=`.

    Sums in the dtype of the model, or by a structure, round the base value in more than one way.
    If v of the empty set goes up by d, the Shapley value of each player goes down by d / P: what a
    sampled instance's base value is moved by is taken from its players that are not 0.
    """
    base, score = queries.base(game), game.engine.score
    chosen = game.own if score is not None and score.chooses else None
    if base is not None:
        return replace(answer, base=np.broadcast_to(base, answer.base.shape).copy())
    own_rows = game.engine.fixed or not game.engine.replacement.SHARED
    if own_rows or game.engine.findings.noise is not None:
        return answer  # each row has its own donors, or its own noise
    if chosen is None and not game.shares_base:
        return answer
    exact_first = np.argsort(~choice.exact, kind="stable")  # their sums are of float64
    names = np.zeros(len(answer.base)) if chosen is None else chosen[:, 0]
    _, first, place = np.unique(names[exact_first], return_index=True, return_inverse=True)
    one = np.empty_like(answer.base)
    one[exact_first] = answer.base[exact_first][first[place]]
    same = choice.exact[:, None] | (one == answer.base)
    moved = np.where(same, 0.0, one - answer.base)[:, None]
    if not moved.any():
        return replace(answer, base=one)
    values, P = answer.values.copy(), game.P
    some = values[:, :P] != 0
    values[:, :P] -= np.where(some, moved / np.maximum(1, some.sum(axis=1, keepdims=True)), 0.0)
    return replace(answer, base=one, values=values)


def explanation(
    asked: Explainer,
    X: Any,
    rows: Any,
    game: GameRun,
    choice: EstimatorChoice,
    answer: InstanceValues,
    before: Any,
    seconds: float,
) -> Explanation:
    """The explanation of a run: values, stats and provenance; before: the clock at the start."""
    evaluator = game.evaluator
    scalar = game.engine.outputs == 1  # one number a row, or one output for each instance
    present = getattr(asked.players, "present", None)
    if present is not None:  # a missing player's value is 0, not the noise of a random model
        answer.values[~present] = 0.0
        if answer.std_errors is not None:
            answer.std_errors[~present] = 0.0
    errors, efficient = answer.std_errors, asked.exact.index.efficient
    return Explanation(
        **numbers(answer.values, answer.base, errors, scalar),
        **instances(X, rows),
        feature_names=asked.players.names,
        output_names=None if scalar else evaluator.engine.findings.output_names,
        exact=errors is None,
        kind=asked.index,
        stats=stats_of(asked, X, game, choice, answer, before, seconds, efficient),
        provenance=provenance_of(asked, game, choice.name),
        present=present,
    )


def stats_of(
    asked: Explainer,
    X: Any,
    game: GameRun,
    choice: EstimatorChoice,
    answer: InstanceValues,
    before: Any,
    seconds: float,
    efficient: bool,
    values: float | None = None,
) -> dict[str, Any]:
    """Records what the run did and cost.

    efficient: whether base and values add up to f(x); values: as for `rounding`.
    """
    evaluator, model = game.evaluator, asked.model
    refuse_lost_sums(evaluator.engine, answer.values, answer.base, answer.full)
    evaluator.finish()
    engine, findings = evaluator.engine, evaluator.engine.findings
    if findings.whole and engine.score is None:
        own = findings.answer_dtype, engine.model.precision
        warn_of_digits(model.name, *own, answer.base, answer.full)
    clock = evaluator.clock
    B, P = evaluator.engine.replacement.count, game.P
    stats: dict[str, Any] = {
        **cost_of(game, before, seconds),
        # A whole number of more than 4,300 digits could be neither shown nor saved.
        "naive_rows": game.N * B << P if P <= LARGEST_P else math.inf,
        "tile_halvings": clock.tile_halvings - before.tile_halvings,
        "budget": asked.budget if choice.sampler is None else choice.budget,
        "estimator": choice.name,
        "seed": asked.seed,
        "input_dtype": str(X.dtype) if hasattr(X, "dtype") else None,
        "answer_dtype": evaluator.engine.findings.answer_dtype,
        "weights_sum": evaluator.engine.replacement.weights_sum,
    }
    stats |= functions_of(asked.quantity)
    if choice.sampler is not None:
        stats["exact_rows"] = choice.exact
        stats["coalitions"] = answer.coalitions
        stats["dof"] = answer.dof
        if SAMPLERS[choice.sampler].reports_tails:
            stats["heavy_tail"] = answer.heavy
            known = np.isfinite(answer.std_errors).reshape(len(answer.pairs), -1).all(axis=1)
            stats["tail_judged"] = choice.exact | (known & (answer.pairs >= FEWEST))
        stats["tolerance"] = asked.tolerance
        if choice.rule is not None:
            stats["bound"] = choice.rule.bound(SAMPLERS[choice.sampler].independent)
            stats["pairs"], stats["certain"] = answer.pairs, answer.met
            stats["whole_pairs"] = answer.whole
            if stats["bound"] == "checks":
                stats["checks"] = int(answer.checks.max())
    if game.own is not None:
        stats["outputs"] = game.own[:, 0].astype(np.int64)
        names = evaluator.engine.findings.output_names
        if names is not None:
            stats["output_names"] = np.array(names)[stats["outputs"]]
    queries.refuse_other(game, answer.full)
    stats["checked_rows"] = 0 if game.structure is None else game.N + B
    if efficient and (answer.std_errors is None or choice.sampler):
        weights = evaluator.engine.replacement.weights
        stats["efficiency_residual"], stats["efficiency_bound"] = held(
            game,
            lambda whole: certificate(
                answer, weights, model, choice.exact, whole, _offset(game), values
            ),
            asked.exact.efficient and model.deterministic,
        )
    return stats


def provenance_of(asked: Explainer, game: GameRun, estimator: str) -> dict[str, Any]:
    """Returns the public facts of how the values were made."""
    return {
        "method": "Explainer",
        **asked.output_facts,
        "index": asked.index,
        "index_weights": asked.weights.tolist(),
        "link": asked.quantity.name,
        "estimator": estimator,
        **background(game.engine.replacement),
        **sizes(asked.model, asked.players, game.N, game.P),
    }


def certificate(
    answer: InstanceValues,
    donor_weights: np.ndarray,
    model: Any,
    exact: np.ndarray,
    whole: tuple[np.ndarray, np.ndarray] | None,
    offset: Any = 0.0,
    values: float | None = None,
    subtracted: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """(|base + sum of values - f(x)|, its rounding bound) of the worst output; [N] each.

    f(x) is the model's own answer to the full row. If a structure answered (whole: see
    `queries.whole`), f(x) was evaluated separately, and the bound is wider by how far the two
    roundings may differ.
    """
    with np.errstate(invalid="ignore"):  # answers that are not finite may be allowed
        full = answer.full if whole is None else whole[0]
        residual = np.abs(answer.base + answer.values.sum(axis=1) - full).max(axis=1)
        bound = rounding(answer, donor_weights, model, exact, offset, values, subtracted)
        if whole is not None:
            bound = bound + whole[1].max(axis=1)
    return residual, bound


def held(
    game: GameRun,
    certified: Callable[[tuple[np.ndarray, np.ndarray] | None], tuple[np.ndarray, np.ndarray]],
    efficient: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """(residual, bound) [N] each of `certified`, given what `queries.whole` returns.

    efficient: whether the values must add up to f(x); raises ModelOutputError if they do not.
    """
    whole = queries.whole(game)
    residual, bound = certified(whole)
    if whole is not None and (residual > bound).any():
        # Corners add x's part to each donor's part: rows of large numbers round in many ways.
        widen(game)
        residual, bound = certified(queries.whole(game))
    # A host model may work in float32, and round a row differently in another call.
    host = game.engine.on_host
    wrong = np.flatnonzero(residual > bound * (2.0**29 if host else 1.0))
    if efficient and len(wrong):
        n, model = int(wrong[0]), game.engine.model.name
        told = (
            f"the values of X row {n} and its base value differ from the model's own answer by "
            f"{residual[n]:.3g}, more than rounding can do ({bound[n]:.3g}): "
        )
        if whole is None:
            told += (
                f"{model} did not answer the same row alike in all calls of this run. Each row's "
                "answer must depend on that row alone: switch to its inference mode, or say "
                "deterministic=False in as_model where it is random."
            )
        else:
            told += (
                f"the structure {game.structure!r} does not give what {model} answers. Say "
                'structure="plain" in as_model, so that the model itself answers every hybrid.'
            )
        raise ModelOutputError(told)
    return residual, bound


def _offset(game: GameRun) -> Any:
    """The offset that was added to the level in float64, [] or [K]."""
    offset = game.engine.offset
    return 0.0 if offset is None or not game.quantity.linear else offset


def rounding(
    answer: InstanceValues,
    donor_weights: np.ndarray,
    model: Any,
    exact: np.ndarray,
    offset: Any = 0.0,
    values: float | None = None,
    subtracted: float = 0.0,
) -> np.ndarray:
    """Bound on |base + sum of values - f(x)| from rounding alone; float64 [N].

    A sum of n products has the roundings of its n partial sums: each is at most u times that sum,
    and u^2 / 3 of its square on average. Their total stays within lambda standard deviations except
    with probability 2 exp(-lambda^2 / 2) (Higham and Mary 2019, theorem 2.4); lambda = 8 gives
    1e-13. The weights of a player add up to 1 with it and to -1 without, so partial sums grow to at
    most twice the span, and their squares to a third of that on average. Here n = 2^k corners, and
    the errors of P players and of the donors (weights w) are independent: lambda (2 / 3) sqrt(2^k P
    sum w^2) u span. The level is exact to a few u; the part of it that was added in float64, the
    offset, to a few roundings of that.

    subtracted: the size of the terms whose differences are base and f(x), which may be smaller,
    even 0.

    values: the number of values of players that the result counts as, if it is not of players: a
    value of a set whose weights are c times as large as a player's counts as c^2.

    A device flushes numbers below the smallest normal one, 2^-126, to 0: this concerns each product
    of a sum.

    Sampled values are computed in float64 from means that are already rounded, the same ones on
    both sides: n is the number of coalitions, and there is no mean over donors.
    """
    single = model.backend == "jax" and model.precision != "float64"
    unit = 0.5 * np.finfo(np.float32 if single else np.float64).eps
    u = np.where(exact, unit, 0.5 * np.finfo(np.float64).eps)
    P = answer.values.shape[1] if values is None else values
    level = np.maximum(np.abs(answer.base - offset), np.abs(answer.full - offset)).max(axis=1)
    level = np.maximum(level, subtracted)
    added = 8.0 * 0.5 * np.finfo(np.float64).eps * np.abs(offset).max()
    donors = np.where(exact, math.sqrt(float((donor_weights**2).sum())), 1.0)
    spread = np.sqrt(answer.summed * P) * donors
    double = 0.5 * np.finfo(np.float64).eps  # for sums on the host, at most over all sets
    added = added + 16 / 3 * math.sqrt(2.0 ** min(P, 24) * P) * double * answer.span
    lost = 2.0 * P * (answer.summed + 2.0) * np.finfo(np.float32).smallest_normal
    return u * (16 / 3 * spread * answer.span + 8.0 * level) + added + lost
