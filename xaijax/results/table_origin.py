"""`TableOrigin`: what a table of coalitions was made of, for the results that are read from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TableOrigin:
    """Of the N games of a table; a table made by hand knows none of it."""

    data: Any = None  # rows [N, *F]; None where the games are not of single rows
    stats: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    present: np.ndarray | None = None  # bool [N, P]
    index: Any = None  # of pandas, where the rows were a frame that has one

    def united(self) -> TableOrigin:
        """That of the game in which two players act as one: what names the old ones is left out."""
        kept = {name: one for name, one in self.provenance.items() if name != "player_columns"}
        return TableOrigin(self.data, self.stats, kept, index=self.index)

    def facts(self, index: str, order: int, P: int) -> dict[str, Any]:
        """The provenance of interactions of it."""
        method = self.provenance.get("method", "CoalitionTable")
        own = {"method": method, "index": index, "order": order, "players": P}
        return {**self.provenance, **own}
