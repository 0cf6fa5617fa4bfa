"""What every explainer keeps of a run: the form of its numbers, its cost, and how it was made.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from xaijax.core.version import __version__
from xaijax.methods.fingerprint import fingerprint, model_fingerprint
from xaijax.tables.rows import rows_of
from xaijax.tables.table import kept_rows

if TYPE_CHECKING:
    from xaijax.games.engine.compiled import Clock
    from xaijax.games.engine.evaluator import Setting
    from xaijax.games.game import Game
    from xaijax.games.measure.replacement import Replacement
    from xaijax.models import Model

VERSIONS = {"xaijax": __version__, "jax": jax.__version__, "numpy": np.__version__}


def numbers(
    values: np.ndarray, base: np.ndarray, errors: np.ndarray | None, scalar: bool
) -> dict[str, Any]:
    """Returns the numbers of a result; scalar: drop the axis of outputs, which has one entry."""
    cut: Any = (Ellipsis, 0) if scalar else Ellipsis
    return {
        "values": values[cut],
        "base_values": base[cut],
        "std_errors": None if errors is None else errors[cut],
    }


def instances(X: Any, rows: Any) -> dict[str, Any]:
    """Returns the rows of a result and their index; rows: X as read."""
    return {"data": kept_rows(X, rows), "instance_index": rows_of(X).index}


def cost(setting: Setting, clock: Clock, before: Clock, seconds: float) -> dict[str, Any]:
    """Returns the part of stats that says what a run cost, and where it ran.

    before: the clock when the run began; seconds: since then, with compilation.
    """
    compile_seconds = clock.compile_seconds - before.compile_seconds
    return {
        "model_calls": clock.model_calls - before.model_calls,
        "tile": clock.tile,
        "seconds": seconds - compile_seconds,
        "compile_seconds": compile_seconds,
        "backend": setting.model.backend,
        "devices": [str(d) for d in setting.devices],
    }


def cost_of(game: Game, before: Clock, seconds: float) -> dict[str, Any]:
    """Returns the same with the rows that a game asked, and the fingerprints of its question."""
    clock = game.evaluator.clock
    return {
        "model_rows": game.count.distinct - (clock.spared_rows - before.spared_rows),
        "padded_rows": game.count.padded + clock.padded_rows - before.padded_rows,
        "structure": game.structure,
        **cost(game.evaluator.setting, clock, before, seconds),
        **digests(game),
    }


def digests(game: Game) -> dict[str, str | None]:
    """Returns the digests of a game's rows, functions and model."""
    return {"fingerprint": fingerprint(game), "model_fingerprint": model_fingerprint(game)}


def sizes(model: Model, players: Any, N: int, P: int) -> dict[str, Any]:
    """Returns the part of provenance that says how many instances and which players a run has."""
    return {
        "instances": N,
        "players": P,
        "player_columns": players.all_columns(),
        "precision": model.precision if model.backend == "jax" else "float64",
        "versions": VERSIONS,
    }


def background(replacement: Replacement) -> dict[str, Any]:
    """Returns the part of provenance that says what replaces an absent player."""
    return {
        "replacement": replacement.kind,
        "background_rows": replacement.rows_given,
        "weights": "given" if replacement.weights_sum is not None else "equal",
    }
