"""Rules of players that stay unchanged if kept: superpixels of an image, words of a sentence.

| space | a free player of a row z |
|---|---|
| row | has the entries of one random data row, the same for all free players |
| flip | has them with chance p, and else stays |
| masked | has those of a baseline with chance p, and else stays |

A draw is made from uniform numbers only, one per player; that of player 0 also selects the data
row.

Letters: M rows, N instances, P players, C code columns, B data rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError
from xaijax.games.measure.replacement.base import Replacement
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.games.rules.space import SPACES
from xaijax.players.players import PerInstancePlayers, Players
from xaijax.tables.table import CodeTable


@dataclass(frozen=True)
class PlayerSpace:
    """The replacement of free players, and its probability."""

    NAME: str  # "row", "flip" or "masked"
    players: Players | PerInstancePlayers
    chance: float  # probability of replacing a free player
    baseline: Baseline | None  # of "masked"
    allow_nan: bool | NanColumns

    def owner(self, per_column: int, first: int, N: int) -> np.ndarray:
        """The player of each code column, int [C], or [N, C] of the instances from `first` on."""
        if isinstance(self.players, PerInstancePlayers):
            numbers = self.players.of_entry[first : first + N]
        else:
            numbers = self.players.of_column
        return np.repeat(numbers, per_column, axis=-1)

    def present(self, first: int, N: int) -> np.ndarray:
        """The players of each instance, bool [N, P]."""
        if isinstance(self.players, PerInstancePlayers):
            return self.players.present[first : first + N]
        return np.ones((N, self.players.count), bool)

    def matters(
        self, codes: np.ndarray, owner: np.ndarray, others: Replacement, first: int
    ) -> np.ndarray:
        """Whether a draw may change a player, bool [N, P]: it differs from what replaces it.

        codes: [N, C], of the instances from `first` on; owner: [C] or [N, C].
        """
        differs = np.zeros((len(codes), self.players.count + 1), bool)  # the last column: no player
        n, column = np.nonzero(others.may_change(codes))
        differs[n, np.broadcast_to(owner, codes.shape)[n, column]] = True
        return differs[:, :-1] & self.present(first, len(codes))

    def others(self, table: CodeTable, rows: Any, donors: Replacement) -> Replacement:
        """The replacements of free players of these rows, in codes of a table that includes both.

        table: of the rows and the donors.
        """
        if self.baseline is None:
            return replace(donors, table=table)
        return self.baseline._for_rows(table, rows, self.allow_nan, "perturbation")

    def drawn(
        self,
        codes: np.ndarray,
        owner: np.ndarray,
        others: Replacement,
        who: np.ndarray,
        rules: np.ndarray,
        u: np.ndarray,
    ) -> np.ndarray:
        """Codes [M, C] of draws around the rows with `codes` [M, C] of the instances who [M].

        owner: [C] or [M, C]; rules: bool [M, P]; u: between 0 and 1, [M, P].
        """
        baseline_fn, left = others.draw(u[:, 0], who)
        coin = np.concatenate([left[:, None], u[:, 1:]], axis=1)
        free = ~rules & (coin < self.chance)
        free = np.concatenate([free, np.zeros((len(free), 1), bool)], axis=1)  # -1: no player
        places = np.broadcast_to(owner, codes.shape) % free.shape[1]
        return np.where(np.take_along_axis(free, places, axis=1), baseline_fn, codes)


def space_of_players(
    players: Players | PerInstancePlayers,
    perturbation: Any,
    chance: float,
    allow_nan: bool | NanColumns,
) -> PlayerSpace:
    """The space of `perturbation=`, a name or a `Baseline`; raises InputError for other names."""
    if isinstance(perturbation, Baseline):
        return PlayerSpace("masked", players, chance, perturbation, allow_nan)
    checks.one_of(perturbation, "perturbation", tuple(SPACES))
    if perturbation not in ("row", "flip"):
        raise InputError(
            "players= groups columns for a sampler f(X, kept, u), a Baseline, perturbation='row' "
            f"or 'flip', as do images; a rule of perturbation={perturbation!r} is about single "
            "columns of a table [B, F]. Say one of these."
        )
    part = chance if perturbation == "flip" else 1.0  # "row" replaces all free players
    return PlayerSpace(perturbation, players, part, None, allow_nan)
