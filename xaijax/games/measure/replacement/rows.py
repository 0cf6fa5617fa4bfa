"""Donors that are rows; reads `background=`, `pool=` of QII and `data=` of Anchors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.games.measure.replacement.base import Replacement, ReplacementSource, table_of
from xaijax.games.measure.replacement.baseline import Baseline, BaselineRow, RowOfEach
from xaijax.models.model import Model
from xaijax.players.players import PerInstancePlayers, Players
from xaijax.tables.per_instance_table import PerInstanceTable
from xaijax.tables.rows import rows_of
from xaijax.tables.table import CodedTable, CodeTable


class BackgroundRows(Replacement):
    """Rows of a background, the same for all instances."""

    kind = "rows"


class DrawnReplacement(Replacement):
    """Rows from a sampler, to be taken in order."""

    kind = "sampler"
    SHARED = False


KINDS = {
    cls.kind: cls for cls in (BackgroundRows, BaselineRow, DrawnReplacement, RowOfEach)
}  # its name in results


def replacement_of(
    model: Model, background: Any, weights: Any, X: Any = None, hybrids: bool = True
) -> Replacement:
    """Reads the `background=` argument for a model.

    X: the instances, if the background needs them. hybrids: whether hybrids are needed, which
    `TreePaths` cannot make.

    Raises InputError and InputTypeError for rows, names, shapes or weights that are not accepted.
    """
    background, weights = weighted_rows(background, weights)
    if isinstance(background, ReplacementSource):
        if weights is not None:
            raise InputError(f"weights belong to background rows; {background.UNWEIGHTED}.")
        if hybrids and not background.HYBRIDS:
            raise InputError(
                f"background={background!r} has no rows to replace columns by, which this method "
                "needs: xaijax.Explainer alone takes it. Give background rows."
            )
        return background.replacement(model, X)
    if callable(background) and not hasattr(background, "__array__"):
        raise InputTypeError(
            "background is a function. One that makes a row for each instance is said by "
            "xaijax.Baseline(function)."
        )
    table = table_of(model, background)
    rows = table.read(background, "background", model.allow_nan)
    return BackgroundRows.of(model, table, rows, checks.row_weights(weights, len(rows_of(rows))))


def pool_of(model: Model, data: Any, weights: Any) -> Replacement:
    """Reads the `data=` and `weights=` of Anchors: the rows for perturbations.

    Raises InputError and InputTypeError as `replacement_of`.
    """
    if isinstance(data, ReplacementSource):
        raise InputTypeError(
            "data= of AnchorExplainer is rows, by which coverage is counted. A Baseline is what "
            "stands in for free players: say perturbation=Baseline(...)."
        )
    table = table_of(model, data, "data")
    rows = table.read(data, "data", model.allow_nan, "the model")
    checked = checks.row_weights(weights, len(rows_of(rows)), "weights", "the data")
    return BackgroundRows.of(model, table, rows, checked)


def weighted_rows(background: Any, weights: Any, name: str = "background") -> tuple[Any, Any]:
    """(rows, weights) of a background; results of `xaijax.background` and of `shap.kmeans` have
    their own weights.

    Raises InputError if weights are given as well.
    """
    holder = {"Background": "rows", "DenseData": "data"}.get(type(background).__name__)
    if holder is None or not hasattr(background, holder) or not hasattr(background, "weights"):
        return background, weights
    if weights is not None:
        raise InputError(
            f"{name} brings weights of its own, and weights= are given too. Leave them out, or "
            f"give the rows alone ({name}.{holder})."
        )
    return getattr(background, holder), background.weights


def intervention_of(
    model: Model, table: CodeTable, pool: Any, weights: Any, kind: str = "rows"
) -> Replacement:
    """Reads the `pool=` of QII: donor rows, or a `Baseline`, read by the table of the data.

    kind: "rows", "baseline", "sampler" if the rows are draws, to be taken in order, or "function"
    if pool is a single row instead of the instances' own baselines.

    Raises InputError and InputTypeError as `replacement_of`.
    """
    constant = isinstance(pool, Baseline)
    if constant and weights is not None:
        raise InputError("pool_weights belong to pool rows; a Baseline is one row.")
    pool_rows = pool.as_rows(model.allow_nan, "pool") if constant else pool
    rows = table.read(pool_rows, "pool", model.allow_nan, "the data")
    checked = checks.row_weights(weights, len(rows_of(rows)), "pool_weights", "the pool")
    return KINDS[kind].of(model, table, rows, checked)


def with_own(
    model: Model,
    donors: Replacement,
    players: Players | PerInstancePlayers,
    baseline_fn: Callable[[Any], Any] | None,
) -> tuple[Replacement, Players]:
    """(donors, players) of codes with per-instance players or baselines; see `PerInstanceTable`.

    baseline_fn(rows) -> the baseline of each row; None: absent players take the donors' entries.
    """
    per_instance = isinstance(players, PerInstancePlayers)
    if not per_instance and baseline_fn is None:
        return donors, players
    if isinstance(donors.table, CodedTable):
        raise InputError(
            f"{model.name} is an estimator translated to JAX, which takes no players and no "
            "baselines for each instance. Say backend='host' in as_model."
        )
    table = PerInstanceTable(
        inner=donors.table,
        owner=np.repeat(
            1
            + (players.of_entry if isinstance(players, PerInstancePlayers) else players.of_column),
            donors.table.codes_per_column,
            axis=-1,
        ),
        P=players.count,
        baseline_fn=baseline_fn,
        common=donors.codes[0],
        alike=(donors.codes == donors.codes[0]).all(axis=0),
        word=donors.codes.dtype,
        allow_nan=model.allow_nan,
        in_jax=model.loop == "jax",
    )
    codes = table.of_donors(donors.codes)
    return replace(donors, table=table, codes=codes), Players(table.players, players.names)
