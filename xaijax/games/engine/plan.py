"""The plan of a run on devices: tile, tiles per dispatch, instances at a time.

Pure functions of sizes and limits; nothing is timed, so the same call makes the same plan.

Letters: R rows in a tile, T tiles in a dispatch, B donors, C code columns, P players.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError, MemoryPlanError
from xaijax.games.engine.dispatch import LOOK_AHEAD
from xaijax_kernels.engine.hybrids import SLOT_BITS
from xaijax_kernels.engine.memory import free_memory
from xaijax_kernels.engine.tiles import (
    SMALLEST_OF_WIDE,
    SMALLEST_TILE,
    TileShape,
    rows_of_wide,
    tile_rows,
    tiles_of_dispatch,
)

LEAST_LISTED = 1 << 13
LEAST_DONORS = 16


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run, fixed before its first dispatch."""

    tile: TileShape
    tiles: int  # T
    instances: int  # rows of x on the device at a time
    donors: int  # B
    columns: int  # C
    bytes_per_row: int  # of a tile at work

    @property
    def bytes(self) -> int:
        """Of a tile at work on each device, the answers under way, the donors and the instances."""
        itemsize = np.dtype(self.tile.dtype).itemsize
        work = self.tile.rows * self.bytes_per_row
        waiting = (LOOK_AHEAD + 1) * self.rows * (self.tile.outputs + 1)
        return work + itemsize * (waiting + (self.instances + self.donors) * self.columns)

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
    max_memory: int,
    weights: int | None = None,
    operations: float = 0.0,
    answers: int = 0,
) -> Sizes:
    """Choose tile and tiles per dispatch; a pure function of its arguments.

    operations: of the model for a row; 0: not known.
    answers: numbers of a row that the model itself is asked for beside them; 0: none.
    weights: numbers of the model's parameters; None: tiles are not made smaller for wide rows.
    batch_rows is cut to what fits, and to the most rows that are asked for (where these are more
    than the default).
    """
    slot_bits = min(P, SLOT_BITS)
    per_row = bytes_of_row(itemsize, width, columns, max(outputs, answers))
    widest = max(width, columns)
    rows = tile or fitting_tile(
        tile_rows(widest, itemsize, platform, operations), per_row, max_memory
    )
    if tile is None and weights is not None:
        rows = rows_of_wide(rows, widest, weights, itemsize, platform)
    while tile is None and rows > SMALLEST_OF_WIDE and rows * per_row > max_memory:
        rows //= 2
    if rows * per_row > max_memory:
        raise MemoryPlanError(
            f"max_memory={max_memory:,} bytes, but one tile of {rows} rows needs about "
            f"{rows * per_row:,} ({columns} columns, widest layer {width}). Raise max_memory=."
        )
    tiles = tiles_of_dispatch(rows, operations, platform)
    if batch_rows is not None:
        tiles = min(-(-batch_rows // rows), max(tiles, -(-most_rows // rows)))
    tiles = min(tiles, tiles_that_fit(rows, outputs, itemsize, max_memory))
    tiles = -(-tiles // devices) * devices
    return Sizes(
        TileShape(shape, P, slot_bits, rows >> slot_bits, outputs, dtype),
        tiles,
        rows_at_a_time(columns * itemsize, max_memory),
        donors,
        columns,
        per_row,
    )


def tiles_that_fit(rows: int, outputs: int, itemsize: int, max_memory: int) -> int:
    """Tiles of a dispatch whose answers take a quarter of the memory at most; one at least."""
    return max(1, max_memory // 4 // max(1, rows * itemsize * (outputs + 1)))


def bytes_of_row(itemsize: int, width: int, columns: int, outputs: int) -> int:
    """Of a tile at work."""
    return itemsize * (2 * width + 3 * columns + outputs) + 16


def fitting_tile(rows: int, bytes_per_row: int, max_memory: int) -> int:
    """`rows`, halved until four tiles fit the memory; not below the smallest tile."""
    while rows > SMALLEST_TILE and rows * bytes_per_row * 4 > max_memory:
        rows //= 2
    return max(SMALLEST_TILE, rows)


def instances_at_a_time(donors: int, P: int, bytes_per_row: int, max_memory: int) -> int:
    """Instances whose pairs are planned together.

    A pair takes some 80 bytes on the host and two flags a player: a quarter of the memory, and at
    most about half a million pairs. It does not depend on how many instances there are, so that
    every call runs the same program.
    """
    by_pairs = min(1 << 19, max_memory // 4 // (80 + 2 * P)) // donors
    return max(1, min(by_pairs, rows_at_a_time(bytes_per_row, max_memory)))


def capacity(coalitions: int, most: int) -> int:
    """Coalitions that a program's list holds, for a list of so many: few numbers, so that few
    programs are compiled; most: that the memory allows.
    """
    return min(max(LEAST_LISTED, 1 << (coalitions - 1).bit_length()), most)


def bucket(donors: int, least: int = 1) -> int:
    """Donors that a program is compiled for, for so many: eight numbers an octave, so that one
    donor more is most often the same program, and an eighth more is the most that is filled up.
    """
    step = 1 << max(0, donors.bit_length() - 4)
    return max(least, -(-donors // step) * step)


def rows_at_a_time(bytes_per_row: int, max_memory: int) -> int:
    """Instances whose rows are held on the device together: an eighth of the memory."""
    return max(1, min(max_memory // 8 // max(1, bytes_per_row), 1 << 13))


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
        return stated_limit() or free_memory(self.devices[0]) // 2


def limits_of(
    batch_size: Any = "auto", max_memory: Any = None, devices: Any = None, tile: Any = None
) -> Limits:
    """Read the arguments of these names."""
    auto = isinstance(batch_size, str) and batch_size == "auto"
    batch_rows = None if auto else checks.whole_number(batch_size, "batch_size")
    rows = None if tile is None else tile_of(tile)
    own = tuple(devices_of(devices))
    memory = None if max_memory is None else checks.whole_number(max_memory, "max_memory")
    return Limits(own, rows, batch_rows, memory, named=devices is not None)


def stated_limit() -> int | None:
    """Bytes from the environment variable XAIJAX_MEMORY_LIMIT."""
    stated = os.environ.get("XAIJAX_MEMORY_LIMIT")
    if stated is None:
        return None
    if not stated.isdigit() or int(stated) == 0:
        raise InputError(
            f"XAIJAX_MEMORY_LIMIT must be a whole number of bytes of at least 1, got {stated!r}."
        )
    return int(stated)


def power_below(number: int) -> int:
    """The largest power of two up to `number`."""
    return 1 << (max(1, number).bit_length() - 1)


def tile_of(tile: Any) -> int:
    """Read the `tile=` argument: a power of two."""
    rows = checks.whole_number(tile, "tile", least=SMALLEST_OF_WIDE)
    if rows & (rows - 1):
        raise InputError(
            f"tile must be a power of two from {SMALLEST_OF_WIDE} (so that no pair straddles a "
            f"tile), got {tile}; {1 << rows.bit_length()} is the next."
        )
    return rows


def devices_of(given: Any) -> list[Any]:
    """Read the `devices=` argument: None (all local ones), a number, or a list of devices."""
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
