"""The plan of a run on devices: tile, tiles per dispatch, instances at a time.

Pure functions of sizes and limits; nothing is timed, so the same call makes the same plan.

Letters: R rows in a tile, T tiles in a dispatch, B donors, C code columns, P players.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xaijax.core.errors import MemoryPlanError
from xaijax.games.engine.dispatch import LOOK_AHEAD
from xaijax_kernels.engine.hybrids import SLOT_BITS
from xaijax_kernels.engine.tiles import (
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
