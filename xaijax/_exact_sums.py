"""What a private release needs of the rows: exact integer sums, counted when they are asked for.

An Explanation holds floats, and floats of means have no sensitivity that can be proved. So the
Explanation of a QII run remembers, beside its fields, how its sums can be counted once more, in
whole numbers. That memory is no field: it is neither saved, copied, pickled, merged nor shown.

Letters: N games (1 for quantities of the data), G groups of data rows, C sets of replaced players,
K scores, D data rows, B pool rows, P players.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

LATTICE = 1 << 20  # scores, weights and released values are multiples of 1 / LATTICE

_PLACE = "_recount"


@dataclass(frozen=True)
class ExactSums:
    """Whole numbers that stand for every mean Q(S); nothing here has been rounded after a sum.

    The mean of group g with the players of `sets[c]` replaced is sums[n, g, c, k] divided by
    (outer[g].sum() inner.sum() unit), plus a constant that cancels in every influence.
    """

    sums: np.ndarray  # [N, G, C, K], int64, or Python integers where these could overflow
    sets: np.ndarray  # bool [C, P], the REPLACED players; the first set is empty
    unit: int  # of a score: 1 for labels, 2^20 for scores and chances
    width: int  # every score is a whole number in 0..width
    outer: tuple[np.ndarray, ...]  # G times int64 [D], whole weights of the data rows; of X: ones
    inner: np.ndarray  # int64 [B], whole weights of the pool rows


@dataclass
class Sample:
    """The subsample that the data are, as far as a release must know it."""

    rows: int  # drawn
    full_rows: int  # drawn from
    rate: float  # the largest chance with which a record is in it
    released: list[str] = field(default_factory=list)  # what it was released for


class Recount(Protocol):
    """How the sums of an Explanation are counted, and which question they answer."""

    @property
    def sample(self) -> Sample | None:
        """The subsample that the data are; None: the full data."""
        ...

    @property
    def chance(self) -> np.ndarray | None:
        """Pr[S] [2^P] of the index, where it has one."""
        ...

    def refused(self) -> str | None:
        """Why no sums can be counted that would be private; None: they can."""
        ...

    def identity(self) -> Mapping[str, Any]:
        """Texts that tell this question from any other one: of data, rows, model, players."""
        ...

    def sums(self) -> ExactSums:
        """Ask the model, row by row in one fixed layout; the same numbers each time."""
        ...


def remember(explanation: Any, recount: Recount) -> None:
    """Let an Explanation remember how its sums are counted."""
    object.__setattr__(explanation, _PLACE, recount)


def remembered(explanation: Any) -> Recount | None:
    """How the sums of this Explanation are counted; None for copies, slices and loaded ones."""
    return vars(explanation).get(_PLACE)
