"""`Setting`: a model, what replaces, who plays, the score and the limits; frozen.

What changes while an explainer is used makes a new setting: a translation that is left or centred,
a score that is fitted to the model's outputs, a smaller tile. What is worked out of a setting is
kept by it, so nothing of an old one is met again.

Letters: B donors, C code columns, P players, R rows, K outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, MemoryPlanError
from xaijax.core.once import shapes_of
from xaijax.games.engine.asked_again import AskedAgain
from xaijax.games.engine.compiled import Clock, Compiled, Recipe
from xaijax.games.engine.placement import mesh_of
from xaijax.games.engine.plan import Limits, instances_at_a_time, power_below, rows_at_a_time
from xaijax.games.measure.replacement import Replacement
from xaijax.games.measure.score import Score
from xaijax.models.asking.findings import Probe
from xaijax.models.model import Model
from xaijax.players.players import Players
from xaijax_kernels.engine.hybrids import SLOT_BITS
from xaijax_kernels.engine.lattice import LISTED
from xaijax_kernels.engine.tiles import SMALLEST_OF_WIDE, multiplications
from xaijax_kernels.structures.base import Layer, Structure
from xaijax_kernels.structures.columnwise import Columnwise, largest

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
    def code_players(self) -> np.ndarray:
        """Whose each code column is, int32 [C]."""
        per_column = self.replacement.table.codes_per_column
        return np.repeat(self.players.of_column, per_column).astype(np.int32)

    @property
    def players_of_codes(self) -> np.ndarray | None:
        """The same for programs; None where column c is player c."""
        plain = self.players.single and self.replacement.table.codes_per_column == 1
        return None if plain else self.code_players

    @property
    def fixed(self) -> bool:
        """Whether some columns are always kept: what keeping no player gives hangs on them."""
        return bool((self.players.of_column == -1).any())

    @property
    def offset(self) -> np.ndarray | None:
        """What the model's answers are short of, float64 [] or [K]; None: nothing."""
        return self.model.offset

    @property
    def max_memory(self) -> int:
        """Bytes the run may plan with."""
        return self.limits.max_memory

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

    @property
    def row_bytes(self) -> int:
        """Of the codes of one row."""
        codes = self.replacement.codes
        return codes.shape[1] * codes.itemsize

    @property
    def instances_at_a_time(self) -> int:
        """Instances planned together; a function of background and memory only."""
        donors, P = len(self.replacement.codes), self.players.count
        return instances_at_a_time(donors, P, self.row_bytes, self.max_memory)

    @property
    def rows_at_a_time(self) -> int:
        """Instances whose rows are held on the device together."""
        return rows_at_a_time(self.row_bytes, self.max_memory)

    @property
    def listed(self) -> int:
        """Coalitions listed at a time: as many as a sixteenth of the memory can make."""
        # On its way a player's bit is one whole number in a few arrays.
        fits = max(SLOT, self.max_memory // 16 // (12 * self.players.count))
        return min(fits // SLOT * SLOT, LISTED - SLOT)

    def most_rows(self, N: int) -> int:
        """Model rows of N instances where all players differ, as far as that is allowed."""
        return N * len(self.replacement.codes) << min(self.players.count, LARGEST_PAIR)

    def refuse_too_little_memory(self) -> None:
        """Raise MemoryPlanError where even the smallest tile cannot fit; asks the model nothing."""
        codes, memory = self.replacement.codes, self.max_memory
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
        memory, tile = self.max_memory, self.limits.tile or 0
        needed = 2 * tile * self.row_bytes
        if self.model.backend == "host" and needed > memory:
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

    @property
    def compiled(self) -> Compiled:
        """The model's programs, as this run's memory allows them."""
        kept = self.findings.programs
        kept = self.setting.model.compiled if kept is None else kept
        return Compiled(kept, self.clock, self.setting.max_memory)

    @property
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

    @property
    def crosses(self) -> bool:
        """Whether parts of instances and donors may be put together; see `Questions.crosses`."""
        return self.found is not None and self.setting.model.deterministic

    @property
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

    @property
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
