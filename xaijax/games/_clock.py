"""What the runs of one explainer have cost so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """Running totals; a game takes the difference over its own run."""

    compile_seconds: float = 0.0
    model_calls: int = 0
    padded_rows: int = 0
    tile: int = 0  # rows of a tile, or of a host call

    def copy(self) -> Clock:
        """The totals as they stand."""
        return Clock(self.compile_seconds, self.model_calls, self.padded_rows, self.tile)
