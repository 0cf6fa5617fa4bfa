"""The reference row of federated Shapley: what replaces a party's block that is switched off.

Algorithm 2 of Wang (2019) sets it to NA if the model takes NA, else to the medians of all rows.

Letters: B reference rows, F columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError, InputTypeError
from xaijax.federated.in_process.parties import Parties, parties_of
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.games.measure.replacement.rows import replacement_of
from xaijax.players.index import named
from xaijax.players.players import column_labels
from xaijax.tables.frames import frame_labels, is_labelled, same_labels
from xaijax.tables.rows import rows_of
from xaijax.tables.tree import is_tree
from xaijax.tables.tree_table import by_leaves

WORDS = ("median", "na")


def reference_of(reference: Any, background: Any, allow_nan: bool | NanColumns) -> tuple[Any, str]:
    """The `background=` of an `Explainer`, a `Baseline` or rows; and its kind, in a word.

    reference: "median" | "na" | a row [F] | rows [B, F]; background: rows [*, F], array or frame.
    Raises InputError or InputTypeError if an argument is not accepted.
    """
    if background is None:
        raise InputTypeError("background must be rows [B, F], an array or a frame; got None.")
    if isinstance(background, Baseline):
        raise InputError(
            "background must be rows, got a Baseline. Give rows, and reference= for a row of your "
            "own."
        )
    if isinstance(reference, str):
        checks.one_of(reference, "reference", WORDS)
        if reference == "median":
            # Taken here, once: for many rows it costs seconds.
            row = Baseline("median", background).as_rows(allow_nan)
            return Baseline(rows_of(row).first), "median"
        if not allow_nan:
            raise InputError(
                "reference='na' needs a model with allow_nan=True. Or say reference='median'."
            )
        return Baseline(rows_of(background).missing("reference='na'")), "na"
    if isinstance(reference, Baseline):
        raise InputTypeError("reference must be 'median', 'na', a row or rows, got a Baseline.")
    if is_labelled(reference):
        _same_columns([str(c) for c in reference.index], background)  # a Series
        return Baseline(reference.copy()), "row"
    if rows_of(reference).is_frame:
        _same_columns(frame_labels(reference, "reference"), background)
        table = rows_of(reference).copy()  # it is read again when single columns are asked
        return (Baseline(table), "row") if len(table) == 1 else (table, "rows")
    if is_tree(background):
        return _of_tree(reference, background)
    rows = np.array(checks.as_array(reference, "reference"))
    if rows_of(background).is_frame:
        raise InputError(
            "reference must be a frame with the columns of the background, got an array of shape "
            f"{rows.shape}. Say a frame of one row, or reference='median'."
        )
    width = checks.as_array(background, "background").shape[-1]
    if rows.ndim not in (1, 2) or rows.shape[-1] != width:
        raise InputError(f"reference has shape {rows.shape}; [{width}] or [B, {width}] is needed.")
    if len(rows) == 0:
        raise InputError("reference has 0 rows; at least 1 is needed.")
    checks.finite(rows, "reference", allow_nan)
    if rows.ndim == 1 or len(rows) == 1:
        return Baseline(rows.reshape(-1)), "row"
    return rows, "rows"


def _of_tree(reference: Any, background: Any) -> tuple[Any, str]:
    """The same, of rows in several arrays; what they hold is checked where they are read."""
    rows, wanted = rows_of(reference), rows_of(background)
    ranks = [getattr(leaf, "ndim", 0) for leaf in jax.tree.leaves(reference)]
    if ranks == [leaf.ndim - 1 for leaf in jax.tree.leaves(background)]:
        return Baseline(jax.tree.map(np.array, reference)), "row"
    if rows.kind != wanted.kind:
        raise InputError(f"reference must have the structure {jax.tree.structure(background)}.")
    copied = rows.copy()
    return (Baseline(rows.first), "row") if len(rows) == 1 else (copied, "rows")


def _same_columns(labels: Sequence[str], background: Any) -> None:
    if rows_of(background).is_frame:
        expected = frame_labels(background, "background")
        same_labels(labels, expected, "reference", "the background")
    else:
        raise InputError("reference is a frame and background an array; give two of one kind.")


END_WEIGHT = 1e4  # the authors'


def parties_in(model: Any, source: Any, guests: Any) -> Parties:
    """The owner of each column of the background that the reference is made of."""
    table = replacement_of(model, source, None).table
    if len(table.shape) != 1:
        raise InputError(f"background is [B, *{table.shape}]; parties own columns of a table.")
    labels = table.feature_names or column_labels(table.shape)
    return parties_of(by_leaves(guests, table), labels, remote=False)


def end_weight_of(end_weight: Any, estimator: str, index: Any, model: Any) -> float:
    """The weight of the two ends; refused if no regression takes one."""
    checks.positive(end_weight, "end_weight")
    if checks.text(estimator, "estimator") != "wls":
        if float(end_weight) != END_WEIGHT:
            raise InputError(
                f"end_weight={end_weight!r}, but estimator={estimator!r} has none. Say "
                "estimator='wls', or leave it out."
            )
        return float(end_weight)
    if not named(index).efficient:
        raise InputError(f"estimator='wls' is a regression for index='shapley', got {index!r}.")
    if not model.deterministic:
        raise InputError("estimator='wls' needs a model that is deterministic; say 'permutation'.")
    return float(end_weight)
