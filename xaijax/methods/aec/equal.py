"""Columns that are equal in every row: they share their sums and slopes, so that they tie.

Two equal columns at other places of a matrix product get sums that differ in the last digits, since
a product is cut into blocks by place. A tie must stay a tie in lists, ranks and the movement rate,
so what belongs to the first of equal columns is taken for all of them. Letters: F features, R rows.
"""

from __future__ import annotations

import numpy as np

FEW = 64  # rows that tell most columns apart, so that whole blocks are compared for few


def split(first: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The first column [F] that each is equal to, when a block of rows x [F, R] is seen too.

    first: the same of the blocks before; all 0 before any. A column that is like no other any more
    is not looked at again, so blocks after the first cost nothing where no two are equal.
    """
    return _split(_split(first, x[:, :FEW]), x)


def _split(first: np.ndarray, x: np.ndarray) -> np.ndarray:
    shared = np.bincount(first, minlength=len(first))[first] > 1
    found, seen = first.copy(), {}
    for j in map(int, np.flatnonzero(shared)):
        values = (x[j] + 0.0).tobytes()  # -0.0 + 0.0 is 0.0
        found[j] = seen.setdefault((int(first[j]), values), j)
    return found


def of_first(products: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Products [..., D, D] with the rows and columns of the first of equal ones, D = len(first)."""
    if (first == np.arange(len(first))).all():
        return products
    return products[..., first[:, None], first]
