"""Tiles and dispatches of gradients: a pure function of sizes and limits.

Letters: n instances of a group, U groups of a dispatch, D lines of a tile, V tiles of lines of a
dispatch, S places on a line, R = n D S rows of a tile, C codes, P players, K outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xaijax.core.errors import MemoryPlanError
from xaijax.games.engine.dispatch import LOOK_AHEAD
from xaijax.games.engine.evaluator import Setting
from xaijax.games.engine.plan import Held
from xaijax_kernels.engine.operations import numbers_made, operations
from xaijax_kernels.engine.tiles import (
    rows_of_wide,
    tile_rows,
    tiles_of_dispatch,
    weights_of,
    widest_layer,
)

PASSES = 3.0  # a forward pass and a backward one, in forward passes
# A way back holds more beside each other than a way forward: on a CPU a quarter of the rows stays
# in the cache, and takes no longer a row.
NARROWER = {"cpu": 4}
HELD = 1 << 21  # numbers of the instances of one dispatch


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run, fixed before its first dispatch."""

    instances: int  # n
    lines: int  # D
    steps: int  # S
    groups: int  # U
    turns: int  # V
    bytes_per_row: int  # of a tile at work
    row_bytes: int  # of codes and values of one instance, or one line

    @property
    def rows(self) -> int:
        """R."""
        return self.instances * self.lines * self.steps

    @property
    def held(self) -> Held:
        """The bytes of a tile at work, and of the instances and lines of the dispatches under
        way.
        """
        under_way = (LOOK_AHEAD + 1) * (self.groups * self.instances + self.turns * self.lines)
        return {"tile": self.rows * self.bytes_per_row, "answers": under_way * self.row_bytes}


def sizes_of(
    setting: Setting,
    jaxpr: Any,
    traced: int,  # rows that jaxpr is of
    lines: int,  # of one instance
    steps: int,  # places on each
    outputs: int,  # K
    devices: int,
    even: bool,  # whether lines come in pairs
) -> Sizes:
    """Choose n, D, U and V; raises MemoryPlanError where even one row does not fit."""
    codes, memory, limits = setting.replacement.codes, setting.memory, setting.limits
    platform, C = setting.devices[0].platform, codes.shape[1]
    each = operations(jaxpr, traced) * PASSES
    # What the model makes of a row is kept for the way back, where as much is made again.
    per_row = int(codes.itemsize * (2 * numbers_made(jaxpr, traced) + 4 * C))
    rows = limits.tile or _rows(jaxpr, traced, codes, platform, each)
    while limits.tile is None and rows > 1 and rows > memory.fits("tile", per_row):
        rows //= 2
    least = 2 if even else 1
    if max(rows, least) * per_row > memory.whole:
        raise MemoryPlanError(
            f"max_memory={memory.whole:,} bytes, but a tile of {max(rows, least)} rows needs about "
            f"{max(rows, least) * per_row:,} for its gradients. Raise max_memory=."
        )
    S = min(steps, rows)
    S = -(-steps // -(-steps // S))  # evenly, as `Lines.cut` cuts
    every = lines * -(-steps // S)
    D = min(every, max(1, rows // S))
    D = -(-every // -(-every // D))
    D += D % 2 if even else 0
    n = max(1, rows // (D * S))
    T = tiles_of_dispatch(n * D * S, each, platform)
    if limits.batch_rows is not None:
        T = -(-limits.batch_rows // (n * D * S))
    V = min(-(-every // D), T)
    P, row_bytes = setting.players.count, codes.itemsize * (2 * C + 2 * outputs * C)
    fits = max(1, min(HELD, memory.fits("results", codes.itemsize)) // (n * max(C, P) * outputs))
    U = max(1, min(T // V, fits))
    return Sizes(n, D, S, -(-U // devices) * devices, V, per_row, row_bytes)


def _rows(jaxpr: Any, traced: int, codes: Any, platform: str, each: float) -> int:
    """Rows of a tile by the model alone."""
    widest = max(widest_layer(jaxpr, traced), codes.shape[1])
    rows = tile_rows(widest * NARROWER.get(platform, 1), codes.itemsize, platform, each)
    return rows_of_wide(rows, widest, weights_of(jaxpr), codes.itemsize, platform)
