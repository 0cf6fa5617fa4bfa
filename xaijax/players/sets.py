"""Sets of players as users write them: indices, names, masks, probabilities of sets.

Letters: P players.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError


def player_place(player: Any, names: Sequence[str], argument: str) -> int:
    """A player's position from its position or its name."""
    if isinstance(player, str):
        if player not in names:
            raise InputError(
                f"{argument}: there is no player {player!r}; players are {list(names)[:20]}."
            )
        return list(names).index(player)
    if isinstance(player, bool | np.bool_) or not isinstance(player, int | np.integer):
        raise InputTypeError(
            f"{argument} must be a player's place or name, got {type(player).__name__} {player!r}."
        )
    if not -len(names) <= player < len(names):
        raise InputError(f"{argument}: there is no player {player}; there are {len(names)}.")
    return int(player) % len(names)


def set_of_players(S: Any, names: Sequence[str], argument: str = "S") -> np.ndarray:
    """A set as bool [P], from an iterable of positions and names, or a bool mask [P]."""
    P = len(names)
    dtype = getattr(S, "dtype", None)
    listed = isinstance(S, list | tuple) and len(S) > 0
    if (dtype is not None and np.dtype(dtype).kind == "b") or (
        listed and all(isinstance(player, bool | np.bool_) for player in S)
    ):
        mask = np.asarray(S)
        if mask.shape != (P,):
            raise InputError(
                f"{argument} is a mask of shape {mask.shape}, but players are {P}: give [{P}]."
            )
        return mask.copy()
    if isinstance(S, str) or not isinstance(S, Iterable) or (dtype is not None and np.ndim(S) != 1):
        raise InputTypeError(
            f"{argument} must be a set of players (places or names) or a bool mask [{P}], got "
            f"{S!r}. For one player say [{S!r}]."
        )
    mask = np.zeros(P, bool)
    for player in S:
        mask[player_place(player, names, argument)] = True
    return mask


def all_masks(P: int) -> np.ndarray:
    """Every set of P players, bool [2^P, P]."""
    return ((np.arange(1 << P)[:, None] >> np.arange(P)) & 1).astype(bool)


def chances(index: Any, P: int) -> np.ndarray:
    """Pr[S] of an array [2^P] or of a callable of masks bool [2^P, P]; float64 [2^P]."""
    numbers = index
    if callable(index):
        try:
            numbers = index(all_masks(P))
        except Exception as error:
            error.add_note("xaijax: raised by index(masks), masks bool [2^P, P]")
            raise
    chance = checks.real_numbers(numbers, "index: Pr[S] must be numbers [2^P]")
    if chance.shape != (1 << P,):
        raise InputError(
            f"index: Pr[S] has shape {chance.shape}, but {P} players have 2^{P} = {1 << P:,} sets: "
            f"give [{1 << P}], set S at the number whose bits are its players."
        )
    if not np.isfinite(chance).all() or (chance < 0).any():
        raise InputError("index: Pr[S] must be finite and at least 0 for every S.")
    if not chance.any():
        raise InputError("index: Pr[S] is 0 for every S; at least one set needs a chance.")
    return chance
