"""The sets of players that a key of `interactions[..., set]` means, and how sets are stored.

Letters: P players, M sets.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.players.sets import player_place
from xaijax.results.selection import Selection, resolve

Sets = tuple[tuple[int, ...], ...]


def all_of(P: int, order: int) -> Sets:
    """All sets of 1 to `order` of P players, by size, then in player order."""
    sizes = range(1, min(order, P) + 1)
    return tuple(S for s in sizes for S in itertools.combinations(range(P), s))


def named(S: Sequence[str]) -> str:
    """The name of a set as one text."""
    return " & ".join(S)


def checked(sets: Any, M: int, P: int) -> Sets:
    """Sets as tuples of positions; P = 0: the players are not known.

    Raises:
        InputError: there are not M sets, or none; a position does not exist; positions of a set do
            not ascend; or a set occurs twice.
        InputTypeError: a set is not a tuple of positions.
    """
    try:
        keys = tuple(tuple(operator.index(place) for place in S) for S in sets)
    except TypeError as error:
        raise InputTypeError(
            f"sets: must be tuples of places of players, as ((0,), (1,), (0, 1)); {error}."
        ) from None
    if len(keys) != M or not M:
        raise InputError(f"sets: got {len(keys)}; the values need {M}, and one at least.")
    for S in keys:
        if not S or list(S) != sorted(set(S)) or S[0] < 0 or (P and S[-1] >= P):
            raise InputError(
                f"sets: {S} is no ascending tuple of places of {P or 'the'} players, from 0."
            )
    if len(set(keys)) < len(keys):
        twice = next(S for S in keys if keys.count(S) > 1)
        raise InputError(f"sets: {twice} is there more than once; sets must differ.")
    return keys


def positions(key: Any, sets: Sets, names: Sequence[str]) -> Selection:
    """Positions of the sets that a key means, in the order of the key.

    It raises InputError or InputTypeError for a key that means none.
    """
    if isinstance(key, str | tuple | frozenset | set):
        places: Selection = np.array([_position(key, sets, names)])
    elif isinstance(key, list) and any(isinstance(entry, str | tuple | frozenset) for entry in key):
        places = np.array([_position(entry, sets, names) for entry in key])
    else:
        places = resolve(key, len(sets), None, "set")[0]
    if not np.arange(len(sets))[places].size:
        raise InputError(f"set key {key!r} selects no set.")
    if not isinstance(places, slice) and len(np.unique(places)) < len(places):
        raise InputError(f"set key {key!r} names a set more than once; name each set once.")
    return places


def _position(key: Any, sets: Sets, names: Sequence[str]) -> int:
    players = (key,) if isinstance(key, str) else tuple(key)
    S = tuple(sorted({player_place(player, names, "set key") for player in players}))
    if S not in sets:
        shown = named([names[p] for p in S])
        raise InputError(f"set key {key!r}: {shown!r} is not among these {len(sets):,} sets.")
    return sets.index(S)
