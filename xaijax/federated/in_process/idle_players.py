"""Players that own nothing: they change no answer, and are left out of what is asked.

Such a player is null. Shapley's and Banzhaf's values of the others are what they are without it;
weights by size count it, so that the others' weights are those that it induces on them.

Letters: N instances, P players with the idle ones, K outputs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from xaijax.games.game import Game
from xaijax.methods.explainer.choice import Choice
from xaijax.methods.explainer.explainer import Explainer
from xaijax.methods.explainer.record import Answer
from xaijax.players.index import IndexLike, index_weights
from xaijax.players.players import Players
from xaijax_kernels.games.semivalues import induced_weights


class WithIdle(Explainer):
    """An `Explainer` of players some of whom own no column."""

    def __init__(self, idle: Mapping[int, str], **arguments: Any) -> None:
        """idle: {place among all players: name}; players= names the others, in order."""
        self._idle = dict(idle)
        super().__init__(**arguments)
        names = list(self.players.names)
        for place in sorted(self._idle):
            names.insert(place, self._idle[place])
        busy = np.array([p for p in range(len(names)) if p not in self._idle])
        # For what is recorded; the games know of the others alone.
        self.players = Players(busy[self.players.of_column], tuple(names))

    def _weights(self, index: IndexLike) -> tuple[np.ndarray, str]:
        busy = self.players.count
        weights, name = index_weights(index, busy + len(self._idle))
        self.index_weights = weights  # of all players
        if isinstance(index, str) or not self._idle:
            return index_weights(index, busy)
        return induced_weights(weights, busy), name

    def _answer(self, game: Game, choice: Choice) -> Answer:
        found = super()._answer(game, choice)
        if not self._idle or found.values.shape[1] == self.players.count:
            return found
        return dataclasses.replace(
            found,
            values=self._filled(found.values),
            std_errors=None if found.std_errors is None else self._filled(found.std_errors),
        )

    def _filled(self, values: np.ndarray) -> np.ndarray:
        """[N, P, K], with 0 for those who own nothing."""
        out = np.zeros((len(values), self.players.count, values.shape[2]))
        out[:, [p for p in range(self.players.count) if p not in self._idle]] = values
        return out
