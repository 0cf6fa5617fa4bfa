"""The `index=` of QII: semivalues by replaced players, Deegan-Packel, or any Pr[S].

Letters: P players.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import EnumerationLimitError, InputError, InputTypeError
from xaijax.games.asking.refuse import LARGEST_TABLE
from xaijax.players.index import SizeLimited, index_weights
from xaijax.players.sets import chances

ACCEPTED = "'shapley', 'banzhaf', 'deegan-packel', SizeLimited(k), or Pr[S] [2^P] or callable"


@dataclass(frozen=True)
class QiiIndex:
    """An index as read: exactly one of weights, chance and simple is set."""

    name: str
    weights: np.ndarray | None = None  # [P], by the number of players replaced before
    chance: np.ndarray | None = None  # [2^P]
    simple: bool = False
    threshold: float | None = None
    absolute: bool = False


def qii_index(index: Any, P: int, threshold: Any, absolute: Any, otherwise: str = "") -> QiiIndex:
    """Read index=, threshold= and absolute=; raises InputError and InputTypeError.

    otherwise: what else can be asked of too many players.
    """
    if not isinstance(absolute, bool):
        raise InputTypeError(f"absolute must be True or False, got {absolute!r}.")
    if isinstance(index, str) and index == "deegan-packel":
        _small(P, "index='deegan-packel'", otherwise)
        bound = None if threshold is None else checks.positive(threshold, "threshold")
        return QiiIndex("deegan-packel", simple=True, threshold=bound, absolute=absolute)
    if threshold is not None or absolute:
        raise InputError("threshold= and absolute= go with index='deegan-packel'. Leave them out.")
    if isinstance(index, str | SizeLimited):
        if isinstance(index, str) and index not in ("shapley", "banzhaf"):
            raise InputError(f"index must be {ACCEPTED}, got {index!r}.")
        weights, name = index_weights(index, P)
        return QiiIndex(name, weights=weights)
    if not callable(index) and not isinstance(index, np.ndarray | list | tuple):
        raise InputTypeError(f"index must be {ACCEPTED}, got {type(index).__name__}.")
    _small(P, "an index of chances Pr[S]", otherwise)
    return QiiIndex("Pr[S]", chance=chances(index, P))


def _small(P: int, what: str, otherwise: str) -> None:
    if P > LARGEST_TABLE:
        raise EnumerationLimitError(
            f"players: {what} needs the table of all 2^{P} sets; at most {LARGEST_TABLE} players "
            f"can be enumerated. Group columns with players=. {otherwise}".rstrip()
        )
