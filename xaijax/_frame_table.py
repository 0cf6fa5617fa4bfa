"""`FrameTable`: data frames of mixed types as integer codes, and back unchanged.

Every column keeps its distinct values in a list of its own dtype; a code is a place in it. The
values of new rows are added at the end, so codes given out before stay true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xaijax import _checks
from xaijax._errors import InputError, InputTypeError
from xaijax._table import frame_labels, same_labels


class FrameTable:
    """Pandas or polars frames for a host model: dtypes, names and order come through unchanged."""

    codes_per_column = 1

    def __init__(
        self,
        kind: str,
        columns: Sequence[Any],
        feature_names: tuple[str, ...],
        levels: Sequence[Any],
    ) -> None:
        self.kind = kind  # "pandas" | "polars"
        self.columns = list(columns)  # labels as given
        self.feature_names = feature_names
        self.shape = (len(feature_names),)
        self.levels = list(levels)  # [F], distinct values per column

    @classmethod
    def of(cls, frame: Any, name: str, allow_nan: bool) -> FrameTable:
        """A table that knows the columns and dtypes of `frame`, and no values yet."""
        kind = _checks.frame_kind(frame)
        assert kind is not None
        names = frame_labels(frame, name)
        table = cls(kind, frame.columns, names, [_column(frame, c).head(0) for c in frame.columns])
        table.read(frame, name, allow_nan)
        return table

    def read(self, X: Any, name: str, allow_nan: bool) -> Any:
        """X itself (frames are copied column by column in `encode`), checked."""
        if _checks.frame_kind(X) != self.kind:
            raise InputTypeError(
                f"{name} must be a {self.kind} frame like the background, got {type(X).__name__}."
            )
        if len(X) == 0:
            raise InputError(f"{name} has 0 rows; at least 1 is needed.")
        if len(X.columns) == 0:
            raise InputError(f"{name} has 0 columns; at least 1 is needed.")
        same_labels(frame_labels(X, name), self.feature_names, name)
        for label in self.columns:
            self._check_column(_column(X, label), label, name, allow_nan)
        return X.copy() if self.kind == "pandas" else X

    def _check_column(self, column: Any, label: Any, name: str, allow_nan: bool) -> None:
        dtype = str(column.dtype)
        if dtype.lower().startswith(("datetime", "timedelta", "date", "duration", "complex")):
            raise InputTypeError(
                f"{name}: column {label!r} has dtype {dtype}; make it a number first (days since "
                "some day, say)."
            )
        if not dtype.lower().startswith("float"):
            return  # a missing text or category is a value of its own
        _checks.finite(column.to_numpy(), f"{name}, column {label!r}", allow_nan)

    def encode(self, rows: Any) -> tuple[FrameTable, np.ndarray]:
        """Codes int32 [M, F], and the table with the new values added."""
        code = _pandas_codes if self.kind == "pandas" else _polars_codes
        levels, codes = [], np.empty((len(rows), len(self.columns)), np.int32)
        for j, label in enumerate(self.columns):
            known, codes[:, j] = code(self.levels[j], _column(rows, label), label)
            levels.append(known)
        return FrameTable(self.kind, self.columns, self.feature_names, levels), codes

    def decode(self, codes: np.ndarray) -> Any:
        """A frame with the original column labels, order and dtypes."""
        taken = {}
        for j, label in enumerate(self.columns):
            level = self.levels[j]
            taken[label] = (
                level.array.take(codes[:, j])
                if self.kind == "pandas"
                else level.gather(codes[:, j])
            )
        if self.kind == "pandas":
            import pandas as pd  # noqa: PLC0415

            return pd.DataFrame(taken, columns=self.columns, copy=False)
        import polars as pl  # noqa: PLC0415

        return pl.DataFrame(taken)


def _column(frame: Any, label: Any) -> Any:
    return frame[label]


def _pandas_codes(levels: Any, column: Any, label: Any) -> tuple[Any, np.ndarray]:
    """(levels with the column's new values added, the column's codes)."""
    import pandas as pd  # noqa: PLC0415

    column = column.reset_index(drop=True)
    both = _pandas_joined(levels, column, label)
    if both.dtype.kind == "f" and isinstance(both.dtype, np.dtype):
        # By the bits: 0.0 and -0.0 are two values, all NaN are one.
        values = both.to_numpy()
        bits = np.where(np.isnan(values), np.nan, values).astype(values.dtype)
        codes, _ = pd.factorize(bits.view(f"i{values.dtype.itemsize}"))
    else:
        codes, _ = pd.factorize(both, use_na_sentinel=False)
    first = np.unique(codes, return_index=True)[1]
    return both.iloc[first].reset_index(drop=True), codes[len(levels) :]


def _pandas_joined(levels: Any, column: Any, label: Any) -> Any:
    import pandas as pd  # noqa: PLC0415

    if levels.dtype == column.dtype:
        return pd.concat([levels, column], ignore_index=True)
    if isinstance(levels.dtype, pd.CategoricalDtype) and isinstance(
        column.dtype, pd.CategoricalDtype
    ):
        unknown = sorted(map(str, set(column.dropna()) - set(levels.dtype.categories)))
        if unknown:
            raise InputError(
                f"X, column {label!r}: categories {unknown} are unknown to the background's "
                "categorical dtype. Give both the same categories."
            )
        return pd.concat([levels, column.astype(levels.dtype)], ignore_index=True)
    numeric = all(
        d.kind in "iufb" and isinstance(d, np.dtype) for d in (levels.dtype, column.dtype)
    )
    if not numeric or "b" in (levels.dtype.kind, column.dtype.kind):
        raise InputTypeError(
            f"X, column {label!r} has dtype {column.dtype}, but the background has {levels.dtype}. "
            f"Say X[{label!r}].astype(background[{label!r}].dtype)."
        )
    common = np.result_type(levels.dtype, column.dtype)
    return pd.concat([levels.astype(common), column.astype(common)], ignore_index=True)


def _polars_codes(levels: Any, column: Any, label: Any) -> tuple[Any, np.ndarray]:
    import polars as pl  # noqa: PLC0415

    if levels.dtype != column.dtype:
        raise InputTypeError(
            f"X, column {label!r} has dtype {column.dtype}, but the background has {levels.dtype}. "
            f"Cast one to the other."
        )
    column = column.rename("value")
    both = pl.concat([levels.rename("value"), column]).unique(maintain_order=True)
    places = both.to_frame().with_row_index("place")
    joined = column.to_frame().join(
        places, on="value", how="left", nulls_equal=True, maintain_order="left"
    )
    return both, joined["place"].to_numpy().astype(np.int32)
