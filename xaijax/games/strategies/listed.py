"""Computes v(S) for a list of coalitions that all instances share.

Letters: N instances, B donors, C coalitions, P players, K outputs, k players that differ, n
instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from xaijax.games.engine.loop import Backend
from xaijax.games.run import GameRun
from xaijax.games.strategies.totals import Means
from xaijax_kernels.engine.lattice import LISTED
from xaijax_kernels.engine.listed import ListedStream
from xaijax_kernels.engine.tables import host_ranks

if TYPE_CHECKING:
    from xaijax.games.strategies.by_parts import ByParts

# An instance uses sub-coalitions if its pairs need at most this share of the rows.
WORTH = 0.75
MOST_ROWS = 1 << 24  # outputs held at a time, if memory allows


def subset_rows(differs: np.ndarray, C: int) -> np.ndarray:
    """Rows of each pair for C coalitions: its 2^k sub-coalitions, or C if fewer; [..., B]."""
    k = differs.sum(axis=-1, dtype=np.int64)
    return np.minimum(np.int64(1) << np.minimum(k, 62), C)


class Masks(Protocol):
    """A list of coalitions: an array bool [C, P], or an object that makes its parts on request."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> np.ndarray: ...


class WithWhole:
    """A list with the coalition that keeps everything as its last."""

    def __init__(self, masks: Masks, P: int) -> None:
        self._masks, self._whole = masks, np.ones((1, P), bool)

    def __len__(self) -> int:
        return len(self._masks) + 1

    def __getitem__(self, part: slice) -> np.ndarray:
        first, last, _ = part.indices(len(self))
        C = len(self._masks)
        chosen = self._masks[min(first, C) : min(last, C)]
        return np.concatenate([chosen, self._whole]) if first <= C < last else chosen


@dataclass(frozen=True)
class ListedChunk:
    """A chunk of a list: instances, coalitions and donors that are processed together."""

    instances: np.ndarray  # int [n], instances
    coalitions: slice
    donors: np.ndarray  # int [B], donors
    of_all: np.ndarray | None  # bool, for the instances and all donors; None: see `differs`

    @property
    def differs(self) -> np.ndarray | None:
        """bool [n, B, P]; None: no row may be shared."""
        return None if self.of_all is None else self.of_all[self.instances][:, self.donors]


# Strategies for instances of a list; each goes to the first that takes it.
StrategyOfList: TypeAlias = "BySubsets | ByParts | ByRows"


class BySubsets:
    """A pair's sub-coalitions, if they are fewer than the coalitions."""

    structure: str | None = None

    def __init__(self, run: GameRun) -> None:
        self._run = run

    def holds_answers(self, backend: Backend) -> bool:
        """Whether the outputs of each donor are held until a chunk is done."""
        return True

    def takes(self, n: int, differs: np.ndarray | None, C: int) -> np.ndarray:
        """Whether it takes each of n instances, for C coalitions at a time; bool [n]."""
        if differs is None:
            return np.zeros(n, bool)
        return subset_rows(differs, C).sum(axis=1) <= WORTH * C * differs.shape[1]

    def of(
        self, backend: Backend, rows: np.ndarray, masks: np.ndarray, part: ListedChunk
    ) -> np.ndarray:
        """Means over the part's donors, float64 [n, C, K]; masks bool [C, P]."""
        run, differs, donors = self._run, part.differs, part.donors
        assert differs is not None
        n, B, _ = differs.shape
        instance, donor = np.repeat(np.arange(n), B), np.tile(donors, n)
        pairs = run.pack(backend, instance, donor, differs, len(masks))
        first = np.empty(n * B, np.int32)
        first[pairs.order] = pairs.first
        places = (
            pairs.start_as_given.reshape(n, B),
            (first >= LISTED).reshape(n, B),
            host_ranks(differs),
        )
        return backend.pair_means(pairs, run.question(pairs, rows, donors, backend, masks), places)

    def cost(self, backend: Backend, rows: np.ndarray, C: int, part: ListedChunk) -> None:
        """Adds what `of` asks for C coalitions to the run's cost."""
        differs, cost = part.differs, self._run.cost
        assert differs is not None
        n, B, _ = differs.shape
        slot = 1 << backend.slot_bits
        counts = subset_rows(differs, C)
        held = int((-(-counts // slot) * slot).sum())
        more = differs.sum(axis=2) > (C.bit_length() - 1)  # than C sub-coalitions
        kind = "mixed" if more.any() else "subsets"
        cost.add_rows(rows, counts.sum(axis=1))
        recipe, *after = backend.pair_mean_recipes(kind, held, n, B, C)
        cost.add_calls(backend.calls(held), recipe, *after[:-1])
        cost.add_runs(1, *after[-1:])


class ByRows:
    """One model row for each coalition and donor."""

    structure: str | None = None

    def __init__(self, run: GameRun) -> None:
        self._run = run

    def holds_answers(self, backend: Backend) -> bool:
        """See `BySubsets`."""
        return True

    def takes(self, n: int, differs: np.ndarray | None, C: int) -> np.ndarray:
        """All of n instances."""
        return np.ones(n, bool)

    def of(
        self, backend: Backend, rows: np.ndarray, masks: np.ndarray, part: ListedChunk
    ) -> np.ndarray:
        """Means over the part's donors, float64 [n, C, K]; masks bool [C, P]."""
        run, donors = self._run, part.donors
        stream = ListedStream(
            np.arange(len(rows), dtype=np.int32),
            donors.astype(np.int32),
            len(masks),
            run.P,
            backend.slot_bits,
        )
        run.counted(stream)
        return backend.stream_means(stream, run.question(stream, rows, donors, backend, masks))

    def cost(self, backend: Backend, rows: np.ndarray, C: int, part: ListedChunk) -> None:
        """Adds what `of` asks for C coalitions to the run's cost."""
        B, slot, cost = len(part.donors), 1 << backend.slot_bits, self._run.cost
        held = len(rows) * -(-C // slot) * slot * B
        cost.add_rows(rows, C * B)
        recipe, *after = backend.stream_mean_recipes(held, B, C)
        cost.add_calls(backend.calls(held), recipe, *after[:-1])
        cost.add_runs(1, *after[-1:])


class ByList:
    """One list of coalitions, a chunk of instances at a time: sub-coalitions of pairs, sums of
    parts, or one row for each coalition and donor.
    """

    def __init__(
        self, run: GameRun, strategies: Sequence[StrategyOfList], masks: Masks, K: int
    ) -> None:
        """strategies: each instance goes to the first that takes it; masks bool [C, P], or an
        object that gives such an array for a slice.
        """
        self._run, self._strategies, self._masks = run, strategies, masks
        self._B = len(run.engine.replacement.weights)
        self._most = max(1, min(MOST_ROWS, run.engine.memory.fits("answers", 16 * K)))
        self._K = K
        self.structure: str | None = None  # the structure used for some instances, if any

    def means(self, chosen: np.ndarray) -> Iterator[Means]:
        """(instances, means over donors [n, C, K]) of the instances `chosen`."""
        run, backend = self._run, self._run.backend()
        for rows, differs in self._chunks(chosen):
            compute = partial(self._means, rows, differs)
            backend, means = run.with_less_where_memory_is_short(backend, compute)
            yield rows, run.with_offset(means)

    def cost(self, chosen: np.ndarray) -> None:
        """Adds what `means` asks for to the run's cost."""
        backend, cost, C = self._run.backend(), self._run.cost, len(self._masks)
        for rows, differs in self._chunks(chosen):
            before = cost.rows[rows].sum()
            for strategy, part in self._parts(backend, len(rows), differs):
                coalitions = min(part.coalitions.stop, C) - part.coalitions.start
                strategy.cost(backend, rows[part.instances], coalitions, part)
            evaluated = int(cost.rows[rows].sum() - before)
            cost.reserve(answers=16 * self._K * min(self._most, evaluated))
        cost.reserve(lists=12 * self._run.P * min(C, self._run.engine.listed))

    def _chunks(self, chosen: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Yields (instances int [n], their differences from the donors bool [n, B, P]) that are
        processed together. None: no row may be shared, because the model is random.
        """
        random = not self._run.engine.model.deterministic
        for first, differs in self._run.differing(chosen):
            yield chosen[first : first + len(differs)], None if random else differs

    def _means(self, rows: np.ndarray, differs: np.ndarray | None, backend: Backend) -> np.ndarray:
        """Means of one chunk, float64 [n, C, K]."""
        out = np.zeros((len(rows), len(self._masks), self._K))
        for strategy, part in self._parts(backend, len(rows), differs):
            masks = self._masks[part.coalitions]
            means = strategy.of(backend, rows[part.instances], masks, part)
            out[part.instances, part.coalitions] += means
        return out

    def _parts(
        self, backend: Backend, n: int, differs: np.ndarray | None
    ) -> Iterator[tuple[StrategyOfList, ListedChunk]]:
        """Yields the chunks, and the strategy of each."""
        slot, B, C = 1 << backend.slot_bits, self._B, len(self._masks)
        fits = max(slot, self._most // B // slot * slot)
        step = min(self._run.engine.listed, fits)
        left, taken = np.arange(n), []
        # sub-coalitions are evaluated once for each part of the list
        for strategy in self._strategies:
            places = strategy.takes(n, differs, min(step, C))[left]
            if places.any():
                taken.append((strategy, left[places]))
                self.structure = self.structure or strategy.structure
                left = left[~places]
        for c in range(0, C, step):
            padded = -(-min(step, C - c) // slot) * slot
            donors = max(1, min(B, self._most // padded))
            for b in range(0, B, donors):
                members = np.arange(b, min(b + donors, B))
                for strategy, chosen in taken:
                    held = donors if strategy.holds_answers(backend) else 1
                    together = max(1, self._most // (padded * held))
                    for i in range(0, len(chosen), together):
                        instances = chosen[i : i + together]
                        yield strategy, ListedChunk(instances, slice(c, c + step), members, differs)


# One row for each coalition and donor, by the model itself.


def own_list_means(run: GameRun, rows: np.ndarray, masks: np.ndarray, K: int) -> np.ndarray:
    """Means over donors, float64 [n, C, K], of the instances `rows` [n]; masks bool [n, C, P]."""
    compute = partial(_means, run, rows, masks, K)
    return run.with_offset(run.with_less_where_memory_is_short(run.backend(), compute)[1])


def _means(
    run: GameRun, rows: np.ndarray, masks: np.ndarray, K: int, backend: Backend
) -> np.ndarray:
    """`own_list_means` on this backend, as many at a time as the memory holds."""
    n, C, P = masks.shape
    slot, engine = 1 << backend.slot_bits, run.engine
    B, most = len(engine.replacement.weights), max(1, engine.memory.fits("answers", 16 * K))
    most = min(MOST_ROWS, most)
    step = min(engine.listed, max(slot, most // B // slot * slot))
    out = np.zeros((n, C, K))
    for c in range(0, C, step):
        part = masks[:, c : c + step]
        count = part.shape[1]
        padded = -(-count // slot) * slot
        donors = max(1, min(B, most // padded))
        together = max(1, min(most // (padded * donors), engine.listed // padded))
        together = min(together, engine.instances_at_a_time)
        for i in range(0, n, together):
            chunk = part[i : i + together]
            last = np.repeat(chunk[:, -1:], padded - count, axis=1)
            listed = np.concatenate([chunk, last], axis=1).reshape(-1, P)
            places = np.arange(len(chunk), dtype=np.int32)
            for b in range(0, B, donors):
                of = np.arange(b, min(b + donors, B), dtype=np.int32)
                stream = ListedStream(places, of, count, P, backend.slot_bits, own=True)
                run.counted(stream)
                question = run.question(stream, rows[i : i + together], of, backend, listed)
                means = backend.stream_means(stream, question)
                out[i : i + together, c : c + count] += means[:, :count]
    return out
