"""Rows that occur more than once are asked once, where that pays; the others get a copy.

Values of a row follow from its bytes alone, so that equal rows have equal values. Rows are compared
by 128 bits of BLAKE2b: two of a billion rows that differ are taken for one with a chance of 1e-21.

Letters: N rows, D distinct ones.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.results.files import npz
from xaijax.sweeps.directory import DISTINCT
from xaijax.sweeps.inputs import InputRows, RowSlice
from xaijax.tables.rows import rows_of

FORMAT = "xaijax.Distinct"
LOOKED_AT = 1 << 16  # rows read at a time; the first of them say whether the others are looked at
PROMISING = 0.95  # share of distinct rows among the first, above which the others are not
PAYS = 0.8  # share of distinct rows among all, above which all are asked


@dataclass(frozen=True)
class DistinctRows:
    """Which rows occur for the first time, and which of these each row is."""

    first: np.ndarray  # int64 [D], ascending
    place: np.ndarray  # int64 [N], below D

    def write(self, folder: Path) -> None:
        """Keep it in a run directory."""
        npz.write(folder / DISTINCT, {"first": self.first, "place": self.place}, FORMAT)

    @classmethod
    def read(cls, folder: Path) -> DistinctRows:
        """That of a run directory; raises InputError, FileNotFoundError."""
        return npz.read(folder / DISTINCT, {FORMAT: lambda fields: cls(**fields)})


def distinct_of(source: InputRows) -> DistinctRows | None:
    """Those of all rows; None where it does not pay to ask them alone."""
    N = source.rows
    digests = np.empty((N, 2), np.uint64)
    for start in range(0, N, LOOKED_AT):
        last = min(start + LOOKED_AT, N)
        digests[start:last] = _digests(source.part(start, last).read())
        if start == 0 and last < N and len(_unique(digests[:last])[0]) > PROMISING * last:
            return None
    first, place = _unique(digests)
    if len(first) > PAYS * N:
        return None
    order = np.argsort(first)  # as they come
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    return DistinctRows(first[order], rank[place])


def _unique(digests: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the first of equal ones, which of these each is)."""
    half, rest = digests.T
    _, first, place = np.unique(half, return_index=True, return_inverse=True)
    if not np.array_equal(rest[first][place], rest):  # two that share 64 bits alone: sort by all
        pairs = np.ascontiguousarray(digests).view([("a", np.uint64), ("b", np.uint64)])[:, 0]
        _, first, place = np.unique(pairs, return_index=True, return_inverse=True)
    return first, place


def _digests(rows: Any) -> np.ndarray:
    found = [hashlib.blake2b(text, digest_size=16).digest() for text in rows_of(rows).texts()]
    return np.frombuffer(b"".join(found), np.uint64).reshape(-1, 2)


@dataclass(frozen=True)
class Picked:
    """The distinct rows of another source, as rows of their own."""

    source: InputRows
    first: np.ndarray  # int64 [D]

    @property
    def rows(self) -> int:
        """D."""
        return len(self.first)

    def facts(self) -> dict[str, Any]:
        """Of all rows."""
        return self.source.facts()

    def part(self, first: int, last: int) -> RowSlice:
        """Distinct rows first to last - 1."""
        places = self.first[first:last]
        held = getattr(self.source, "held", None)
        return _Scattered(self.source, places) if held is None else held(places)


@dataclass(frozen=True)
class _Scattered:
    """Rows at places of files, of which no more than a stretch is held at a time."""

    source: InputRows
    places: np.ndarray

    def read(self) -> Any:
        found = []
        for start in range(int(self.places[0]), int(self.places[-1]) + 1, LOOKED_AT):
            last = min(start + LOOKED_AT, int(self.places[-1]) + 1)
            own = self.places[(self.places >= start) & (self.places < last)] - start
            if len(own):
                found.append(rows_of(self.source.part(start, last).read()).take(own, counted=True))
        return found[0] if len(found) == 1 else rows_of(found[0]).stacked(found)

    def place(self, row: int) -> int:
        """See `inputs.Piece`."""
        return int(self.places[row])


def may_share(given: dict[str, Any], options: dict[str, Any]) -> bool:
    """Whether equal rows have equal answers: not of a random model, nor of outputs of each row.

    given: the arguments of the explainer.
    """
    own = options.get("outputs")
    return bool(getattr(given.get("model"), "deterministic", False)) and not np.ndim(own)


def of_run(folder: Path, source: InputRows, count: int) -> DistinctRows:
    """What a run's manifest says there is; found again where its file was lost or damaged."""
    try:
        found = DistinctRows.read(folder)
    except (FileNotFoundError, InputError):
        again = distinct_of(source)
        if again is None or len(again.first) != count:
            told = f"{folder}: {DISTINCT} is lost, and X has other rows than before."
            raise InputError(told) from None
        again.write(folder)
        return again
    return found
