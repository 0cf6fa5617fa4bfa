"""Hybrids asked one by one: each row names its own instance, donor and coalition of a list.

A slot is one row, so nothing is padded and nothing shared: for questions in which every row has a
donor of its own (draws), or few donors that differ in what they replace.

Letters: R rows, P players, C coalitions in the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xaijax_kernels.engine.lattice import LISTED, Dispatch


@dataclass(frozen=True)
class RowStream:
    """Rows in the order given."""

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
        """Cut the stream into pieces of `rows_each` rows; the last one may be shorter."""
        words = -(-self.P // 32)
        for first in range(0, self.rows, rows_each):
            part = slice(first, first + rows_each)
            slots = np.zeros((len(self.instance[part]), 3 + words), np.int32)
            slots[:, 0] = LISTED + self.coalition[part]
            slots[:, 1] = self.instance[part]
            slots[:, 2] = self.donor[part]
            yield Dispatch(first, len(slots), slots)

    def locate(self, row: int, masks: np.ndarray) -> tuple[int, int, np.ndarray]:
        """(instance, donor, kept bool [P]) of a row; masks bool [C, P]."""
        return int(self.instance[row]), int(self.donor[row]), masks[self.coalition[row]]
