"""Counts the exact integer sums that a private release needs, when they are requested.

An Explanation holds floats, and floats of means have no sensitivity that can be proved. The
Explanation of a QII run therefore remembers, besides its fields, how its sums can be counted again
in whole numbers. This memory is not a field: it is neither saved, copied, pickled, merged nor
shown.

Letters: N games (1 for quantities of the data), G groups of data rows, C sets of replaced players,
K scores, D data rows, B pool rows, P players.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

LATTICE = 1 << 20  # scores, weights and released values are multiples of 1 / LATTICE
# The smallest scale that counts as noise. A value is changed at all with probability 2 q / (1 + q),
# where q = exp(-1 / scale): one in twenty at q = 1/39. With less, nearly all of a copy would be
# exact values.
LEAST_NOISE = 1 / math.log(39)

_PLACE = "_recount"


@dataclass(frozen=True)
class ExactSums:
    """Whole numbers that represent every mean Q(S); nothing here was rounded after a sum.

    The mean of group g with the players of `sets[c]` replaced is sums[n, g, c, k] divided by
    (outer[g].sum() inner.sum() unit), plus a constant that cancels in every influence.
    """

    sums: np.ndarray  # [N, G, C, K], int64, or Python integers if these could overflow
    sets: np.ndarray  # bool [C, P], the REPLACED players; the first set is empty
    unit: int  # of a score: 1 for labels, 2^20 for scores and probabilities
    width: int  # every score is a whole number in 0..width
    outer: tuple[np.ndarray, ...]  # G times int64 [D], integer weights of the data rows; ones for X
    inner: np.ndarray  # int64 [B], integer weights of the pool rows


class Once:
    """Something that may be done once, by any thread, and only in the process that began.

    A fork has a copy of everything: if both could do it once, it would be done twice.
    """

    def __init__(self) -> None:
        self._process = _this_process()
        self._lock = threading.Lock()
        self._done = False

    def refused(self) -> str | None:
        """The reason why it cannot be done: "here" in another process, "again" after the first
        time.
        """
        if self._process != _this_process():
            return "here"
        return "again" if self._done else None

    def take(self) -> str | None:
        """Uses up the one permission; returns None, or the reason why it cannot be done."""
        if self._process != _this_process():  # first: a fork may have a lock that nobody releases
            return "here"
        with self._lock:
            refused = self.refused()
            self._done = True
        return refused


_forks = [object()]  # a new object in every fork, even if process numbers repeat


def _this_process() -> tuple[int, int]:
    return os.getpid(), id(_forks[-1])


def _forked() -> None:
    _forks.append(object())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@dataclass(frozen=True)
class Sample:
    """The subsample that makes up the data, as far as a release must know it."""

    rows: int  # drawn
    full_rows: int  # drawn from
    rate: float  # the largest probability that a record is in it
    release: Once  # only one report of it, ever


class Recount(Protocol):
    """Defines how the sums of an Explanation are counted, and which question they answer."""

    @property
    def sample(self) -> Sample | None:
        """The subsample that makes up the data; None: the full data."""
        ...

    @property
    def chance(self) -> np.ndarray | None:
        """Pr[S] [2^P] of the index, if it has one."""
        ...

    def refused(self) -> str | None:
        """The reason why private sums cannot be counted; None if they can."""
        ...

    def copies(self) -> Sequence[str]:
        """Arguments passed as public whose rows all occur in the data; for a warning only."""
        ...

    def other_labels(self) -> bool:
        """Whether labels other than 0 and 1 occur without declared classes; for a warning only."""
        ...

    def identity(self) -> Mapping[str, Any] | None:
        """Texts that distinguish this question from any other: its data, rows, model, players.

        None: the model cannot be recognised later. After `sums`, the identity is that of the
        counted model.
        """
        ...

    def sums(self) -> ExactSums:
        """Calls the model, row by row in one fixed layout; returns the same numbers each time."""
        ...


def remember(explanation: Any, recount: Recount) -> None:
    """Makes an Explanation remember how its sums are counted."""
    object.__setattr__(explanation, _PLACE, recount)


def remembered(explanation: Any) -> Recount | None:
    """Returns the counter of this Explanation's sums; None for copies, slices and loaded ones."""
    return vars(explanation).get(_PLACE)
