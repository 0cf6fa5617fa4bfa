"""Plans a run on devices: tile, tiles per dispatch, instances at a time.

All functions are pure functions of sizes and limits; nothing is timed, so the same call gives the
same plan.

Letters: R rows in a tile, T tiles in a dispatch, B donors, C code columns, P players.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError, MemoryPlanError
from xaijax.core.process import available_host_memory
from xaijax.core.typing import AnswerPath
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
# Bytes whose transfer to a device takes no noticeable time. Arrays are padded to this size, so that
# small runs share programs.
UNNOTICED = 1 << 20

Share = Literal[
    "tile", "answers", "results", "instances", "parts", "lists", "pairs", "kept"
]  # shares of what a run holds at a time
SHARES: dict[Share, int] = {  # in 64ths of the memory; they add up to the whole
    "tile": 16,  # rows of one model call, and its layers
    "answers": 16,  # outputs that are not summed yet
    "results": 16,  # results of outputs: tables, sums, values of coalitions
    "instances": 4,  # codes of the instances that are evaluated together
    "parts": 4,  # players' terms of single rows in a layer; hybrids searched for equal ones
    "lists": 4,  # coalitions
    "pairs": 3,  # which players of the instances differ from each donor
    "kept": 1,  # outputs that later calls reuse
}


@dataclass(frozen=True)
class MemoryPlan:
    """Divides the bytes that a run may use into shares.

    Every limit that a run derives from `max_memory` is a share of this plan, so that all memory
    held at the same time is counted once.
    """

    whole: int

    def share(self, name: Share) -> int:
        """The bytes of one share."""
        return self.whole * SHARES[name] // sum(SHARES.values())

    def fits(self, name: Share, each: int) -> int:
        """Number of items of `each` bytes that fit the share."""
        return self.share(name) // max(1, each)

    @property
    def under_way(self) -> int:
        """The bytes for running dispatches and their instances: the rest of the other shares."""
        beside: tuple[Share, ...] = ("results", "parts", "lists", "pairs", "kept")
        return self.whole - sum(map(self.share, beside))

    @property
    def described(self) -> str:
        """The bytes of each share, for messages."""
        return ", ".join(f"{self.share(name):,} for {name}" for name in SHARES)

    @staticmethod
    def needed(name: Share, size: int) -> int:
        """The smallest memory whose share holds `size` bytes."""
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
    least: int = 0  # bytes of a running tile, independent of its rows
    ahead: int = LOOK_AHEAD  # dispatches started before the first is fetched

    @property
    def held(self) -> dict[str, int]:
        """The bytes of the running dispatches (a tile and the outputs of each, as
        `Compiled.program` counts them), the donors and the instances.
        """
        itemsize, dispatches = np.dtype(self.tile.dtype).itemsize, self.ahead + 1
        rows = self.tile.rows
        return {
            "tile": dispatches * max(self.least, rows * self.bytes_per_row),
            "answers": dispatches * itemsize * rows * self.tiles * (self.tile.outputs + 1),
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
    least: int = 0,
    instances: int,
) -> TilePlan:
    """Chooses tile and tiles per dispatch; a pure function of its arguments.

    operations: of the model per row; 0: unknown.
    answers: numbers per row of the model's own outputs, if they are kept next to scores; 0: not.
    least: bytes that a structure needs for a tile, independent of its rows.
    instances: number of instances of the run.
    weights: number of the model's parameters; None: tiles are not reduced for wide rows.
    batch_rows is limited to what fits, and to the largest number of requested rows (if this exceeds
    the default).
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
    refuse_larger(max(least, rows * per_row), what, memory)
    tiles = tiles_of_dispatch(rows, operations, platform)
    if batch_rows is not None:
        tiles = min(-(-batch_rows // rows), max(tiles, -(-most_rows // rows)))
    tiles = min(tiles, tiles_that_fit(rows, outputs, itemsize, memory))
    tiles = -(-tiles // devices) * devices
    plan = TilePlan(
        TileShape(shape, P, slot_bits, rows >> slot_bits, outputs, dtype),
        tiles,
        rows_held(instances, columns * itemsize, rows_at_a_time(columns * itemsize, memory)),
        donors,
        columns,
        per_row,
        least,
    )
    return fitted(plan, devices, tile is None, what, memory)


def fitted(plan: TilePlan, devices: int, smaller: bool, what: str, memory: MemoryPlan) -> TilePlan:
    """The plan, reduced until it fits: first running dispatches, then tiles of each, then rows
    of a tile (if `smaller`). Raises MemoryPlanError if nothing fits.
    """
    while plan.ahead and sum(plan.held.values()) > memory.under_way:
        plan = replace(plan, ahead=plan.ahead - 1)
    while sum(plan.held.values()) > memory.whole:
        rows, bits = plan.tile.rows, plan.tile.slot_bits
        if plan.tiles > devices:
            plan = replace(plan, tiles=-(-plan.tiles // 2 // devices) * devices)
        elif smaller and rows > SMALLEST_OF_WIDE and rows * plan.bytes_per_row > plan.least:
            plan = replace(plan, tile=replace(plan.tile, slots=(rows >> 1) >> bits))
        else:
            held = ", ".join(f"{size:,} for {name}" for name, size in plan.held.items())
            needed = sum(plan.held.values())
            refuse_larger(needed, f"{what} with what goes with it ({held})", memory)
    return plan


def tiles_that_fit(rows: int, outputs: int, itemsize: int, memory: MemoryPlan) -> int:
    """Tiles of a dispatch whose outputs fit; at least one."""
    return max(1, memory.fits("answers", rows * itemsize * (outputs + 1)))


def bytes_of_row(itemsize: int, width: int, columns: int, outputs: int) -> int:
    """Bytes of a row of a running tile."""
    return itemsize * (2 * width + 3 * columns + outputs) + 16


def fitting_tile(rows: int, each: int, memory: MemoryPlan, least: int = SMALLEST_TILE) -> int:
    """`rows` of `each` bytes, halved until the tile fits its share; at least `least`."""
    while rows > least and rows > memory.fits("tile", each):
        rows //= 2
    return max(least, rows)


def rows_of_head(rows: int, bytes_per_row: int, platform: str, memory: MemoryPlan) -> int:
    """Rows of one call of a head on a GPU or a TPU if a plain tile has `rows`: more than these,
    up to the share of a tile.
    """
    return max(1, min(rows_of_call(rows, platform), memory.fits("tile", bytes_per_row)))


def waiting(of_dispatch: int, memory: MemoryPlan, most: int = LOOK_AHEAD, beside: int = 0) -> int:
    """Number of dispatches of these bytes to start before the first is fetched, up to `most`: as
    many as fit besides the fetched one and the rest of the run; beside: bytes of that rest in
    the shares of dispatches.
    """
    return max(0, min(most, (memory.under_way - beside) // max(1, of_dispatch) - 1))


def refuse_larger(needed: int, what: str, memory: MemoryPlan) -> None:
    """Raises MemoryPlanError if a running program needs more than the whole memory."""
    if needed > memory.whole:
        raise MemoryPlanError(
            f"max_memory={memory.whole:,} bytes, but {what} needs about {needed:,}. Raise "
            f"max_memory=, whose shares are {memory.described}."
        )


def refuse_shares(held: Mapping[str, int], memory: MemoryPlan) -> None:
    """Raises MemoryPlanError if the held shares of a run together exceed the memory."""
    needed = sum(held.values())
    if needed > memory.whole:
        parts = ", ".join(f"{size:,} for {name}" for name, size in held.items())
        refuse_larger(needed, f"what the run holds together ({parts})", memory)


PAIR_BYTES, PLAYER_BYTES = 80, 2  # bytes of a pair on the host, approximately; two flags per player


def instances_at_a_time(donors: int, P: int, bytes_per_row: int, memory: MemoryPlan) -> int:
    """Instances whose pairs are planned together.

    At most about half a million pairs with at most 64 MB of flags are planned. The number does not
    depend on the number of instances, so that every call runs the same program.
    """
    fits = memory.fits("pairs", PAIR_BYTES + PLAYER_BYTES * P)
    by_pairs = min(MOST_PAIRS, MOST_FLAGS // P, fits) // donors
    return max(1, min(by_pairs, rows_at_a_time(bytes_per_row, memory)))


def rows_held(rows: int, bytes_per_row: int, most: int) -> int:
    """Rows that a program has room for, for a run with `rows` rows.

    A power of two, at most `most`, so that similar runs share a program; all runs within UNNOTICED
    bytes share one.
    """
    return min(max(1 << (rows - 1).bit_length(), power_below(UNNOTICED // bytes_per_row)), most)


def capacity(coalitions: int, most: int, P: int) -> int:
    """Capacity of a program's list of coalitions of P players, for a list of `coalitions`. Only
    a few sizes occur, so that few programs are compiled; most: limit by the memory.
    """
    least = min(LEAST_LISTED, power_below(UNNOTICED // (4 * -(-P // 32))))
    least = max(least, SMALLEST_TILE)  # a slot names consecutive coalitions
    return min(max(least, 1 << (coalitions - 1).bit_length()), most)


def donors_held(donors: int, bytes_per_row: int) -> int:
    """Donors that a program has room for; a few small rows are padded to LEAST_DONORS."""
    return bucket(donors, min(LEAST_DONORS, power_below(UNNOTICED // bytes_per_row)))


def bucket(donors: int, least: int = 1) -> int:
    """Number of donors that a program is compiled for: eight sizes per octave, so that one more
    donor usually uses the same program, and the padding is at most an eighth.
    """
    step = 1 << max(0, donors.bit_length() - 4)
    return max(least, -(-donors // step) * step)


def rows_at_a_time(bytes_per_row: int, memory: MemoryPlan) -> int:
    """Number of instances whose rows are held on the device together."""
    return max(1, min(memory.fits("instances", bytes_per_row), MOST_INSTANCES))


@dataclass(frozen=True)
class Limits:
    """The limits of a run."""

    devices: tuple[Any, ...]  # devices over which tiles are split, unless the model spans its own
    tile: int | None = None
    batch_rows: int | None = None
    memory: int | None = None  # bytes, as given
    shares: bool = True  # whether equal hybrids of several instances are evaluated once
    named: bool = False  # whether devices= was given
    path: AnswerPath = "tiled"  # not "auto" if tile= was given

    @cached_property
    def max_memory(self) -> int:
        """Bytes the run may plan with; fixed at first use, so that plans do not change."""
        if self.memory is not None:
            return self.memory
        return usable(free_memory(self.devices[0]))


def limits_of(
    batch_size: Any = "auto",
    max_memory: Any = None,
    devices: Any = None,
    tile: Any = None,
    path: Any = "tiled",
) -> Limits:
    """Reads the arguments with these names."""
    checks.one_of(path, "path", PATHS)
    auto = isinstance(batch_size, str) and batch_size == "auto"
    batch_rows = None if auto else checks.whole_number(batch_size, "batch_size")
    rows = None if tile is None else tile_of(tile)
    chosen = tuple(devices_of(devices))
    memory = None if max_memory is None else checks.whole_number(max_memory, "max_memory")
    if path == "small" and rows is not None:
        raise InputError("path='small' has no tiles, and tile= is given. Leave one of the two out.")
    path = path if rows is None else "tiled"
    return Limits(chosen, rows, batch_rows, memory, named=devices is not None, path=path)


PATHS = ("auto", "small", "tiled")
# 2^15 rows are 1,024 calls of the probe's program: about 50 ms, while the programs of a tiled run
# take seconds to compile. On an accelerator a call costs four times as much.
MOST_ROWS = {"cpu": 1 << 15, "accelerator": 1 << 13}
# Numbers in the widest layer over all these rows. A wider model gains more from tiles that fill the
# cores, or the device.
MOST_NUMBERS = 1 << 25


def is_small(N: int, B: int, C: int, K: int, width: int, platform: str) -> bool:
    """Whether path="auto" runs without the engine's programs; a pure function.

    C: number of coalitions of an instance (2^P for all, the budget for sampled ones). width:
    numbers per row in the widest layer or in the codes, whichever is larger. platform: of the
    device, "cpu" for a host model.
    """
    rows = N * B * C
    most = MOST_ROWS["cpu" if platform == "cpu" else "accelerator"]
    return rows <= most and rows * max(K, width) <= MOST_NUMBERS


def usable(free: int) -> int:
    """The bytes to plan with if max_memory= is not given: half of the free memory, unless the
    environment variable XAIJAX_MEMORY_LIMIT sets a limit.
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


def devices_of(devices: Any) -> list[Any]:
    """Reads the `devices=` argument: None (all local ones), a number, or a list of devices."""
    local = jax.local_devices()
    if devices is None:
        return local
    if isinstance(devices, list | tuple) and devices:
        if not all(isinstance(d, jax.Device) for d in devices):
            raise InputTypeError(f"devices must hold jax devices, got {list(devices)!r}.")
        if len(set(devices)) < len(devices):
            raise InputError(f"devices must hold each device once, got {list(devices)!r}.")
        return list(devices)
    count = checks.whole_number(devices, "devices", remedy=" Or a list of jax devices, or None.")
    if count > len(local):
        raise InputError(f"devices={count}, but there are {len(local)}: {local}.")
    return local[:count]


def refuse_precision(precision: str, device: Any, name: str) -> None:
    """Raises InputError for a precision that the device lacks; name: the model's name."""
    # "8.0" for NVIDIA's GPUs, "gfx942" for AMD's; TPUs and Apple's GPUs have none.
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


def free_memory(device: Any) -> int:
    """Free bytes of the device; for the CPU, the machine's available memory.

    Raises InputError for a device of a topology, whose memory is unknown.
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
