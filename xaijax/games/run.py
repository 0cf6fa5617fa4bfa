"""`GameRun`: the state of one run of the games of N instances: codes, counters, findings.

Letters: N instances, B donors, P players, K scores, C code columns, k players that differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from xaijax.core.errors import MemoryPlanError, XaiError
from xaijax.core.process import before_jax
from xaijax.games.certify import EmptyAndFull, WholeAnswers, whole_answers
from xaijax.games.engine.dispatch import ProgramRecipe, refuse_described
from xaijax.games.engine.evaluator import PROBE_ROWS, Engine, Evaluator
from xaijax.games.engine.host import takes_small
from xaijax.games.engine.loop import Backend, Done, GameQuery, Instances, Stream
from xaijax.games.engine.permutation_scan import PermutationScan
from xaijax.games.engine.plan import PAIR_BYTES, PLAYER_BYTES, power_below, refuse_shares
from xaijax.games.measure.quantity import Quantity
from xaijax.games.measure.replacement.base import differing as _differ
from xaijax.games.refuse import coalition_text, refuse_bad_answers
from xaijax.models.structure.agreement import columns_of
from xaijax.tables.same_memory import fingerprints
from xaijax.tables.table import CodeTable
from xaijax_kernels.engine.lattice import Pairs, RowStream, pack
from xaijax_kernels.structures.base import Affine, largest

Result = TypeVar("Result")
ANSWERS = Quantity("identity")  # the mean output of each instance
# Calls of the program that compared the structure before another program computes sizes: compiling
# that takes as long. Each row is evaluated by it once more anyway, to compare outputs.
BLOCKS = 64
ROWS_READ, NUMBERS_READ = 1 << 12, 1 << 20  # codes that are processed together
MOST_UNEVEN = 1 << 12  # so that 24 bits leave 12 for ordinary numbers


@dataclass
class Count:
    """Numbers of rows that a game evaluated by its model."""

    distinct: int = 0
    padded: int = 0


@dataclass
class RunCost:
    """The cost of a run in model rows, calls, programs and memory."""

    rows: np.ndarray  # int64 [N], model rows of each instance
    calls: int = 0  # calls of the model, for all instances
    recipes: dict[Any, ProgramRecipe] = field(default_factory=dict)  # the programs of the run
    runs: Counter[Any] = field(default_factory=Counter)  # number of runs of each, by name
    held: dict[str, int] = field(default_factory=dict)  # maximum bytes of each share at one time

    def add_rows(self, places: Any, rows: Any) -> None:
        """Adds model rows of the instances at the distinct positions `places`."""
        self.rows[places] += rows

    def add_calls(self, calls: int, *recipes: ProgramRecipe | None) -> None:
        """Adds calls of the model, each a run of these programs; None: no program."""
        self.calls += calls
        self.add_runs(calls, *recipes)

    def add_runs(self, runs: int, *recipes: ProgramRecipe | None) -> None:
        """Adds runs of programs without the model; None: no program."""
        named = {recipe.name: recipe for recipe in recipes if recipe is not None}
        self.recipes |= named
        self.runs.update(dict.fromkeys(named, runs))

    def reserve(self, **sizes: int) -> None:
        """Counts bytes of shares that are held at one time."""
        self.held |= {name: max(size, self.held.get(name, 0)) for name, size in sizes.items()}


class GameRun:
    """The games of N instances on one engine; plans, evaluates, checks and counts rows.

    `games/queries.py` has the functions that compute values by a run.

    Attributes:
        engine: the settings, and the probe's findings after `probe` or `backend`.
        codes, table: the instances [N, C], and the table of these codes.
        quantity: what is measured.
        count: model rows so far.
        cost: the counts of the functions `*_cost`, which call the model for its probe only.
        structure: the name of the structure used instead of the full model, if any.
        solved: closed forms by the weights of values, once searched; see `queries`.
        closed, own_base: whether a closed form was used; whether the model's own outputs gave the
            base value.
        coalitions: (P) -> maximum number of coalitions of an instance, by which "auto" chooses a
            path; None: hybrids are evaluated in tiles.
        largest: int64 [N], the maximum number of players that differ from a donor, once counted by
            `exact_cost`.
        small: whether hybrids need none of the engine's programs, after `probe_small`.
        full: the model's own outputs of full rows, once a structure may be used.
        own: the score's second input [N, A], once an instance was evaluated.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        rows: Any,
        quantity: Quantity = ANSWERS,
        progress: Callable[[int], object] = lambda rows: None,
        asks: bool = True,
        encoded: Callable[[], tuple[CodeTable, np.ndarray]] | None = None,
        own: np.ndarray | None = None,
        first: int = 0,
    ) -> None:
        """rows: instances as read by the engine's table; progress(model rows done). asks: False
        for a plan, which calls the model for its probe only and compares a translation on its
        first rows. encoded: returns a cached result of `Evaluator.encoded` for these rows. own:
        the score's second input [N, A]; None: f(x), or the score's reduction of it. first: the
        row of X of the first instance, for messages.
        """
        before_jax()
        self.evaluator, self.quantity = evaluator, quantity
        self.report, self.first, self.asks = progress, first, asks
        evaluator.engine.refuse_large_tile()
        if asks and not evaluator.engine.uses_host:
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
        self.coalitions: Callable[[int], int] | None = None
        self.solved: dict[Any, Any] = {}
        self.largest = np.zeros(self.N, np.int64)
        self.scores = 0.0  # the largest |score| of a data row in the groups' means so far
        self.small: bool | None = None
        self.full = cast(WholeAnswers, None)
        self._loop: Backend | None = None
        self._sizes: np.ndarray | None = None  # [N + B]

    def fingerprints(self) -> np.ndarray:
        """uint64 [N], equal for equal instances, independent of the others."""
        step = self.engine.rows_at_a_time
        parts = [self.codes[n : n + step] for n in range(0, self.N, step)]
        return np.concatenate([fingerprints(self.table.decode(part)) for part in parts])

    def backend(self) -> Backend:
        """The loop; the first call probes the model."""
        if self._loop is None or self.engine is not self.evaluator.engine:
            loop = self.evaluator.backend(self.table, self._few(), self.N, self.probe_small())
            self._update_engine()
            self._loop = loop
        return self._loop

    def probe(self) -> Engine:
        """The engine with the findings about the model; the first call probes it."""
        if self.engine.findings is None or self.engine is not self.evaluator.engine:
            self.evaluator.probe(self.table, self._few())
            self._update_engine()
        return self.engine

    def compare(self) -> Engine:
        """The engine with the model's structure; the first call compares it with the model."""
        engine = self.probe()
        if "compared" not in engine.cache:
            engine.compare()
        return engine

    def read_affine(self) -> Affine | None:
        """(A [H, K], c [K]) if the model is layer A + c by its trace; otherwise None. The first
        call probes the model, and reads them; it compares no structure.
        """
        engine = self.probe()
        if "affine" not in engine.cache:
            plain = engine.reads_layers and not engine.fixed and engine.score is None
            layer = engine.findings.layer if plain and engine.model.deterministic else None
            engine.cache["affine"] = None if layer is None else layer.affine(engine.model.params)
        return engine.cache["affine"]

    def probe_small(self) -> bool:
        """Whether hybrids are evaluated without the engine's programs; probes the model. False
        for a closed form, which needs no hybrids.
        """
        if self.small is None:
            of, closed = self.coalitions, any(form is not None for form in self.solved.values())
            if of is None or closed or self.engine.limits.path == "tiled":
                self.small = False
            else:
                self.small = takes_small(self.probe(), self.N, of(self.P))
        return self.small

    def scanner(self) -> PermutationScan:
        """The loop along orders, if there is one; see `may_scan`."""
        scanner = self.evaluator.scanner(self.table, self._few(), self.N)
        self._update_engine()
        self._refuse_shares(scanner.held)
        return scanner

    def _update_engine(self) -> None:
        """Takes the evaluator's current engine; raises XaiError if another thread has switched
        it to one with other codes than this run's.
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
        if self.evaluator.engine.uses_host and len(few) < self.N:
            few = np.concatenate([few[:-1], self.codes[-1:]])  # which is evaluated late in the run
        return few

    @cached_property
    def empty_and_full(self) -> EmptyAndFull:
        """Evaluates the empty and the full coalition separately from other coalitions."""
        return EmptyAndFull(self)

    @property
    def random_answers(self) -> bool:
        """Whether the model's outputs are random, by its probe."""
        return self.engine.findings.noise is not None

    @property
    def shares_base(self) -> bool:
        """Whether all instances, or groups, share the value of the empty coalition. They do not
        if columns are always kept, or if each row has its own baseline. A random model's outputs
        differ between instances by chance.
        """
        score = self.engine.score
        reads_own = self.engine.fixed or (score is not None and score.reads_own)
        return not reads_own and (self.quantity.groups is not None or not self.random_answers)

    @property
    def subtracted(self) -> float:
        """The largest magnitude in the groups' means so far; 0 without groups.

        Rounding errors of a difference scale with this, not with the difference, which may be 0.
        """
        factors = self.quantity.combine
        return self.scores * (np.abs(factors).sum() if isinstance(factors, np.ndarray) else 1.0)

    def note_size(self, *scores: np.ndarray) -> None:
        """Records the magnitude of scores in the groups' means; see `subtracted`."""
        for part in scores:
            size = np.nan_to_num(max(part.max(initial=0.0), -part.min(initial=0.0)), posinf=0.0)
            self.scores = max(self.scores, float(size))

    def named(self, coalition: np.ndarray) -> str:
        """A coalition bool [P], for messages."""
        names = self.engine.players.names
        if self.quantity.argument == "link":
            return coalition_text(names, coalition)
        return f"S = {[names[i] for i in np.flatnonzero(~coalition)]} replaced"

    def differing(self, rows: np.ndarray) -> Iterable[tuple[int, np.ndarray]]:
        """Yields (position of the first, bool [n, B, P]) for the `rows` that are planned together.

        Raises MemoryPlanError, with the shares, if the pairs and the loop's arrays together exceed
        the memory.
        """
        self._refuse_shares({} if self._loop is None else self._loop.held)
        step = self.engine.instances_at_a_time
        parts = ((n, self._differing(rows[n : n + step])) for n in range(0, len(rows), step))
        return parts if len(rows) > step else list(parts)

    @property
    def pair_bytes(self) -> int:
        """The bytes of the pairs that are planned together."""
        together = min(self.N, self.engine.instances_at_a_time)
        each = PAIR_BYTES + PLAYER_BYTES * self.P
        return each * together * self.engine.replacement.count

    def _refuse_shares(self, held: Mapping[str, int]) -> None:
        together = {**held, "pairs": self.pair_bytes}
        if sum(together.values()) > self.engine.memory.whole:
            refuse_shares(together, self.engine.memory)

    def _differing(self, rows: np.ndarray) -> np.ndarray:
        """Returns which players of these instances differ from each donor, bool [n, B, P].

        It is computed once, for the cost and for the values.
        """
        donors, cache = self.engine.replacement.bits, self._kept_differing
        n, B = len(rows), len(donors)
        if not self.engine.model.deterministic:
            # Outputs of a random model differ: no row may be shared.
            return np.ones((n, B, self.P), bool)
        if cache is not None and cache[1][rows].all():
            flags = np.unpackbits(cache[0][rows], axis=1, count=B * self.P)
            return flags.view(bool).reshape(n, B, self.P)
        differs = _differ(self.codes[rows], donors, self.engine.code_players, self.P)
        if cache is not None:
            cache[0][rows], cache[1][rows] = np.packbits(differs.reshape(n, -1), axis=1), True
        return differs

    @cached_property
    def _kept_differing(self) -> tuple[np.ndarray, np.ndarray] | None:
        """(a bit for each donor and player [N, ceil(B P / 8)], whether the bits of each instance
        are known [N]); None: they exceed the rest of the pairs' share of memory.
        """
        bits = (self.N, -(-self.engine.replacement.count * self.P // 8))
        fits = self.N <= self.engine.instances_at_a_time  # instead of the second flag of a player
        if fits or np.prod(bits) <= self.engine.memory.share("pairs") - self.pair_bytes:
            return np.zeros(bits, np.uint8), np.zeros(self.N, bool)
        return None

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
        """Yields (positions, the stream of those pairs), all by the sub-coalitions that differ.

        There is one stream for the model, and one for each slot size of its structure.
        """
        differs = differs.reshape(-1, self.P)
        for places, bits in self.streams(backend, differs.sum(axis=1)):
            part = instance[places], donor[places], differs[places]
            if bits is None:
                yield places, self.pack(backend, *part)
                continue
            pairs = pack(*part, bits, structured=True)
            self.counted(pairs)
            yield places, pairs

    def streams(self, backend: Backend, k: np.ndarray) -> Iterator[tuple[np.ndarray, int | None]]:
        """(positions, log2 of the rows of a slot) for each stream of pairs with k differing
        players, int [M]; None: slots for the model itself.
        """
        if not self.may_structure():
            yield np.arange(len(k)), None
            return
        sizes = self._slots(backend)
        place = np.searchsorted(sizes, k, side="right") - 1
        # the largest slot that the pair fills, or the smallest slot
        bits = sizes[np.maximum(place, 0)]
        for size in np.unique(bits)[::-1]:
            yield np.flatnonzero(bits == size), int(size)

    def _slots(self, backend: Backend) -> np.ndarray:
        """log2 of the rows of the structure's slots, each once."""
        most = min(self.P, backend.rows_per_block.bit_length() - 1)
        return np.unique(np.minimum(self.engine.known.slot_bits, most))

    def least_bits(self, backend: Backend) -> int:
        """A pair of `packs` takes at least 2^least_bits rows."""
        return int(self._slots(backend)[0]) if self.may_structure() else backend.slot_bits

    def _finite(self) -> bool:
        """Whether the structure's numbers of the instances and donors are finite: it adds and
        multiplies columns that the model may treat specially.
        """
        if self._sizes is None:
            donors = self.engine.replacement.for_loops
            cache = self.engine.cache
            if "sizes" not in cache:
                cache["sizes"] = largest_of(self.engine, donors)
            of_donors = cache["sizes"]
            # A memory map is not read for this.
            same = isinstance(self.codes, np.ndarray) and np.array_equal(self.codes, donors)
            of_rows = of_donors if same else largest_of(self.engine, self.codes)
            self._sizes = np.concatenate([of_rows, of_donors])
        return bool(np.isfinite(self._sizes).all())

    # The next four methods probe the model, and call it for full rows if a structure may be used. A
    # few rows are evaluated by the model itself, unless a closed form needs no hybrid.

    def _may_use_structure(self) -> bool:
        """Whether the structure's numbers are finite. The first time the model evaluates full
        rows; raises ModelOutputError for a row, of X or of the donors, on which the two differ.
        """
        if not self._finite():
            return False
        if self.asks and self.full is None:
            self.full = whole_answers(self)
        return True

    def may_scan(self) -> bool:
        """Whether orders may be scanned: no number is so large that the changes of a layer along
        an order would be lost in it.
        """
        if self.probe_small() or not self.compare().scans or not self._finite():
            return False
        assert self._sizes is not None
        even = self._sizes.max() <= MOST_UNEVEN * np.median(self._sizes)
        return bool(even) and self._may_use_structure()

    def may_cross(self) -> bool:
        """Whether the model's structure evaluates instances crossed with donors."""
        return not self.probe_small() and self.compare().crosses and self._may_use_structure()

    def may_solve(self) -> bool:
        """Whether a closed form may be used, if the model's structure has one."""
        return self.compare().structured and self._may_use_structure()

    def may_structure(self) -> bool:
        """Whether the model's structure evaluates sub-coalitions."""
        return not self.probe_small() and self.compare().worthwhile and self.may_solve()

    def question(
        self,
        stream: Stream,
        rows: np.ndarray,
        donors: np.ndarray,
        backend: Backend,
        masks: np.ndarray | None = None,
    ) -> GameQuery:
        """The query of the stream of the instances `rows` and the donors `donors`."""
        return GameQuery(
            self.instances(rows),
            self.engine.replacement.weights[donors],
            refuse_bad_answers(self.engine, rows + self.first, backend, masks),
            self.reporting(stream.rows, stream.distinct_rows),
            masks,
        )

    def counted(self, stream: Stream) -> None:
        """Adds the stream's rows to the count."""
        self.count.distinct += stream.distinct_rows
        self.count.padded += stream.rows - stream.distinct_rows

    def answered(self, rows: int) -> None:
        """Counts rows that a closed form read, one per instance."""
        self.count.distinct += rows
        self.report(rows)

    def reporting(self, rows: int, distinct: int) -> Done:
        """Converts evaluated rows, `rows` in all, to requested ones, `distinct` in all."""
        done = report = 0

        def advance(count: int) -> None:
            nonlocal done, report
            done += count
            before, report = report, done * distinct // rows
            self.report(report - before)

        return advance

    def rows_asked(
        self,
        rows: np.ndarray,
        instance: np.ndarray,
        donor: np.ndarray,
        coalition: np.ndarray,
        masks: np.ndarray,
        scored: bool = True,
    ) -> np.ndarray:
        """Scores of single hybrids, float64 [R, K].

        rows: int [n], at most `engine.rows_at_a_time` of the game's instances; a row names one of
        them by its position in `rows`, a donor, and a coalition of masks bool [C, P].
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
        done = self.reporting(stream.rows, stream.distinct_rows)
        x = self.instances(rows) if scored else Instances(self.codes[rows], here=rows + self.first)
        check = refuse_bad_answers(self.engine, rows + self.first, backend, masks, scored)
        parts = [np.zeros((0, self.engine.outputs))]
        for answers in backend.answers(stream, x, masks, scored):
            check(stream, answers)
            parts.append(backend.values(answers))
            done(answers.piece.rows)
        return self.with_offset(np.concatenate(parts[1:] or parts))

    def full_rows(self, rows: np.ndarray, scored: bool = True) -> np.ndarray:
        """Scores of the unchanged instances `rows`, float64 [n, K]; see `rows_asked`."""
        zero = np.zeros(len(rows), np.int32)
        masks = np.ones((1, self.P), bool)
        return self.rows_asked(rows, np.arange(len(rows)), zero, zero, masks, scored)

    def full_donors(self) -> np.ndarray:
        """The model's outputs for the unchanged donors, float64 [B, A]."""
        donors, masks = np.arange(self.engine.replacement.count), np.zeros((1, self.P), bool)
        zero = np.zeros(len(donors), np.int32)
        return self.rows_asked(np.zeros(1, int), zero, donors, zero, masks, scored=False)

    def with_offset(self, answers: np.ndarray) -> np.ndarray:
        """Outputs, or means of them, float64 [..., K], with the model's offset added."""
        offset = self.engine.offset
        return answers if offset is None else answers + offset

    def instances(self, rows: np.ndarray) -> Instances:
        """Codes of the instances `rows`, with the model's own outputs if the score needs them.

        The outputs of all instances are computed at once, one row each, when first needed.
        """
        score = self.engine.score
        if score is None or not score.reads_own:
            return Instances(self.codes[rows], here=rows + self.first)
        if self.own is None:
            step = self.engine.rows_at_a_time
            parts = np.split(np.arange(self.N), range(step, self.N, step))
            self.own = np.concatenate([self.full_rows(part, scored=False) for part in parts])
            if score.made_of_own is not None:
                self.own = score.made_of_own(self.own)
        return Instances(self.codes[rows], self.own[rows], rows + self.first)

    def with_less_where_memory_is_short(
        self, backend: Backend, run: Callable[[Backend], Result]
    ) -> tuple[Backend, Result]:
        """Runs one chunk, and repeats it with half the tile whenever the device runs out of memory.

        The plan should prevent that. Returns (the backend used, its result).
        """
        while True:
            before = Count(self.count.distinct, self.count.padded)
            try:
                return backend, run(backend)
            except Exception as error:
                exhausted = "RESOURCE_EXHAUSTED" in str(error)
                if not exhausted or not self.evaluator.halve_tile(backend.rows_per_call):
                    raise
            self.count = before
            backend = self.backend()


def largest_of(engine: Engine, codes: np.ndarray) -> np.ndarray:
    """Largest absolute layer value of each row of codes [R, C]; [R].

    For a layer it is the largest column times its largest weight. It is not finite if a column
    is not.
    """
    parts: list[Any] = [np.zeros(0)]
    few = engine.findings.rows
    known = len(codes) <= BLOCKS * few
    together = few
    if not known:
        together = min(ROWS_READ, power_below(NUMBERS_READ // engine.replacement.columns))
    for first in range(0, len(codes), together):  # a memory map is read in pieces
        chunk = np.asarray(codes[first : first + together])
        if len(chunk) < together:
            chunk = np.pad(chunk, ((0, together - len(chunk)), (0, 0)), mode="edge")
        key = ("sizes", chunk.shape, chunk.dtype, known)
        if key not in engine.cache:  # looking it up takes as long as running it
            engine.cache[key] = _program_of_largest(engine, chunk.shape, chunk.dtype, known)
        parts.append(engine.cache[key](engine.model.params, chunk))
        parts[-2] = np.asarray(parts[-2])  # the previous one is read while this one runs
    return np.concatenate(parts)[: len(codes)]


def _program_of_largest(engine: Engine, shape: Any, dtype: Any, known: bool) -> Any:
    """The program of `largest_of`; known: by `columns_of`."""
    structure, params = engine.structure, engine.model.params
    if known:
        if engine.known.compares and engine.known.dense is None:
            return lambda params, rows: np.zeros(len(rows))
        few, programs = np.zeros(shape, dtype), engine.findings.programs
        run, every, weights = columns_of(structure, engine.model, few, cast(dict, programs))

        def of_few(params: Any, rows: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore", over="ignore"):
                terms = np.abs(np.asarray(run(params, rows, rows, every)[2])) * weights
            return np.where(np.isfinite(terms), terms, np.inf).max(axis=1, initial=0)

        return of_few

    def of(params: Any, rows: Any) -> Any:
        return largest(structure.of(params), rows)

    arguments = params, np.zeros(shape, dtype)
    recipe = ProgramRecipe(("largest", structure), of, arguments, "the size of columns")
    return engine.compiled.program(recipe)
