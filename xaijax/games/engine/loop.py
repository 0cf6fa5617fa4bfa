"""The interface of evaluation and the two loops: streams of rows in, outputs and sums out.

Letters: N instances, B donors, P players, K scores, A answers, C coalitions, R rows, k players that
differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from xaijax_kernels.engine.lattice import LISTED, Pairs, RowStream
from xaijax_kernels.engine.listed import ListedStream

if TYPE_CHECKING:
    from xaijax.games.engine.device import DeviceBackend
    from xaijax.games.engine.host import HostBackend

Backend: TypeAlias = "DeviceBackend | HostBackend"  # what runs the model
Stream = Pairs | ListedStream | RowStream  # rows to evaluate


Check = Callable[[Any, Any], None]  # (stream, answers): sees every piece before it is used
Done = Callable[[int], object]  # (rows): called afterwards
Count = Callable[[int], int]  # players -> number of values summed from their sub-coalitions


@dataclass(frozen=True)
class Instances:
    """The instances that a stream numbers from 0."""

    codes: np.ndarray  # [N, C]
    own: np.ndarray | None = None  # float64 [N, A], f(x), if the score reads it
    here: np.ndarray | None = None  # int [N], their rows in X, for messages


@dataclass(frozen=True)
class GameQuery:
    """The arguments of every query for v(S), without its stream."""

    x: Instances
    donor_weights: np.ndarray  # [B]
    check: Check
    done: Done
    masks: np.ndarray | None = None  # bool [C, P], the coalitions that the stream names


def every_row(stream: Stream, answered: Iterator[Any]) -> Iterator[Any]:
    """Yields the pieces; raises RuntimeError if they are not all rows of the stream, in order.

    Results take the positions of outputs from the stream. A lost piece would give wrong numbers
    that still add up to f(x), which is read from the same rows.
    """
    row = 0
    for answers in answered:
        if answers.piece.first_row != row:
            break
        yield answers
        row += answers.piece.rows
    else:
        if row == stream.rows:
            return
    refuse_lost_rows(stream, row)


def refuse_lost_rows(stream: Stream, row: int) -> NoReturn:
    """Raises RuntimeError: the answers to the stream end, or go on elsewhere, after `row` rows."""
    raise RuntimeError(
        f"The answers to {stream.rows:,} hybrids end or go on elsewhere after {row:,}. This is a "
        "fault of xaijax, and no result is given; please report it."
    )


OF_X = "these are hybrids of X"  # start of a note that counts rows within the call
_SHOWN = 8  # chunks of rows that are named


class WhoseRows:
    """The rows of a stream whose slots are one row each."""

    def __init__(self, x: Instances, kind: str, masks: np.ndarray | None) -> None:
        """kind, masks: of the stream."""
        self._here = x.here
        # For single rows: whether a coalition of the list keeps nothing of X.
        self._none_kept = None if kind != "rows" or masks is None else ~masks.any(axis=1)

    def of(self, slots: np.ndarray) -> str:
        """A description of rows for messages; slots int32 [R, 3 + words]."""
        if self._none_kept is not None and self._none_kept[slots[:, 0] - LISTED].all():
            rows = named_rows(slots[:, 2])
            return f"these are donors as they are (background, pool or data), {rows} of them, not X"
        of_x = slots[:, 1] if self._here is None else self._here[slots[:, 1]]
        return f"{OF_X} {named_rows(of_x)} with the donors (background, pool or data)"


def named_rows(rows: Any) -> str:
    """ "row 4", "rows 0 to 31", "rows 2, 5 and 9 to 11", from integers in any order."""
    distinct = np.unique(rows)
    gaps = np.flatnonzero(np.diff(distinct) > 1)
    starts = distinct[np.r_[0, gaps + 1]]
    stops = distinct[np.r_[gaps, len(distinct) - 1]]
    parts = [f"{a}" if a == b else f"{a} to {b}" for a, b in zip(starts, stops, strict=True)]
    if len(distinct) == 1:
        return f"row {parts[0]}"
    more = len(parts) - _SHOWN
    if more > 0:
        left = int((distinct > stops[_SHOWN - 1]).sum())
        return f"rows {', '.join(parts[:_SHOWN])} and {left:,} more"
    return f"rows {' and '.join(filter(None, [', '.join(parts[:-1]), parts[-1]]))}"
