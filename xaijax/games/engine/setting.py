"""`Setting`: a model, what replaces, who plays, the score and the limits; frozen.

What changes while an explainer is used makes a new setting: a translation that is left or centred,
a score that is fitted to the model's outputs, a smaller tile. What is worked out of a setting is
kept by it, so nothing of an old one is met again.

Letters: B donors, C code columns, P players, R rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, MemoryPlanError
from xaijax.games.engine.limits import Limits
from xaijax.games.engine.placement import mesh_of
from xaijax.games.engine.plan import instances_at_a_time, rows_at_a_time
from xaijax.games.measure.asked_model import AskedModel
from xaijax.games.measure.replacement import Replacement
from xaijax.games.measure.score import Score
from xaijax.players.players import Players
from xaijax_kernels.engine.hybrids import SLOT_BITS
from xaijax_kernels.engine.lattice import LISTED
from xaijax_kernels.engine.tiles import SMALLEST_OF_WIDE

SLOT = 1 << SLOT_BITS
LARGEST_PAIR = 24  # players that differ; 2^24 corners are the most that a pair is cut into


@dataclass(frozen=True, eq=False)
class Setting:
    """What the games of one explainer share before the model is asked."""

    model: AskedModel
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
