"""`Questions`: what all questions of one game share; rows planned, asked, checked and counted.

Letters: N instances, B donors, P players, K scores, C code columns, k players that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from xaijax.core.errors import MemoryPlanError
from xaijax.core.forks import before_jax
from xaijax.games.asking.refuse import refuse_bad_answers
from xaijax.games.asking.whole_rows import EmptyAndFull, WholeAnswers, whole_answers
from xaijax.games.engine.evaluator import PROBE_ROWS, Evaluator, Probed, Setting
from xaijax.games.engine.loop import Backend, Done, Instances, Question, Stream
from xaijax.games.measure.replacement import agreement_codes
from xaijax.tables.table import Table
from xaijax_kernels.engine.lattice import Pairs, pack
from xaijax_kernels.engine.lattice import differing as _differ
from xaijax_kernels.engine.single_rows import RowStream

Result = TypeVar("Result")
MOST_UNEVEN = 1 << 12  # by which 24 bits leave 12 for usual numbers


@dataclass
class Count:
    """Rows that a game asked its model for."""

    distinct: int = 0
    padded: int = 0


class Questions:
    """The rows of N instances, and the loop that answers hybrids of them."""

    def __init__(
        self,
        evaluator: Evaluator,
        rows: Any,
        progress: Callable[[int], None],
        first: int = 0,
        asks: bool = True,
        encoded: Callable[[], tuple[Table, np.ndarray]] | None = None,
        own: np.ndarray | None = None,
    ) -> None:
        """rows: instances as read by the evaluator's table; progress(model rows done); first: which
        row of X the first is, for messages. asks: False for a plan, for which the model is asked
        nothing but its probe, and a translation compared on no more than its first rows. encoded:
        gives what `Evaluator.encoded` makes of these rows, where somebody keeps it. own: what the
        score looks at beside an answer, [N, A]; None: f(x), or what the score makes of it.
        """
        before_jax()
        self.first, self.asks = first, asks
        self.evaluator, self._progress = evaluator, progress
        evaluator.follow()
        evaluator.setting.refuse_large_tile()
        read = evaluator.encoded(rows, hold=asks) if encoded is None else encoded()
        self.table_of_rows, self.codes = read  # codes [N, C]
        self.N, self.P = len(self.codes), evaluator.setting.players.count
        self.count = Count()
        self._largest: np.ndarray | None = None  # [N + B]
        self._own = own  # where the score looks at f(x)
        self._whole: WholeAnswers | None = None
        self._differs: np.ndarray | None = None  # [N, B, P], where all are planned together
        self.ends = EmptyAndFull(self)

    @property
    def setting(self) -> Setting:
        """What is asked about, by which limits."""
        return self.evaluator.setting

    @property
    def probed(self) -> Probed:
        """What is known of the model, once `backend` has been asked for."""
        return self.evaluator.probed

    def backend(self) -> Backend:
        """The loop; the first call probes the model."""
        return self.evaluator.backend(self.table_of_rows, self._few(), self.N)

    def probe(self) -> Probed:
        """What is known of the model; the first call probes it."""
        return self.evaluator.probe(self.table_of_rows, self._few())

    def _few(self) -> np.ndarray:
        """Codes of instances for the probe."""
        few = self.codes[: PROBE_ROWS // 2]
        unknown = not self.evaluator.is_probed and self.setting.on_host
        if unknown and len(few) < self.N:
            few = np.concatenate([few[:-1], self.codes[-1:]])  # which is asked late in the run
        return few

    def differing(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """(place of the first, bool [n, B, P]) for as many of `rows` as are planned together."""
        step = self.setting.instances_at_a_time
        if self.N <= step and len(rows):  # the cost is counted first, and the values found after
            if self._differs is None:
                self._differs = self._differing(np.arange(self.N))
            same = len(rows) == self.N and np.array_equal(rows, np.arange(self.N))
            yield 0, self._differs if same else self._differs[rows]
            return
        for first in range(0, len(rows), step):
            yield first, self._differing(rows[first : first + step])

    def _differing(self, rows: np.ndarray) -> np.ndarray:
        """Which players of these instances differ from each donor, bool [n, B, P]."""
        donors = agreement_codes(self.setting.replacement.codes)
        if self.setting.model.deterministic:
            x = agreement_codes(self.codes[rows])
            return _differ(x, donors, self.setting.code_players, self.P)
        # A random answer differs from itself: nothing may be asked once for two.
        return np.ones((len(rows), len(donors), self.P), bool)

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

    def packs(
        self, backend: Backend, instance: np.ndarray, donor: np.ndarray, differs: np.ndarray
    ) -> Iterator[tuple[np.ndarray, Pairs]]:
        """(places, the stream of those pairs), all of them by the corners that differ.

        One stream for the model, and one for each size of the slots that its structure takes.
        """
        differs = differs.reshape(-1, self.P)
        for here, bits in self.streams(backend, differs.sum(axis=1)):
            some = instance[here], donor[here], differs[here]
            if bits is None:
                yield here, self.pack(backend, *some)
                continue
            pairs = pack(*some, bits, structured=True)
            self.counted(pairs)
            yield here, pairs

    def streams(self, backend: Backend, k: np.ndarray) -> Iterator[tuple[np.ndarray, int | None]]:
        """(places, log2 of the rows of a slot) of the pairs with k players that differ, int [M], a
        stream each; None: slots for the model itself.
        """
        if not self.structured:
            yield np.arange(len(k)), None
            return
        sizes = self._slots(backend)
        place = np.searchsorted(sizes, k, side="right") - 1
        bits = sizes[np.maximum(place, 0)]  # the largest that the pair fills, or the smallest
        for own in np.unique(bits)[::-1]:
            yield np.flatnonzero(bits == own), int(own)

    def _slots(self, backend: Backend) -> np.ndarray:
        """log2 of the rows of the structure's slots, each once."""
        most = min(self.P, backend.rows_per_block.bit_length() - 1)
        return np.unique(np.minimum(self.probed.known.slot_bits, most))

    def least_bits(self, backend: Backend) -> int:
        """A pair of `packs` takes at least 2^least_bits rows."""
        return int(self._slots(backend)[0]) if self.structured else backend.slot_bits

    @property
    def largest(self) -> np.ndarray:
        """Of what a structure makes of each instance and donor; see `Probed.largest`."""
        if self._largest is None:
            donors = self.setting.replacement.codes
            of_donors = self.probed.largest_donors
            # A memory map is not read for it.
            same = isinstance(self.codes, np.ndarray) and np.array_equal(self.codes, donors)
            own = of_donors if same else self.probed.largest(self.codes)
            self._largest = np.concatenate([own, of_donors])
        return self._largest

    @property
    def finite(self) -> bool:
        """Whether what a structure makes of the instances and donors is finite: it adds and
        multiplies what the model might have looked at first.
        """
        return bool(np.isfinite(self.largest).all())

    @property
    def whole(self) -> WholeAnswers:
        """The model's own answers to the instances, whole rows, where a structure answers hybrids.

        The first time they are asked, and the structure's answers are held against them; raises
        ModelOutputError for a row, of X or of the donors, which the two answer differently.
        """
        if self._whole is None:
            self._whole = whole_answers(self)
        return self._whole

    @property
    def _may_stand_in(self) -> bool:
        """Whether the structure's numbers are finite; refuses a row that it answers otherwise."""
        return self.finite and (not self.asks or len(self.whole.answers) == self.N)

    @property
    def walks(self) -> bool:
        """Whether orders may be walked: no number is so large that the changes of a layer along an
        order, from it to others, would lose these.
        """
        if not self.probed.walks or not self.finite:
            return False
        even = self.largest.max() <= MOST_UNEVEN * np.median(self.largest)
        return bool(even) and self._may_stand_in

    @property
    def crosses(self) -> bool:
        """Whether the model's structure answers instances crossed with donors."""
        return self.probed.crosses and self._may_stand_in

    @property
    def solved(self) -> bool:
        """Whether a closed form may answer, where the model's structure has one."""
        return self.probed.structured and self._may_stand_in

    @property
    def structured(self) -> bool:
        """Whether the model's structure answers corners."""
        return self.probed.spares and self.solved

    @property
    def own(self) -> np.ndarray | None:
        """What the score looks at beside an answer, [N, A], once an instance was asked."""
        return self._own

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
            self.instances(rows),
            self.setting.replacement.weights[donors],
            refuse_bad_answers(self.setting, rows + self.first, backend, masks),
            self.telling(stream),
            masks,
        )

    def counted(self, stream: Stream) -> None:
        """Add the stream's rows to the count."""
        self.count.distinct += stream.distinct_rows
        self.count.padded += stream.rows - stream.distinct_rows

    def answered(self, rows: int) -> None:
        """Count rows that a closed form looked at, one for each instance."""
        self.count.distinct += rows
        self._progress(rows)

    def told(self, rows: int) -> None:
        """Say that so many rows are done."""
        self._progress(rows)

    def telling(self, stream: Stream) -> Done:
        """Turn rows of the stream, which hold the padding of small pairs, into rows asked for."""
        done = told = 0

        def tell(rows: int) -> None:
            nonlocal done, told
            done += rows
            before, told = told, done * stream.distinct_rows // stream.rows
            self._progress(told - before)

        return tell

    def rows_asked(
        self,
        here: np.ndarray,
        instance: np.ndarray,
        donor: np.ndarray,
        coalition: np.ndarray,
        masks: np.ndarray,
        scored: bool = True,
    ) -> np.ndarray:
        """Scores of single hybrids, float64 [R, K].

        here: int [n], at most `setting.rows_at_a_time` of the game's instances; a row names one of
        them by its place there, a donor, and a coalition of masks bool [C, P].
        """
        backend = self.backend()
        if len(masks) > self.setting.listed:
            raise MemoryPlanError(
                f"max_memory={self.setting.memory.whole:,} bytes is too little for a list of "
                f"{len(masks):,} coalitions of {self.P} players. Raise max_memory=."
            )
        stream = RowStream(
            instance.astype(np.int32), donor.astype(np.int32), coalition.astype(np.int32), self.P
        )
        self.counted(stream)
        done = self.telling(stream)
        x = self.instances(here) if scored else Instances(self.codes[here], here=here + self.first)
        check = refuse_bad_answers(self.setting, here + self.first, backend, masks, scored)
        parts = [np.zeros((0, self.probed.outputs))]
        for answers in backend.answers(stream, x, masks, scored):
            check(stream, answers)
            parts.append(backend.values(answers))
            done(answers.piece.rows)
        return self.with_offset(np.concatenate(parts[1:] or parts))

    def with_offset(self, answers: np.ndarray) -> np.ndarray:
        """Answers, or means of them, float64 [..., K], with what the model's are short of."""
        offset = self.setting.offset
        return answers if offset is None else answers + offset

    def instances(self, here: np.ndarray) -> Instances:
        """Codes of the instances `here`, with the model's own answers where the score needs them.

        The answers of all instances are asked at once, one row each, when first needed.
        """
        score = self.setting.score
        if score is None or not score.reads_own:
            return Instances(self.codes[here], here=here + self.first)
        if self._own is None:
            masks, step = np.ones((1, self.P), bool), self.setting.rows_at_a_time
            parts = []
            for first in range(0, self.N, step):
                some = np.arange(first, min(first + step, self.N))
                zero = np.zeros(len(some), np.int32)
                place = np.arange(len(some))
                parts.append(self.rows_asked(some, place, zero, zero, masks, scored=False))
            self._own = np.concatenate(parts)
            if score.made_of_own is not None:
                self._own = score.made_of_own(self._own)
        return Instances(self.codes[here], self._own[here], here + self.first)

    def with_less_where_memory_is_short(
        self, backend: Backend, run: Callable[[Backend], Result]
    ) -> tuple[Backend, Result]:
        """Run one stretch, again with half the tile as often as the device runs out of memory.

        The plan should keep that from happening; returns the backend that did it, and what came.
        """
        while True:
            before = Count(self.count.distinct, self.count.padded)
            try:
                return backend, run(backend)
            except Exception as error:
                exhausted = "RESOURCE_EXHAUSTED" in str(error)
                if not exhausted or not self.evaluator.halve_tile():
                    raise
            self.count = before
            backend = self.backend()
