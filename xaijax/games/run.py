"""`GameRun`: the state of one run, of the games of N instances: codes, counters, what was found.

Letters: N instances, B donors, P players, K scores, C code columns, k players that differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from xaijax.core.errors import MemoryPlanError, XaiError
from xaijax.core.process import before_jax
from xaijax.games.certify import EmptyAndFull, WholeAnswers, whole_answers
from xaijax.games.engine.dispatch import ProgramRecipe
from xaijax.games.engine.evaluator import PROBE_ROWS, Engine, Evaluator, largest_of_donors
from xaijax.games.engine.loop import Backend, Done, GameQuery, Instances, Stream
from xaijax.games.engine.permutation_scan import PermutationScan
from xaijax.games.engine.plan import refuse_described
from xaijax.games.measure.quantity import Quantity
from xaijax.games.refuse import coalition_text, refuse_bad_answers
from xaijax.tables.same_memory import fingerprints
from xaijax.tables.table import CodeTable
from xaijax_kernels.engine.lattice import Pairs, RowStream, pack
from xaijax_kernels.engine.lattice import differing as _differ

Result = TypeVar("Result")
ANSWERS = Quantity("identity")  # the mean answer of each instance
MOST_UNEVEN = 1 << 12  # by which 24 bits leave 12 for usual numbers


@dataclass
class Count:
    """Rows that a game asked its model for."""

    distinct: int = 0
    padded: int = 0


@dataclass
class RunCost:
    """What a run would ask its model for."""

    rows: np.ndarray  # int64 [N], model rows of each instance
    calls: int = 0  # of the model, for all instances
    recipes: dict[Any, ProgramRecipe] = field(default_factory=dict)  # the programs that it runs
    runs: Counter[Any] = field(default_factory=Counter)  # of each of them, by its name
    held: dict[str, int] = field(default_factory=dict)  # the most bytes of a share at one time

    def add_rows(self, places: Any, rows: Any) -> None:
        """Adds model rows of the instances at `places`, which names each once."""
        self.rows[places] += rows

    def add_calls(self, calls: int, *recipes: ProgramRecipe | None) -> None:
        """Adds calls of the model, each a run of these programs; None stands for no program."""
        self.calls += calls
        self.add_runs(calls, *recipes)

    def add_runs(self, runs: int, *recipes: ProgramRecipe | None) -> None:
        """Adds runs of programs that do not hold the model; None stands for no program."""
        own = {recipe.name: recipe for recipe in recipes if recipe is not None}
        self.recipes |= own
        self.runs.update(dict.fromkeys(own, runs))

    def hold(self, **sizes: int) -> None:
        """Counts bytes of shares that are held at one time."""
        self.held |= {name: max(size, self.held.get(name, 0)) for name, size in sizes.items()}


class GameRun:
    """The games of N instances on one engine; rows are planned, asked, checked and counted here.

    The functions of `games/queries.py` are what a run is asked for as a whole.

    Attributes:
        engine: what is asked, and what the probe found once `probe` or `backend` was called.
        codes, table: the instances [N, C], and what they are codes of.
        quantity: what is measured.
        count: model rows so far.
        cost: what the functions `*_cost` counted; they ask the model nothing but its probe.
        structure: what answered instead of the whole model, if anything.
        closed, own_base: whether a closed form answered; whether the model's own answers gave the
            base value.
        largest: int64 [N], the most players in which an instance differs from a donor, once
            counted by `exact_cost`.
        own: what the score looks at in addition to an answer, [N, A], once an instance was asked.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        rows: Any,
        quantity: Quantity = ANSWERS,
        progress: Callable[[int], None] = lambda rows: None,
        asks: bool = True,
        encoded: Callable[[], tuple[CodeTable, np.ndarray]] | None = None,
        own: np.ndarray | None = None,
        first: int = 0,
    ) -> None:
        """rows: instances as read by the engine's table; progress(model rows done). asks: False for
        a plan, for which the model is asked nothing but its probe, and a translation compared on no
        more than its first rows. encoded: gives what `Evaluator.encoded` makes of these rows, if
        somebody keeps it. own: what the score looks at in addition to an answer, [N, A]; None:
        f(x), or what the score makes of it. first: which row of X the first is, for messages.
        """
        before_jax()
        self.evaluator, self.quantity = evaluator, quantity
        self.report, self.first, self.asks = progress, first, asks
        evaluator.engine.refuse_large_tile()
        if asks and not evaluator.engine.on_host:
            refuse_described(evaluator.engine.devices[0])
        read = evaluator.encoded(rows, every=asks) if encoded is None else encoded()
        self.table, self.codes = read
        self.engine = evaluator.engine
        self.N, self.P = len(self.codes), self.engine.players.count
        self.count = Count()
        self.cost = RunCost(np.zeros(self.N, np.int64))
        self.own = own
        self.structure: str | None = None
        self.closed = self.own_base = False
        self.largest = np.zeros(self.N, np.int64)
        self.scores = 0.0  # the largest |score| of a data row in the groups' means so far
        self._loop: Backend | None = None
        self._sizes: np.ndarray | None = None  # [N + B]
        self._differs: np.ndarray | None = None  # [N, B, P], where all are planned together

    def fingerprints(self) -> np.ndarray:
        """uint64 [N], equal for equal instances whatever others come with them."""
        step = self.engine.rows_at_a_time
        parts = [self.codes[n : n + step] for n in range(0, self.N, step)]
        return np.concatenate([fingerprints(self.table.decode(part)) for part in parts])

    def backend(self) -> Backend:
        """The loop; the first call probes the model."""
        if self._loop is None or self.engine is not self.evaluator.engine:
            loop = self.evaluator.backend(self.table, self._few(), self.N)
            self._follow()
            self._loop = loop
        return self._loop

    def probe(self) -> Engine:
        """The engine with what is known of the model; the first call probes it."""
        if self.engine.findings is None or self.engine is not self.evaluator.engine:
            self.evaluator.probe(self.table, self._few())
            self._follow()
        return self.engine

    def scanner(self) -> PermutationScan:
        """The loop along orders, if there is one; see `may_scan`."""
        scanner = self.evaluator.scanner(self.table, self._few(), self.N)
        self._follow()
        return scanner

    def _follow(self) -> None:
        """Takes over what the evaluator found of this run's engine; raises XaiError if another
        thread has made it go on with another one, whose codes are not those of this run.
        """
        engine = self.evaluator.engine
        same = engine.model is self.engine.model and engine.replacement is self.engine.replacement
        if not same:
            raise XaiError(
                "another thread explained rows of another dtype with this explainer during this "
                "call. Make an explainer for each thread, or give all threads rows of one dtype."
            )
        self.engine = engine

    def _few(self) -> np.ndarray:
        """Codes of instances for the probe."""
        few = self.codes[: PROBE_ROWS // 2]
        if self.evaluator.engine.on_host and len(few) < self.N:
            few = np.concatenate([few[:-1], self.codes[-1:]])  # which is asked late in the run
        return few

    @cached_property
    def ends(self) -> EmptyAndFull:
        """What answers the two ends of the games apart from other coalitions."""
        return EmptyAndFull(self)

    @property
    def random_answers(self) -> bool:
        """Whether the model's answers are random, as its probe found them."""
        return self.engine.findings.noise is not None

    @property
    def shares_base(self) -> bool:
        """Whether all instances, or groups, have one mean where nothing is kept of x. They have not
        if columns are always kept, or if each row has a baseline of its own. The answers of a
        random model differ by chance from instance to instance.
        """
        score = self.engine.score
        reads_own = self.engine.fixed or (score is not None and score.reads_own)
        return not reads_own and (self.quantity.groups is not None or not self.random_answers)

    @property
    def subtracted(self) -> float:
        """The largest size of what groups' means were made of, so far; 0 without groups.

        Rounding errors of a difference follow this, not the difference, which may be 0.
        """
        factors = self.quantity.combine
        return self.scores * (np.abs(factors).sum() if isinstance(factors, np.ndarray) else 1.0)

    def note_size(self, *scores: np.ndarray) -> None:
        """Looks at scores of data rows in the groups' means; see `subtracted`."""
        for one in scores:
            size = np.nan_to_num(max(one.max(initial=0.0), -one.min(initial=0.0)), posinf=0.0)
            self.scores = max(self.scores, float(size))

    def named(self, kept: np.ndarray) -> str:
        """A coalition bool [P], for messages."""
        names = self.engine.players.names
        if self.quantity.argument == "link":
            return coalition_text(names, kept)
        return f"S = {[names[i] for i in np.flatnonzero(~kept)]} replaced"

    def differing(self, rows: np.ndarray) -> Iterable[tuple[int, np.ndarray]]:
        """(place of the first, bool [n, B, P]) for as many of `rows` as are planned together."""
        step = self.engine.instances_at_a_time
        if self.N <= step and len(rows):  # the cost is counted first, and the values found after
            if self._differs is None:
                self._differs = self._differing(np.arange(self.N))
            same = len(rows) == self.N and np.array_equal(rows, np.arange(self.N))
            return [(0, self._differs if same else self._differs[rows])]
        starts = range(0, len(rows), step)
        return ((first, self._differing(rows[first : first + step])) for first in starts)

    def _differing(self, rows: np.ndarray) -> np.ndarray:
        """Which players of these instances differ from each donor, bool [n, B, P]."""
        donors = self.engine.replacement.bits
        if self.engine.model.deterministic:
            return _differ(self.codes[rows], donors, self.engine.code_players, self.P)
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
        """(places, the stream of those pairs), all of them by the sub-coalitions that differ.

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
        if not self.may_structure():
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
        return np.unique(np.minimum(self.engine.known.slot_bits, most))

    def least_bits(self, backend: Backend) -> int:
        """A pair of `packs` takes at least 2^least_bits rows."""
        return int(self._slots(backend)[0]) if self.may_structure() else backend.slot_bits

    def _finite(self) -> bool:
        """Whether what a structure makes of the instances and donors is finite: it adds and
        multiplies what the model might have looked at first.
        """
        if self._sizes is None:
            donors = self.engine.replacement.for_loops
            of_donors = largest_of_donors(self.engine)
            # A memory map is not read for it.
            same = isinstance(self.codes, np.ndarray) and np.array_equal(self.codes, donors)
            own = of_donors if same else self.engine.largest(self.codes)
            self._sizes = np.concatenate([own, of_donors])
        return bool(np.isfinite(self._sizes).all())

    @cached_property
    def full_row_answers(self) -> WholeAnswers:
        """The model's own answers to the instances, as full rows, if a structure answers hybrids.

        They are asked the first time, and the structure's answers are compared with them; raises
        ModelOutputError for a row, of X or of the donors, which the two answer differently.
        """
        return whole_answers(self)

    # The four that follow probe the model, and ask it full rows of what a structure may answer.

    def _may_use_structure(self) -> bool:
        """Whether the structure's numbers are finite; refuses a row that it answers otherwise."""
        return self._finite() and (not self.asks or len(self.full_row_answers.answers) == self.N)

    def may_scan(self) -> bool:
        """Whether orders may be walked: no number is so large that the changes of a layer along an
        order, from it to others, would lose these.
        """
        if not self.probe().scans or not self._finite():
            return False
        assert self._sizes is not None
        even = self._sizes.max() <= MOST_UNEVEN * np.median(self._sizes)
        return bool(even) and self._may_use_structure()

    def may_cross(self) -> bool:
        """Whether the model's structure answers instances crossed with donors."""
        return self.probe().crosses and self._may_use_structure()

    def may_solve(self) -> bool:
        """Whether a closed form may answer, where the model's structure has one."""
        return self.probe().structured and self._may_use_structure()

    def may_structure(self) -> bool:
        """Whether the model's structure answers sub-coalitions."""
        return self.probe().worthwhile and self.may_solve()

    def question(
        self,
        stream: Stream,
        rows: np.ndarray,
        donors: np.ndarray,
        backend: Backend,
        masks: np.ndarray | None = None,
    ) -> GameQuery:
        """What goes with the stream of the instances `rows` and the donors `donors`."""
        return GameQuery(
            self.instances(rows),
            self.engine.replacement.weights[donors],
            refuse_bad_answers(self.engine, rows + self.first, backend, masks),
            self.reporting(stream),
            masks,
        )

    def counted(self, stream: Stream) -> None:
        """Adds the stream's rows to the count."""
        self.count.distinct += stream.distinct_rows
        self.count.padded += stream.rows - stream.distinct_rows

    def answered(self, rows: int) -> None:
        """Counts rows that a closed form looked at, one for each instance."""
        self.count.distinct += rows
        self.report(rows)

    def reporting(self, stream: Stream) -> Done:
        """Turns rows of the stream, which hold the padding of small pairs, into requested rows."""
        done = report = 0

        def advance(rows: int) -> None:
            nonlocal done, report
            done += rows
            before, report = report, done * stream.distinct_rows // stream.rows
            self.report(report - before)

        return advance

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

        here: int [n], at most `engine.rows_at_a_time` of the game's instances; a row names one of
        them by its place there, a donor, and a coalition of masks bool [C, P].
        """
        backend = self.backend()
        if len(masks) > self.engine.listed:
            raise MemoryPlanError(
                f"max_memory={self.engine.memory.whole:,} bytes is too little for a list of "
                f"{len(masks):,} coalitions of {self.P} players. Raise max_memory=."
            )
        stream = RowStream(
            instance.astype(np.int32), donor.astype(np.int32), coalition.astype(np.int32), self.P
        )
        self.counted(stream)
        done = self.reporting(stream)
        x = self.instances(here) if scored else Instances(self.codes[here], here=here + self.first)
        check = refuse_bad_answers(self.engine, here + self.first, backend, masks, scored)
        parts = [np.zeros((0, self.engine.outputs))]
        for answers in backend.answers(stream, x, masks, scored):
            check(stream, answers)
            parts.append(backend.values(answers))
            done(answers.piece.rows)
        return self.with_offset(np.concatenate(parts[1:] or parts))

    def full_rows(self, here: np.ndarray, scored: bool = True) -> np.ndarray:
        """Scores of the instances `here` as they are, float64 [n, K]; as `rows_asked`."""
        zero = np.zeros(len(here), np.int32)
        masks = np.ones((1, self.P), bool)
        return self.rows_asked(here, np.arange(len(here)), zero, zero, masks, scored)

    def full_donors(self) -> np.ndarray:
        """The model's answers to the donors as they are, float64 [B, A]."""
        donors, masks = np.arange(self.engine.replacement.count), np.zeros((1, self.P), bool)
        zero = np.zeros(len(donors), np.int32)
        return self.rows_asked(np.zeros(1, int), zero, donors, zero, masks, scored=False)

    def with_offset(self, answers: np.ndarray) -> np.ndarray:
        """Answers, or means of them, float64 [..., K], with what the model's are short of."""
        offset = self.engine.offset
        return answers if offset is None else answers + offset

    def instances(self, here: np.ndarray) -> Instances:
        """Codes of the instances `here`, with the model's own answers if the score needs them.

        The answers of all instances are asked at once, one row each, when first needed.
        """
        score = self.engine.score
        if score is None or not score.reads_own:
            return Instances(self.codes[here], here=here + self.first)
        if self.own is None:
            step = self.engine.rows_at_a_time
            starts = range(0, self.N, step)
            parts = [np.arange(first, min(first + step, self.N)) for first in starts]
            self.own = np.concatenate([self.full_rows(some, scored=False) for some in parts])
            if score.made_of_own is not None:
                self.own = score.made_of_own(self.own)
        return Instances(self.codes[here], self.own[here], here + self.first)

    def with_less_where_memory_is_short(
        self, backend: Backend, run: Callable[[Backend], Result]
    ) -> tuple[Backend, Result]:
        """Runs one stretch, again with half the tile as often as the device runs out of memory.

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
