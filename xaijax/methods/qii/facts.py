"""Public facts of a question of QII that a private release needs: sizes, weights, what is the data.

Whose rows the pool and the people explained are follows from what was passed. Values of private
rows are never compared for it, since the copy and its noise would tell the outcome.

Letters: D data rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xaijax.games.engine.host import hashes
from xaijax.games.measure.replacement.base import Replacement
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.tables.rows import rows_of
from xaijax.tables.same_memory import is_same, shares_memory
from xaijax.tables.table import CodeTable
from xaijax_kernels.engine.lattice import agreement_codes

STEP = 1 << 16  # rows compared at a time


def facts_of(
    mask: np.ndarray | None, weights: np.ndarray, groups: np.ndarray | None, given: bool
) -> dict[str, Any]:
    """Of the data: mask bool [D] of the members; weights [D]; groups [G, D]."""
    D = len(weights)
    largest = weights.max() if groups is None else np.max(groups, axis=1).max()
    return {
        "data_rows": D,
        "members": None if mask is None else int(mask.sum()),
        "rest": None if mask is None else int(D - mask.sum()),
        "data_weights": "given" if given else "equal",
        "largest_data_weight": float(largest),
    }


def pool_is_data(rows: Any, replacement: Replacement) -> bool:
    """Whether donors that were given are equal to the data's own rows, in any order.

    rows: the data as read. Weights do not count: rows of the data stay such, however weighted.
    """
    if replacement.kind != "rows" or replacement.rows_given != len(rows_of(rows)):
        return False
    own = replacement.table.encode(rows)[1]
    kept = replacement.row
    return same_rows(own[kept] if len(kept) < len(own) else own, replacement.codes)


def is_data(table: CodeTable, X: Any, data: Any) -> bool:
    """Whether rows X are those of the data, both as read."""
    if X is data or len(rows_of(X)) != len(rows_of(data)):
        return X is data
    table, own = table.encode(data)  # one encoding of both: codes of a frame's texts compare
    return same_rows(own, table.encode(X)[1])


def same_rows(a: Any, b: Any) -> bool:
    """Whether codes [M, C] hold the same rows: in any order, or in this one out of a memory map."""
    if len(a) != len(b):
        return False
    if all(
        np.array_equal(agreement_codes(a[i : i + STEP]), agreement_codes(b[i : i + STEP]))
        for i in range(0, len(a), STEP)
    ):
        return True
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return False
    one, other = (np.sort(hashes(agreement_codes(codes))) for codes in (a, b))
    return np.array_equal(one, other)


def whose_pool(pool: Any, data: Any, private: Sequence[Any]) -> str:
    """ "data": none was given, or the data; "part": memory of private rows; "other": public rows.

    data: as given; private: other objects that hold private rows.
    """
    if pool is None or is_same(pool, data):
        return "data"
    rows = _source(pool)
    return "part" if any(shares_memory(rows, one) for one in (data, *private)) else "other"


def whose_rows(X: Any, private: Sequence[Any]) -> str:
    """ "data": none were given; "part": memory of private rows; "given": public rows."""
    if X is None:
        return "data"
    return "part" if any(shares_memory(X, one) for one in private) else "given"


def _source(pool: Any) -> Any:
    """What a pool is made of: itself, the row of a `Baseline`, the rows that it is a median of."""
    if not isinstance(pool, Baseline):
        return pool
    return pool.rows if isinstance(pool.row, str) else pool.row
