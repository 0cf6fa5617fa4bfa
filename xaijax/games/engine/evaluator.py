"""`Evaluator`: the setting in use, made ready at the first question.

It holds what every game of one explainer shares. Nothing here calls the model before `probe` is
asked for.

Letters: N instances, C code columns, B donors, P players, K outputs, R rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, MemoryPlanError
from xaijax.core.forks import before_jax
from xaijax.core.once import shapes_of
from xaijax.games.engine.asked_again import AskedAgain
from xaijax.games.engine.compiled import Clock, Compiled, Recipe
from xaijax.games.engine.device import DeviceBackend, device_backend
from xaijax.games.engine.host import host_backend
from xaijax.games.engine.loop import Backend
from xaijax.games.engine.placement import mesh_of
from xaijax.games.engine.plan import (
    Limits,
    MemoryPlan,
    instances_at_a_time,
    power_below,
    rows_at_a_time,
)
from xaijax.games.engine.walk import WalkBackend, walk_backend
from xaijax.games.measure.replacement import Replacement
from xaijax.games.measure.score import Score
from xaijax.models.asking.findings import Probe
from xaijax.models.model import Model
from xaijax.players.players import Players
from xaijax.tables.own_table import OwnTable
from xaijax.tables.table import CodedTable, FloatTable, Table, Untranslatable
from xaijax_kernels.engine.hybrids import SLOT_BITS
from xaijax_kernels.engine.lattice import LISTED
from xaijax_kernels.engine.tiles import (
    SMALLEST_OF_WIDE,
    SMALLEST_TILE,
    multiplications,
)
from xaijax_kernels.structures.base import Layer, Structure
from xaijax_kernels.structures.columnwise import Columnwise, largest

PROBE_ROWS = 32


class Evaluator:
    """What the games of one explainer share: a setting, its probe, its loops, and the clock.

    Attributes:
        setting: the one in use.
        is_probed, probed: whether the model has answered the probe, and then what that found.
        clock, fits: what runs have cost; fits of a host estimator seen since the first.
    """

    probed: Probed

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
        """score: what is made of the answer to a row; None: the answer itself. offsets: what a
        model's answers are short of (`Model.offset`) is added to what comes of them, by the game;
        else a model of which they are is asked on the host.
        """
        before_jax()
        self._offsets = offsets and score is None
        self._given = model, replacement  # as of the background's dtype
        asked = model.settled().of_codes(replacement.table)
        self.setting = Setting(asked, replacement, players, limits, score)
        self._limits = limits  # as given
        self.setting.model.refuse_changed()
        self.setting.refuse_other_devices()
        self.clock = Clock()
        self.fits = 0
        self._compared = False  # the first rows of a translation, with its estimator's answers
        self._held = False  # all donors
        self.is_probed = False
        self._loop: DeviceBackend | None = None
        self._walker: WalkBackend | None = None

    def start(self) -> Clock:
        """A run begins: the clock as it stands."""
        if self.is_probed and self.probed.asked_again is not None:
            self.probed.asked_again.start()
        return self.clock.copy()

    def finish(self) -> None:
        """A run is over. Raises NonDeterministicModelError where a host model has changed since the
        run's first call: the answers would be those of two models.
        """
        if not self.is_probed or self.probed.asked_again is None:
            return
        model, K = self.setting.model, self.probed.findings.outputs
        self.probed.asked_again.finish(lambda codes, table: model.answer(table.asked(codes), 0, K))

    def measure(self, score: Score) -> None:
        """Ask for this score of an answer from now on."""
        self._use(replace(self.setting, score=score))

    def follow(self) -> None:
        """Forget what is known of a host estimator that was fitted again since it was probed: it is
        asked as it is at each call. Refuses a translated one.
        """
        self.setting.model.refuse_changed()
        changed = self.probed.findings.changed if self.is_probed else None
        if changed is not None and changed():
            self._use(replace(self.setting))
            self.fits += 1

    def encoded(self, rows: Any, hold: bool = True) -> tuple[Table, np.ndarray]:
        """(a table that knows these rows, their codes [N, C]), of rows that the table has read.

        A translated estimator's rows are compared with its own answers, and its background. Where
        they differ, or do not fit JAX, the estimator itself is asked from now on. hold: False: only
        the first rows and the first donors are compared.
        """
        self.setting.model.refuse_codes()
        if not isinstance(self.setting.replacement.table, CodedTable):
            self._take(rows)
            found = self.setting.replacement.table.encode(rows)
            if hold:
                self.setting.model.hold(rows, found[1], of_first=False)
            return found
        first, donors = not self._compared, self.setting.replacement
        model = self._taken(self.setting.model.settled((donors.rows, rows) if first else ()))
        self._compared = True
        while True:
            try:
                if model is not self.setting.model:
                    self._answer_by(model)
                table, codes = self.setting.replacement.table.encode(rows)
            except Untranslatable as reason:
                assert model.comparison is not None
                model.comparison.to_host(str(reason))
                model = model.settled()
                continue
            if hold:
                if not self._held:
                    donors = self.setting.replacement
                    model.hold(donors.rows, donors.codes_of_rows, True, shared=True)
                model.hold(rows, codes, of_first=first)
            held = self._taken(model.settled())
            if held is model:
                self._held |= hold
                return table, codes
            model = held

    def _take(self, rows: Any) -> None:
        """Ask the model in the dtype that these rows and the donors have together; which one that
        is does not depend on the rows that were explained before.
        """
        model, donors = self._given
        if not isinstance(donors.table, FloatTable | OwnTable):
            return
        table = donors.table.holding(rows)
        if getattr(table, "key", None) == getattr(self.setting.replacement.table, "key", None):
            return
        if table.codes_per_column == donors.table.codes_per_column:
            donors = replace(donors, table=table)
        else:
            donors = donors.held_by(table)
        asked = model.settled().of_codes(table)
        limits = self._limits
        self._use(replace(self.setting, model=asked, replacement=donors, limits=limits))

    @property
    def is_settled(self) -> bool:
        """Whether the model in use is the one that its comparison has come to."""
        return self._taken(self.setting.model.settled()) is self.setting.model

    def _taken(self, model: Model) -> Model:
        """The model, or the estimator itself where nothing can be added to what comes of it."""
        if model.offset is None or self._offsets:
            return model
        assert model.original is not None  # only of a translation the level is taken out
        return model.original

    def _answer_by(self, model: Model) -> None:
        """Go on with what a translated estimator settled to; raises Untranslatable.

        By the limits as given: a smaller tile was for the model that is left.
        """
        donors = self.setting.replacement.for_model(model)
        self._use(replace(self.setting, model=model, replacement=donors, limits=self._limits))

    def _use(self, setting: Setting) -> None:
        """Go on with another setting, of which nothing is known yet."""
        self.setting = setting
        self.is_probed, self._loop, self._walker = False, None, None

    def backend(self, table: Table, x: np.ndarray, N: int) -> Backend:
        """The loop that runs the model, planned for N instances; the first call probes the model.

        x: codes of a few of the instances, for the probe.

        A JAX model keeps the plan of the first call, so that no later one compiles again.
        """
        probed = self.probe(table, x)
        if self.setting.on_host:
            return host_backend(probed, self.setting.most_rows(N), table)
        if self._loop is None:
            self._loop = device_backend(probed, self.setting.most_rows(N))
        return self._loop

    def walker(self, table: Table, x: np.ndarray, N: int) -> WalkBackend:
        """The loop that walks orders; arguments as of `backend`."""
        if self._walker is None:
            self.backend(table, x, N)  # probes the model, and its structure
            self._walker = walk_backend(self.probed)
        return self._walker

    def halve_tile(self) -> bool:
        """Go on with half the tile where the device ran out of memory; False: nothing to halve."""
        tile = self.clock.tile
        if self.setting.on_host or tile <= SMALLEST_TILE:
            return False
        checks.warn(
            f"the device ran out of memory with tile={tile}; the run goes on with {tile // 2}. Its "
            "values may differ in the last bits from those of another run. Lower max_memory= or "
            f"say tile={tile // 2} to have the same bits again."
        )
        self.use_tile(tile // 2)
        self.clock.tile_halvings += 1
        return True

    def use_tile(self, rows: int) -> None:
        """Use tiles of so many rows until another model answers. The model must be probed."""
        limits = self.setting.limits
        own = replace(limits, tile=rows, memory=limits.max_memory)
        self.setting = replace(self.setting, limits=own)
        self.probed, self._loop = replace(self.probed, setting=self.setting), None

    def probe(self, table: Table, x: np.ndarray) -> Probed:
        """What the engine must know of the model; asked of it at the first call only.

        table: that knows the instances, of which x are codes.
        """
        if not self.is_probed:
            setting = self.setting
            if not setting.on_host:
                table = setting.replacement.table
            # Of both kinds, since rows that are all alike would say nothing about neighbours.
            few = [setting.replacement.codes[: PROBE_ROWS // 2], x[: PROBE_ROWS // 2]]
            asked = np.concatenate(few)
            findings = setting.model.probe(table.asked(asked))
            self.clock.compile_seconds += findings.compile_seconds
            if setting.score is not None:  # refuses a model without its column
                score = setting.score.fitted(findings.outputs, findings.answer_dtype)
                self.setting = setting = replace(setting, score=score)
            again = None
            if findings.again is not None:
                again = AskedAgain(
                    asked, len(few[0]), table, findings.again, setting.model.max_rows
                )
            self.probed = Probed(setting, findings, self.clock, again)
            self.is_probed = True
        return self.probed


# What changes while an explainer is used makes a new setting: a translation that is left or
# centred, a score that is fitted to the model's outputs, a smaller tile. What is worked out of a
# setting is kept by it, so nothing of an old one is met again.

SLOT = 1 << SLOT_BITS
LARGEST_PAIR = 24  # players that differ; 2^24 corners are the most that a pair is cut into


@dataclass(frozen=True, eq=False)
class Setting:
    """What the games of one explainer share before the model is asked."""

    model: Model
    replacement: Replacement
    players: Players
    limits: Limits
    score: Score | None = None  # of the answer to a row; None: the answer itself

    @cached_property
    def on_host(self) -> bool:
        """Whether Python runs the model outside JAX."""
        return self.model.backend == "host"

    @cached_property
    def code_players(self) -> np.ndarray:
        """Whose each code column is, int32 [C]."""
        per_column = self.replacement.table.codes_per_column
        return np.repeat(self.players.of_column, per_column).astype(np.int32)

    @cached_property
    def players_of_codes(self) -> np.ndarray | None:
        """The same for programs; None where column c is player c."""
        plain = self.players.single and self.replacement.table.codes_per_column == 1
        return None if plain else self.code_players

    @cached_property
    def fixed(self) -> bool:
        """Whether some columns are always kept: what keeping no player gives hangs on them."""
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
        """That tiles are split over, or that a model with sharded parameters spans."""
        mesh = mesh_of(self.model.params) if self.model.loop == "jax" else None
        return self.limits.devices if mesh is None else tuple(mesh.devices.flat)

    def refuse_other_devices(self) -> None:
        """Raise InputError where devices= names others than sharded parameters stand on."""
        if self.limits.named and set(self.limits.devices) != set(self.devices):
            raise InputError(
                f"devices={[str(d) for d in self.limits.devices]}, but the parameters of "
                f"{self.model.name} are sharded over {[str(d) for d in self.devices]}. Leave "
                "devices= out: the model stays where it is."
            )

    @cached_property
    def row_bytes(self) -> int:
        """Of the codes of one row."""
        codes = self.replacement.codes
        return codes.shape[1] * codes.itemsize

    @cached_property
    def instances_at_a_time(self) -> int:
        """Instances planned together; a function of background and memory only."""
        donors, P = len(self.replacement.codes), self.players.count
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
        return N * len(self.replacement.codes) << min(self.players.count, LARGEST_PAIR)

    def refuse_too_little_memory(self) -> None:
        """Raise MemoryPlanError where even the smallest tile cannot fit; asks the model nothing."""
        codes, memory = self.replacement.codes, self.memory.whole
        smallest = 3 * SMALLEST_OF_WIDE * self.row_bytes + 2 * codes.nbytes
        if smallest > memory:
            raise MemoryPlanError(
                f"max_memory={memory:,} bytes, but the {len(codes)} background rows and "
                f"{SMALLEST_OF_WIDE} hybrid rows of {codes.shape[1]} columns need {smallest:,}. "
                "Raise max_memory=, or use fewer background rows."
            )

    def refuse_large_tile(self) -> None:
        """Raise MemoryPlanError where a host model's tile= cannot fit; asks the model nothing.

        A device's tile is planned with the model's width.
        """
        memory, tile = self.memory.whole, self.limits.tile or 0
        needed = 2 * tile * self.row_bytes
        if self.on_host and needed > memory:
            raise MemoryPlanError(
                f"max_memory={memory:,} bytes, but one tile of {tile:,} rows needs about "
                f"{needed:,} ({self.replacement.codes.shape[1]} columns). Say a smaller tile=, or "
                "raise max_memory=."
            )

    def refuse_overflow(self, N: int) -> None:
        """Raise MemoryPlanError where the rows of all pairs cannot even be counted in 64 bits."""
        rows = self.most_rows(N)
        if rows >= 1 << 63:
            raise MemoryPlanError(
                f"X has {N:,} rows; with {len(self.replacement.codes):,} background rows and "
                f"{self.players.count} players that is up to {rows:,} model rows, more than can be "
                "counted. Explain fewer rows at a time."
            )


LEAST_SHARE = 1 / 32  # of a model's products that its first layer must have to be worth programs
BLOCKS = 16  # how often a program of few rows is asked before a larger one is
ROWS_READ, NUMBERS_READ = 1 << 12, 1 << 20  # codes that are looked at together


@dataclass(frozen=True, eq=False)
class Probed:
    """What is known of a setting once its model answered the probe."""

    setting: Setting  # its score is fitted to the model's outputs
    findings: Probe
    clock: Clock
    asked_again: AskedAgain | None = None  # of a host model

    @cached_property
    def compiled(self) -> Compiled:
        """The model's programs, as this run's memory allows them."""
        kept = self.findings.programs
        kept = self.setting.model.compiled if kept is None else kept
        return Compiled(kept, self.clock, self.setting.memory)

    @cached_property
    def outputs(self) -> int:
        """K, the scores of a row."""
        answers, score = self.findings.outputs, self.setting.score
        return answers if score is None else score.count(answers)

    @property
    def found(self) -> Structure | None:
        """What is known of the model beyond its answers; None: nothing.

        Nor where the score looks at something made of f(x): that is passed to whole rows only.
        """
        score = self.setting.score
        if self.setting.model.backend == "host":  # where a translation was left
            return None
        if self.setting.fixed:  # donors have no part of their own
            return None
        if score is not None and score.made_of_own is not None:
            return None
        return self.findings.structure

    @property
    def structure(self) -> Structure:
        """The structure of a model that has one."""
        assert self.found is not None
        return self.found

    @cached_property
    def crosses(self) -> bool:
        """Whether parts of instances and donors may be put together; see `Questions.crosses`."""
        return self.found is not None and self.setting.model.deterministic

    @cached_property
    def structured(self) -> bool:
        """Whether corners are answered by the model's structure; see `Questions.structured`.

        Not where the score looks at f(x): rounded in another way, x might not get its own label.
        """
        score = self.setting.score
        return self.crosses and (score is None or not score.reads_own)

    @cached_property
    def known(self) -> Layer:
        """The layer of a model that has a structure, with shapes in place of arrays."""
        return shapes_of(self.structure.of, self.setting.model.params)

    @cached_property
    def spares(self) -> bool:
        """Whether the structure spares enough of a row to be worth the programs that it needs.

        A first layer does where its products are a LEAST_SHARE of the model's. Its programs take
        about a second to compile; a model with a smaller share runs for half a minute before that
        second is won back. It hangs on the model's sizes alone, as bits do: not on the number of
        instances, which would then change the last bits of each other's values. What a person
        declared is used whatever it spares.
        """
        if self.found is None:
            return False
        if self.found.declared:
            return True
        whole = multiplications(self.findings.jaxpr, self.findings.rows)
        return self.known.work() >= LEAST_SHARE * whole

    @cached_property
    def walks(self) -> bool:
        """Whether orders of players are walked by the model's first layer."""
        setting = self.setting
        if self.found is None or setting.players_of_codes is not None:
            return False
        columns = setting.replacement.codes.shape[1]
        if isinstance(self.known, Columnwise) and len(self.known.owners) != columns:
            return False  # a model that reads some of its columns only
        return self.known.walks and len(setting.code_players) == columns

    def largest(self, codes: np.ndarray) -> np.ndarray:
        """The largest size of what the structure makes of each row of codes [R, C]; [R].

        Of a layer's columns, each times its largest weight. Not finite where one of them is not.
        """
        structure, params = self.structure, self.setting.model.params

        def of(params: Any, rows: Any) -> Any:
            return largest(structure.of(params), rows)

        parts: list[Any] = [np.zeros(0)]
        together = min(ROWS_READ, power_below(NUMBERS_READ // math.prod(codes.shape[1:])))
        few = self.findings.rows  # for which the model is traced already
        if len(codes) <= BLOCKS * few:  # a call of a row is not to wait for thousands
            together = min(together, few)
        run = None
        for first in range(0, len(codes), together):  # a memory map is read in pieces
            some = np.asarray(codes[first : first + together])
            if len(some) < together:
                some = np.pad(some, ((0, together - len(some)), (0, 0)), mode="edge")
            if run is None:  # to find it takes as long as it runs
                recipe = Recipe(("largest", structure), of, (params, some), "the size of columns")
                run = self.compiled.program(recipe)
            parts.append(run(params, some))
            parts[-2] = np.asarray(parts[-2])  # the one before is read while this one runs
        return np.concatenate(parts)[: len(codes)]

    @cached_property
    def largest_donors(self) -> np.ndarray:
        """The same of the donors, [B]."""
        return self.largest(self.setting.replacement.codes)
