"""`levels="bfloat16"`: many coalitions by a bfloat16 copy of a model, few by both.

Shapley values are linear in the game: those of f are those of the copy g, plus those of f - g. The
copy is sampled with the whole budget, the difference by few orders of players of another seed. Both
are unbiased and independent, so that the values are those of f, and their variances add up. The
difference has a small share of the variance: 6e-5 in a trial on SmolLM2-135M, 0.2 % in a small
network.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.typing import Outputs, Progress
from xaijax.estimators.stopping import Top
from xaijax.games.measure.replacement.base import ReplacementSource
from xaijax.methods.explainer.choice import default_budget
from xaijax.models.base.source import anew
from xaijax.models.model import Model
from xaijax.models.structure.declared import PLAIN
from xaijax.players.index import named
from xaijax.results.explanation import Explanation
from xaijax.results.plan import Plan

if TYPE_CHECKING:
    from xaijax.methods.explainer.explainer import Explainer

LOW = "bfloat16"
# The difference gets 1 / SHARE of the coalitions: with 6e-5 of the variance it then adds 0.2 % to
# that of the copy, and f is asked 1 / SHARE of the rows. PAIRS antithetic pairs of orders at least
# tell how far their mean is off.
SHARE, PAIRS = 32, 4
SUMMED = (
    *("model_rows", "padded_rows", "model_calls", "seconds", "compile_seconds"),
    *("efficiency_residual", "efficiency_bound"),
)
OTHER_SEED = 1 << 62  # added to the seed of the copy, so that no draw is shared


def read_levels(levels: Any, explainer: Explainer) -> str:
    """levels=, checked; raises InputError or InputTypeError for an explainer that cannot use it."""
    checks.one_of(levels, "levels", (LOW,))
    model = cast(Model, explainer.model)
    background, _, _, index, _ = explainer._given
    fitted = model.estimator is not None
    reasons = {
        f"{model.name} runs on the host; give a function that JAX traces": model.loop != "jax",
        f"{model.name} is an estimator; give a function that JAX traces": fitted,
        f"precision={model.precision!r} is given; leave it out": model.precision != "float32",
        f"{model.name} is random; leave out deterministic=False": not model.deterministic,
        "link= is not linear; leave it out": explainer.quantity.name != "identity",
        "tolerance= stops by one level; leave it out": explainer.tolerance is not None,
        "estimator='exact' draws nothing; leave it out": explainer.estimator == "exact",
        "index= is not 'shapley'; leave it out": not named(index).draws_orders,
        "TreePaths() make no hybrid rows; give rows": isinstance(background, ReplacementSource)
        and not background.HYBRIDS,
    }
    refuse_for(reasons)
    return levels


def refuse_for(reasons: dict[str, bool]) -> None:
    """Raises InputError for the first reason that is true."""
    for reason, refused in reasons.items():
        if refused:
            raise InputError(f"levels={LOW!r} cannot be used here: {reason}, or leave out levels=.")


class Difference:
    """f - g of two traced functions of the same parameters and rows."""

    def __init__(self, full: Any, low: Any) -> None:
        self._full, self._low = full, low

    @property
    def answer_dtype(self) -> Any:
        """See `Selected`."""
        return getattr(self._full, "answer_dtype", None)

    def __call__(self, params: Any, rows: Any) -> Any:
        """[R] or [R, K]."""
        return self._full(params, rows) - self._low(params, rows)


def two_of(explainer: Explainer, players: int) -> tuple[Explainer, Explainer]:
    """The explainers of the bfloat16 copy and of the difference."""
    full = cast(Model, explainer.model)
    recipe = full.recipe
    if recipe is not None:
        recipe = dataclasses.replace(
            recipe, arguments={**recipe.arguments, "precision": LOW, "structure": PLAIN}
        )
    low = anew(recipe, full.name)
    apart = Difference(full.apply, low.apply)
    difference = dataclasses.replace(
        low,
        apply=apart,
        scores=apart,
        decide=None,
        name=f"the difference of {full.name} and its copy",
        shortened=None,
        recipe=None,
        compiled={},
    )
    budget = default_budget(players) if explainer.budget is None else explainer.budget
    few = max(budget // SHARE, 2 * PAIRS * (players - 1))
    every = players <= 24 and (1 << players) - 2 <= few
    if few > budget and not every:
        raise InputError(
            f"levels={LOW!r}: budget={budget:,} is less than the {few:,} coalitions which compare "
            f"{full.name} with its copy, for {players:,} players. Say budget={few * SHARE:,}, or "
            "leave out levels=."
        )
    of_few: dict[str, Any] = {"estimator": "exact", "budget": None}
    if not every:
        of_few = {"estimator": "permutation", "budget": few, "seed": explainer.seed + OTHER_SEED}
    return _with(explainer, model=low), _with(explainer, model=difference, **of_few)


def _with(explainer: Explainer, **changes: Any) -> Explainer:
    """The explainer with other fields, of one level, with nothing computed yet."""
    other = object.__new__(type(explainer))
    kept = {name: one for name, one in vars(explainer).items() if not name.startswith("_of_")}
    fields = {**kept, "_of_each": explainer._of_each, "levels": None, "_evaluator": None}
    vars(other).update(fields | {"_both": None} | changes)
    return other


def both_of(explainer: Explainer, X: Any) -> tuple[Explainer, Explainer]:
    """`two_of`, kept with their programs."""
    if explainer._both is None:
        explainer._both = two_of(explainer, explainer._open(X).engine.players.count)
    return explainer._both


def plan_of_both(low: Plan, apart: Plan) -> Plan:
    """The plan of a run after another; the memory is that of the larger."""
    return dataclasses.replace(
        low,
        model_rows=low.model_rows + apart.model_rows,
        model_calls=low.model_calls + apart.model_calls,
        programs=low.programs + apart.programs,
        shares=max(low.shares, apart.shares, key=lambda shares: sum(shares.values())),
    )


def by_levels(
    explainer: Explainer, X: Any, progress: Progress, outputs: Outputs, rule: Top | None
) -> Explanation:
    """The explanation of X by both levels."""
    reasons = {
        "top= stops by one level; leave it out": rule is not None,
        "the copy may predict another output; give numbers in outputs=": isinstance(outputs, str),
    }
    refuse_for(reasons)
    both = both_of(explainer, X)
    low, apart = (one(X, progress=progress, outputs=outputs) for one in both)
    none = np.zeros_like(low.values)
    variances = [
        np.square(none if one.std_errors is None else one.std_errors) for one in (low, apart)
    ]
    exact = low.exact and apart.exact
    stats: dict[str, Any] = {**apart.stats, **low.stats, "levels": LOW}
    stats["full_rows"] = apart.stats["model_rows"]
    drawn = apart if low.exact and not apart.exact else low  # whose estimator the errors are of
    for name in ("estimator", "budget"):
        stats[name] = drawn.stats.get(name)
    if "heavy_tail" in low.stats and "heavy_tail" in apart.stats:
        stats["heavy_tail"] = low.stats["heavy_tail"] | apart.stats["heavy_tail"]
    for name in SUMMED:
        stats[name] = low.stats[name] + apart.stats[name]
    if not exact:
        every = np.ones(len(low), bool)
        rows = [one.stats.get("exact_rows", every & one.exact) for one in (low, apart)]
        stats["exact_rows"] = rows[0] & rows[1]
    if "dof" in low.stats and "dof" in apart.stats:
        stats["dof"] = joint_dof(variances, [low.stats["dof"], apart.stats["dof"]])
    return dataclasses.replace(
        low,
        values=low.values + apart.values,
        base_values=low.base_values + apart.base_values,
        std_errors=None if exact else np.sqrt(variances[0] + variances[1]),
        exact=exact,
        stats=stats,
        provenance={**low.provenance, "levels": LOW, "precision": "float32"}
        | {"estimator": stats["estimator"]},
    )


def joint_dof(variances: list[np.ndarray], dofs: list[Any]) -> np.ndarray:
    """Degrees of freedom [N] of the sum of two variances [N, P, ...] (Welch and Satterthwaite), at
    the players' mean variances; the fewest of the outputs. dofs: [N] each.
    """
    N = len(variances[0])
    first, second = (variance.mean(axis=1).reshape(N, -1) for variance in variances)
    of_first, of_second = (np.asarray(dof)[:, None] for dof in dofs)
    with np.errstate(divide="ignore", invalid="ignore"):
        joint = (first + second) ** 2 / (first**2 / of_first + second**2 / of_second)
    return np.where(first + second > 0, joint, of_first).min(axis=1)


def refuse_levels(explainer: Explainer, reason: str) -> None:
    """Raises InputError if the explainer has two levels."""
    refuse_for({reason: explainer.levels is not None})
