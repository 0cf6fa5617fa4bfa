"""Types of the columns of Parquet files, decided before the first part, so that all parts agree.

Files of one input may hold a column in several types, and frame libraries read integers with
missing values in another dtype. Parts read independently would differ.

Letters: F columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.tables.plain_frames import PANDAS_NULLABLE
from xaijax.tables.rows import rows_of

ROWS = 1 << 16  # rows of a column that are checked at once
NUMBERS = ("int", "uint", "float", "double", "half", "bool")


@dataclass(frozen=True)
class ArrowColumns:
    """The columns in the form that the explainer receives.

    Attributes:
        kind: "array" or a frame library.
        schema: pyarrow's schema with plain types; categories are their values.
        dtypes: (name, dtype) of the frame's columns that differ from the library's default for the
            type.
    """

    kind: str
    schema: Any
    dtypes: tuple[tuple[str, Any], ...] = ()

    def batch(self, batch: Any, constants: Sequence[tuple[str, Any]]) -> Any:
        """Casts a record batch to these types; constants: columns given by the folder's name."""
        arrow: Any = require("pyarrow", "xaijax[scale]")
        values = dict(constants)
        arrays = [
            arrow.repeat(arrow.scalar(values[field.name], field.type), len(batch))
            if field.name in values
            else _cast(batch.column(field.name), field)
            for field in self.schema
        ]
        return arrow.RecordBatch.from_arrays(arrays, schema=self.schema)

    def rows(self, table: Any, first: int) -> Any:
        """Rows of a Table of such batches: an array [n, F], or a frame.

        first: the position of its first row in X, for errors.
        """
        if self.kind == "array":
            return np.column_stack([column.to_numpy() for column in table.columns])
        if self.kind == "pandas":
            frame = table.to_pandas(ignore_metadata=True)
        else:
            frame = require("polars", "polars").from_arrow(table)
        for name, dtype in self.dtypes:
            if hasattr(dtype, "categories") or self.kind == "polars":
                _refuse_unknown(frame[name], name, dtype, first)
            if self.kind == "polars":
                frame = frame.with_columns(frame[name].cast(dtype))
            elif hasattr(dtype, "numpy_dtype"):  # from the integers themselves, not from floats
                frame[name] = table[name].to_pandas(types_mapper=lambda _, dtype=dtype: dtype)
            else:
                frame[name] = frame[name].astype(dtype)
        return frame


def layout_of(
    kind: str,
    names: Sequence[str],
    types: dict[str, list[Any]],
    missing: set[str],
    background: Any,
    folders: Collection[str] = (),
) -> ArrowColumns:
    """Decides the form of the columns; types: the types of each column in all files.

    missing: integer or bool columns with nulls in any file. background: the explainer's background
    rows, whose dtypes decide the dtypes of categories and missing numbers. folders: columns given
    by folder names; they are categories if they are in the background.

    Raises InputError or InputTypeError for types that have no common type, or do not fit an array.
    """
    arrow: Any = require("pyarrow", "xaijax[scale]")
    wanted = dict.fromkeys(names)
    if kind != "array":
        frame = rows_of(background)
        wanted = dict(zip(map(str, frame.labels), background.dtypes, strict=True))
    fields, dtypes = [], []
    for name in names:
        common = _common(name, types[name])
        categories = name in folders or any(map(arrow.types.is_dictionary, types[name]))
        if kind == "array":
            _refuse_no_number(name, types[name], name in missing and str(common) == "bool")
        arrow_type, dtype = _handed_over(kind, common, categories, name in missing, wanted[name])
        fields.append(arrow.field(name, arrow_type))
        if dtype is not None:
            dtypes.append((name, dtype))
    return ArrowColumns(kind, arrow.schema(fields), tuple(dtypes))


def _handed_over(
    kind: str, common: Any, categories: bool, missing: bool, wanted: Any
) -> tuple[Any, Any]:
    """(type of pyarrow, dtype of the frame or None for the library's default)."""
    arrow: Any = require("pyarrow", "xaijax[scale]")
    if kind == "polars":  # polars has nulls of every dtype
        text = str(wanted).startswith(("Categorical", "Enum"))
        return common, wanted if categories and text else None
    if categories and hasattr(wanted, "categories"):
        return common, wanted
    whole, truth = arrow.types.is_integer(common), arrow.types.is_boolean(common)
    if getattr(wanted, "name", None) in PANDAS_NULLABLE and (whole or truth):
        name = "boolean" if truth else str(common).capitalize().replace("Uint", "UInt")
        return common, require("pandas", "xaijax[data]").api.types.pandas_dtype(name)
    if not (missing and (whole or truth)):
        return common, None
    return (common, np.dtype(object)) if truth else (arrow.float64(), None)


def _common(name: str, types: Sequence[Any]) -> Any:
    """The common type of a column in all files."""
    arrow: Any = require("pyarrow", "xaijax[scale]")
    plain = [type_.value_type if arrow.types.is_dictionary(type_) else type_ for type_ in types]
    plain = list(dict.fromkeys(plain))
    kinds = {arrow.types.is_floating(type_) for type_ in plain if not arrow.types.is_null(type_)}
    try:
        schemas = [arrow.schema([(name, type_)]) for type_ in plain]
        common = arrow.unify_schemas(schemas, promote_options="permissive").field(name).type
    except (arrow.ArrowTypeError, arrow.ArrowInvalid):
        shown = ", ".join(map(str, plain))
        raise InputError(
            f"X: column {name!r} has several types in the files ({shown}). Write one of them."
        ) from None
    return arrow.float64() if len(kinds) > 1 else common


def _refuse_no_number(name: str, types: Sequence[Any], empty_truth: bool) -> None:
    known = [type_ for type_ in types if str(type_) != "null"]  # as in an empty file
    for type_ in known or types:
        if not str(type_).startswith(NUMBERS):
            raise InputTypeError(
                f"X: column {name!r} holds {type_}, but the explainer's background is "
                "an array of numbers. Make the explainer of a frame with these columns."
            )
    if empty_truth:
        raise InputTypeError(
            f"X: column {name!r} holds bool with missing entries; the background is numbers. Fill "
            "it, or write it as numbers."
        )


def missing_in(file: Any, types: Mapping[str, Any]) -> set[str]:
    """Integer or bool columns of a ParquetFile that have nulls.

    Taken from the statistics of row groups if they exist, otherwise from the values. types: the
    types in which columns are read.
    """
    small = [name for name, dtype in types.items() if _has_no_null(dtype)]
    if not small or not file.num_row_groups:
        return set()
    first = file.metadata.row_group(0)
    places = {first.column(j).path_in_schema: j for j in range(first.num_columns)}
    small = [name for name in small if name in places]  # others come from the file's folder
    return {name for name in small if _misses(file, name, places[name])}


def _has_no_null(type: Any) -> bool:
    """Whether NumPy has no missing value for the type."""
    plain = getattr(type, "value_type", type)  # of categories
    return str(plain).startswith(("int", "uint", "bool", "null"))


def _misses(file: Any, name: str, place: int) -> bool:
    for g in range(file.num_row_groups):
        statistics = file.metadata.row_group(g).column(place).statistics
        if statistics is None or not statistics.has_null_count:
            batches = file.iter_batches(ROWS, [g], [name], use_threads=False)
            if any(batch.column(0).null_count for batch in batches):
                return True
        elif statistics.null_count:
            return True
    return False


def _cast(column: Any, field: Any) -> Any:
    arrow: Any = require("pyarrow", "xaijax[scale]")
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError):  # which show the value
        raise InputError(
            f"X: column {field.name!r} holds {column.type}, but all of X is read as {field.type}, "
            "and some of its values would change. Write the column in one type that holds all."
        ) from None


def _refuse_unknown(column: Any, name: str, dtype: Any, first: int) -> None:
    """Raises InputError for a value outside the background's categories, if these are listed."""
    known = getattr(dtype, "categories", None)
    if known is None or not hasattr(known, "__len__"):  # an open list in polars
        return
    if hasattr(column, "is_in"):  # of polars
        among = column.is_in(known.implode()) | column.is_null()
    else:
        among = column.isin(known) | column.isna()
    wrong = np.flatnonzero(~among.to_numpy())
    if len(wrong):
        raise InputError(
            f"X: column {name!r} has in row {first + int(wrong[0])} a category that the "
            "explainer's background does not know. Give both the same categories."
        )
