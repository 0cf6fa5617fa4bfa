"""`QII.game`: the table of all sets, which keeps what it was made of for what is read from it."""

from __future__ import annotations

from typing import Any

from xaijax.games.game import Game
from xaijax.methods.qii import exact
from xaijax.methods.qii.problem import Problem
from xaijax.methods.qii.record import functions_of, provenance
from xaijax.methods.record import digests
from xaijax.results.coalition_table import CoalitionTable, TableOrigin


def kept_table(asked: Problem, game: Game, rows: Any, X: Any) -> CoalitionTable:
    """The table of a game; rows: the individuals X as read, None for quantities of the data.

    Interactions of it keep the rows, the provenance of the quantity, and the marks of the pool and
    of the model, by which `merge` tells what is of one question.
    """
    values, rounding = exact.whole_table(game, asked.distance is None, asked.ready)
    table = CoalitionTable(values[:, :, 0], asked.players.names, rounding)
    marks = {
        **digests(game),
        "backend": game.setting.model.backend,
        "model_rows": game.count.distinct,
        **functions_of(asked),
    }
    data, index = asked.kept_of(X, rows)
    present = getattr(asked.players, "present", None) if game.quantity.groups is None else None
    table.origin = TableOrigin(data, marks, provenance(asked, game, None, rows), present, index)
    return table
