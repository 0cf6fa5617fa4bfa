"""The agreement quotient: which players differ for a pair; streams of pairs and of single rows.

A player whose codes equal the donor's in all its columns changes nothing for the pair (x, b), so
only 2^k of the pair's 2^P hybrids are distinct, k = players that differ. All of this is NumPy on
the host: a few bytes per pair, compared with 2^k model rows.

Letters: N instances, B donors, F columns, W words of one column, P players, M pairs, R rows, C
coalitions in the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

LISTED = 1 << 24  # values from this one on are positions in a list of coalitions


@dataclass(frozen=True)
class Pairs:
    """Pairs (instance, donor) in the order in which their sub-coalitions are evaluated.

    Sorted by k, largest first (stable), so that each block of 2^k rows starts at a multiple of its
    own size and none straddles a tile whose size is a power of two.
    """

    instance: np.ndarray  # int32 [M]
    donor: np.ndarray  # int32 [M]
    order: np.ndarray  # int64 [M], position of each pair in the arguments of `pack`
    differs: np.ndarray  # bool [M, P]
    k: np.ndarray  # int64 [M], descending
    start: np.ndarray  # int64 [M + 1], first row of each pair; the last entry is the row count
    slot_bits: int  # a pair takes at least 2^slot_bits rows
    first: np.ndarray  # int32 [M], first sub-coalition, or LISTED and first coalition of a list
    asked: np.ndarray  # int64 [M], rows without padding
    structured: bool = False  # the sub-coalitions of a slot are answered by the model's structure

    @property
    def kind(self) -> str:
        """Kind of the slots: "subsets", or "mixed" if some pairs use a list."""
        if self.structured:
            return "structured"
        return "mixed" if (self.first >= LISTED).any() else "subsets"

    @property
    def start_as_given(self) -> np.ndarray:
        """First row of each pair, in the order given to `pack`; int64 [M]."""
        out = np.empty(len(self.order), np.int64)
        out[self.order] = self.start[:-1]
        return out

    @cached_property
    def rows(self) -> int:
        """Model rows of all pairs, the padding of small pairs included."""
        return int(self.start[-1])

    @cached_property
    def distinct_rows(self) -> int:
        """Model rows without padding."""
        return int(self.asked.sum())

    def dispatches(self, rows_each: int) -> Iterator[Dispatch]:
        """Cuts the stream into pieces of `rows_each` rows; the last one may be shorter."""
        of_pair = np.column_stack(
            [
                (self.first - self.start[:-1]).astype(np.int32),
                self.instance,
                self.donor,
                player_words(self.differs).view(np.int32),
            ]
        )
        slot = 1 << self.slot_bits
        for first in range(0, self.rows, rows_each):
            last = min(first + rows_each, self.rows)
            a = int(np.searchsorted(self.start, first, side="right")) - 1
            b = int(np.searchsorted(self.start, last, side="left"))
            bounds = np.clip(self.start[a : b + 1], first, last)
            count = np.diff(bounds) // slot
            # Column 0 was first sub-coalition minus first row, modulo 2^32, which no index reaches.
            slots = np.repeat(of_pair[a:b], count, axis=0)
            slots[:, 0] += np.arange(first, last, slot, dtype=np.int64).astype(np.int32)
            yield Dispatch(first, last - first, slots)

    def locate(self, row: int, masks: np.ndarray | None = None) -> tuple[int, int, np.ndarray]:
        """(instance, donor, kept bool [P]) of a row; masks bool [C, P] are the list, if any."""
        pair = int(np.searchsorted(self.start, row, side="right")) - 1
        subset = int(self.first[pair]) + row - int(self.start[pair])
        mask = self.differs[pair].copy()
        if subset >= LISTED:
            assert masks is not None
            mask &= masks[min(subset - LISTED, len(masks) - 1)]  # padding: the last one is repeated
        else:
            mask[mask] = (subset >> np.arange(mask.sum())) & 1
        return int(self.instance[pair]), int(self.donor[pair]), mask


def pack(
    instance: np.ndarray,
    donor: np.ndarray,
    differs: np.ndarray,
    slot_bits: int,
    listed: int | None = None,
    structured: bool = False,
) -> Pairs:
    """Orders the pairs [M] and gives each its rows.

    A pair takes all its 2^k sub-coalitions, or one row for each of `listed` coalitions if these are
    fewer.
    """
    k = differs.sum(axis=1, dtype=np.int64)
    order = np.argsort(-k, kind="stable")
    k = k[order]
    row_counts = np.int64(1) << np.minimum(k, 62)
    first = np.zeros(len(k), np.int32)
    if listed is not None:
        by_list = row_counts > listed
        row_counts[by_list], first[by_list] = listed, LISTED
    slot = 1 << slot_bits
    start = np.zeros(len(k) + 1, np.int64)
    np.cumsum(-(-row_counts // slot) * slot, out=start[1:])
    return Pairs(
        instance[order].astype(np.int32),
        donor[order].astype(np.int32),
        order,
        differs[order],
        k,
        start,
        slot_bits,
        first,
        row_counts,
        structured,
    )


@dataclass(frozen=True)
class Dispatch:
    """One piece of the row stream: rows [first_row, first_row + rows)."""

    first_row: int
    rows: int
    slots: np.ndarray  # int32 [S, 3 + ceil(P / 32)], one row for each slot of 2^slot_bits rows:
    # sub-coalition index of its first row (or LISTED and its place in the list of coalitions),
    # instance, donor, words of the players that differ (not read for the list)


def player_words(differs: np.ndarray) -> np.ndarray:
    """Packs bool [M, P] into uint32 [M, ceil(P / 32)], player p at bit p % 32 of word p // 32."""
    M, P = differs.shape
    padded = np.zeros((M, -(-P // 32) * 32), bool)
    padded[:, :P] = differs
    return np.packbits(padded, axis=1, bitorder="little").view("<u4").astype(np.uint32)


def list_words(masks: np.ndarray, capacity: int) -> np.ndarray:
    """A list of coalitions as bits, uint32 [capacity, ceil(P / 32)]; masks bool [C, P].

    The last one is repeated to the end, so a slot is padded with a coalition that was requested.
    """
    words = player_words(masks)
    return np.concatenate([words, np.repeat(words[-1:], capacity - len(words), axis=0)])


def runs_of_equal_k(pairs: Pairs, first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """(k, first pair, last pair) of the pairs whose rows overlap the rows [first, last)."""
    a = int(np.searchsorted(pairs.start, first, side="right")) - 1
    b = int(np.searchsorted(pairs.start, last, side="left"))
    cuts = np.flatnonzero(np.diff(pairs.k[a:b])) + 1 + a
    for lo, hi in zip([a, *cuts], [*cuts, b], strict=True):
        yield int(pairs.k[lo]), int(lo), int(hi)


@dataclass(frozen=True)
class RowStream:
    """Single hybrids: each row names its instance, its donor and a coalition of a list.

    A slot is one row, so nothing is padded or shared. Used when every row has its own donor
    (draws), or when there are few donors and they replace different columns.
    """

    instance: np.ndarray  # int32 [R]
    donor: np.ndarray  # int32 [R]
    coalition: np.ndarray  # int32 [R], place in the list
    P: int
    kind = "rows"  # what its slots are
    slot_bits = 0

    @property
    def rows(self) -> int:
        """Model rows."""
        return len(self.instance)

    @property
    def distinct_rows(self) -> int:
        """Model rows without padding: all of them."""
        return len(self.instance)

    def dispatches(self, rows_each: int) -> Iterator[Dispatch]:
        """Cuts the stream into pieces of `rows_each` rows; the last one may be shorter."""
        words = -(-self.P // 32)
        for first in range(0, self.rows, rows_each):
            part = slice(first, first + rows_each)
            slots = np.zeros((len(self.instance[part]), 3 + words), np.int32)
            slots[:, 0] = LISTED + self.coalition[part]
            slots[:, 1] = self.instance[part]
            slots[:, 2] = self.donor[part]
            yield Dispatch(first, len(slots), slots)

    def locate(self, row: int, masks: Any) -> tuple[int, int, np.ndarray]:
        """(instance, donor, kept bool [P]) of a row; masks bool [C, P]."""
        return int(self.instance[row]), int(self.donor[row]), masks[self.coalition[row]]
