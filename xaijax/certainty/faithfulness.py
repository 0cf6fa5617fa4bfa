"""Deletion and insertion curves: what the model answers as players go, largest value first.

Each instance has its own order. The players of each instance are numbered by their rank there, so
that one list of coalitions ("the first s", "all but the first s") is each instance's own, and the
engine asks all of them at once.

Letters: N instances, P players, K outputs, F entries of a row.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from xaijax.core.typing import Outputs
from xaijax.games.engine.evaluator import Evaluator
from xaijax.games.game import Game
from xaijax.games.measure.asked_model import AskedModel
from xaijax.games.measure.chosen import chosen_column, read_outputs
from xaijax.games.measure.own_rows import with_own
from xaijax.games.measure.replacement import replacement_of
from xaijax.methods.explainer.explainer import Explainer
from xaijax.players.players import OwnPlayers, player_names
from xaijax.results.judgement import Curves
from xaijax.tables.rows import rows_of


def curves_of(explainer: Explainer, X: Any, values: np.ndarray, outputs: Outputs) -> Curves:
    """Both curves of the values [N, P, K]."""
    N, P, K = values.shape
    held = rows_of(X).take(np.repeat(np.arange(N), K)) if K > 1 else X
    game = _game(explainer, held, _ranked(explainer, values), outputs)
    first = np.arange(P) < np.arange(P + 1)[:, None]  # [P + 1, P]: the first s are kept
    asked = game.values(np.concatenate([first, ~first[1:-1]]))  # [N K, 2 P, K]
    each = asked.reshape(N, K, 2 * P, K)
    own = np.stack([each[:, k, :, k] for k in range(K)], axis=2)  # [N, 2 P, K]
    insertion, rest = own[:, : P + 1], own[:, P + 1 :]
    deletion = np.concatenate([insertion[:, -1:], rest, insertion[:, :1]], axis=1)
    return Curves(insertion, deletion, int(game.count.distinct))


def _ranked(explainer: Explainer, values: np.ndarray) -> np.ndarray:
    """Whose each entry is, by the player's place in its row's order; int64 [N K, F]."""
    N, P, K = values.shape
    each = values.transpose(0, 2, 1).reshape(N * K, P)
    rank = np.argsort(np.argsort(-each, axis=1, kind="stable"), axis=1, kind="stable")
    players = explainer.players
    of_entry = players.of_entry if isinstance(players, OwnPlayers) else players.of_column[None]
    owner = np.repeat(np.broadcast_to(of_entry, (N, of_entry.shape[1])), K, axis=0)
    return np.where(owner < 0, -1, np.take_along_axis(rank, np.maximum(owner, 0), axis=1))


def _game(explainer: Explainer, X: Any, numbers: np.ndarray, outputs: Outputs) -> Game:
    """The explainer's question of these rows, each with players of its own."""
    background, weights, *_, limits = explainer._given
    asked = cast(AskedModel, explainer.model)
    donors = replacement_of(asked, background, weights, X)
    own = OwnPlayers(numbers, player_names(explainer.players.count))
    parts = with_own(asked, donors, own, explainer._of_each)
    score = None if outputs is None else chosen_column()
    evaluator = Evaluator(asked, *parts, limits, score=score, offsets=outputs is None)
    rows = evaluator.setting.replacement.table.read(X, "X", asked.allow_nan)
    chosen = None
    if outputs is not None:
        names = getattr(asked, "output_names", None)
        chosen = read_outputs(outputs, len(rows_of(X)), explainer.model.classes, names)
    return Game(evaluator, rows, explainer.quantity, own=chosen)
