"""Turns frames into dicts of NumPy arrays and plain values, and back, column by column.

Texts and other objects are object arrays here; `results/files/npz.py` writes them to files.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.tables.rows import rows_of

PANDAS_NULLABLE = {"boolean", "Float32", "Float64"} | {
    f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)
}
STRING_STORAGES = ("python", "pyarrow", "pyarrow_numpy")
POLARS_NUMBERS = PANDAS_NULLABLE - {"boolean"} | {"Boolean"}
POLARS_TEXTS = {"String", "Categorical", "Enum"}
POLARS_TIMES = {"Date", "Datetime", "Duration", "Time"}


MISSING = ("NA", "NaT")  # of pandas


def missing_name(value: Any) -> str | None:
    """The name of a missing value of pandas; None for other values."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return None
    return next((name for name in MISSING if value is getattr(pandas, name)), None)


def missing_value(name: str) -> Any:
    """The missing value with this name; raises ValueError if there is none."""
    if name not in MISSING:
        raise ValueError(f"{name!r:.60} is no missing value of pandas")
    return getattr(_library("pandas"), name)


def to_plain(frame: Any) -> dict[str, Any]:
    """A frame as plain values.

    Raises:
        InputError: a column or index has a dtype that cannot be stored exactly.
    """
    if rows_of(frame).kind == "polars":
        return {"library": "polars", "series": [_from_polars(series) for series in frame]}
    columns = [frame.iloc[:, j] for j in range(frame.shape[1])]
    return {
        "library": "pandas",
        "columns": from_index(frame.columns, "column labels"),
        "index": from_index(frame.index, "index"),
        "series": [_from_pandas(column, f"column {column.name!r}") for column in columns],
    }


def from_plain(plain: dict[str, Any]) -> Any:
    """The frame that `to_plain` was given."""
    if plain["library"] == "polars":
        return _library("polars").DataFrame([_to_polars(series) for series in plain["series"]])
    if plain["library"] != "pandas":
        raise ValueError(f"{plain['library']!r:.60} is no library of frames")
    pandas = _library("pandas")
    index = to_index(plain["index"])
    columns = {j: _to_pandas(series) for j, series in enumerate(plain["series"])}
    # Arrays, not series: a series would be matched to the index by label.
    frame = pandas.DataFrame(columns, index=index, copy=False)
    frame.columns = to_index(plain["columns"])
    return frame


def is_index(value: Any) -> bool:
    """Whether it is a pandas Index."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.Index)


def from_index(index: Any, what: str) -> dict[str, Any]:
    """An index as plain values.

    Raises:
        InputError: the labels have a dtype that cannot be stored exactly.
    """
    pandas = _library("pandas")
    if isinstance(index, pandas.MultiIndex):
        levels = [from_index(index.get_level_values(n), what) for n in range(index.nlevels)]
        return {"levels": levels, "names": list(index.names)}
    if isinstance(index, pandas.RangeIndex):
        return {"range": [index.start, index.stop, index.step], "name": index.name}
    return {"series": _from_pandas(index.to_series(), what), "name": index.name}


def to_index(plain: dict[str, Any]) -> Any:
    """The index that `from_index` was given."""
    pandas = _library("pandas")
    if "levels" in plain:
        levels = [to_index(level) for level in plain["levels"]]
        return pandas.MultiIndex.from_arrays(levels, names=plain["names"])
    if "range" in plain:
        return pandas.RangeIndex(*plain["range"], name=plain["name"])
    values = _to_pandas(plain["series"])
    # Without the dtype, pandas would guess another one for objects.
    return pandas.Index(values, dtype=values.dtype, name=plain["name"])


def _from_pandas(series: Any, what: str) -> dict[str, Any]:
    pandas = _library("pandas")
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return {"kind": "numpy", "values": series.to_numpy()}
    if isinstance(dtype, pandas.CategoricalDtype):
        categories = from_index(dtype.categories, f"categories of {what}")
        codes = series.array.codes
        return {
            "kind": "category",
            "codes": codes,
            "categories": categories,
            "ordered": dtype.ordered,
        }
    missing = series.isna().to_numpy()
    if isinstance(dtype, pandas.StringDtype):
        texts = series.to_numpy(dtype=object, na_value=None)
        na = "NA" if dtype.na_value is pandas.NA else "nan"
        return {"kind": "string", "storage": dtype.storage, "na": na, "values": texts}
    if dtype.name in PANDAS_NULLABLE:
        numpy_dtype = dtype.numpy_dtype
        values = series.to_numpy(dtype=numpy_dtype, na_value=numpy_dtype.type(0))
        return {"kind": "nullable", "dtype": dtype.name, "values": values, "missing": missing}
    if isinstance(dtype, pandas.PeriodDtype):
        freq = dtype.name.removeprefix("period[").removesuffix("]")
        return {"kind": "period", "freq": freq, "values": series.array.asi8}
    if isinstance(dtype, pandas.DatetimeTZDtype):
        zone = str(dtype.tz)
        if pandas.DatetimeTZDtype(dtype.unit, zone) == dtype:
            utc = series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
            return {"kind": "zoned", "zone": zone, "values": utc}
    raise InputError(f"data: {what} has the dtype {dtype}, which is not saved; use .astype(...).")


def _to_pandas(plain: dict[str, Any]) -> Any:
    pandas = _library("pandas")
    kind = plain["kind"]
    if kind == "category":
        categories = to_index(plain["categories"])
        return pandas.Categorical.from_codes(
            plain["codes"], categories=categories, ordered=plain["ordered"]
        )
    values = plain["values"]
    if kind == "string":
        if plain["storage"] not in STRING_STORAGES:
            raise ValueError(f"{plain['storage']!r:.60} is no storage of texts")
        na = pandas.NA if plain["na"] == "NA" else np.nan
        dtype = pandas.StringDtype(storage=plain["storage"], na_value=na)
        return pandas.array(values, dtype=dtype)
    if kind == "nullable":
        if plain["dtype"] not in PANDAS_NULLABLE:
            raise ValueError(f"{plain['dtype']!r:.60} is no dtype that is saved")
        result = pandas.array(values, dtype=plain["dtype"])
        result[plain["missing"]] = pandas.NA
        return result
    if kind == "period":
        return pandas.PeriodIndex.from_ordinals(values, freq=plain["freq"]).array
    if kind == "zoned":
        return pandas.DatetimeIndex(values).tz_localize("UTC").tz_convert(plain["zone"]).array
    if kind != "numpy":
        raise ValueError(f"{kind!r:.60} is no kind of column")
    # A NumPy-backed extension array prevents pandas from reading object columns as texts.
    return pandas.arrays.NumpyExtensionArray(values) if values.dtype == object else values


def _from_polars(series: Any) -> dict[str, Any]:
    dtype = series.dtype
    name = str(dtype.base_type())
    plain: dict[str, Any] = {"name": series.name, "dtype": name}
    if name in POLARS_TEXTS:
        if name == "Enum":
            plain["categories"] = dtype.categories.to_list()
        texts = np.empty(len(series), dtype=object)
        texts[:] = series.cast(str).to_list()
        return plain | {"values": texts}
    if name in POLARS_TIMES:
        for setting in ("time_unit", "time_zone"):
            if getattr(dtype, setting, None) is not None:
                plain[setting] = getattr(dtype, setting)
        series = series.to_physical()
    elif name not in POLARS_NUMBERS:
        raise InputError(
            f"data: column {series.name!r} has the dtype {dtype}, which is not saved; .cast(...) "
            "it."
        )
    missing = series.is_null().to_numpy()
    filled = series.fill_null(False if name == "Boolean" else 0)
    return plain | {"values": filled.to_numpy(), "missing": missing}


def _to_polars(plain: dict[str, Any]) -> Any:
    polars = _library("polars")
    name, values = plain["dtype"], plain["values"]
    if name not in POLARS_NUMBERS | POLARS_TEXTS | POLARS_TIMES:
        raise ValueError(f"{name!r:.60} is no dtype that is saved")
    dtype = getattr(polars, name)
    if name == "Enum":
        dtype = polars.Enum(plain["categories"])
    if name in POLARS_TEXTS:
        return polars.Series(plain["name"], values.tolist(), dtype=polars.String).cast(dtype)
    series = polars.Series(plain["name"], values)
    if plain["missing"].any():
        nothing = polars.Series(plain["name"], [None], dtype=series.dtype)
        series = series.zip_with(polars.Series(~plain["missing"]), nothing)
    settings = {key: plain[key] for key in ("time_unit", "time_zone") if key in plain}
    return series.cast(dtype(**settings) if settings else dtype)


def _library(name: str) -> Any:
    """Imports pandas or polars, or raises the error that tells how to install it."""
    return require(name, "xaijax[data]" if name == "pandas" else name)
