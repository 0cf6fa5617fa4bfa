"""`Evaluator`: a model, what replaces, who plays and the limits; made ready at the first question.

It holds what every game of one explainer shares: the probe's findings and the loop that runs the
model. Nothing here calls the model before `ready` is asked for.

Letters: B donors, C code columns, P players, K outputs, R rows.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import MemoryPlanError
from xaijax.core.forks import before_jax
from xaijax.games.engine.asked_again import AskedAgain
from xaijax.games.engine.clock import Clock
from xaijax.games.engine.compiled import Compiled
from xaijax.games.engine.device import DeviceBackend
from xaijax.games.engine.limits import devices_of, power_below, stated_limit, tile_of
from xaijax.games.engine.loop import Backend
from xaijax.games.engine.make import device_backend, host_backend, walker
from xaijax.games.engine.plan import instances_at_a_time, rows_at_a_time
from xaijax.games.engine.walk import WalkBackend
from xaijax.games.measure.replacement import Replacement
from xaijax.games.measure.score import Score
from xaijax.players.players import Players
from xaijax.tables.coded_table import CodedTable, Untranslatable
from xaijax.tables.table import Table
from xaijax_kernels.engine.hybrids import SLOT_BITS
from xaijax_kernels.engine.lattice import LISTED
from xaijax_kernels.engine.memory import free_memory
from xaijax_kernels.engine.tiles import SMALLEST_TILE, multiplications
from xaijax_kernels.structures.columnwise import largest

PROBE_ROWS = 32
LASTING = "codes of the lasting rows"
KNOWN = "shapes of the structure"
LEAST_SHARE = 1 / 32  # of a model's products that its first layer must have to be worth programs
ROWS_READ, NUMBERS_READ = 1 << 12, 1 << 20  # codes that are looked at together
SLOT = 1 << SLOT_BITS
LARGEST_PAIR = 24  # players that differ; 2^24 corners are the most that a pair is cut into


class Evaluator:
    """What the games of one explainer share."""

    def __init__(
        self,
        model: Any,
        replacement: Replacement,
        players: Players,
        *,
        batch_size: Any = "auto",
        max_memory: Any = None,
        devices: Any = None,
        tile: Any = None,
        coalitions: int = 0,
        score: Score | None = None,
        plain: bool = False,
        tile_parts: int = 1,
        offsets: bool = False,
    ) -> None:
        """coalitions: the most that will be given as a list; 0: none ever, all by corner index.

        score: what is made of the answer to a row; None: the answer itself. plain: every row is
        asked where it stands, by the model as it is: no two as one, no structure. tile_parts: by
        how much tiles are smaller than usual, where many questions are short. offsets: what a
        model's answers are short of (`Model.offset`) is added to what comes of them, by the game;
        else a model of which they are is asked on the host.
        """
        before_jax()
        self._offsets = offsets and score is None
        self.plain = plain
        self.tile_parts = tile_parts
        self.score = score
        self.model, self.players = model.settled(), players
        self.model.refuse_changed()
        self._compared = False  # a translated estimator, with its own answers
        auto = isinstance(batch_size, str) and batch_size == "auto"
        self.batch_rows = None if auto else checks.whole_number(batch_size, "batch_size")
        self.tile = None if tile is None else tile_of(tile)
        self.devices = devices_of(devices)  # that tiles are split over
        self._max_memory = (
            None if max_memory is None else checks.whole_number(max_memory, "max_memory")
        )
        self._coalitions = coalitions
        self.findings: Any = None  # what the probe found; see `Model.probe`
        self.asked_again: AskedAgain | None = None  # of a host model that was probed
        self.clock = Clock()
        self._kept: DeviceBackend | None = None
        self._walker: WalkBackend | None = None
        self.lasting: Any = None  # rows that every game of a QII is about, encoded once
        self.kept: dict[Any, Any] = {}  # what is worked out once for all questions
        self.fits = 0  # of a host estimator, that were seen since the first
        self._take(replacement)

    def _take(self, replacement: Replacement) -> None:
        """Use these donors, and say whose the columns of their codes are."""
        self.replacement = replacement
        per_column = replacement.table.codes_per_column
        columns = np.repeat(self.players.of_column, per_column).astype(np.int32)
        plain = self.players.single and per_column == 1
        self.players_of_codes = None if plain else columns
        self.code_players = columns

    def follow(self) -> None:
        """Forget what is known of a host estimator that was fitted again since it was probed: it is
        asked as it is at each call. Refuses a translated one.
        """
        self.model.refuse_changed()
        if self.findings is None or self.findings.changed is None or not self.findings.changed():
            return
        self.findings = self.asked_again = None
        self.kept.clear()
        self.fits += 1

    def encoded(self, rows: Any) -> tuple[Table, np.ndarray]:
        """(a table that knows these rows, their codes [N, C]), of rows that the table has read.

        A translated estimator's rows are compared with its own answers, and its background. Where
        they differ, or do not fit JAX, the estimator itself is asked from now on.
        """
        table = self.replacement.table
        if not isinstance(table, CodedTable):
            return table.encode(rows)
        if self.lasting is not None and rows is self.lasting:
            kept = self.kept.get(LASTING)
            if kept is None or kept[0] is not table:
                found = self._encoded(rows)
                kept = self.kept[LASTING] = (self.replacement.table, found)
            return kept[1]
        return self._encoded(rows)

    def _encoded(self, rows: Any) -> tuple[Table, np.ndarray]:
        first = not self._compared
        some = (self.replacement.rows, rows) if first else ()
        model, self._compared = self._taken(self.model.settled(some)), True
        while True:
            try:
                if model is not self.model:
                    self._use(model)
                table, codes = self.replacement.table.encode(rows)
            except Untranslatable as reason:
                model.comparison.to_host(str(reason))
                model = model.settled()
                continue
            if first:
                model.hold(self.replacement.rows, self.replacement.codes_of_rows, of_first=True)
            model.hold(rows, codes, of_first=first)
            held = self._taken(model.settled())
            if held is model:
                return table, codes
            model = held

    def _taken(self, model: Any) -> Any:
        """The model, or the estimator itself where nothing can be added to what comes of it."""
        return model if model.offset is None or self._offsets else model.original

    def _use(self, model: Any) -> None:
        """Go on with what a translated estimator settled to; raises Untranslatable."""
        replacement = self.replacement.for_model(model)
        if model.loop == "jax":  # other numbers, and another program: nothing is known of it
            self.findings = self._kept = self._walker = None
            self.kept.clear()
        self.model = model
        self._take(replacement)

    @property
    def offset(self) -> np.ndarray | None:
        """What the model's answers are short of, float64 [] or [K]; None: nothing."""
        return self.model.offset

    @property
    def max_memory(self) -> int:
        """Bytes the run may plan with; fixed when first asked for, so that plans stay the same."""
        if self._max_memory is None:
            self._max_memory = stated_limit() or free_memory(self.devices[0]) // 2
        return self._max_memory

    @property
    def compiled(self) -> Compiled:
        """The model's programs, as this run's memory allows them."""
        return Compiled(self.model.compiled, self.clock, self.max_memory)

    @property
    def instances_at_a_time(self) -> int:
        """Instances planned together; a function of background and memory only."""
        codes = self.replacement.codes
        per_row = codes.shape[1] * codes.itemsize
        return instances_at_a_time(len(codes), self.players.count, per_row, self.max_memory)

    @property
    def rows_at_a_time(self) -> int:
        """Instances whose rows are held on the device together."""
        codes = self.replacement.codes
        return rows_at_a_time(codes.shape[1] * codes.itemsize, self.max_memory)

    @property
    def outputs(self) -> int:
        """K, the scores of a row; known once the model is probed."""
        answers = self.findings.outputs
        return answers if self.score is None else self.score.count(answers)

    @property
    def listed(self) -> int:
        """Coalitions listed at a time: all, or as many as a sixteenth of the memory can make."""
        if not self._coalitions:
            return 0
        # On its way a player's bit is one whole number in a few arrays.
        fits = max(SLOT, self.max_memory // 16 // (12 * self.players.count))
        return min(-(-self._coalitions // SLOT) * SLOT, fits // SLOT * SLOT, LISTED - SLOT)

    def refuse_too_little_memory(self) -> None:
        """Raise MemoryPlanError where even the smallest tile cannot fit; asks the model nothing."""
        codes = self.replacement.codes
        smallest = 3 * SMALLEST_TILE * codes.shape[1] * codes.itemsize + 2 * codes.nbytes
        if smallest > self.max_memory:
            raise MemoryPlanError(
                f"max_memory={self.max_memory:,} bytes, but the {len(codes)} background rows and "
                f"{SMALLEST_TILE} hybrid rows of {codes.shape[1]} columns need {smallest:,}. Raise "
                "max_memory=, or use fewer background rows."
            )

    def refuse_large_tile(self) -> None:
        """Raise MemoryPlanError where a host model's tile= cannot fit; asks the model nothing.

        A device's tile is planned with the model's width.
        """
        codes = self.replacement.codes
        needed = 2 * (self.tile or 0) * codes.shape[1] * codes.itemsize
        if self.model.backend == "host" and needed > self.max_memory:
            raise MemoryPlanError(
                f"max_memory={self.max_memory:,} bytes, but one tile of {self.tile:,} rows needs "
                f"about {needed:,} ({codes.shape[1]} columns). Say a smaller tile=, or raise "
                "max_memory=."
            )

    def refuse_overflow(self, N: int) -> None:
        """Raise MemoryPlanError where the rows of all pairs cannot even be counted in 64 bits."""
        rows = self._most_rows(N)
        if rows >= 1 << 63:
            raise MemoryPlanError(
                f"X has {N:,} rows; with {len(self.replacement.codes):,} background rows and "
                f"{self.players.count} players that is up to {rows:,} model rows, more than can be "
                "counted. Explain fewer rows at a time."
            )

    def _most_rows(self, N: int) -> int:
        """Model rows of N instances where all players differ, as far as that is allowed."""
        return N * len(self.replacement.codes) << min(self.players.count, LARGEST_PAIR)

    def backend(self, table: Table, x: np.ndarray, N: int) -> Backend:
        """The loop that runs the model, planned for N instances; the first call probes the model.

        x: codes of a few of the instances, for the probe.

        A JAX model keeps the plan of the first call, so that no later one compiles again.
        """
        if self.model.backend == "host":
            return host_backend(self, self.probe(table, x), self._most_rows(N), table)
        if self._kept is None:
            probe = self.probe(self.replacement.table, x)
            self._kept = device_backend(self, probe, self._most_rows(N))
        return self._kept

    @property
    def structure(self) -> Any:
        """What is known of the model beyond its answers, once it is probed; None: nothing."""
        if self.findings is None or self.plain:
            return None
        if self.model.backend == "host":  # where a translation was left
            return None
        return self.findings.structure

    @property
    def crosses(self) -> bool:
        """Whether parts of instances and donors may be put together; see `Questions.crosses`."""
        return self.structure is not None and not self.plain and self.model.deterministic

    @property
    def structured(self) -> bool:
        """Whether corners are answered by the model's structure; see `Questions.structured`.

        Not where the score looks at f(x): rounded in another way, x might not get its own label.
        """
        apart = self.score is None or not self.score.reads_own
        return self.structure is not None and self.model.deterministic and apart

    @property
    def spares(self) -> bool:
        """Whether the structure spares enough of a row to be worth the programs that it needs.

        A first layer does where its products are a LEAST_SHARE of the model's. Its programs take
        about a second to compile; a model with a smaller share runs for half a minute before that
        second is won back. It hangs on the model's sizes alone, as bits do: not on the number of
        instances, which would then change the last bits of each other's values.
        """
        return self._known[1]

    @property
    def known(self) -> Any:
        """The structure with shapes in place of arrays; None where there is none."""
        return self._known[0]

    @property
    def _known(self) -> tuple[Any, bool]:
        structure = self.structure
        if structure is None:
            return None, False
        if self.kept.get(KNOWN, (None,))[0] is not structure:
            known = jax.eval_shape(structure.of, self.model.params)
            whole = multiplications(self.findings.jaxpr, self.findings.rows)
            self.kept[KNOWN] = structure, (known, known.work() >= LEAST_SHARE * whole)
        return self.kept[KNOWN][1]

    def largest(self, codes: np.ndarray) -> np.ndarray:
        """The largest size of what the structure makes of each row of codes [R, C]; [R].

        Of a layer's columns, each times its largest weight. Not finite where one of them is not.
        """
        structure, params = self.structure, self.model.params

        def of(params: Any, rows: Any) -> Any:
            return largest(structure.of(params), rows)

        key, what = ("largest", structure), "the size of columns"
        parts = [np.zeros(0)]
        together = min(ROWS_READ, power_below(NUMBERS_READ // math.prod(codes.shape[1:])))
        for first in range(0, len(codes), together):  # a memory map is read in pieces
            some = np.asarray(codes[first : first + together])
            filled = np.pad(some, ((0, together - len(some)), (0, 0)), mode="edge")
            program = self.compiled.program(key, of, (params, filled), what=what)
            parts.append(np.asarray(program(params, filled))[: len(some)])
        return np.concatenate(parts)

    @property
    def walks(self) -> bool:
        """Whether orders of players are walked by the model's first layer."""
        if self.structure is None or self.players_of_codes is not None:
            return False
        return self.known.walks and len(self.code_players) == self.replacement.codes.shape[1]

    def walker(self, table: Table, x: np.ndarray, N: int) -> WalkBackend:
        """The loop that walks orders; arguments as of `backend`."""
        if self._walker is None:
            self.backend(table, x, N)  # probes the model, and its structure
            self._walker = walker(self)
        return self._walker

    def halve_tile(self) -> bool:
        """Go on with half the tile where the device ran out of memory; False: nothing to halve."""
        tile = self.clock.tile
        if self.model.backend == "host" or tile <= SMALLEST_TILE:
            return False
        checks.warn(
            f"the device ran out of memory with tile={tile}; the run goes on with {tile // 2}. Its "
            "values may differ in the last bits from those of another run. Lower max_memory= or "
            f"say tile={tile // 2} to have the same bits again."
        )
        self.tile, self._kept = tile // 2, None
        self.clock.tile_halvings += 1
        return True

    def probe(self, table: Table, x: np.ndarray) -> Any:
        """What the engine must know of the model; asked of it at the first call only."""
        if self.findings is None:
            # Of both kinds, since rows that are all alike would say nothing about neighbours.
            few = [self.replacement.codes[: PROBE_ROWS // 2], x[: PROBE_ROWS // 2]]
            findings = self.model.probe(table.decode(np.concatenate(few)))
            self.clock.compile_seconds += findings.compile_seconds
            if self.score is not None:  # refuses a model without its column, each time it is asked
                self.score = self.score.fitted(findings.outputs, findings.answer_dtype)
            self.findings = findings
            if findings.again is not None:
                asked, donors = np.concatenate(few), len(few[0])
                self.asked_again = AskedAgain(asked, donors, table, findings.again)
        return self.findings
