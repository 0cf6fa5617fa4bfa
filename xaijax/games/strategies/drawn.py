"""Computes scores of drawn hybrids by an additive first layer, all draws of a run in one call.

Letters: n games, D draws, L coalitions of a draw, P players, H numbers of the layer, K scores,
T tiles, M lists of coalitions.
"""

from __future__ import annotations

import numpy as np

from xaijax.games.engine.dispatch import ProgramRecipe
from xaijax.games.engine.player_values import Values, kernel_of, values_of
from xaijax.games.run import GameRun
from xaijax_kernels.structures.drawn import drawn_scores

DRAWS, MOST_DRAWS = 256, 1024  # draws of a tile: full blocks of a product
HYBRIDS = 1 << 14  # numbers of a tile, if it has more draws than necessary
MOST_TILES = 1 << 10  # in one call
MOST_COALITIONS = 1 << 7  # coalitions of a draw: the head is traced for all hybrids of a tile
MOST_NUMBERS = 1 << 22  # of the layer of a tile


def drawn_values(run: GameRun, L: int) -> Values | None:
    """The players' terms in the layer for this game's rows; None if draws use full rows."""
    run.backend()  # probes the model
    if not run.may_cross():
        return None
    engine, known = run.engine, run.engine.known
    if not known.adds or L > MOST_COALITIONS or MOST_DRAWS * L * known.width > MOST_NUMBERS:
        return None
    per_row = engine.players.count * known.width * engine.replacement.codes.itemsize
    if (run.N + engine.replacement.count) * per_row > engine.memory.share("parts"):
        return None
    return values_of(run.engine, run.codes)


def drawn(
    run: GameRun, values: Values, instance: np.ndarray, donor: np.ndarray, masks: np.ndarray
) -> np.ndarray | None:
    """Scores, float64 [n, D, L, K]; None: one is invalid.

    instance, donor: int [n, D]; masks bool [D, L, P], or [1, L, P] for all draws.
    """
    engine = run.engine
    (M, L, _), shape = masks.shape, instance.shape
    of_rows, of_donors = values.parts
    tile = min(MOST_DRAWS, max(DRAWS, 1 << ((HYBRIDS // L).bit_length() - 1)))
    function = kernel_of(drawn_scores, engine, L * tile, tile, values)
    key = ("drawn", engine.structure, engine.score, L, tile)
    listed = np.broadcast_to(np.arange(shape[1]), shape) if M > 1 else np.zeros(shape, np.int32)
    flat = [np.ascontiguousarray(a, np.int32).ravel() for a in (instance, donor, listed)]
    total, parts = instance.size, []
    for first in range(0, total, tile * MOST_TILES):
        part = [a[first : first + tile * MOST_TILES] for a in flat]
        count = len(part[0])
        tiles = -(-count // tile)
        tiles = -(-tiles // 4) * 4 if tiles > 4 else 1 << (tiles - 1).bit_length()
        part = [np.pad(a, (0, tiles * tile - count), mode="edge").reshape(tiles, -1) for a in part]
        arguments = (engine.model.params, of_rows, of_donors, *part, masks)
        recipe = ProgramRecipe(key, function, arguments, what="drawn hybrids")
        scores, bad = engine.compiled.run(recipe)
        parts.append((scores, bad, count))
    run.answered(total * L)
    if any(int(bad) for _, bad, _ in parts):
        return None
    result = np.empty((total, L, run.engine.outputs))
    first = 0
    for scores, _, count in parts:
        by_draw = np.asarray(scores).swapaxes(1, 2)  # [T, D, L, K]
        result[first : first + count] = by_draw.reshape(-1, *by_draw.shape[2:])[:count]
        first += count
    return result.reshape(*shape, L, -1)
