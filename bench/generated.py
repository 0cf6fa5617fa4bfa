"""A table of generated rows, chunk by chunk, whose AEC is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Generated:
    """Columns x_j = s_j (l_j h + e_j), with one hidden cause h and noises e_j, all standard normal.

    y is h + e, or whether that is positive. Every pass makes the same chunks from their numbers.
    """

    rows: int
    columns: int
    labels: bool
    chunk: int = 1 << 17
    passes: int = field(default=0, init=False)

    @property
    def loadings(self) -> np.ndarray:
        """l [columns], from 0.1 to 1.5."""
        return np.linspace(0.1, 1.5, self.columns)

    @property
    def scales(self) -> np.ndarray:
        """s [columns], over one order of magnitude."""
        return np.logspace(0, 1, self.columns)[::-1]

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        self.passes += 1
        for number, first in enumerate(range(0, self.rows, self.chunk)):
            size = min(self.chunk, self.rows - first)
            rng = np.random.default_rng([17, number])
            hidden = rng.standard_normal(size, dtype=np.float32)
            X = rng.standard_normal((self.columns, size), dtype=np.float32)
            X += self.loadings.astype(np.float32)[:, None] * hidden
            X *= self.scales.astype(np.float32)[:, None]
            y = hidden + rng.standard_normal(size, dtype=np.float32)
            yield X.T, (y > 0 if self.labels else y)

    def effects(self) -> np.ndarray:
        """Of infinitely many rows of a regression, [columns]: cov(x_z, x_i) = s_z s_i l_z l_i."""
        l, s = self.loadings, self.scales
        covariance = np.outer(s * l, s * l) + np.diag(s**2)
        slopes = covariance / np.diagonal(covariance)
        sums = slopes.sum(axis=0) - 1
        return s * l / np.diagonal(covariance) * (sums.sum() - sums)
