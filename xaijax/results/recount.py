"""What a private release needs of the rows: exact integer sums, counted when they are asked for.

An Explanation holds floats, and floats of means have no sensitivity that can be proved. So the
Explanation of a QII run remembers, beside its fields, how its sums can be counted once more, in
whole numbers. That memory is no field: it is neither saved, copied, pickled, merged nor shown.

Letters: N games (1 for quantities of the data), G groups of data rows, C sets of replaced players,
K scores, D data rows, B pool rows, P players.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


class Once:
    """Something that may be done once, whichever thread asks, and in the process that began only.

    A fork has a copy of everything: what both could do once would be done twice.
    """

    def __init__(self) -> None:
        self._process = _this_process()
        self._lock = threading.Lock()
        self._done = False

    def refused(self) -> str | None:
        """Why it cannot be done: "here" in another process, "again" after the first time."""
        if self._process != _this_process():
            return "here"
        return "again" if self._done else None

    def take(self) -> str | None:
        """Do it: None, or why it cannot be done."""
        if self._process != _this_process():  # first: a fork may have a lock that nobody gives back
            return "here"
        with self._lock:
            refused = self.refused()
            self._done = True
        return refused


_forks = [object()]  # another one in every fork, also where process numbers come again


def _this_process() -> tuple[int, int]:
    return os.getpid(), id(_forks[-1])


def _forked() -> None:
    _forks.append(object())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@dataclass(frozen=True)
class Sample:
    """The subsample that the data are, as far as a release must know it."""

    rows: int  # drawn
    full_rows: int  # drawn from
    rate: float  # the largest chance with which a record is in it
    release: Once  # one report of it, ever


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

    def copies(self) -> Sequence[str]:
        """Arguments passed as public all of whose rows occur among the data; for a warning only."""
        ...

    def other_labels(self) -> bool:
        """Whether labels other than 0 and 1 came, of classes not declared; for a warning only."""
        ...

    def identity(self) -> Mapping[str, Any] | None:
        """Texts that tell this question from any other one: of data, rows, model, players.

        None: the model cannot be known again. After `sums` that of what was counted.
        """
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
