"""The `index=` of QII: semivalues by replaced players, Deegan-Packel, or any Pr[S].

Letters: P players.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import EnumerationLimitError, InputError, InputTypeError
from xaijax.games.refuse import LARGEST_TABLE
from xaijax.players.index import SizeLimited, index_weights, named, quoted
from xaijax.players.sets import chances


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
    checks.yes_or_no(absolute, "absolute")
    if isinstance(index, str) and named(index).simple:
        _small(P, f"index={index!r}", otherwise)
        bound = None if threshold is None else checks.positive(threshold, "threshold")
        return QiiIndex(named(index).name, simple=True, threshold=bound, absolute=absolute)
    simple, semivalues = ", ".join(quoted("simple")), ", ".join(quoted("weights"))
    if threshold is not None or absolute:
        raise InputError(f"threshold= and absolute= go with index={simple}. Leave them out.")
    accepted = f"{semivalues}, {simple}, SizeLimited(k), or Pr[S] [2^P] or callable"
    if isinstance(index, str | SizeLimited):
        if isinstance(index, str) and named(index).weights is None:
            raise InputError(f"index must be {accepted}, got {index!r}.")
        weights, name = index_weights(index, P)
        return QiiIndex(name, weights=weights)
    if not callable(index) and not isinstance(index, np.ndarray | list | tuple):
        raise InputTypeError(f"index must be {accepted}, got {type(index).__name__}.")
    _small(P, "an index of chances Pr[S]", otherwise)
    return QiiIndex("Pr[S]", chance=chances(index, P))


def _small(P: int, what: str, otherwise: str) -> None:
    if P > LARGEST_TABLE:
        raise EnumerationLimitError(
            f"players: {what} needs the table of all 2^{P} sets; at most {LARGEST_TABLE} players "
            f"can be enumerated. Group columns with players=. {otherwise}".rstrip()
        )
