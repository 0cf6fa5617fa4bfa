"""The plan of a run on devices: tile, tiles per dispatch, instances at a time.

Pure functions of sizes and limits; nothing is timed, so the same call makes the same plan.

Letters: R rows in a tile, T tiles in a dispatch, B donors, C code columns, P players.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError, MemoryPlanError
from xaijax.core.process import available_host_memory
from xaijax.games.engine.dispatch import LOOK_AHEAD, only_described
from xaijax_kernels.engine.hybrids import SLOT_BITS
from xaijax_kernels.engine.tiles import TileShape
from xaijax_kernels.sizes import (
    SMALLEST_OF_WIDE,
    SMALLEST_TILE,
    rows_of_call,
    rows_of_wide,
    tile_rows,
    tiles_of_dispatch,
)

LEAST_LISTED = 1 << 13
LEAST_DONORS = 16
MOST_PAIRS, MOST_FLAGS = 1 << 19, 1 << 26
MOST_INSTANCES = 1 << 13
AMPERE = 8.0  # the compute capability of the first GPUs with TF32 and bfloat16
# Bytes that go to a device as fast as nothing does. What is padded up to them is of one size for
# every question, so that no question compiles a program of its own.
UNNOTICED = 1 << 20

Share = Literal[
    "tile", "answers", "results", "instances", "parts", "lists", "pairs", "kept"
]  # what a run holds at a time
SHARES: dict[Share, int] = {  # in 64ths of the memory; they add up to the whole
    "tile": 16,  # rows that go through the model in one call, and its layers
    "answers": 16,  # answers that are not summed yet
    "results": 16,  # what is made of answers: tables, sums, values of coalitions
    "instances": 4,  # codes of the instances that are asked about together
    "parts": 4,  # what players of single rows add to a layer; hybrids looked through for equal ones
    "lists": 4,  # coalitions
    "pairs": 3,  # which players of the instances differ from which donor
    "kept": 1,  # answers that later calls use again
}


@dataclass(frozen=True)
class MemoryPlan:
    """Hands out shares of the bytes that a run may use; together they take no more than the whole.

    Every limit that a run derives from `max_memory` is a share of this plan, so that what is held
    at the same time has been counted once.
    """

    whole: int

    def share(self, name: Share) -> int:
        """The bytes of one share."""
        return self.whole * SHARES[name] // sum(SHARES.values())

    def fits(self, name: Share, each: int) -> int:
        """How many things of `each` bytes the share holds; 0: not even one."""
        return self.share(name) // max(1, each)

    @property
    def described(self) -> str:
        """The bytes of each share, for messages."""
        return ", ".join(f"{self.share(name):,} for {name}" for name in SHARES)

    @staticmethod
    def needed(name: Share, size: int) -> int:
        """The least memory whose share holds `size` bytes."""
        return -(-size * sum(SHARES.values()) // SHARES[name])


@dataclass(frozen=True)
class TilePlan:
    """The sizes of a run, fixed before its first dispatch."""

    tile: TileShape
    tiles: int  # T
    instances: int  # rows of x on the device at a time
    donors: int  # B
    columns: int  # C
    bytes_per_row: int  # of a tile at work

    @property
    def held(self) -> dict[str, int]:
        """The bytes of the dispatches under way (a tile at work and the answers of each, which is
        what `Compiled.program` counts), the donors and the instances.
        """
        itemsize, dispatches = np.dtype(self.tile.dtype).itemsize, LOOK_AHEAD + 1
        return {
            "tile": dispatches * self.tile.rows * self.bytes_per_row,
            "answers": dispatches * itemsize * self.rows * (self.tile.outputs + 1),
            "instances": itemsize * self.instances * self.columns,
            "background": itemsize * self.donors * self.columns,
        }

    @property
    def rows(self) -> int:
        """Rows of one dispatch."""
        return self.tile.rows * self.tiles


def plan_sizes(
    *,
    width: int,
    itemsize: int,
    platform: str,
    shape: tuple[int, ...],
    P: int,
    outputs: int,
    dtype: str,
    donors: int,
    columns: int,
    devices: int,
    tile: int | None,
    batch_rows: int | None,
    most_rows: int,
    memory: MemoryPlan,
    weights: int | None = None,
    operations: float = 0.0,
    answers: int = 0,
    instances: int,
) -> TilePlan:
    """Chooses tile and tiles per dispatch; a pure function of its arguments.

    operations: those of the model for a row; 0: unknown.
    answers: numbers of a row that the model itself is asked for in addition; 0: none.
    instances: those of the question.
    weights: numbers of the model's parameters; None: tiles are not made smaller for wide rows.
    batch_rows is cut to what fits, and to the most rows that are asked for (where these are more
    than the default).
    """
    slot_bits = min(P, SLOT_BITS)
    per_row = bytes_of_row(itemsize, width, columns, max(outputs, answers))
    widest = max(width, columns)
    rows = tile or fitting_tile(tile_rows(widest, itemsize, platform, operations), per_row, memory)
    if tile is None and weights is not None:
        rows = rows_of_wide(rows, widest, weights, itemsize, platform)
    while tile is None and rows > SMALLEST_OF_WIDE and rows * per_row > memory.whole:
        rows //= 2
    what = f"one tile of {rows} rows ({columns} columns, widest layer {width})"
    refuse_larger(rows * per_row, what, memory)
    tiles = tiles_of_dispatch(rows, operations, platform)
    if batch_rows is not None:
        tiles = min(-(-batch_rows // rows), max(tiles, -(-most_rows // rows)))
    tiles = min(tiles, tiles_that_fit(rows, outputs, itemsize, memory))
    tiles = -(-tiles // devices) * devices
    return TilePlan(
        TileShape(shape, P, slot_bits, rows >> slot_bits, outputs, dtype),
        tiles,
        rows_held(instances, columns * itemsize, rows_at_a_time(columns * itemsize, memory)),
        donors,
        columns,
        per_row,
    )


def tiles_that_fit(rows: int, outputs: int, itemsize: int, memory: MemoryPlan) -> int:
    """Tiles of a dispatch whose answers fit; one at least."""
    return max(1, memory.fits("answers", rows * itemsize * (outputs + 1)))


def bytes_of_row(itemsize: int, width: int, columns: int, outputs: int) -> int:
    """Bytes of a row of a tile at work."""
    return itemsize * (2 * width + 3 * columns + outputs) + 16


def fitting_tile(rows: int, bytes_per_row: int, memory: MemoryPlan) -> int:
    """`rows`, halved until the tile fits its share; not below the smallest tile."""
    while rows > SMALLEST_TILE and rows > memory.fits("tile", bytes_per_row):
        rows //= 2
    return max(SMALLEST_TILE, rows)


def rows_of_head(rows: int, bytes_per_row: int, platform: str, memory: MemoryPlan) -> int:
    """Rows of one call of a head on a GPU or a TPU where a plain tile has `rows`: more than these,
    as far as the share of a tile holds them.
    """
    return max(1, min(rows_of_call(rows, platform), memory.fits("tile", bytes_per_row)))


def refuse_larger(needed: int, what: str, memory: MemoryPlan) -> None:
    """Raises MemoryPlanError if what a program has at work needs more than the whole memory."""
    if needed > memory.whole:
        raise MemoryPlanError(
            f"max_memory={memory.whole:,} bytes, but {what} needs about {needed:,}. Raise "
            f"max_memory=, whose shares are {memory.described}."
        )


def instances_at_a_time(donors: int, P: int, bytes_per_row: int, memory: MemoryPlan) -> int:
    """Instances whose pairs are planned together.

    A pair takes some 80 bytes on the host and two flags a player; at most about half a million
    pairs are planned, and no more than have 64 MB of flags. The number does not depend on how many
    instances there are, so that every call runs the same program.
    """
    by_pairs = min(MOST_PAIRS, MOST_FLAGS // P, memory.fits("pairs", 80 + 2 * P)) // donors
    return max(1, min(by_pairs, rows_at_a_time(bytes_per_row, memory)))


def rows_held(rows: int, bytes_per_row: int, most: int) -> int:
    """Rows that a program has room for, for a question of `rows` of them.

    A power of two, so that similar questions share a program, and all questions of rows that
    together stay within UNNOTICED bytes; `most` at most.
    """
    return min(max(1 << (rows - 1).bit_length(), power_below(UNNOTICED // bytes_per_row)), most)


def capacity(coalitions: int, most: int, P: int) -> int:
    """Coalitions of P players that a program's list holds, for a list of `coalitions`: few numbers,
    so that few programs are compiled; most: that the memory allows.
    """
    least = min(LEAST_LISTED, power_below(UNNOTICED // (4 * -(-P // 32))))
    least = max(least, SMALLEST_TILE)  # a slot names consecutive coalitions
    return min(max(least, 1 << (coalitions - 1).bit_length()), most)


def donors_held(donors: int, bytes_per_row: int) -> int:
    """Donors that a program has room for; few rows that are small are padded to LEAST_DONORS."""
    return bucket(donors, min(LEAST_DONORS, power_below(UNNOTICED // bytes_per_row)))


def bucket(donors: int, least: int = 1) -> int:
    """Donors that a program is compiled for, given their number: eight sizes an octave, so that one
    donor more is most often the same program, and an eighth more is the most that is filled up.
    """
    step = 1 << max(0, donors.bit_length() - 4)
    return max(least, -(-donors // step) * step)


def rows_at_a_time(bytes_per_row: int, memory: MemoryPlan) -> int:
    """Instances whose rows are held on the device together."""
    return max(1, min(memory.fits("instances", bytes_per_row), MOST_INSTANCES))


@dataclass(frozen=True)
class Limits:
    """What a run may use."""

    devices: tuple[Any, ...]  # that tiles are split over, where the model spans none of its own
    tile: int | None = None
    batch_rows: int | None = None
    memory: int | None = None  # bytes, as given
    shares: bool = True  # whether equal hybrids of several instances are asked once
    named: bool = False  # whether devices= was given

    @cached_property
    def max_memory(self) -> int:
        """Bytes the run may plan with; fixed when first asked for, so that plans stay the same."""
        if self.memory is not None:
            return self.memory
        return usable(free_memory(self.devices[0]))


def limits_of(
    batch_size: Any = "auto", max_memory: Any = None, devices: Any = None, tile: Any = None
) -> Limits:
    """Reads the arguments with these names."""
    auto = isinstance(batch_size, str) and batch_size == "auto"
    batch_rows = None if auto else checks.whole_number(batch_size, "batch_size")
    rows = None if tile is None else tile_of(tile)
    own = tuple(devices_of(devices))
    memory = None if max_memory is None else checks.whole_number(max_memory, "max_memory")
    return Limits(own, rows, batch_rows, memory, named=devices is not None)


def usable(free: int) -> int:
    """The bytes to plan with where no max_memory= says it: half of what is free, if the environment
    variable XAIJAX_MEMORY_LIMIT names no other limit.
    """
    stated = os.environ.get("XAIJAX_MEMORY_LIMIT")
    if stated is None:
        return free // 2
    if not stated.isdigit() or int(stated) == 0:
        raise InputError(
            f"XAIJAX_MEMORY_LIMIT must be a whole number of bytes of at least 1, got {stated!r}."
        )
    return int(stated)


def power_below(number: int) -> int:
    """The largest power of two up to `number`."""
    return 1 << (max(1, number).bit_length() - 1)


def tile_of(tile: Any) -> int:
    """Reads the `tile=` argument: a power of two."""
    rows = checks.whole_number(tile, "tile", least=SMALLEST_OF_WIDE)
    if rows & (rows - 1):
        raise InputError(
            f"tile must be a power of two from {SMALLEST_OF_WIDE} (so that no pair straddles a "
            f"tile), got {tile}; {1 << rows.bit_length()} is the next."
        )
    return rows


def devices_of(given: Any) -> list[Any]:
    """Reads the `devices=` argument: None (all local ones), a number, or a list of devices."""
    local = jax.local_devices()
    if given is None:
        return local
    if isinstance(given, list | tuple) and given:
        if not all(isinstance(d, jax.Device) for d in given):
            raise InputTypeError(f"devices must hold jax devices, got {list(given)!r}.")
        if len(set(given)) < len(given):
            raise InputError(f"devices must hold each device once, got {list(given)!r}.")
        return list(given)
    count = checks.whole_number(given, "devices", remedy=" Or a list of jax devices, or None.")
    if count > len(local):
        raise InputError(f"devices={count}, but there are {len(local)}: {local}.")
    return local[:count]


def refuse_precision(precision: str, device: Any, name: str) -> None:
    """Raises InputError for a precision that the device lacks; name: that of the model."""
    # Of NVIDIA's GPUs "8.0", of AMD's "gfx942"; TPUs and Apple's GPUs have none.
    capability = str(getattr(device, "compute_capability", ""))
    known = capability.replace(".", "").isdigit()
    if precision == "tf32" and device.platform != "cpu" and not known:
        raise InputError(
            f"precision='tf32' of {name} is a format of NVIDIA's GPUs, and {device.device_kind} "
            "has none. Say precision='bfloat16', or 'float32'."
        )
    if precision in ("tf32", "bfloat16") and known and float(capability) < AMPERE:
        raise InputError(
            f"precision={precision!r} of {name} needs a GPU of compute capability {AMPERE} "
            f"(Ampere), and {device.device_kind} has {capability}. Say precision='float32'."
        )


def refuse_described(device: Any) -> None:
    """Raises InputError for a device of a topology, on which nothing can run."""
    if only_described(device):
        raise InputError(
            f"devices= are {device.device_kind} of a topology: programs can be planned and "
            "compiled for them, and not run. Call plan(X), or say devices=jax.devices()."
        )


def free_memory(device: Any) -> int:
    """Bytes that the device has free; for the CPU, what the machine has available.

    Raises InputError for a device of a topology, which nobody can ask.
    """
    if device.platform != "cpu" and only_described(device):
        raise InputError(
            f"devices= are {device.device_kind} of a topology, which does not state their memory. "
            "Say max_memory=, for example half of what such a device has, in bytes."
        )
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return available_host_memory()
