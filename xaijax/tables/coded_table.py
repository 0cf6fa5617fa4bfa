"""`CodedTable`: rows of an estimator that JAX runs, each column as a number.

Rows are read and kept as the estimator itself takes them, by the table of host models, and made
numbers where they are encoded: so the estimator can answer in JAX's place at any time.

Letters: M rows, F columns.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from xaijax.core.checks import NanColumns
from xaijax.tables.table import Table


class Untranslatable(Exception):
    """Why an estimator, or rows for it, cannot go to JAX."""


class RowReader(Protocol):
    """What makes numbers of rows; `models/translations/columns.Reader`."""

    @property
    def dtype(self) -> np.dtype: ...
    def codes(self, rows: Any, argument: str = "X") -> Any: ...


class CodedTable:
    """Arrays or frames for an estimator translated to JAX; the code of a number is the number."""

    codes_per_column = 1

    def __init__(self, host: Table, reader: RowReader) -> None:
        self.host = host  # reads the rows, and is what the estimator itself is asked by
        self.shape, self.feature_names = host.shape, host.feature_names
        self._reader = reader

    def read(
        self, X: Any, name: str, allow_nan: bool | NanColumns, owner: str = "the background"
    ) -> Any:
        """X as the estimator takes it, checked and copied."""
        return self.host.read(X, name, allow_nan, owner)

    def encode(self, rows: Any) -> tuple[CodedTable, Any]:
        """Numbers [M, F]; raises Untranslatable where they do not fit the dtype."""
        return self, self._reader.codes(rows, "X or background")

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """The numbers as they are."""
        return codes

    asked = decode


def read_by(table: Table) -> Table:
    """What reads rows for this table: the table of the host, where they are then made numbers."""
    return table.host if isinstance(table, CodedTable) else table
