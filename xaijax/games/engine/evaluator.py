"""`Engine`: the settings of a run and the findings about the model; `Evaluator`: the engine in use.

All games of one explainer share an evaluator. The model is not called before `probe`.

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
from xaijax.games.engine.dispatch import Clock, Compiled, mesh_of
from xaijax.games.engine.host import HostBackend, SmallBackend
from xaijax.games.engine.loop import Backend
from xaijax.games.engine.permutation_scan import PermutationScan
from xaijax.games.engine.plan import (
    Limits,
    MemoryPlan,
    instances_at_a_time,
    refuse_precision,
    rows_at_a_time,
)
from xaijax.games.measure.replacement.base import Replacement
from xaijax.games.measure.score import Score
from xaijax.models.base.outputs import refuse_codes
from xaijax.models.model import Model
from xaijax.models.queries.comparison import (
    COMPARED,
    Answerer,
    Bridged,
    TranslationCheck,
    answering,
    resolve,
)
from xaijax.models.queries.findings import Probe, answer_host
from xaijax.models.queries.rows import of_codes
from xaijax.models.structure.agreement import Agreement
from xaijax.models.structure.prefix import PrefixStructure
from xaijax.players.players import Players
from xaijax.tables.per_instance_table import PerInstanceTable
from xaijax.tables.table import CodedTable, CodeTable, FloatTable
from xaijax_kernels.engine.hybrids import SLOT_BITS
from xaijax_kernels.engine.lattice import LISTED
from xaijax_kernels.engine.steps import operations
from xaijax_kernels.engine.tiles import multiplications
from xaijax_kernels.sizes import SMALLEST_OF_WIDE, SMALLEST_TILE
from xaijax_kernels.structures.base import Affine, Columnwise, Layer, Structure, shapes_of

PROBE_ROWS = 32
Made = TypeVar("Made")


NOTHING, FIRST, ALL = range(3)  # rows of the donors on which a translation was compared
SLOT = 1 << SLOT_BITS
LARGEST_PAIR = 24  # players that differ; 2^24 sub-coalitions are the most that a pair is cut into
# Share of a model's products that its first layer needs to be worth its programs.
LEAST_SHARE = 1 / 32


@dataclass(frozen=True, eq=False)
class Engine:
    """The settings of a run: the model, the players, the replacement, the limits; and the probe's
    findings.

    Any change makes a new engine: a translation that is dropped or centred, a score that is fitted
    to the model's outputs, a smaller tile. Each engine caches the results derived from it, so no
    result of an old engine is used again.
    """

    model: Model
    replacement: Replacement
    players: Players
    limits: Limits
    score: Score | None = None  # of the output of a row; None: the output itself
    clock: Clock = field(default_factory=Clock)  # costs of the runs of one explainer
    # findings of the probe; None before it. The next fields need it
    findings: Probe = cast(Probe, None)
    determinism: DeterminismCheck | None = None  # of a host model
    cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)  # see `once`

    @cached_property
    def uses_host(self) -> bool:
        """Whether Python runs the model outside JAX."""
        return self.model.backend == "host"

    @cached_property
    def code_players(self) -> np.ndarray:
        """The player of each code column, int32 [C]."""
        per_column = self.replacement.table.codes_per_column
        return np.repeat(self.players.of_column, per_column).astype(np.int32)

    @cached_property
    def players_of_codes(self) -> np.ndarray | None:
        """`code_players` for programs; None if column c is player c."""
        plain = self.players.single and self.replacement.table.codes_per_column == 1
        return None if plain else self.code_players

    @cached_property
    def fixed(self) -> bool:
        """Whether some columns are always kept: the value of the empty coalition depends on
        them."""
        return bool((self.players.of_column == -1).any())

    @cached_property
    def offset(self) -> np.ndarray | None:
        """The offset to add to the model's outputs, float64 [] or [K]; None: none."""
        return self.model.offset

    @cached_property
    def memory(self) -> MemoryPlan:
        """The shares of the run's memory."""
        return MemoryPlan(self.limits.max_memory)

    @cached_property
    def devices(self) -> tuple[Any, ...]:
        """Devices over which tiles are split, or that a model with sharded parameters spans."""
        mesh = mesh_of(self.model.params) if self.model.loop == "jax" else None
        return self.limits.devices if mesh is None else tuple(mesh.devices.flat)

    def refuse_other_devices(self) -> None:
        """Raises InputError if devices= differs from the devices that hold the sharded
        parameters."""
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
        # While it is processed, a player's bit is an integer in several arrays.
        fits = max(SLOT, self.memory.fits("lists", 12 * self.players.count))
        return min(fits // SLOT * SLOT, LISTED - SLOT)

    def most_rows(self, N: int) -> int:
        """Model rows of N instances if all players differ, up to the allowed number."""
        return N * self.replacement.count << min(self.players.count, LARGEST_PAIR)

    def refuse_too_little_memory(self) -> None:
        """Raises MemoryPlanError if even the smallest tile cannot fit; does not call the model."""
        codes, memory = self.replacement.for_loops, self.memory.whole
        smallest = 3 * SMALLEST_OF_WIDE * self.row_bytes + 2 * codes.nbytes
        if smallest > memory:
            raise MemoryPlanError(
                f"max_memory={memory:,} bytes, but the {len(codes)} background rows and "
                f"{SMALLEST_OF_WIDE} hybrid rows of {codes.shape[1]} columns need {smallest:,}. "
                "Raise max_memory=, or use fewer background rows."
            )

    def refuse_large_tile(self) -> None:
        """Raises MemoryPlanError if a host model's tile= cannot fit; does not call the model.

        The tile of a device is planned later, with the model's width.
        """
        memory, tile = self.memory.whole, self.limits.tile or 0
        needed = 2 * tile * self.row_bytes
        if self.uses_host and needed > memory:
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

    # Known after the probe.

    @cached_property
    def compiled(self) -> Compiled:
        """The model's programs, within this run's memory."""
        programs = self.findings.programs
        programs = self.model.compiled if programs is None else programs
        return Compiled(programs, self.clock, self.memory)

    @cached_property
    def model_fingerprint(self) -> str | None:
        """A fingerprint of a JAX model, with the parameters in its programs."""
        return self.model.fingerprint(self.findings, self.devices[0].platform)

    @cached_property
    def operations(self) -> float:
        """Operations of the model per row."""
        return operations(self.findings.jaxpr, self.findings.rows)

    @cached_property
    def outputs(self) -> int:
        """K, the scores of a row."""
        answers, score = self.findings.outputs, self.score
        return answers if score is None else score.count(answers)

    @cached_property
    def reads_layers(self) -> bool:
        """Whether the model's layers may be used: not if a translation was dropped, or if the
        score's input from f(x) is passed to full rows only.
        """
        return not (self.uses_host or (self.score is not None and self.score.made_of_own))

    def compare(self) -> None:
        """Compares the structure of the probed model with it; the properties below need this."""
        none = None, None
        self.cache["compared"] = self.findings.compare() if self.reads_layers else none

    @cached_property
    def affine(self) -> Affine | None:
        """(A [H, K], c [K]) if the model is layer A + c, after `GameRun.read_affine`."""
        return self.cache["affine"]

    @cached_property
    def usable_structure(self) -> Structure | None:
        """The structure that agrees with the model, for these players; None: none."""
        structure = self.cache["compared"][0]
        if isinstance(structure, PrefixStructure):
            return structure.of_players(self.code_players)
        return None if self.fixed else structure  # else donors have no part of their own

    @cached_property
    def structure(self) -> Structure:
        """The structure of the model, which must have one."""
        assert self.usable_structure is not None
        return self.usable_structure

    @cached_property
    def agreement(self) -> Agreement:
        """How closely the structure of the model, which must have one, agrees with it."""
        return cast(Agreement, self.cache["compared"][1])

    @cached_property
    def crosses(self) -> bool:
        """Whether parts of instances and donors may be combined; see `GameRun.may_cross`."""
        structure = self.usable_structure
        return self.model.deterministic and not isinstance(structure, PrefixStructure | None)

    @cached_property
    def structured(self) -> bool:
        """Whether the model's structure evaluates sub-coalitions; see `GameRun.may_solve`.

        It does not if the score reads f(x): with different rounding, x might get another label than
        its own.
        """
        score = self.score
        known = self.usable_structure is not None and (score is None or not score.reads_own)
        return known and self.model.deterministic

    @cached_property
    def known(self) -> Layer:
        """The layer of a model that has a structure, with shapes in place of arrays."""
        return shapes_of(self.structure, self.model.params)

    @cached_property
    def by_columns(self) -> bool:
        """Whether that layer is a sum over columns, for any players."""
        return self.known.by_columns

    @cached_property
    def structure_name(self) -> str:
        """The name of that layer in results."""
        return self.known.name

    @cached_property
    def worthwhile(self) -> bool:
        """Whether the structure saves enough of a row to be worth the programs that it needs.

        A first layer does if its products are at least a LEAST_SHARE of the model's. Its programs
        take about a second to compile; with a smaller share it takes half a minute of running to
        save that second. The decision depends only on the model's sizes, not on the number of
        instances, which would change the last bits of values. A declared structure is always used.
        """
        if self.usable_structure is None:
            return False
        if self.usable_structure.declared:
            return True
        whole = multiplications(self.findings.jaxpr, self.findings.rows)
        return self.known.work() >= LEAST_SHARE * whole

    @cached_property
    def scans(self) -> bool:
        """Whether the model's first layer evaluates orders of players."""
        if self.usable_structure is None or self.players_of_codes is not None:
            return False
        columns = self.replacement.columns
        if isinstance(self.known, Columnwise) and len(self.known.owners) != columns:
            return False  # a model that reads only some of its columns
        return self.known.scans and len(self.code_players) == columns


def once(make: Callable[..., Made]) -> Callable[..., Made]:
    """Caches make(engine, *key): called once per engine and key; the engine keeps the result."""

    @functools.wraps(make)
    def kept(engine: Engine, *key: Any) -> Made:
        place = (make, *key)
        if place not in engine.cache:
            engine.cache[place] = make(engine, *key)
        return engine.cache[place]

    return kept


class Evaluator:
    """The shared state of one explainer's games: the engine in use, its loops, and the clock.

    Attributes:
        engine: the engine in use, with findings after the probe.
        clock, fits: costs of runs; number of refits of a host estimator since the first use.
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
        """score: of a row's output; None: the output itself. offsets: if True the game adds
        `Model.offset` to its results; if False a model with an offset runs on the host.
        """
        before_jax()
        self._offsets = offsets and score is None
        self._given = model, replacement  # in the background's dtype
        model.check_unchanged()
        answers = answering(model, self._offsets)
        if answers.loop == "host":
            replacement = replacement.for_model(answers)
        coded = of_codes(answers, replacement.table)
        self.engine = Engine(coded, replacement, players, limits, score)
        self._limits = limits  # as given
        self.engine.refuse_other_devices()
        refuse_precision(coded.precision, self.engine.devices[0], coded.name)
        self.clock = self.engine.clock
        self.fits = 0
        self._compared = NOTHING  # the donors, with a translated estimator's outputs
        self._loop: DeviceBackend | None = None
        self._scanner: PermutationScan | None = None

    def start(self) -> Clock:
        """Begins a run; returns the clock as it is now."""
        if self.engine.determinism is not None:
            self.engine.determinism.start()
        return replace(self.clock)

    def finish(self) -> None:
        """Ends a run. Raises NonDeterministicModelError if a host model has changed since the
        run's first call: the outputs would belong to two models.
        """
        engine = self.engine
        if engine.determinism is None:
            return
        model, K = engine.model, engine.findings.outputs
        engine.determinism.finish(lambda codes, table: answer_host(model, table.asked(codes), 0, K))

    def measure(self, score: Score) -> None:
        """Replaces the score from now on."""
        self._use(replace(self.engine, score=score))

    def answers(self) -> bool:
        """Whether the model in use is the one that runs, as far as is known."""
        self.refresh()
        model = self.engine.model
        return answering(model, self._offsets) is model

    def refresh(self) -> None:
        """Forgets the findings about a host estimator that was fitted again since its probe; it
        is called in its current state. Raises InputError for a translated one.
        """
        model, findings = self.engine.model, self.engine.findings
        model.check_unchanged()
        changed = None if findings is None else findings.changed
        if changed is not None and changed():
            self._use(replace(self.engine))
            self.fits += 1

    def encoded(self, rows: Any, every: bool = True) -> tuple[CodeTable, np.ndarray]:
        """Returns (a table that includes these rows, their codes [N, C]), for rows that it has
        read.

        First resolves which model runs. every: whether a translation is compared with its estimator
        on all rows; False: only on the first rows and the first donors.
        """
        self.refresh()
        if not isinstance(self.engine.replacement.table, CodedTable):
            self._take(rows)
        engine = self.engine
        model, (donors, table, codes) = self._resolve(rows, every)
        if model is not engine.model or donors is not engine.replacement:
            # With the original limits: a smaller tile was for the dropped model.
            changes = {"model": model, "replacement": donors, "limits": self._limits}
            self._use(replace(engine, **changes))
        return table, codes

    def _resolve(self, rows: Any, every: bool) -> Answerer:
        """Returns the model that runs on these rows, with the donors for it, and the result of
        `encoded`.

        A translation is compared with its estimator on the donors and the rows.

        Raises ModelOutputError for labels that are not amounts, or a bridged module that differs,
        and InputError for a difference if backend="jax" was given.
        """
        current, donors = self.engine.model, self.engine.replacement
        known = current.classes or ("",)
        if current.output == "label" and not any(isinstance(label, str) for label in known):
            refuse_codes(current.classes, current.name)  # labels are unknown until the next output
        check, start = current.comparison, self._compared == NOTHING
        translated = isinstance(donors.table, CodedTable)
        labels = translated and current.asks_labels
        # Rows of one kind, which need not differ: no hybrids are made.
        kinds = (donors.rows, rows) if donors.HYBRIDS else (rows,)

        def read(model: Model) -> tuple[Replacement, CodeTable, np.ndarray]:
            used = donors.for_model(model) if translated else donors
            table, codes = used.table.encode(rows)
            if every and isinstance(check, Bridged):
                check.compare_all(rows)
            if every and isinstance(check, TranslationCheck) and model.loop == "jax":
                if self._compared != ALL:
                    encoded = used.codes_of_rows
                    check.compare_all(used.rows, encoded, COMPARED, shared=True, labels=labels)
                check.compare_all(rows, codes, COMPARED if start else 0, labels=labels)
            return used, table, codes

        if not translated:
            return Answerer(current, read(current))
        answerer = resolve(current, kinds if start else (), read, labels, self._offsets)
        self._compared = ALL if every else max(self._compared, FIRST)
        return answerer

    def _take(self, rows: Any) -> None:
        """Uses the common dtype of these rows and the donors for the model, independent of rows
        explained earlier.
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
        coded = of_codes(model, table)
        limits = self._limits
        self._use(replace(self.engine, model=coded, replacement=donors, limits=limits))

    def _use(self, engine: Engine) -> None:
        """Switches to another engine, without findings."""
        self.engine = replace(engine, findings=cast(Probe, None), determinism=None)
        self._loop = self._scanner = None

    def backend(self, table: CodeTable, x: np.ndarray, N: int, small: bool = False) -> Backend:
        """Returns the loop that runs the model, planned for N instances; the first call probes the
        model.

        x: codes of a few of the instances, for the probe. small: without the engine's programs.

        A JAX model keeps the plan of the first call, so that later calls compile nothing, unless
        they have several times as many instances with large rows (`rows_held`).
        """
        engine = self.probe(table, x)
        if engine.uses_host:
            loop = (SmallBackend if small else HostBackend)(engine, N, table)
        elif small:
            loop = engine.cache.get(SmallBackend)
            if loop is None or loop.N != N:
                loop = SmallBackend(engine, N, engine.replacement.table)
                engine.cache[SmallBackend] = loop
        else:
            loop = self._loop  # another thread may set one for fewer instances
            if loop is None or loop.sizes.instances < min(N, engine.rows_at_a_time):
                engine.compare()
                self._loop = loop = device_backend(engine, N, loop)
        self.clock.tile = loop.rows_per_call
        return loop

    def scanner(self, table: CodeTable, x: np.ndarray, N: int) -> PermutationScan:
        """Returns the loop along orders of players; arguments as for `backend`."""
        scanner = self._scanner
        if scanner is None:
            self.backend(table, x, N)  # probes the model, and compares its structure
            if "compared" not in self.engine.cache:  # another thread may have probed it again
                self.engine.compare()
            scanner = PermutationScan(self.engine)
        self._scanner = scanner = scanner.holding(N)
        return scanner

    def halve_tile(self, tile: int) -> bool:
        """Halves the tile after the device ran out of memory; False: it cannot be halved."""
        if self.engine.uses_host or tile <= SMALLEST_TILE:
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
        changed = replace(limits, tile=rows, memory=limits.max_memory)
        self.engine, self._loop = replace(self.engine, limits=changed), None

    def probe(self, table: CodeTable, x: np.ndarray) -> Engine:
        """Returns the engine with the probe's findings; the first call probes the model.

        table: of the instances, whose codes are x.
        """
        engine = self.engine
        if engine.findings is not None:
            return engine
        if not engine.uses_host:
            table = engine.replacement.table
        # Rows of both kinds, because equal rows would not test the influence of other rows.
        few = [engine.replacement.for_loops[: PROBE_ROWS // 2], x[: PROBE_ROWS // 2]]
        codes = np.concatenate(few)
        findings = engine.model.probe(table.asked(codes))
        self.clock.compile_seconds += findings.compile_seconds
        score, again = engine.score, None
        if score is not None:  # raises for a model without its column
            score = score.fitted(findings.outputs, findings.answer_dtype)
        if findings.again is not None:
            parts = codes, len(few[0]), table, findings.again, engine.model.max_rows
            again = DeterminismCheck(*parts)
        self.engine = replace(engine, score=score, findings=findings, determinism=again)
        return self.engine
