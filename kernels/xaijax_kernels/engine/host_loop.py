"""The host loop: hybrids drawn on the device, fetched with look-ahead, answered by a host model.

Letters: R rows in one model call, C code columns, K outputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

LOOK_AHEAD = 2  # tiles drawn before the one in hand is answered


class HostOutputs(NamedTuple):
    """One piece of the stream and the model's answers to it."""

    piece: Any  # a `lattice.Dispatch`, or what else has `rows`
    values: np.ndarray  # float64 [rows, K]


def run_on_host(
    draw: Callable[[Any], jax.Array],  # a piece -> hybrids [R, C] on the device
    answer: Callable[[np.ndarray, Any], np.ndarray],  # hybrids [rows, C] -> float64 [rows, K]
    pieces: Iterable[Any],
    mapped: Callable[..., Iterator[Any]] = map,
) -> Iterator[HostOutputs]:
    """Answers the pieces in order. While the model works on one, the next are drawn and copied.

    mapped(function, pieces): how the model is asked for them, results in order; `map` calls it from
    the calling thread, once per piece. Its exceptions pass through.
    """

    def take(one: tuple[Any, Any]) -> HostOutputs:
        piece, drawn = one
        return HostOutputs(piece, answer(np.asarray(drawn)[: piece.rows], piece))

    yield from mapped(take, _drawn_ahead(draw, pieces))


def _drawn_ahead(
    draw: Callable[[Any], jax.Array], pieces: Iterable[Any]
) -> Iterator[tuple[Any, jax.Array]]:
    waiting: deque[tuple[Any, jax.Array]] = deque()
    for piece in pieces:
        drawn = draw(piece)
        drawn.copy_to_host_async()
        waiting.append((piece, drawn))
        if len(waiting) > LOOK_AHEAD:
            yield waiting.popleft()
    yield from waiting
