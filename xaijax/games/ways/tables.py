"""v(S) of all coalitions, in stretches of instances, or of donors, that fit the memory.

Letters: N instances, n of a stretch, B donors, P players, K scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from xaijax.games.asking.questions import Questions
from xaijax.games.engine.loop import Backend
from xaijax.games.ways.totals import Coming


def full_tables(
    ask: Questions, chosen: np.ndarray, K: int, most_rows: int, most_instances: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(instances, means over donors [n, 2^P, K])."""
    backend = ask.backend()
    for here, differs in _planned(ask, chosen, most_rows, most_instances):
        run = partial(_table_of_stretch, ask, here, differs, K, most_rows)
        backend, table = ask.with_less_where_memory_is_short(backend, run)
        yield here, table


def tables_coming(
    ask: Questions, chosen: np.ndarray, most_rows: int, most_instances: int
) -> Iterator[tuple[np.ndarray, Coming]]:
    """(instances, what `full_tables` would ask for)."""
    backend = ask.backend()
    for here, differs in _planned(ask, chosen, most_rows, most_instances):
        k, calls, recipes = differs.sum(axis=2, dtype=np.int64), 0, []
        for donors in _donors(ask, k, backend, most_rows):
            own = k[:, donors].ravel()
            for pairs, bits in ask.streams(backend, own):
                least = backend.slot_bits if bits is None else bits
                calls += backend.calls(int((np.int64(1) << np.maximum(own[pairs], least)).sum()))
                recipes.append(backend.recipe("corners" if bits is None else "structured", bits))
        yield here, Coming((np.int64(1) << k).sum(axis=1), calls, recipes)


def _planned(
    ask: Questions, chosen: np.ndarray, most_rows: int, most_instances: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(instances, how they differ from the donors) of stretches that fit the memory."""
    backend = ask.backend()
    for first, differs in ask.differing(chosen):
        asked = (np.int64(1) << np.maximum(differs.sum(2), ask.least_bits(backend))).sum(1)
        for lo, hi in _stretches(asked, most_rows, most_instances):
            yield chosen[first + lo : first + hi], differs[lo:hi]


def _donors(ask: Questions, k: np.ndarray, backend: Backend, most_rows: int) -> Iterator[slice]:
    """All donors, or a few at a time where their rows are too many; k int [n, B]."""
    rows = (np.int64(1) << np.maximum(k, ask.least_bits(backend))).sum()
    step = k.shape[1] if rows <= most_rows else max(1, most_rows >> ask.P)
    for b in range(0, k.shape[1], step):
        yield slice(b, min(b + step, k.shape[1]))


def _table_of_stretch(
    ask: Questions, here: np.ndarray, differs: np.ndarray, K: int, most_rows: int, backend: Backend
) -> np.ndarray:
    """v(S) before the outer function."""
    table = np.zeros((len(differs), 1 << ask.P, K))
    for donors in _donors(ask, differs.sum(2), backend, most_rows):
        own = differs[:, donors]
        n, B, _ = own.shape
        instance = np.repeat(np.arange(n), B)
        donor = np.tile(np.arange(donors.start, donors.stop), n)
        streams, start, first = [], np.empty(n * B, np.int64), 0
        for place, pairs in ask.packs(backend, instance, donor, own):
            question = ask.question(pairs, here, np.arange(donors.start, donors.stop), backend)
            streams.append((pairs, question))
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
