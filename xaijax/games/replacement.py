"""Replacement: what stands in the columns of a player that is absent.

Letters: B donor rows, F columns, C code columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax import _checks
from xaijax._errors import InputError, InputTypeError
from xaijax._frame_table import FrameTable
from xaijax._frames import frame_kind, frame_labels, same_labels
from xaijax._public import public_class
from xaijax._table import FloatTable, Table, WordTable


@public_class
class Baseline:
    """One row that stands for "absent", in place of many background rows.

    Baseline(row): a row [F] (or shaped like one instance, or a frame of one row).
    Baseline("median", rows), Baseline("mean", rows): per column of `rows` [B, F]; the value of a
    column that is not numeric is its most frequent one. NaN is refused; where the model has
    allow_nan=True it is left out of the median and the mean.

    Raises InputError for another word or for rows missing or given twice.
    """

    def __init__(self, row: Any, rows: Any = None) -> None:
        if isinstance(row, str):
            _checks.one_of(row, "row", ("median", "mean"))
            if rows is None:
                raise InputError(f"Baseline({row!r}, rows) needs the rows to take the {row} of.")
        elif rows is not None:
            raise InputError("Baseline takes a row, or 'median' or 'mean' and rows; not both.")
        self.row = row
        self.rows = rows

    def __repr__(self) -> str:
        return f"Baseline({self.row!r}, rows)" if isinstance(self.row, str) else "Baseline(row)"

    def as_rows(self, allow_nan: bool) -> Any:
        """The one row as a batch: array [1, *F], or a frame of one row."""
        if isinstance(self.row, str):
            return _summary(self.rows, self.row, allow_nan)
        if frame_kind(self.row):
            if len(self.row) != 1:
                raise InputError(f"background: Baseline(row) got a frame of {len(self.row)} rows.")
            return self.row
        if type(self.row).__module__.startswith("pandas") and hasattr(self.row, "to_frame"):
            if self.row.dtype.kind not in "biuf":
                raise InputTypeError(
                    f"background: Baseline(row) got a Series of dtype {self.row.dtype}, which has "
                    "lost the columns' own dtypes. Give a frame of one row (frame.iloc[[0]])."
                )
            return self.row.to_frame().T
        return _checks.as_array(self.row, "background")[None]


def _summary(rows: Any, how: str, allow_nan: bool) -> Any:
    kind = frame_kind(rows)
    if kind is None:
        array = _checks.as_array(rows, "background")
        if array.ndim < 2 or len(array) == 0:
            raise InputError(
                f"background: Baseline({how!r}, rows) needs rows [B, F], got shape {array.shape}."
            )
        _checks.finite(array, "background", allow_nan)
        summary = (np.nanmedian if how == "median" else np.nanmean)(array, axis=0)
        return summary[None].astype(array.dtype if array.dtype.kind == "f" else np.float64)
    if len(rows) == 0:
        raise InputError("background has 0 rows; at least 1 is needed.")
    if kind == "polars":
        one = {}
        for label in rows.columns:
            column = rows[label]
            numeric = column.dtype.is_numeric()
            if numeric:
                _checks.finite(column.to_numpy(), f"background, column {label!r}", allow_nan)
            one[label] = (
                [getattr(column, how)()] if numeric else column.mode().sort().head(1).to_list()
            )
        return type(rows)(one, schema={k: _polars_dtype(rows[k]) for k in rows.columns})
    parts = {}
    for label in rows.columns:
        column = rows[label]
        numeric = column.dtype.kind in "iuf"
        if numeric:
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
            _checks.finite(values, f"background, column {label!r}", allow_nan)
        value = getattr(column, how)() if numeric else column.mode().iloc[0]
        parts[label] = column.iloc[:1].copy()
        if numeric:
            plain = isinstance(column.dtype, np.dtype)
            wide = np.result_type(column.dtype, np.float64) if plain else "Float64"
            parts[label] = parts[label].astype(wide)
        parts[label].iloc[0] = value
    return type(rows)({k: v.reset_index(drop=True) for k, v in parts.items()})


def _polars_dtype(column: Any) -> Any:
    import polars as pl  # noqa: PLC0415

    return pl.Float64 if column.dtype.is_numeric() else column.dtype


@dataclass(frozen=True)
class Replacement:
    """Donor rows as codes, with their weights."""

    table: Table
    codes: np.ndarray  # [B, C]
    weights: np.ndarray  # float64 [B], positive, sum 1
    weights_sum: float | None  # of the weights as given; None: none were
    row: np.ndarray  # int64 [B], place of each donor among the background rows given
    rows_given: int  # background rows before those of weight 0 were dropped
    kind: str  # "rows" | "baseline"


def replacement_of(model: Any, background: Any, weights: Any) -> Replacement:
    """Read the `background=` argument for a model.

    Raises InputError and InputTypeError for rows, names, shapes or weights that are not accepted.
    """
    kind = "baseline" if isinstance(background, Baseline) else "rows"
    if isinstance(background, Baseline):
        if weights is not None:
            raise InputError("weights belong to background rows; a Baseline is one row.")
        background = background.as_rows(model.allow_nan)
    table = _table_of(model, background)
    rows = table.read(background, "background", model.allow_nan)
    given = len(rows)
    w, total = _checks.row_weights(weights, given)
    table, codes = table.encode(rows)
    return Replacement(table, codes[w > 0], w[w > 0], total, np.flatnonzero(w > 0), given, kind)


def _table_of(model: Any, background: Any) -> Table:
    names = model.feature_names
    if frame_kind(background):
        labels = frame_labels(background, "background")
        shape: tuple[int, ...] = (len(labels),)
        if model.input_shape not in (None, shape):
            raise InputError(
                f"background is a frame of {len(labels)} columns, but input_shape="
                f"{model.input_shape}. Give arrays."
            )
        if names is not None:
            same_labels(labels, names, "background", "the model")
        if model.backend == "host":
            return FrameTable.of(background, "background")
        names = labels
    else:
        array = _checks.as_array(background, "background")
        shape = _checks.rows_of(array, "background", model.input_shape).shape[1:]
        if names is not None and len(names) != math.prod(shape):
            raise InputError(
                f"feature_names has {len(names)} names, but the background has "
                f"{math.prod(shape)} columns."
            )
        _checks.unique_names(names or (), "feature_names")
        if model.backend == "host":
            return WordTable(shape, array.dtype, names)
    return FloatTable(shape, np.dtype("f8" if model.precision == "float64" else "f4"), names)


def agreement_codes(codes: np.ndarray) -> np.ndarray:
    """Codes as whole numbers, to be compared bit for bit."""
    if codes.dtype.kind == "f":
        return codes.view(f"i{codes.dtype.itemsize}")
    return codes
