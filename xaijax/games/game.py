"""`Game`: the coalition values of N instances, asked for as semivalues or as full tables.

Batched over instances from the start. Bit 1 of a coalition = KEPT: entry 0 is the value with
everything replaced, entry 2^P - 1 is f(x).

Letters: N instances, B donors, P players, K outputs, C code columns, k players that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax._errors import (
    EnumerationLimitError,
    InputError,
    MemoryPlanError,
    ModelOutputError,
)
from xaijax.games._coalitions import ListOfCoalitions, Masks
from xaijax.games._loop import Backend, Check, Done, Question, Stream
from xaijax.games.evaluate import Totals, Weights, pair_semivalues
from xaijax.games.evaluator import LARGEST_PAIR, PROBE_ROWS, Evaluator
from xaijax.games.quantity import Quantity
from xaijax.games.replacement import agreement_codes
from xaijax_kernels.lattice import Pairs, differing, pack
from xaijax_kernels.tables import host_ranks

LARGEST_TABLE = 20  # players of a full table


@dataclass
class Count:
    """Rows that a game asked its model for."""

    distinct: int = 0
    padded: int = 0


@dataclass(frozen=True)
class Survey:
    """What exact values would ask for."""

    corners: np.ndarray  # int64 [N], distinct model rows of each instance
    largest: np.ndarray  # int64 [N], players that differ from a donor at most


class Game:
    """The games of N instances on one evaluator."""

    def __init__(
        self,
        evaluator: Evaluator,
        rows: Any,
        quantity: Quantity,
        progress: Callable[[int], None] = lambda rows: None,
    ) -> None:
        """rows: instances as read by the evaluator's table; progress(model rows done)."""
        self.evaluator, self.quantity, self._progress = evaluator, quantity, progress
        self.table_of_rows, self.codes = evaluator.replacement.table.encode(rows)  # [N, C]
        self.count = Count()
        self.structure: str | None = None  # what answered instead of the whole model, if anything
        self.largest = np.zeros(len(self.codes), np.int64)  # players that differ, once surveyed

    @property
    def N(self) -> int:
        """Instances."""
        return len(self.codes)

    @property
    def P(self) -> int:
        """Players."""
        return self.evaluator.players.count

    @property
    def walks(self) -> bool:
        """Whether `walk` can be asked."""
        return self.evaluator.walks

    @property
    def outputs(self) -> int:
        """K; the first question probes the model."""
        self._backend()
        return self.evaluator.findings.outputs

    def survey(self) -> Survey:
        """Count what exact values would ask for, a stretch at a time; asks the model nothing."""
        corners, largest = np.empty(self.N, np.int64), np.empty(self.N, np.int64)
        for first, differs in self._differing(np.arange(self.N)):
            k = differs.sum(axis=2, dtype=np.int64)
            here = slice(first, first + len(differs))
            largest[here] = k.max(axis=1)
            # Past the limit the count no longer matters, but must not overflow.
            corners[here] = (np.int64(1) << np.minimum(k, LARGEST_PAIR + 1)).sum(axis=1)
        self.largest = largest
        return Survey(corners, largest)

    def refuse_too_many(self, survey: Survey) -> None:
        """Raise EnumerationLimitError for what cannot be enumerated."""
        if not self.quantity.linear and self.P > LARGEST_TABLE:
            raise EnumerationLimitError(
                f"link={self.quantity.name!r} acts on the mean, so the full table of 2^{self.P} "
                f"coalitions is needed; at most {LARGEST_TABLE} players can be enumerated. Group "
                'columns with players=, or use link="identity".'
            )
        k = int(survey.largest.max())
        if k > LARGEST_PAIR:
            n = int(survey.largest.argmax())
            x, donors = self.codes[n : n + 1], self.evaluator.replacement.codes
            own = differing(
                agreement_codes(x), agreement_codes(donors), self.evaluator.code_players, self.P
            )
            b = int(self.evaluator.replacement.row[own[0].sum(axis=1).argmax()])
            raise EnumerationLimitError(
                f"X row {n} and background row {b} differ in {k} players, which is 2^{k} "
                f"coalitions; exact values go up to {LARGEST_PAIR} players that differ. Group "
                "columns with players=, or use fewer or coarser features."
            )
        self.refuse_large_tables()

    def refuse_biased_link(self) -> None:
        """Raise InputError for a link of a random model's answers."""
        if not self.quantity.linear and not self.evaluator.model.deterministic:
            raise InputError(
                f"link={self.quantity.name!r} of a random model's mean answer is biased by its "
                'noise. Use link="identity" with deterministic=False.'
            )

    def refuse_large_tables(self) -> None:
        """Raise MemoryPlanError where full tables are needed and one does not fit the memory."""
        if not self.quantity.linear:
            self._table_limits(1)  # the model's outputs are not known yet; one at least

    def index(self, p: np.ndarray, rows: np.ndarray | None = None) -> Totals:
        """The semivalue with weights p [P], where the quantity is linear.

        rows: int [n], which instances; None: all.
        """
        weights = Weights(p)
        donors = self.evaluator.replacement.weights
        backend = self._backend()
        findings = self.evaluator.findings
        random = findings.noise is not None
        chosen = np.arange(self.N) if rows is None else rows
        totals = Totals(len(chosen), self.P, findings.outputs, donors, random)

        def stretch(backend: Backend, first: int, differs: np.ndarray) -> None:
            n, B, _ = differs.shape
            instance, donor = np.repeat(np.arange(n), B), np.tile(np.arange(B), n)
            pairs = self.pack(backend, instance, donor, differs)
            own = totals.stretch(first, first + n)
            own.clear()
            here = chosen[first : first + n]
            check = self.check(here, backend)
            x = self.codes[here]
            pair_semivalues(backend, pairs, x, weights, own, check, self.telling(pairs))

        for first, differs in self._differing(chosen):
            backend = self._with_less_where_memory_is_short(backend, stretch, first, differs)
        return totals

    def values(self, masks: Masks, rows: np.ndarray | None = None) -> np.ndarray:
        """v(S) for a list of coalitions; float64 [n, C, K].

        masks: bool [C, P], True = kept; or what gives such an array for a slice. rows: int [n],
        which instances; None: all. Rows are asked once for hybrids that agree, where an instance
        saves a quarter of its rows by it.
        """
        backend = self._backend()
        K = self.evaluator.findings.outputs
        asked = ListOfCoalitions(self, masks, K)
        parts: list[np.ndarray] = []
        random = not self.evaluator.model.deterministic

        def stretch(backend: Backend, first: int, differs: np.ndarray) -> None:
            own = chosen[first : first + len(differs)]
            parts.append(asked.of(backend, own, None if random else differs))

        chosen = np.arange(self.N) if rows is None else rows
        for first, differs in self._differing(chosen):
            backend = self._with_less_where_memory_is_short(backend, stretch, first, differs)
        return self.quantity.of(np.concatenate(parts))

    def walk(self, orders: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """v(S) along orders int [D, P], by the declared first layer; float64 [n, D, 2, P, K].

        Entry [i, d, 0, s - 1] keeps the first s players of order d, entry [i, d, 1, s - 1] the
        others. For the instances `rows` [n].
        """
        walker = self.evaluator.walker(self.table_of_rows, self.codes[:PROBE_ROWS], self.N)
        sums, bad = walker.sums(self.codes[rows], orders)
        if bad and self.evaluator.model.nonfinite == "raise":
            self._refuse_walked(sums, orders, rows)
        donors, (D, P) = len(self.evaluator.replacement.codes), orders.shape
        asked = len(rows) * donors * (2 * D * (P - 1) + 2)
        self.count.distinct += asked
        # The two ends come with every order.
        self.count.padded += len(rows) * donors * 2 * D * P - asked
        self._progress(asked)
        self.structure = self.evaluator.model.structure.name
        return self.quantity.of(sums)

    def _refuse_walked(self, sums: np.ndarray, orders: np.ndarray, rows: np.ndarray) -> None:
        """Raise ModelOutputError for a walk through answers that are not finite.

        A walk keeps sums over donors only, so the coalition is asked again to name the donor.
        """
        where = np.argwhere(~np.isfinite(sums).all(axis=4))
        n, d, half, s = (int(i) for i in where[0]) if len(where) else (0, 0, 0, 0)
        kept = np.full((1, self.P), half == 1)
        kept[0, orders[d, : s + 1]] = half == 0
        self.values(kept, rows[n : n + 1])
        raise ModelOutputError(
            "the model's head, as structure= declares it, returned answers that are not finite for "
            f"X row {rows[n]}, where the model itself returns numbers. Mend head=, or leave "
            "structure= out."
        )

    def tables(self, rows: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """v(S), float64 [n, 2^P, K], for stretches of the instances `rows` (None: all)."""
        backend = self._backend()
        K = self.evaluator.findings.outputs
        most_rows, most_instances = self._table_limits(K)
        parts: list[np.ndarray] = []

        def stretch(backend: Backend, first: int, differs: np.ndarray) -> None:
            here = chosen[first : first + len(differs)]
            parts.append(self._table_of_stretch(backend, here, differs, K, most_rows))

        chosen = np.arange(self.N) if rows is None else rows
        for first, differs in self._differing(chosen):
            asked = (np.int64(1) << np.maximum(differs.sum(2), backend.slot_bits)).sum(1)
            for lo, hi in _stretches(asked, most_rows, most_instances):
                backend = self._with_less_where_memory_is_short(
                    backend, stretch, first + lo, differs[lo:hi]
                )
                yield self.quantity.of(parts.pop())

    def _table_of_stretch(
        self, backend: Backend, here: np.ndarray, differs: np.ndarray, K: int, most_rows: int
    ) -> np.ndarray:
        """v(S) before the outer function; donors a few at a time where their rows are too many."""
        donors = self.evaluator.replacement.weights
        rows = (np.int64(1) << np.maximum(differs.sum(2), backend.slot_bits)).sum()
        step = len(donors) if rows <= most_rows else max(1, most_rows >> self.P)
        table = np.zeros((len(differs), 1 << self.P, K))
        for b in range(0, len(donors), step):
            own = differs[:, b : b + step]
            n, B, _ = own.shape
            instance, donor = np.repeat(np.arange(n), B), np.tile(np.arange(b, b + B), n)
            pairs = self.pack(backend, instance, donor, own)
            question = self.question(pairs, here, np.arange(b, b + B), backend)
            start = pairs.start_as_given.reshape(n, B)
            table += backend.tables(pairs, question, start, host_ranks(own))
        return table

    def _with_less_where_memory_is_short(
        self,
        backend: Backend,
        stretch: Callable[[Backend, int, np.ndarray], None],
        first: int,
        differs: np.ndarray,
    ) -> Backend:
        """Run one stretch, again with half the tile as often as the device runs out of memory.

        The plan should keep that from happening; returns the backend that did it.
        """
        while True:
            before = Count(self.count.distinct, self.count.padded)
            try:
                stretch(backend, first, differs)
                return backend
            except Exception as error:
                exhausted = "RESOURCE_EXHAUSTED" in str(error)
                if not exhausted or not self.evaluator.halve_tile():
                    raise
            self.count = before
            backend = self._backend()

    def table(self) -> np.ndarray:
        """v(S) of all instances; float64 [N, 2^P, K]."""
        return np.concatenate(list(self.tables()))

    def _backend(self) -> Backend:
        return self.evaluator.backend(self.table_of_rows, self.codes[:PROBE_ROWS], self.N)

    def _differing(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """(place of the first, bool [n, B, P]) for as many of `rows` as are planned together."""
        donors = agreement_codes(self.evaluator.replacement.codes)
        step = self.evaluator.instances_at_a_time
        for first in range(0, len(rows), step):
            x = agreement_codes(self.codes[rows[first : first + step]])
            if self.evaluator.model.deterministic:
                yield first, differing(x, donors, self.evaluator.code_players, self.P)
            else:  # a random answer differs from itself: nothing may be asked once for two
                yield first, np.ones((len(x), len(donors), self.P), bool)

    def pack(
        self,
        backend: Backend,
        instance: np.ndarray,
        donor: np.ndarray,
        differs: np.ndarray,
        listed: int | None = None,
    ) -> Pairs:
        """The stream of these pairs, counted; see `lattice.pack`."""
        pairs = pack(instance, donor, differs.reshape(-1, self.P), backend.slot_bits, listed)
        self.counted(pairs)
        return pairs

    def question(
        self,
        stream: Stream,
        rows: np.ndarray,
        donors: np.ndarray,
        backend: Backend,
        masks: np.ndarray | None = None,
    ) -> Question:
        """What goes with the stream of the instances `rows` and the donors `donors`."""
        return Question(
            self.codes[rows],
            self.evaluator.replacement.weights[donors],
            self.check(rows, backend, masks),
            self.telling(stream),
            masks,
        )

    def counted(self, stream: Stream) -> None:
        """Add the stream's rows to the count."""
        self.count.distinct += stream.distinct_rows
        self.count.padded += stream.rows - stream.distinct_rows

    def telling(self, stream: Stream) -> Done:
        """Turn rows of the stream, which hold the padding of small pairs, into rows asked for."""
        done = told = 0

        def tell(rows: int) -> None:
            nonlocal done, told
            done += rows
            before, told = told, done * stream.distinct_rows // stream.rows
            self._progress(told - before)

        return tell

    def _table_limits(self, K: int) -> tuple[int, int]:
        """(model rows, instances) of one stretch: a quarter of the memory each."""
        quarter = self.evaluator.max_memory // 4
        values = quarter // (16 * K)
        tables = quarter // (24 * K << self.P)
        if not values >> self.P or not tables:
            raise MemoryPlanError(
                f"max_memory={self.evaluator.max_memory:,} bytes, but one table of 2^{self.P} "
                f"coalitions and {K} outputs needs {4 * (24 * K << self.P):,}. Raise max_memory=."
            )
        return min(values, 1 << 24), tables

    def check(self, rows: np.ndarray, backend: Backend, masks: np.ndarray | None = None) -> Check:
        """Refuse answers that are not finite, and say for which coalition.

        rows: the game's instances that the stream numbers from 0; masks: the list it names.
        """

        def check(stream: Stream, answers: Any) -> None:
            if self.evaluator.model.nonfinite == "propagate" or not backend.any_bad(answers):
                return
            values = backend.values(answers)
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if not len(bad):
                return  # only the padding
            row = answers.piece.first_row + int(bad[0])
            instance, donor, mask = stream.locate(row, masks)
            kept = [self.evaluator.players.names[p] for p in np.flatnonzero(mask)]
            named = f"{kept[:10]} and {len(kept) - 10} more" if len(kept) > 12 else f"{kept}"
            bits = sum(1 << int(p) for p in np.flatnonzero(mask))
            which = f" (coalition {bits:#b})" if self.P <= 64 else ""
            raise ModelOutputError(
                f"the model returned {values[bad[0]][~np.isfinite(values[bad[0]])][0]} for X row "
                f"{rows[instance]} with background row "
                f"{int(self.evaluator.replacement.row[donor])} and the players {named} kept from "
                f'X{which}. Mend the model, or say nonfinite="propagate" in as_model.'
            )

        return check


def _stretches(rows: np.ndarray, most_rows: int, most_instances: int) -> Iterator[tuple[int, int]]:
    """Cut instances into stretches of at most so many rows and instances; at least one each."""
    total = np.concatenate([[0], np.cumsum(rows)])
    lo = 0
    while lo < len(rows):
        fits = int(np.searchsorted(total, total[lo] + most_rows, side="right")) - 1
        hi = max(lo + 1, min(fits, lo + most_instances))
        yield lo, hi
        lo = hi
