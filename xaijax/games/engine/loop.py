"""What evaluation and the two loops agree on: streams of rows in, answers and sums out.

Letters: N instances, B donors, P players, K scores, A answers, C coalitions, R rows, k players that
differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from xaijax_kernels.engine.lattice import Pairs, RowStream
from xaijax_kernels.engine.listed import ListedStream

if TYPE_CHECKING:
    from xaijax.games.engine.device import DeviceBackend
    from xaijax.games.engine.host import HostBackend

Backend: TypeAlias = "DeviceBackend | HostBackend"  # what runs the model
Stream = Pairs | ListedStream | RowStream  # rows to be asked


Check = Callable[[Any, Any], None]  # (stream, answers): sees every piece before it is used
Done = Callable[[int], None]  # (rows): called afterwards
Count = Callable[[int], int]  # players -> values that are summed of their sub-coalitions


@dataclass(frozen=True)
class Instances:
    """The instances that a stream numbers from 0."""

    codes: np.ndarray  # [N, C]
    own: np.ndarray | None = None  # float64 [N, A], f(x), if the score looks at it
    here: np.ndarray | None = None  # int [N], which rows of X they are, for messages


@dataclass(frozen=True)
class GameQuery:
    """What every question for v(S) brings along, in addition to its stream."""

    x: Instances
    donor_weights: np.ndarray  # [B]
    check: Check
    done: Done
    masks: np.ndarray | None = None  # bool [C, P], the coalitions that the stream names


def every_row(stream: Stream, answered: Iterator[Any]) -> Iterator[Any]:
    """The pieces as they come; RuntimeError if they are not all rows of the stream, in order.

    What is made of the answers takes their places from the stream. A lost piece would give wrong
    numbers, and f(x) is read from the same rows, so that base value and values still add up to it.
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
    raise RuntimeError(
        f"The answers to {stream.rows:,} hybrids end or go on elsewhere after {row:,}. This is a "
        "fault of xaijax, and no result is given; please report it."
    )
