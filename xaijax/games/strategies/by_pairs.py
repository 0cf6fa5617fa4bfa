"""Computes values by pairs: each pair's 2^k sub-coalitions with the induced weights, averaged over
donors.

No table is built: because the mean over donors comes last, values of players or of sets are
computed pair by pair.

Letters: n instances of a chunk, B donors, P players, K outputs, M pairs, k players that differ,
N instances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from xaijax.games.engine.dispatch import ProgramRecipe
from xaijax.games.engine.loop import Backend, Check, Done, Instances
from xaijax.games.refuse import refuse_bad_answers
from xaijax.games.run import GameRun
from xaijax.games.strategies.totals import Chunk, Totals, Weights
from xaijax_kernels.engine.lattice import Dispatch, Pairs, runs_of_equal_k


class ByPairs:
    """The strategy for all instances that no cheaper one takes."""

    def __init__(self, run: GameRun, weights: Weights) -> None:
        self._run, self._weights = run, weights

    def takes(self, chunk: Chunk) -> np.ndarray:
        """Every instance; bool [n]."""
        return np.ones(len(chunk.here), bool)

    def add(self, chunk: Chunk, places: np.ndarray, totals: Totals) -> np.ndarray:
        """Writes the sums of the instances at `places` into `totals`; bool, all of them."""
        run, backend, instances = self._run, chunk.backend, chunk.here
        assert chunk.differs is not None
        differs = chunk.differs[places]
        B = differs.shape[1]
        instance, donor = np.repeat(places, B), np.tile(np.arange(B), len(places))
        check = refuse_bad_answers(run.engine, instances, backend)
        x = run.instances(instances)
        for _, pairs in run.packs(backend, instance, donor, differs):
            done = run.reporting(pairs.rows, pairs.distinct_rows)
            pair_semivalues(backend, pairs, x, self._weights, totals, check, done)
        return np.ones(len(places), bool)

    def cost(self, chunk: Chunk, places: np.ndarray) -> None:
        """Adds what `add` asks for to the run's cost."""
        backend, run = chunk.backend, self._run
        assert chunk.differs is not None
        k = chunk.differs[places].sum(axis=2, dtype=np.int64)
        run.cost.add_rows(chunk.here[places], (np.int64(1) << k).sum(axis=1))
        for sizes, slot_bits in _streams_cost(run, backend, k.ravel()):
            for size, pairs in zip(*np.unique(sizes, return_counts=True), strict=True):
                rows = int(pairs) << max(int(size), slot_bits)
                recipe = self._sum_recipe(backend, int(size), slot_bits)
                run.cost.add_runs(backend.calls(rows), recipe)

    def _sum_recipe(self, backend: Backend, k: int, slot_bits: int) -> ProgramRecipe | None:
        """Recipe of the program that sums pairs with k differing players; None if there is none."""
        log2_rows, block = max(k, slot_bits), backend.rows_per_block
        if 1 << log2_rows <= block:
            matrix = self._weights.subsets(k, 1 << log2_rows)
            return backend.pair_recipe(k, slot_bits, matrix, self._weights.count)
        return backend.piece_recipe(self._weights.pieces(k, block.bit_length() - 1))


def _streams_cost(run: GameRun, backend: Backend, k: np.ndarray) -> list[tuple[np.ndarray, int]]:
    """Adds the calls for the sub-coalitions of pairs with k players that differ, int [M], to the
    run's cost; returns (k, log2 of the rows of a slot) of each stream.
    """
    streams = []
    for places, bits in run.streams(backend, k):
        slot_bits = backend.slot_bits if bits is None else bits
        rows = int((np.int64(1) << np.maximum(k[places], slot_bits)).sum())
        kind = "subsets" if bits is None else "structured"
        run.cost.add_calls(backend.calls(rows), backend.recipe(kind, bits))
        streams.append((k[places], slot_bits))
    return streams


def pair_semivalues(
    backend: Backend,
    pairs: Pairs,
    x: Instances,
    weights: Weights,
    totals: Totals,
    check: Check,
    done: Done,
) -> None:
    """Adds the semivalues of all pairs to `totals`; x are the instances.

    check(pairs, answers) is called for every piece before its use, done(rows) after.
    """
    for answers in backend.answers(pairs, x):
        check(pairs, answers)
        piece: Dispatch = answers.piece
        last = piece.first_row + piece.rows
        with np.errstate(invalid="ignore"):  # accepted outputs that are not finite
            # All reductions of the piece start before the first result is read.
            started = [
                _start(backend, pairs, answers, weights, totals, *chunk)
                for chunk in runs_of_equal_k(pairs, piece.first_row, last)
            ]
            for finish in started:
                finish()
        done(piece.rows)


def _start(
    backend: Backend,
    pairs: Pairs,
    answers: Any,
    weights: Weights,
    totals: Totals,
    k: int,
    lo: int,
    hi: int,
) -> Callable[[], None]:
    """Starts the sums of the pairs [lo, hi), all with k players that differ."""
    piece, block = answers.piece, backend.rows_per_block
    log2_rows = max(k, pairs.slot_bits)
    if 1 << log2_rows <= block:
        matrix = weights.subsets(k, 1 << log2_rows)
        sums = backend.pair_sums(answers, k, matrix, weights.count)
        place = (pairs.start[lo:hi] - piece.first_row) >> log2_rows
        return lambda: totals.add_pairs(pairs, lo, hi, k, sums(place))
    matrices = weights.pieces(k, block.bit_length() - 1)
    tile_row = np.arange(piece.first_row, piece.first_row + piece.rows, block)
    pair = np.searchsorted(pairs.start, tile_row, side="right") - 1
    high = (tile_row - pairs.start[pair]) // block
    bits = np.bitwise_count(high.astype(np.uint32)).astype(np.int32)
    part = np.flatnonzero((pair >= lo) & (pair < hi))
    tile_sums = backend.piece_sums(answers, matrices, np.minimum(bits, len(matrices) - 1))
    return lambda: totals.add_pieces(pairs, pair[part], high[part], k, tile_sums()[part], matrices)


def full_tables(
    run: GameRun, chosen: np.ndarray, K: int, most_rows: int, most_instances: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(instances, means over donors [n, 2^P, K])."""
    backend = run.backend()
    for instances, differs in _chunks(run, chosen, most_rows, most_instances):
        compute = partial(_table_of_chunk, run, instances, differs, K, most_rows)
        backend, table = run.with_less_where_memory_is_short(backend, compute)
        yield instances, table


def full_tables_cost(
    run: GameRun, chosen: np.ndarray, K: int, most_rows: int, most_instances: int
) -> None:
    """Adds the cost of `full_tables` to the run's cost."""
    backend = run.backend()
    for instances, differs in _chunks(run, chosen, most_rows, most_instances):
        k = differs.sum(axis=2, dtype=np.int64)
        for donors in _donors(run, k, backend, most_rows):
            _streams_cost(run, backend, k[:, donors].ravel())
        rows = (np.int64(1) << k).sum(axis=1)
        run.cost.add_rows(instances, rows)
        answers = 16 * K * min(most_rows, int(rows.sum()))
        run.cost.reserve(answers=answers, results=(24 * K << run.P) * len(instances))


def _chunks(
    run: GameRun, chosen: np.ndarray, most_rows: int, most_instances: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields (instances, their differences from the donors), as many at a time as fit the
    memory."""
    backend = run.backend()
    for first, differs in run.differing(chosen):
        rows = (np.int64(1) << np.maximum(differs.sum(2), run.least_bits(backend))).sum(1)
        for lo, hi in _cuts(rows, most_rows, most_instances):
            yield chosen[first + lo : first + hi], differs[lo:hi]


def _donors(run: GameRun, k: np.ndarray, backend: Backend, most_rows: int) -> Iterator[slice]:
    """Yields all donors, or a few at a time if they have too many rows; k int [n, B]."""
    rows = (np.int64(1) << np.maximum(k, run.least_bits(backend))).sum()
    step = k.shape[1] if rows <= most_rows else max(1, most_rows >> run.P)
    for b in range(0, k.shape[1], step):
        yield slice(b, min(b + step, k.shape[1]))


def _table_of_chunk(
    run: GameRun, rows: np.ndarray, differs: np.ndarray, K: int, most_rows: int, backend: Backend
) -> np.ndarray:
    """v(S) before the outer function."""
    table = np.zeros((len(differs), 1 << run.P, K))
    for donors in _donors(run, differs.sum(2), backend, most_rows):
        differing = differs[:, donors]
        n, B, _ = differing.shape
        instance = np.repeat(np.arange(n), B)
        donor = np.tile(np.arange(donors.start, donors.stop), n)
        streams, start, first = [], np.empty(n * B, np.int64), 0
        for place, pairs in run.packs(backend, instance, donor, differing):
            question = run.question(pairs, rows, np.arange(donors.start, donors.stop), backend)
            streams.append((pairs, question))
            start[place] = first + pairs.start_as_given
            first += pairs.rows
        table += backend.tables(streams, start.reshape(n, B), differing)
    return table


def _cuts(rows: np.ndarray, most_rows: int, most_instances: int) -> Iterator[tuple[int, int]]:
    """Cuts instances into chunks of at most this number of rows and instances; at least one
    each.
    """
    total = np.concatenate([[0], np.cumsum(rows)])
    lo = 0
    while lo < len(rows):
        fits = int(np.searchsorted(total, total[lo] + most_rows, side="right")) - 1
        hi = max(lo + 1, min(fits, lo + most_instances))
        yield lo, hi
        lo = hi
