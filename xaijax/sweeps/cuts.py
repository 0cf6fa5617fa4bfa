"""`Cut`: the rows of each part, as stretches of parts of equal size."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

FIRST, LATER = 5.0, 8.0  # seconds of the first parts, and of the others
EARLY = 2  # first parts for each part that runs at once
MOST = 10_000  # rows of a part


@dataclass(frozen=True)
class Cut:
    """Consecutive stretches (first row, last row + 1, rows per part), beginning at row 0.

    Only the last part of a stretch may be smaller.
    """

    stretches: tuple[tuple[int, int, int], ...]

    @classmethod
    def read(cls, given: Sequence[Sequence[int]], rows: int) -> Cut:
        """Stretches of a manifest; raises ValueError unless they cover every row exactly once."""
        found = tuple((int(first), int(last), int(each)) for first, last, each in given)
        ends = [0, *(last for _, last, _ in found)]
        if [first for first, _, _ in found] != ends[:-1] or ends[-1] != rows:
            raise ValueError("its ranges are not those of its rows")
        if not all(first < last and each > 0 for first, last, each in found):
            raise ValueError("its ranges hold no rows")
        return cls(found)

    @classmethod
    def of_size(cls, each: int, rows: int) -> Cut:
        """Parts of one size."""
        return cls(((0, rows, min(each, rows)),))

    @classmethod
    def by_time(cls, seconds: float, rows: int, at_once: int) -> Cut:
        """Parts of about `FIRST` seconds, then of `LATER`; seconds: the time of one row."""
        early, later = (
            max(1, min(MOST, int(goal / max(seconds, 1e-12)))) for goal in (FIRST, LATER)
        )
        turn = min(EARLY * at_once * early, rows)
        if early == later or rows - turn < later:  # no whole larger part would follow
            return cls.of_size(early, rows)
        return cls(((0, turn, early), (turn, rows, later)))

    @property
    def largest(self) -> int:
        """Rows of the largest part."""
        return max(each for _, _, each in self.stretches)

    @property
    def parts(self) -> int:
        """Number of parts."""
        return self._ends[-1]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each part."""
        return tuple(
            min(each, last - at)
            for first, last, each in self.stretches
            for at in range(first, last, each)
        )

    def range_of(self, part: int) -> tuple[int, int]:
        """(first, last + 1) of the rows of a part."""
        which = next(n for n, end in enumerate(self._ends) if part < end)
        first, last, each = self.stretches[which]
        own = first + (part - (self._ends[which - 1] if which else 0)) * each
        return own, min(own + each, last)

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        counts = (-(-(last - first) // each) for first, last, each in self.stretches)
        return tuple(itertools.accumulate(counts))
