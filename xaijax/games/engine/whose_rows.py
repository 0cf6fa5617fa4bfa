"""Whose hybrids the rows of a call are: what is said where a host model's own exception comes out.

Letters: R rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.games.engine.loop import Instances
from xaijax_kernels.engine.lattice import LISTED

OF_X = "these are hybrids of X"  # how a note begins that counts rows as the call did
_SHOWN = 8  # stretches of rows that are named


class WhoseRows:
    """The rows of a stream whose slots are one row each."""

    def __init__(self, x: Instances, kind: str, masks: np.ndarray | None) -> None:
        """kind, masks: of the stream."""
        self._here = x.here
        # Of rows asked one by one, whether a coalition of the list keeps nothing of X.
        self._none_kept = None if kind != "rows" or masks is None else ~masks.any(axis=1)

    def of(self, slots: np.ndarray) -> str:
        """Of some rows; slots int32 [R, 3 + words]."""
        if self._none_kept is not None and self._none_kept[slots[:, 0] - LISTED].all():
            rows = named_rows(slots[:, 2])
            return f"these are donors as they are (background, pool or data), {rows} of them, not X"
        own = slots[:, 1] if self._here is None else self._here[slots[:, 1]]
        return f"{OF_X} {named_rows(own)} with the donors (background, pool or data)"


def named_rows(rows: Any) -> str:
    """ "row 4", "rows 0 to 31", "rows 2, 5 and 9 to 11" of whole numbers in any order."""
    distinct = np.unique(rows)
    ends = np.flatnonzero(np.diff(distinct) > 1)
    starts = distinct[np.r_[0, ends + 1]]
    stops = distinct[np.r_[ends, len(distinct) - 1]]
    parts = [f"{a}" if a == b else f"{a} to {b}" for a, b in zip(starts, stops, strict=True)]
    if len(distinct) == 1:
        return f"row {parts[0]}"
    more = len(parts) - _SHOWN
    if more > 0:
        left = int((distinct > stops[_SHOWN - 1]).sum())
        return f"rows {', '.join(parts[:_SHOWN])} and {left:,} more"
    return f"rows {' and '.join(filter(None, [', '.join(parts[:-1]), parts[-1]]))}"
