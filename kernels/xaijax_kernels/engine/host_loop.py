"""The host loop: hybrids drawn on the device, fetched with look-ahead, answered by a host model.

Letters: R rows in one model call, C code columns, K outputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

LOOK_AHEAD = 2  # tiles drawn ahead of the one that the model answers


class HostOutputs(NamedTuple):
    """One piece of the stream and the model's answers to it."""

    piece: Any  # a `lattice.Dispatch`, or another object with `rows`
    values: np.ndarray  # float64 [rows, K]


def run_on_host(
    draw: Callable[[Any], Any],  # a piece -> hybrids [R, C], on the device or in NumPy
    answer: Callable[[np.ndarray, Any], np.ndarray],  # hybrids [rows, C] -> float64 [rows, K]
    pieces: Iterable[Any],
    mapped: Callable[..., Iterator[Any]] = map,
) -> Iterator[HostOutputs]:
    """Answers the pieces in order. While the model works on one, the next are drawn and copied.

    mapped(function, pieces): yields the results in order; `map` calls the model once per piece,
    from the calling thread. Exceptions pass through.
    """

    def take(item: tuple[Any, Any]) -> HostOutputs:
        piece, drawn = item
        return HostOutputs(piece, answer(np.asarray(drawn)[: piece.rows], piece))

    yield from mapped(take, _drawn_ahead(draw, pieces))


def _drawn_ahead(draw: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    waiting: deque[tuple[Any, Any]] = deque()
    for piece in pieces:
        drawn = draw(piece)
        if isinstance(drawn, jax.Array):
            drawn.copy_to_host_async()
        waiting.append((piece, drawn))
        if len(waiting) > LOOK_AHEAD:
            yield waiting.popleft()
    yield from waiting
