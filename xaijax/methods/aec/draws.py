"""Bootstrap weights: how often each row is drawn in each replicate.

A replicate draws M of M rows with replacement (Efron 1979), so its weights are multinomial. They
are made a piece of rows at a time: first how many of the draws fall into each piece, then which
rows of the piece. Both depend on (seed, replicate, piece) only, so that chunks of any size, and
batches of any number of replicates, give the same weights. Letters: S replicates, M rows, R rows in
a piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xaijax.methods.aec.rows import RowBlock, Rows, block_rows

PIECE = 8192  # rows drawn from together
LARGEST_SEED = 1 << 128  # the generator's key


@dataclass(frozen=True)
class Draws:
    """The weights of all replicates of one fit."""

    rows: Rows
    count: int  # M
    seed: int

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each piece; all but the last the same, and a whole number of them in a block."""
        piece = min(PIECE, block_rows(len(self.rows.names)))
        left = self.count % piece
        return np.array([piece] * (self.count // piece) + [left] * (left > 0))

    def pieces(self, replicates: np.ndarray) -> Iterator[tuple[RowBlock, np.ndarray]]:
        """Each piece of rows with its weights in the replicates, float64 [S, R]; one pass."""
        sizes, at = self.sizes, 0
        draws = [self._draws(int(r)) for r in replicates]
        for block in self.rows.blocks():
            for first in range(0, len(block.y), int(sizes[0])):
                rows = slice(first, first + int(sizes[at]))
                weights = None if block.weights is None else block.weights[rows]
                times = np.empty((len(replicates), int(sizes[at])))
                for s, r in enumerate(replicates):
                    times[s] = self._times(int(r), at, int(sizes[at]), int(draws[s][at]))
                part = RowBlock(block.x[:, rows], block.y[rows], weights)
                yield part, times if weights is None else times * weights
                at += 1

    def of_rows(self, replicate: int) -> np.ndarray:
        """How often each row is drawn in one replicate, float64 [M]."""
        draws = self._draws(replicate)
        parts = [
            self._times(replicate, at, int(size), int(draws[at]))
            for at, size in enumerate(self.sizes)
        ]
        return np.concatenate(parts).astype(np.float64)

    def _draws(self, replicate: int) -> np.ndarray:
        """How many of the M draws fall into each piece."""
        stream = np.random.Philox(key=self.seed, counter=[0, 0, replicate, 1])
        return np.random.Generator(stream).multinomial(self.count, self.sizes / self.count)

    def _times(self, replicate: int, piece: int, rows: int, draws: int) -> np.ndarray:
        """How often each row of a piece is drawn, [R]."""
        stream = np.random.Philox(key=self.seed, counter=[0, piece, replicate, 0])
        places = np.random.Generator(stream).integers(0, rows, draws, dtype=np.int32)
        return np.bincount(places, minlength=rows)
