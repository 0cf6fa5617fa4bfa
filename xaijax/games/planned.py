"""What a game would ask for, told by the ways that would be taken; the model is only probed.

Letters: N instances, n of them, P players, C coalitions, D orders.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xaijax.games.asking.refuse import table_limits
from xaijax.games.engine.compiled import Recipe
from xaijax.games.game import Game
from xaijax.games.ways.choose import in_parts
from xaijax.games.ways.coming import Coming
from xaijax.games.ways.tables import tables_coming
from xaijax.games.ways.totals import Stretch, Weights


@dataclass
class Planned:
    """Of the N instances of a game, so far."""

    rows: np.ndarray  # int64 [N]
    calls: int = 0
    structure: str | None = None
    recipes: dict[tuple, Recipe] = field(default_factory=dict)

    def add(self, places: np.ndarray, coming: Coming) -> None:
        """Count what the instances at `places` are asked."""
        self.rows[places] += coming.rows
        self.calls += coming.calls
        self.recipes |= {recipe.name: recipe for recipe in coming.recipes}


def nothing(game: Game) -> Planned:
    """Nothing yet."""
    return Planned(np.zeros(game.N, np.int64))


def whole_rows(game: Game, planned: Planned) -> None:
    """Add f(x) of each instance, where the score looks at it and nobody gave it."""
    score, backend = game.setting.score, game.ask.backend()
    if score is None or not score.reads_own or game.ask.own is not None:
        return
    step = game.setting.rows_at_a_time
    for first in range(0, game.N, step):
        calls = backend.calls(min(step, game.N - first), scored=False)
        some = np.arange(first, min(first + step, game.N))
        recipes = [backend.recipe("rows", scored=False)]
        planned.add(some, Coming(np.ones(len(some), np.int64), calls, recipes))


def semivalues(game: Game, weights: Weights, rows: np.ndarray, planned: Planned) -> None:
    """Add what `Game.index` asks with these weights for the instances `rows` [n]."""
    backend, ways = game.ask.backend(), game.ways(weights)
    for _, here, differs in game.stretches(ways, rows):
        stretch, left = Stretch(backend, here, differs), np.arange(len(here))
        for way in ways:
            places = left[way.takes(stretch)[left]]
            if len(places):
                planned.add(here[places], way.coming(stretch, places))
                left = np.setdiff1d(left, places)
    planned.structure = ways[-1].structure


def tables(game: Game, rows: np.ndarray, planned: Planned) -> None:
    """Add what `Game.tables` asks for the instances `rows` [n]."""
    game.ask.backend()
    limits = table_limits(game, game.outputs)
    for here, coming in tables_coming(game.ask, rows, *limits):
        planned.add(here, coming)
    if game.ask.structured:
        planned.structure = game.probed.known.name


def listed(game: Game, C: int, rows: np.ndarray, planned: Planned) -> None:
    """Add what `Game.values` asks of a list of C coalitions for the instances `rows` [n]."""
    backend = game.ask.backend()
    asked = in_parts(game.ask, np.zeros((C, game.P), bool), game.outputs)
    random = not game.setting.model.deterministic
    for first, differs in game.ask.differing(rows):
        own = rows[first : first + len(differs)]
        planned.add(own, asked.coming(backend, own, None if random else differs))
    planned.structure = asked.structure or planned.structure


def walked(game: Game, D: int, rows: np.ndarray, planned: Planned) -> None:
    """Add what `Game.walk` asks along D orders for the instances `rows` [n]."""
    walker = game.walker()
    calls = walker.calls(len(rows), D)
    each = len(game.setting.replacement.codes) * (2 * D * (game.P - 1) + 2)
    recipes = [walker.recipe(game.ask.codes.dtype)]
    planned.add(rows, Coming(np.full(len(rows), each), calls, recipes))
    planned.structure = game.probed.known.name
