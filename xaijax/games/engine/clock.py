"""What the runs of one explainer have cost so far."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass
class Clock:
    """Running totals; a game takes the difference over its own run."""

    compile_seconds: float = 0.0
    model_calls: int = 0
    padded_rows: int = 0
    spared_rows: int = 0  # that equal rows asked before
    tiles: int = 0  # dealt to the devices
    tile: int = 0  # rows of a tile, or of a host call
    tile_halvings: int = 0  # times the device ran out of memory

    def copy(self) -> Clock:
        """The totals as they stand."""
        return replace(self)
