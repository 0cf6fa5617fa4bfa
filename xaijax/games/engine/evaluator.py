"""`Engine`: what is asked, and what is known of it; `Evaluator`: the engine in use.

An evaluator is what every game of one explainer shares. Nothing here calls the model before `probe`
is asked for.

Letters: N instances, C code columns, B donors, P players, K outputs, R rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, MemoryPlanError
from xaijax.core.process import before_jax
from xaijax.games.engine.determinism import DeterminismCheck
from xaijax.games.engine.device import DeviceBackend, device_backend
from xaijax.games.engine.dispatch import Clock, Compiled, ProgramRecipe, mesh_of
from xaijax.games.engine.host import HostBackend
from xaijax.games.engine.loop import Backend
from xaijax.games.engine.permutation_scan import PermutationScan
from xaijax.games.engine.plan import (
    Limits,
    MemoryPlan,
    instances_at_a_time,
    power_below,
    refuse_precision,
    rows_at_a_time,
)
from xaijax.games.measure.replacement.base import Replacement
from xaijax.games.measure.score import Score
from xaijax.models.base.outputs import refuse_codes
from xaijax.models.model import Model
from xaijax.models.queries.comparison import (
    COMPARED,
    Bridged,
    TranslationCheck,
    answering,
    check_unchanged,
)
from xaijax.models.queries.findings import Probe, answer_host
from xaijax.models.queries.rows import of_codes
from xaijax.players.players import Players
from xaijax.tables.per_instance_table import PerInstanceTable
from xaijax.tables.table import CodedTable, CodeTable, FloatTable, Untranslatable
from xaijax_kernels.engine.hybrids import SLOT_BITS
from xaijax_kernels.engine.lattice import LISTED
from xaijax_kernels.engine.steps import operations
from xaijax_kernels.engine.tiles import multiplications
from xaijax_kernels.sizes import SMALLEST_OF_WIDE, SMALLEST_TILE
from xaijax_kernels.structures.base import Affine, Columnwise, Layer, Structure, largest, shapes_of

PROBE_ROWS = 32
Made = TypeVar("Made")


NOTHING, FIRST, ALL = range(3)  # of the donors, that a translation was compared on
SLOT = 1 << SLOT_BITS
LARGEST_PAIR = 24  # players that differ; 2^24 sub-coalitions are the most that a pair is cut into
LEAST_SHARE = 1 / 32  # of a model's products that its first layer must have to be worth programs
BLOCKS = 16  # how often a program of few rows is asked before a larger one is
ROWS_READ, NUMBERS_READ = 1 << 12, 1 << 20  # codes that are looked at together


@dataclass(frozen=True, eq=False)
class Engine:
    """What is asked: the model, who plays, what replaces the absent, by which limits; and what the
    probe found of the model.

    What changes while an explainer is used makes a new engine: a translation that is left or
    centred, a score that is fitted to the model's outputs, a smaller tile. What is worked out of an
    engine is kept by it, so nothing of an old one is met again.
    """

    model: Model
    replacement: Replacement
    players: Players
    limits: Limits
    score: Score | None = None  # of the answer to a row; None: the answer itself
    clock: Clock = field(default_factory=Clock)  # what the runs of one explainer have cost
    findings: Probe = cast(Probe, None)  # of the probe; None before it. What follows needs it
    determinism: DeterminismCheck | None = None  # of a host model
    kept: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)  # see `once`

    @cached_property
    def on_host(self) -> bool:
        """Whether Python runs the model outside JAX."""
        return self.model.backend == "host"

    @cached_property
    def code_players(self) -> np.ndarray:
        """The player of each code column, int32 [C]."""
        per_column = self.replacement.table.codes_per_column
        return np.repeat(self.players.of_column, per_column).astype(np.int32)

    @cached_property
    def players_of_codes(self) -> np.ndarray | None:
        """The same for programs; None if column c is player c."""
        plain = self.players.single and self.replacement.table.codes_per_column == 1
        return None if plain else self.code_players

    @cached_property
    def fixed(self) -> bool:
        """Whether some columns are always kept: what keeping no player gives depends on them."""
        return bool((self.players.of_column == -1).any())

    @cached_property
    def offset(self) -> np.ndarray | None:
        """What the model's answers are short of, float64 [] or [K]; None: nothing."""
        return self.model.offset

    @cached_property
    def memory(self) -> MemoryPlan:
        """Shares of the bytes that the run may plan with."""
        return MemoryPlan(self.limits.max_memory)

    @cached_property
    def devices(self) -> tuple[Any, ...]:
        """Devices that tiles are split over, or that a model with sharded parameters spans."""
        mesh = mesh_of(self.model.params) if self.model.loop == "jax" else None
        return self.limits.devices if mesh is None else tuple(mesh.devices.flat)

    def refuse_other_devices(self) -> None:
        """Raises InputError if devices= names others than hold the sharded parameters."""
        if self.limits.named and set(self.limits.devices) != set(self.devices):
            raise InputError(
                f"devices={[str(d) for d in self.limits.devices]}, but the parameters of "
                f"{self.model.name} are sharded over {[str(d) for d in self.devices]}. Leave "
                "devices= out: the model stays where it is."
            )

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of the codes of one row."""
        codes = self.replacement.for_loops
        return codes.shape[1] * codes.itemsize

    @cached_property
    def instances_at_a_time(self) -> int:
        """Instances planned together; a function of background and memory only."""
        donors, P = self.replacement.count, self.players.count
        return instances_at_a_time(donors, P, self.row_bytes, self.memory)

    @cached_property
    def rows_at_a_time(self) -> int:
        """Instances whose rows are held on the device together."""
        return rows_at_a_time(self.row_bytes, self.memory)

    @cached_property
    def listed(self) -> int:
        """Coalitions listed at a time."""
        # On its way a player's bit is one whole number in a few arrays.
        fits = max(SLOT, self.memory.fits("lists", 12 * self.players.count))
        return min(fits // SLOT * SLOT, LISTED - SLOT)

    def most_rows(self, N: int) -> int:
        """Model rows of N instances where all players differ, as far as that is allowed."""
        return N * self.replacement.count << min(self.players.count, LARGEST_PAIR)

    def refuse_too_little_memory(self) -> None:
        """Raises MemoryPlanError if even the smallest tile cannot fit; asks the model nothing."""
        codes, memory = self.replacement.for_loops, self.memory.whole
        smallest = 3 * SMALLEST_OF_WIDE * self.row_bytes + 2 * codes.nbytes
        if smallest > memory:
            raise MemoryPlanError(
                f"max_memory={memory:,} bytes, but the {len(codes)} background rows and "
                f"{SMALLEST_OF_WIDE} hybrid rows of {codes.shape[1]} columns need {smallest:,}. "
                "Raise max_memory=, or use fewer background rows."
            )

    def refuse_large_tile(self) -> None:
        """Raises MemoryPlanError if a host model's tile= cannot fit; asks the model nothing.

        A device's tile is planned with the model's width.
        """
        memory, tile = self.memory.whole, self.limits.tile or 0
        needed = 2 * tile * self.row_bytes
        if self.on_host and needed > memory:
            raise MemoryPlanError(
                f"max_memory={memory:,} bytes, but one tile of {tile:,} rows needs about "
                f"{needed:,} ({self.replacement.columns} columns). Say a smaller tile=, or "
                "raise max_memory=."
            )

    def refuse_overflow(self, N: int) -> None:
        """Raises MemoryPlanError if the rows of all pairs cannot even be counted in 64 bits."""
        rows = self.most_rows(N)
        if rows >= 1 << 63:
            raise MemoryPlanError(
                f"X has {N:,} rows; with {self.replacement.count:,} background rows and "
                f"{self.players.count} players that is up to {rows:,} model rows, more than can be "
                "counted. Explain fewer rows at a time."
            )

    # What is known once the model answered its probe.

    @cached_property
    def compiled(self) -> Compiled:
        """The model's programs, as this run's memory allows them."""
        kept = self.findings.programs
        kept = self.model.compiled if kept is None else kept
        return Compiled(kept, self.clock, self.memory)

    @cached_property
    def mark(self) -> str | None:
        """What tells a JAX model from others, with the parameters that its programs hold."""
        return self.model.mark(self.findings)

    @cached_property
    def operations(self) -> float:
        """Operations of a row that the model answers."""
        return operations(self.findings.jaxpr, self.findings.rows)

    @cached_property
    def outputs(self) -> int:
        """K, the scores of a row."""
        answers, score = self.findings.outputs, self.score
        return answers if score is None else score.count(answers)

    @cached_property
    def found(self) -> Structure | None:
        """What is known of the model beyond its answers; None: nothing.

        None also if the score looks at something made of f(x): that is passed to full rows only.
        """
        score = self.score
        if self.on_host:  # where a translation was left
            return None
        if self.fixed:  # donors have no part of their own
            return None
        if score is not None and score.made_of_own is not None:
            return None
        return self.findings.structure

    @cached_property
    def structure(self) -> Structure:
        """The structure of a model that has one."""
        assert self.found is not None
        return self.found

    @cached_property
    def crosses(self) -> bool:
        """Whether parts of instances and donors may be put together; see `GameRun.may_cross`."""
        return self.found is not None and self.model.deterministic

    @cached_property
    def structured(self) -> bool:
        """Whether sub-coalitions are answered by the model's structure; see `GameRun.may_solve`.

        They are not if the score looks at f(x): rounded in another way, x might not get its own
        label.
        """
        score = self.score
        return self.crosses and (score is None or not score.reads_own)

    @cached_property
    def known(self) -> Layer:
        """The layer of a model that has a structure, with shapes in place of arrays."""
        return shapes_of(self.structure, self.model.params)

    @cached_property
    def by_columns(self) -> bool:
        """Whether that layer is a sum over columns, whoever plays."""
        return self.known.by_columns

    @cached_property
    def affine(self) -> Affine | None:
        """(A [H, K], c [K]) where the trace of the model says layer A + c; else None."""
        if not self.structured or self.score is not None:
            return None
        return self.structure.affine(self.model.params)

    @cached_property
    def structure_name(self) -> str:
        """Name of that layer, as results record it."""
        return self.known.name

    @cached_property
    def worthwhile(self) -> bool:
        """Whether the structure saves enough of a row to be worth the programs that it needs.

        A first layer does if its products are a LEAST_SHARE of the model's. Its programs take about
        a second to compile; a model with a smaller share runs for half a minute before that second
        is won back. It depends on the model's sizes alone, as rounding does: not on the number of
        instances, which would then change the last bits of each other's values. What the user
        declared is used whatever it saves.
        """
        if self.found is None:
            return False
        if self.found.declared:
            return True
        whole = multiplications(self.findings.jaxpr, self.findings.rows)
        return self.known.work() >= LEAST_SHARE * whole

    @cached_property
    def scans(self) -> bool:
        """Whether orders of players are walked by the model's first layer."""
        if self.found is None or self.players_of_codes is not None:
            return False
        columns = self.replacement.columns
        if isinstance(self.known, Columnwise) and len(self.known.owners) != columns:
            return False  # a model that reads some of its columns only
        return self.known.scans and len(self.code_players) == columns

    @cached_property
    def _rows_read(self) -> int:
        """Rows of codes that are looked at together."""
        return min(ROWS_READ, power_below(NUMBERS_READ // self.replacement.columns))

    def largest(self, codes: np.ndarray) -> np.ndarray:
        """The largest size of what the structure makes of each row of codes [R, C]; [R].

        A layer counts by its columns, each times its largest weight. The size is not finite if one
        of them is not.
        """
        parts: list[Any] = [np.zeros(0)]
        together = self._rows_read
        few = self.findings.rows  # for which the model is traced already
        if len(codes) <= BLOCKS * few:  # a call of a row is not to wait for thousands
            together = min(together, few)
        for first in range(0, len(codes), together):  # a memory map is read in pieces
            some = np.asarray(codes[first : first + together])
            if len(some) < together:
                some = np.pad(some, ((0, together - len(some)), (0, 0)), mode="edge")
            run = _program_of_largest(self, some.shape, some.dtype)
            parts.append(run(self.model.params, some))
            parts[-2] = np.asarray(parts[-2])  # the one before is read while this one runs
        return np.concatenate(parts)[: len(codes)]


def once(make: Callable[..., Made]) -> Callable[..., Made]:
    """make(engine, *key), called once for each engine and key; the engine keeps what is made."""

    @functools.wraps(make)
    def kept(engine: Engine, *key: Any) -> Made:
        place = (make, *key)
        if place not in engine.kept:
            engine.kept[place] = make(engine, *key)
        return engine.kept[place]

    return kept


@once
def largest_of_donors(engine: Engine) -> np.ndarray:
    """`Engine.largest` of the donors, [B]."""
    return engine.largest(engine.replacement.for_loops)


@once
def _program_of_largest(engine: Engine, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """What `Engine.largest` runs; to find it takes as long as it runs."""
    structure, params = engine.structure, engine.model.params

    def of(params: Any, rows: Any) -> Any:
        return largest(structure.of(params), rows)

    arguments = params, np.zeros(shape, dtype)
    recipe = ProgramRecipe(("largest", structure), of, arguments, "the size of columns")
    return engine.compiled.program(recipe)


class Evaluator:
    """What the games of one explainer share: the engine in use, its loops, and the clock.

    Attributes:
        engine: the one in use, with findings once the model has answered its probe.
        clock, fits: what runs have cost; fits of a host estimator seen since the first.
    """

    def __init__(
        self,
        model: Model,
        replacement: Replacement,
        players: Players,
        limits: Limits,
        *,
        score: Score | None = None,
        offsets: bool = False,
    ) -> None:
        """score: what is made of the answer to a row; None: the answer itself. offsets: if True the
        game adds `Model.offset` to what comes of the answers; if False a model with an offset is
        asked on the host.
        """
        before_jax()
        self._offsets = offsets and score is None
        self._given = model, replacement  # in the background's dtype
        check_unchanged(model)
        answers = answering(model, self._offsets)
        if answers.loop == "host":
            replacement = replacement.for_model(answers)
        asked = of_codes(answers, replacement.table)
        self.engine = Engine(asked, replacement, players, limits, score)
        self._limits = limits  # as given
        self.engine.refuse_other_devices()
        refuse_precision(asked.precision, self.engine.devices[0], asked.name)
        self.clock = self.engine.clock
        self.fits = 0
        self._compared = NOTHING  # which donors, with a translated estimator's answers
        self._loop: DeviceBackend | None = None
        self._scanner: PermutationScan | None = None

    def start(self) -> Clock:
        """Begins a run; returns the clock as it is now."""
        if self.engine.determinism is not None:
            self.engine.determinism.start()
        return replace(self.clock)

    def finish(self) -> None:
        """A run is over. Raises NonDeterministicModelError if a host model has changed since the
        run's first call: the answers would be those of two models.
        """
        engine = self.engine
        if engine.determinism is None:
            return
        model, K = engine.model, engine.findings.outputs
        engine.determinism.finish(lambda codes, table: answer_host(model, table.asked(codes), 0, K))

    def measure(self, score: Score) -> None:
        """Replaces the score of an answer from now on."""
        self._use(replace(self.engine, score=score))

    def answers(self) -> bool:
        """Returns whether the model in use is the one that answers, as far as is known."""
        self.refresh()
        model = self.engine.model
        return answering(model, self._offsets) is model

    def refresh(self) -> None:
        """Forgets what is known of a host estimator that was fitted again since it was probed,
        which is asked as it is at each call. Raises InputError for a translated one.
        """
        model, findings = self.engine.model, self.engine.findings
        check_unchanged(model)
        changed = None if findings is None else findings.changed
        if changed is not None and changed():
            self._use(replace(self.engine))
            self.fits += 1

    def encoded(self, rows: Any, every: bool = True) -> tuple[CodeTable, np.ndarray]:
        """Returns (a table that knows these rows, their codes [N, C]), of rows that it has read.

        Who answers is resolved first. every: whether all rows of a translated estimator are
        compared with its own answers; False: only the first rows and the first donors.
        """
        self.refresh()
        if not isinstance(self.engine.replacement.table, CodedTable):
            self._take(rows)
        engine = self.engine
        model, donors, table, codes = self._resolve(rows, every)
        if model is not engine.model or donors is not engine.replacement:
            # By the limits as given: a smaller tile was for the model that is left.
            changes = {"model": model, "replacement": donors, "limits": self._limits}
            self._use(replace(engine, **changes))
        return table, codes

    def _resolve(self, rows: Any, every: bool) -> tuple[Model, Replacement, CodeTable, np.ndarray]:
        """Returns (who answers on these rows: JAX, a centred translation or the estimator, the
        donors for it, and what `encoded` returns).

        The answers of a translation are compared with its estimator's own on the donors and the
        rows. The estimator answers if they differ, or if rows do not fit JAX, from now on.

        Raises ModelOutputError for labels that are no amounts, or a bridged module that answers
        otherwise, and InputError for a difference where backend="jax" was said.
        """
        model, donors = self.engine.model, self.engine.replacement
        known = model.classes or ("",)
        if model.output == "label" and not any(isinstance(label, str) for label in known):
            refuse_codes(model.classes, model.name)  # unknown labels again with each answer
        comparison = model.comparison
        if not isinstance(donors.table, CodedTable):
            table, codes = donors.table.encode(rows)
            if every and isinstance(comparison, Bridged):
                comparison.compare_all(rows)
            return model, donors, table, codes
        assert isinstance(comparison, TranslationCheck)
        labels, first = model.asks_labels, 0
        if self._compared == NOTHING:
            comparison.compare_first((donors.rows, rows), labels)
            first = COMPARED
        while True:
            model = answering(model, self._offsets)
            try:
                donors = donors.for_model(model)
                table, codes = donors.table.encode(rows)
            except Untranslatable as reason:
                comparison.fall_back(str(reason))
                continue
            if every and model.loop == "jax":
                if self._compared != ALL:
                    own = donors.codes_of_rows
                    comparison.compare_all(donors.rows, own, COMPARED, shared=True, labels=labels)
                comparison.compare_all(rows, codes, first, labels=labels)
            if answering(model, self._offsets) is model:
                self._compared = ALL if every else max(self._compared, FIRST)
                return model, donors, table, codes

    def _take(self, rows: Any) -> None:
        """Asks the model in the dtype that these rows and the donors have together; which one that
        is does not depend on the rows that were explained before.
        """
        model, donors = self._given
        if not isinstance(donors.table, FloatTable | PerInstanceTable):
            return
        table, used = donors.table.holding(rows), self.engine.replacement.table
        if table is used or getattr(table, "key", None) == getattr(used, "key", None):
            return
        if table.codes_per_column == donors.table.codes_per_column:
            donors = replace(donors, table=table)
        else:
            donors = donors.held_by(table)
        asked = of_codes(model, table)
        limits = self._limits
        self._use(replace(self.engine, model=asked, replacement=donors, limits=limits))

    def _use(self, engine: Engine) -> None:
        """Goes on with another engine, about which nothing is known yet."""
        self.engine = replace(engine, findings=cast(Probe, None), determinism=None)
        self._loop = self._scanner = None

    def backend(self, table: CodeTable, x: np.ndarray, N: int) -> Backend:
        """The loop that runs the model, planned for N instances; the first call probes the model.

        x: codes of a few of the instances, for the probe.

        A JAX model keeps the plan of the first call, so that a later one compiles nothing again,
        but for one of several times the instances whose rows are large (`rows_held`).
        """
        engine = self.probe(table, x)
        if engine.on_host:
            return HostBackend(engine, N, table)
        loop = self._loop  # another thread may put one for fewer instances there
        if loop is None or loop.sizes.instances < min(N, engine.rows_at_a_time):
            self._loop = loop = device_backend(engine, N, loop)
        return loop

    def scanner(self, table: CodeTable, x: np.ndarray, N: int) -> PermutationScan:
        """The loop that walks orders; arguments as for `backend`."""
        scanner = self._scanner
        if scanner is None:
            self.backend(table, x, N)  # probes the model, and its structure
            scanner = PermutationScan(self.engine)
        self._scanner = scanner = scanner.holding(N)
        return scanner

    def halve_tile(self) -> bool:
        """Goes on with half the tile after the device ran out of memory; False: nothing to
        halve.
        """
        tile = self.clock.tile
        if self.engine.on_host or tile <= SMALLEST_TILE:
            return False
        checks.warn(
            f"the device ran out of memory with tile={tile}; the run goes on with {tile // 2}. Its "
            "values may differ in the last bits from those of another run. Lower max_memory= or "
            f"say tile={tile // 2} to have identical values again."
        )
        self.use_tile(tile // 2)
        self.clock.tile_halvings += 1
        return True

    def use_tile(self, rows: int) -> None:
        """Uses tiles of `rows` rows until another model answers. The model must be probed."""
        limits = self.engine.limits
        own = replace(limits, tile=rows, memory=limits.max_memory)
        self.engine, self._loop = replace(self.engine, limits=own), None

    def probe(self, table: CodeTable, x: np.ndarray) -> Engine:
        """The engine with what it must know of the model, which is asked at the first call only.

        table: knows the instances, whose codes are x.
        """
        engine = self.engine
        if engine.findings is not None:
            return engine
        if not engine.on_host:
            table = engine.replacement.table
        # Rows of both kinds, since rows that are all alike would say nothing about neighbours.
        few = [engine.replacement.for_loops[: PROBE_ROWS // 2], x[: PROBE_ROWS // 2]]
        asked = np.concatenate(few)
        findings = engine.model.probe(table.asked(asked))
        self.clock.compile_seconds += findings.compile_seconds
        score, again = engine.score, None
        if score is not None:  # refuses a model without its column
            score = score.fitted(findings.outputs, findings.answer_dtype)
        if findings.again is not None:
            parts = asked, len(few[0]), table, findings.again, engine.model.max_rows
            again = DeterminismCheck(*parts)
        self.engine = replace(engine, score=score, findings=findings, determinism=again)
        return self.engine
