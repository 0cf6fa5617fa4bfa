"""Records a run in an explanation: values, errors, and how they were made.

Letters: N instances, P players, K outputs, B background rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import ModelOutputError
from xaijax.estimators.driver import SAMPLERS, Estimate, InstanceValues, sampled
from xaijax.estimators.estimator import FEWEST
from xaijax.games import queries
from xaijax.games.certify import widen
from xaijax.games.refuse import refuse_lost_sums
from xaijax.games.run import GameRun
from xaijax.methods import record
from xaijax.methods.explainer.choice import EstimatorChoice, warn_heavy_tail, warn_unmet
from xaijax.models.queries.findings import warn_of_digits
from xaijax.models.structure.agreement import MOVED_FACTORS, roundings
from xaijax.players.index import LARGEST_P, Index
from xaijax.players.interaction_index import InteractionIndex
from xaijax.results.explanation import Explanation

if TYPE_CHECKING:
    from xaijax.games.engine.dispatch import Clock
    from xaijax.methods.explainer.explainer import Explainer


@dataclass(frozen=True)
class ExplainerRun:
    """A finished run of an explainer."""

    X: Any  # the instances as given
    rows: Any  # as read
    game: GameRun
    choice: EstimatorChoice
    answer: InstanceValues
    before: Clock  # at the start
    seconds: float


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
    enumerable, others = np.flatnonzero(choice.exact), np.flatnonzero(~choice.exact)
    estimate = enumerated(enumerable) if len(enumerable) else None
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
    shared = np.empty_like(answer.base)
    shared[exact_first] = answer.base[exact_first][first[place]]
    same = choice.exact[:, None] | (shared == answer.base)
    moved = np.where(same, 0.0, shared - answer.base)[:, None]
    if not moved.any():
        return replace(answer, base=shared)
    values, P = answer.values.copy(), game.P
    moving = values[:, :P] != 0
    values[:, :P] -= np.where(moving, moved / np.maximum(1, moving.sum(axis=1, keepdims=True)), 0.0)
    return replace(answer, base=shared, values=values)


def explanation(explainer: Explainer, run: ExplainerRun) -> Explanation:
    """The explanation of a run: values, stats and provenance."""
    answer, present = run.answer, getattr(explainer.players, "present", None)
    if present is not None:  # a missing player's value is 0, not the noise of a random model
        answer.values[~present] = 0.0
        if answer.std_errors is not None:
            answer.std_errors[~present] = 0.0
    return Explanation(
        **results_of(explainer, run),
        kind=explainer.index,
        stats=stats_of(explainer, run, explainer.exact.index.efficient),
        provenance=provenance_of(explainer, run.game, run.choice.name),
    )


def results_of(explainer: Explainer, run: ExplainerRun) -> dict[str, Any]:
    """Returns the fields that values of players and of sets share."""
    engine, answer = run.game.engine, run.answer
    scalar = engine.outputs == 1  # one number a row, or one output for each instance
    return {
        **record.numbers(answer.values, answer.base, answer.std_errors, scalar),
        **record.instances(run.X, run.rows),
        "feature_names": explainer.players.names,
        "output_names": None if scalar else engine.findings.output_names,
        "exact": answer.std_errors is None,
        "present": getattr(explainer.players, "present", None),
    }


def stats_of(
    explainer: Explainer, run: ExplainerRun, efficient: bool, values: float | None = None
) -> dict[str, Any]:
    """Records what the run did and cost.

    efficient: whether base and values add up to f(x); values: as for `certificate`.
    """
    game, choice, answer = run.game, run.choice, run.answer
    evaluator, model = game.evaluator, game.engine.model
    refuse_lost_sums(evaluator.engine, answer.values, answer.base, answer.full)
    evaluator.finish()
    engine, findings = evaluator.engine, evaluator.engine.findings
    if findings.whole and engine.score is None:
        dtypes = findings.answer_dtype, engine.model.precision
        warn_of_digits(model.name, *dtypes, answer.base, answer.full)
    B, P = engine.replacement.count, game.P
    stats: dict[str, Any] = {
        **record.cost_of(game, run.before, run.seconds),
        # A whole number of more than 4,300 digits could be neither shown nor saved.
        "naive_rows": game.N * B << P if P <= LARGEST_P else math.inf,
        "tile_halvings": evaluator.clock.tile_halvings - run.before.tile_halvings,
        "budget": explainer.budget if choice.sampler is None else choice.budget,
        "estimator": choice.name,
        **record.sources(explainer.seed, run.X, engine, explainer.quantity),
    }
    if choice.sampler is not None:
        stats["exact_rows"] = choice.exact
        stats["coalitions"] = answer.coalitions
        stats["dof"] = answer.dof
        if SAMPLERS[choice.sampler].reports_tails:
            stats["heavy_tail"] = answer.heavy
            known = np.isfinite(answer.std_errors).reshape(len(answer.pairs), -1).all(axis=1)
            stats["tail_judged"] = choice.exact | (known & (answer.pairs >= FEWEST))
        stats["tolerance"] = explainer.tolerance
        if choice.rule is not None:
            stats["bound"] = choice.rule.bound(SAMPLERS[choice.sampler].independent)
            stats["pairs"], stats["certain"] = answer.pairs, answer.met
            stats["whole_pairs"] = answer.whole
            if stats["bound"] == "checks":
                stats["checks"] = int(answer.checks.max())
    if game.own is not None:
        stats |= record.outputs_of(game.own[:, 0], findings.output_names)
    queries.refuse_other(game, answer.full)
    stats["checked_rows"] = 0 if game.structure is None else game.N + B
    if efficient and (answer.std_errors is None or choice.sampler):
        stats["efficiency_residual"], stats["efficiency_bound"] = held(
            game,
            lambda whole: certificate(game, model, answer, choice.exact, whole, values),
            explainer.exact.efficient and model.deterministic,
        )
    return stats


def provenance_of(explainer: Explainer, game: GameRun, estimator: str) -> dict[str, Any]:
    """Returns the public facts of how the values were made."""
    return {
        "method": "Explainer",
        **explainer.output_facts,
        "index": explainer.index,
        "index_weights": explainer.weights.tolist(),
        "link": explainer.quantity.name,
        "estimator": estimator,
        **record.background(game.engine.replacement),
        **record.sizes(game.engine, explainer.players, game.N, game.P),
    }


def certificate(
    game: GameRun,
    model: Any,
    answer: InstanceValues,
    exact: np.ndarray,
    whole: tuple[np.ndarray, np.ndarray] | None,
    values: float | None = None,
    subtracted: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """(|base + sum of values - f(x)|, its rounding bound) of the worst output; [N] each.

    f(x) is the model's own answer to the full row. If a structure answered (whole: see
    `queries.whole`), f(x) was evaluated separately, and the bound is wider by how far the two
    roundings may differ.

    A sum of n products has the roundings of its n partial sums: each is at most u times that sum,
    and u^2 / 3 of its square on average. Their total stays within lambda standard deviations except
    with probability 2 exp(-lambda^2 / 2) (Higham and Mary 2019, theorem 2.4); lambda = 8 gives
    1e-13. The weights of a player add up to 1 with it and to -1 without, so partial sums grow to at
    most twice the span, and their squares to a third of that on average. Here n is 2^k, the
    sub-coalitions, and the errors of P players and of the donors (weights w) are independent:
    lambda (2 / 3) sqrt(2^k P sum w^2) u span. The level is exact to a few u; the part of it that
    was added in float64, the offset, to a few roundings of that.

    subtracted: the size of the terms whose differences are base and f(x), which may be smaller,
    even 0.

    values: the number of values of players that the result counts as, if it is not of players: a
    value of a set whose weights are c times as large as a player's counts as c^2.

    A device flushes numbers below the smallest normal one, 2^-126, to 0: this concerns each product
    of a sum.

    A model in TF32 or bfloat16 may answer the donors, or x, by two programs that round some factors
    to different sides; see `MOVED_FACTORS`.

    Sampled values are computed in float64 from means that are already rounded, the same ones on
    both sides: n is the number of coalitions, and there is no mean over donors.
    """
    engine = game.engine
    # The offset was added to the level in float64, [] or [K].
    offset = 0.0 if engine.offset is None or not game.quantity.linear else engine.offset
    single = not engine.uses_host and model.precision != "float64"
    double = 0.5 * np.finfo(np.float64).eps  # for sums on the host, at most over all sets
    u = np.where(exact, 0.5 * np.finfo(np.float32).eps if single else double, double)
    P = answer.values.shape[1] if values is None else values
    with np.errstate(invalid="ignore"):  # answers that are not finite may be allowed
        full = answer.full if whole is None else whole[0]
        residual = np.abs(answer.base + answer.values.sum(axis=1) - full).max(axis=1)
        level = np.maximum(np.abs(answer.base - offset), np.abs(answer.full - offset)).max(axis=1)
        level = np.maximum(level, subtracted)
        added = 8.0 * double * np.abs(offset).max()
        weights = engine.replacement.weights
        donors = np.where(exact, math.sqrt(float((weights**2).sum())), 1.0)
        spread = np.sqrt(answer.summed * P) * donors
        added = added + 16 / 3 * math.sqrt(2.0 ** min(P, 24) * P) * double * answer.span
        lost = 2.0 * P * (answer.summed + 2.0) * np.finfo(np.float32).smallest_normal
        bound = u * (16 / 3 * spread * answer.span + 8.0 * level) + added + lost
        if whole is None and single:
            bound = bound + roundings(MOVED_FACTORS.get(model.precision, 0.0), answer.span, level)
        return residual, bound if whole is None else bound + whole[1].max(axis=1)


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
        # Parts of x are added to those of each donor: rows of large numbers round in many ways.
        widen(game)
        residual, bound = certified(queries.whole(game))
    # A host model may work in float32, and round a row differently in another call.
    host = game.engine.uses_host
    wrong = np.flatnonzero(residual > bound * (2.0**29 if host else 1.0))
    if efficient and len(wrong):
        n, model = int(wrong[0]), game.engine.model.name
        reason = (
            f"{model} did not answer the same row alike in all calls. Each row's answer must "
            "depend on that row alone: switch to its inference mode, or say deterministic=False in "
            "as_model where it is random."
            if whole is None
            else f"the structure {game.structure!r} does not give what {model} answers. Say "
            'structure="plain" in as_model.'
        )
        raise ModelOutputError(
            f"the values of X row {n} and its base value differ from the model's own answer by "
            f"{residual[n]:.3g}, more than rounding can do ({bound[n]:.3g}): {reason}"
        )
    return residual, bound
