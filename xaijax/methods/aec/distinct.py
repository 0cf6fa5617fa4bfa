"""Columns of few distinct values as tables of them: a logistic fit needs no more than these.

Letters: M rows, D distinct values, G columns with tables, K' classes fitted against the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xaijax.methods.aec.rows import InMemoryRows

MOST = 4096  # distinct values in a table
LOOKED_AT = 4096  # rows that tell whether a column that is not of whole numbers is worth sorting


@dataclass(frozen=True)
class ValueTable:
    """One column: its values, and the rows' weights at each of them."""

    values: np.ndarray  # float64 [D], ascending
    codes: np.ndarray  # intp [M], the place of each row's value
    total: np.ndarray  # float64 [D]
    positive: np.ndarray  # float64 [K', D], of the rows of the class


def value_table(
    table: InMemoryRows,
    j: int,
    codes: np.ndarray,  # intp [M], places of the classes
    positives: tuple[int, ...],
) -> ValueTable | None:
    """Column j as a table, or None where it has too many distinct values to gain by it.

    Sums of weights are exact where the weights are whole numbers, so the fit is that on the rows.
    """
    column = table.column(j)
    found = _places(column)
    if found is None:
        return None
    values, places = found
    size = len(values)
    total = np.bincount(places, table.weights, size)
    positive = np.empty((len(positives), size))
    for at, k in enumerate(positives):
        of_class = codes == k
        if table.weights is None:
            positive[at] = np.bincount(places[of_class], minlength=size)
        else:
            positive[at] = np.bincount(places[of_class], table.weights[of_class], size)
    return ValueTable(values, places, total.astype(np.float64), positive)


def _places(column: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Distinct values [D], and the place of each row's among them [M]."""
    low, high = column.min(), column.max()
    limit = min(MOST, max(2, len(column) // 4))
    if high - low < limit and low == np.rint(low):
        places = (column - low).astype(np.intp)
        if (places == column - low).all():
            seen = np.bincount(places) > 0
            order = np.cumsum(seen) - 1
            return low + np.flatnonzero(seen), order[places]
    if len(column) > LOOKED_AT:
        few = column[:: -(-len(column) // LOOKED_AT)]
        if len(np.unique(few)) > len(few) // 4:
            return None
    values, places = np.unique(column, return_inverse=True)
    return (values, places) if len(values) <= limit else None


def stacked(tables: list[ValueTable], at: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, totals and positives [G, D] of the class `at`, padded with weight 0.

    D is rounded up to a power of two, so that few shapes are compiled.
    """
    D = 1 << (max(len(one.values) for one in tables) - 1).bit_length()
    values, total, positive = (np.zeros((len(tables), D)) for _ in range(3))
    for g, one in enumerate(tables):
        d = len(one.values)
        values[g, :d], values[g, d:] = one.values, one.values[0]
        total[g, :d], positive[g, :d] = one.total, one.positive[at]
    return values, total, positive
