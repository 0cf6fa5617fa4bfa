"""Whose rows the pool and the people explained are, for a private release.

That follows from what was passed. Values of private rows are never compared for it, since the copy
and its noise would tell the outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xaijax.games.measure.replacement import Baseline
from xaijax.tables.same_memory import is_same, shares_memory


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
