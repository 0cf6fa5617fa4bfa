"""v(S) of all coalitions, in stretches of instances, or of donors, that fit the memory.

Letters: N instances, n of a stretch, B donors, P players, K scores.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xaijax.games.asking.questions import Questions
from xaijax.games.engine.loop import Backend


def full_tables(
    ask: Questions, chosen: np.ndarray, K: int, most_rows: int, most_instances: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(instances, means over donors [n, 2^P, K])."""
    backend = ask.backend()
    parts: list[np.ndarray] = []

    def stretch(backend: Backend, first: int, differs: np.ndarray) -> None:
        here = chosen[first : first + len(differs)]
        parts.append(_table_of_stretch(ask, backend, here, differs, K, most_rows))

    for first, differs in ask.differing(chosen):
        asked = (np.int64(1) << np.maximum(differs.sum(2), ask.least_bits(backend))).sum(1)
        for lo, hi in _stretches(asked, most_rows, most_instances):
            backend = ask.with_less_where_memory_is_short(
                backend, stretch, first + lo, differs[lo:hi]
            )
            yield chosen[first + lo : first + hi], parts.pop()


def _table_of_stretch(
    ask: Questions, backend: Backend, here: np.ndarray, differs: np.ndarray, K: int, most_rows: int
) -> np.ndarray:
    """v(S) before the outer function; donors a few at a time where their rows are too many."""
    donors, P = ask.evaluator.replacement.weights, ask.evaluator.players.count
    rows = (np.int64(1) << np.maximum(differs.sum(2), ask.least_bits(backend))).sum()
    step = len(donors) if rows <= most_rows else max(1, most_rows >> P)
    table = np.zeros((len(differs), 1 << P, K))
    for b in range(0, len(donors), step):
        own = differs[:, b : b + step]
        n, B, _ = own.shape
        instance, donor = np.repeat(np.arange(n), B), np.tile(np.arange(b, b + B), n)
        streams, start, first = [], np.empty(n * B, np.int64), 0
        for place, pairs in ask.packs(backend, instance, donor, own):
            streams.append((pairs, ask.question(pairs, here, np.arange(b, b + B), backend)))
            start[place] = first + pairs.start_as_given
            first += pairs.rows
        table += backend.tables(streams, start.reshape(n, B), own)
    return table


def _stretches(rows: np.ndarray, most_rows: int, most_instances: int) -> Iterator[tuple[int, int]]:
    """Cut instances into stretches of at most so many rows and instances; at least one each."""
    total = np.concatenate([[0], np.cumsum(rows)])
    lo = 0
    while lo < len(rows):
        fits = int(np.searchsorted(total, total[lo] + most_rows, side="right")) - 1
        hi = max(lo + 1, min(fits, lo + most_instances))
        yield lo, hi
        lo = hi
