"""Rows, baselines and players as codes.

Letters: N instances, B background rows, C code columns (one for each entry of a row), P players.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError, InputTypeError
from xaijax.games.measure.replacement.base import Replacement
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.games.measure.replacement.rows import KINDS, replacement_of, weighted_rows
from xaijax.models.model import Model
from xaijax.players.players import PerInstancePlayers, Players
from xaijax.tables.rows import rows_of
from xaijax.tables.table import FloatTable
from xaijax.tables.tree import is_tree
from xaijax.tables.tree_table import TreeTable

WHOLE = np.dtype("i4")


class WholeTable(FloatTable):
    """Arrays of whole numbers, such as tokens, for a model that embeds them."""

    def read(
        self,
        X: Any,
        name: str,
        allow_nan: bool | NanColumns,
        owner: str = "the background",
        alone: bool = False,
    ) -> np.ndarray:
        """The rows as int32 [M, *shape]."""
        array = checks.rows_of(checks.as_array(X, name), name, self.shape, owner)
        if array.dtype.kind not in "iu":
            raise InputTypeError(
                f"{name} has dtype {array.dtype}, but {owner} holds whole numbers. Give both the "
                "same dtype."
            )
        limits = np.iinfo(WHOLE)
        if array.min() < limits.min or array.max() > limits.max:
            raise InputError(f"{name} holds numbers beyond {WHOLE}. Number tokens from 0.")
        return array.astype(WHOLE)


def donors_of(
    model: Model, background: Any, weights: Any, embedded: bool, X: Any = None
) -> Replacement:
    """Reads `background=` and `weights=`; X: the instances, for a `Baseline` of each instance.

    embedded: an array of whole numbers stays one. Otherwise rows are floats, since a line passes
        through numbers between whole numbers.
    """
    if not embedded:
        return _of_floats(replacement_of(model, background, weights, X))
    background, weights = weighted_rows(background, weights)
    rows, kind = background, "rows"
    if isinstance(background, Baseline):
        kind = "baseline" if background.of_each is None else "function"
        rows = X if kind == "function" else background.as_rows(False)
        if isinstance(background.row, str) and _whole(background.rows):
            raise InputError(
                f"background is the {background.row} of rows of whole numbers, and may lie between "
                "two of them. Give one row, of padding say, as row[None]."
            )
    if not _whole(rows):
        return _of_floats(replacement_of(model, background, weights, X))
    if kind != "rows" and weights is not None:
        raise InputError("weights belong to background rows; a Baseline is one row.")
    array = np.asarray(rows)
    array = array[:1] if kind == "function" else array
    checks.rows_of(array, "background", array.shape[1:] if array.ndim > 2 else None)
    table = WholeTable(array.shape[1:], WHOLE, None)
    codes = table.encode(table.read(array, "background", False))[1]
    shares, total = checks.row_weights(weights, len(codes))
    row = np.flatnonzero(shares > 0)
    return KINDS[kind](table, codes[row], shares[row], total, row, len(codes))


def _of_floats(donors: Replacement) -> Replacement:
    table = donors.table
    if not isinstance(table, FloatTable) or table.whole is None:
        return donors
    return donors.held_by(FloatTable(table.shape, table.dtype, table.feature_names))


def _whole(rows: Any) -> bool:
    return not is_tree(rows) and np.asarray(rows).dtype.kind in "iu"


def refuse_background(donors: Replacement, path: str) -> None:
    """Raises InputError if path="integrated" has several baselines, or a row holds NaN."""
    if path == "integrated" and donors.rows_given != 1:
        raise InputError(
            f"path='integrated' goes from one baseline, but background has {donors.rows_given:,} "
            "rows. Say path='expected', or xaijax.Baseline('mean', rows)."
        )
    refuse_nan(donors.for_loops, "background")


def refuse_nan(codes: np.ndarray, name: str) -> None:
    """Raises InputError for a NaN in rows of codes."""
    if codes.dtype.kind != "f" or not np.isnan(codes).any():
        return
    row, column = (int(place) for place in np.argwhere(np.isnan(codes))[0])
    raise InputError(
        f"{name} contains NaN at row {row}, column {column}: no line goes to it. Fill it."
    )


def owner_of(players: Players | PerInstancePlayers) -> np.ndarray | None:
    """The player of each code, int32 [C] or [N, C]; P for a code that stays.

    None: code j is player j.
    """
    if isinstance(players, Players) and players.single:
        return None
    of = players.of_column if isinstance(players, Players) else players.of_entry
    return np.where(of < 0, players.count, of).astype(np.int32)


def refuse_whole_numbers(donors: Replacement, owner: np.ndarray | None, P: int) -> None:
    """Raises InputError for leaves of whole numbers or bools that would have to change."""
    table = donors.table
    if not isinstance(table, TreeTable):
        return
    layout = table.layout
    for name, dtype, first, last in zip(
        layout.names, layout.dtypes, (0, *layout.ends), layout.ends, strict=False
    ):
        stays = owner is not None and bool((owner[..., first:last] == P).all())
        if dtype.kind in "biu" and not stays:
            raise InputError(
                f"background: the leaf {name!r} is {dtype}, and between whole numbers there is no "
                "line. Embed it: model=(embed, head); or number it -1 in players=."
            )


def baseline_fn(
    made: Callable[[Any], Any], donors: Replacement, rows: Any, allow_nan: bool | NanColumns
) -> np.ndarray:
    """Codes [N, C] of the baselines that a function makes from rows, as they were read."""
    name = "what the function of Baseline returned"
    baselines = donors.table.read(made(rows_of(rows).copy()), name, allow_nan, "X")
    count, returned = len(rows_of(rows)), len(rows_of(baselines))
    if count != returned:
        raise InputError(f"{name} has {returned:,} rows; X has {count:,}. Return one for each.")
    codes = np.asarray(donors.table.encode(baselines)[1])
    refuse_nan(codes, name)
    return codes


@dataclass(frozen=True)
class Work:
    """The instances of one call."""

    codes: Any  # [N, C], an array or a memory map that is read when sliced
    baselines: np.ndarray | None = None  # [N, C], the baseline of each instance
    owner: np.ndarray | None = None  # int32 [C] or [N, C], see `owner_of`
    column: np.ndarray | None = None  # int32 [N], the output of each instance; None: all outputs

    def __len__(self) -> int:
        return len(self.codes)
