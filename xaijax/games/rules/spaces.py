"""The perturbation spaces that are built in; a new one is a class here, and in `SPACES`.

| space | a row of D(z given A) |
|---|---|
| row | a random row of the data; kept columns have x's own values |
| row_bin | a random row; a kept column stays where it is in x's bin, else a draw from the bin |
| flip | x; each free column takes one random row's value with chance p; kept: a draw from x's bin |
| joint | kept columns together from a random row that satisfies A, the rest from another row |
| conditional | a random row that satisfies A |

Letters: B donors, F columns, D listed draws, S shares.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from xaijax.games.rules.space import MOST_LISTED, Perturbation
from xaijax_kernels.rules.perturbed_rows import PerturbationSpace


class Row(Perturbation):
    """A random row; kept columns have x's own values."""

    NAME = "row"
    KEEPS_OWN = KEEPS_DONORS = True


class Conditional(Perturbation):
    """A random row that satisfies A."""

    NAME = "conditional"
    OF_ROWS = ASKS_DATA = True


class _InBins(Perturbation):
    """A kept column's value is drawn from x's bin, where bins have several values."""

    SHARED = True

    @cached_property
    def draws_in_bins(self) -> bool:
        """Whether a kept column's value is drawn, rather than x's own."""
        return bool(self.binned.any())


class RowBin(_InBins):
    """A random row; a kept column stays where it is in x's bin, else a draw from the bin."""

    NAME = "row_bin"
    KEEPS_DONORS = STAYS = True

    @property
    def finite(self) -> str | None:
        """ "table" where kept columns are drawn."""
        return "table" if self.draws_in_bins else "exact"


class Flip(_InBins):
    """x; each free column takes one random row's value with chance p."""

    NAME = "flip"

    @property
    def finite(self) -> str | None:
        """ "exact" where nothing is drawn and all masks of flips beside all donors are few."""
        few = self.rows_of_rule <= MOST_LISTED
        return "exact" if few and not self.draws_in_bins else "table"

    @property
    def rows_of_rule(self) -> int:
        """B 2^F."""
        return self.B << len(self.bins.columns)

    def space(self, search: str) -> PerturbationSpace:
        """What the kernel draws: every mask of flips, or each column's flip by chance."""
        masks = search == "exact"
        takes = None if masks else min(round(self.flip_probability * 2**32), 2**32 - 1)
        return replace(super().space(search), masks=masks, takes=takes)

    def _enumerated(self) -> tuple[np.ndarray, np.ndarray]:
        F, p = len(self.bins.columns), self.flip_probability
        size = np.bitwise_count(np.arange(1 << F, dtype=np.uint64)).astype(float)
        chance = p**size * (1 - p) ** (F - size)
        own = np.arange(self.B, dtype=np.int32)
        return np.tile(own, 1 << F), np.outer(chance, self.weights).ravel()


class Joint(Perturbation):
    """Kept columns together from a random row that satisfies A, the rest from another row."""

    NAME = "joint"
    OF_ROWS = True

    @property
    def finite(self) -> str | None:
        """ "exact" where pairs of donors are few."""
        return "exact" if self.rows_of_rule <= MOST_LISTED else None

    @property
    def rows_of_rule(self) -> int:
        """B^2."""
        return self.B**2

    @property
    def _most_rows(self) -> str:
        return f"{MOST_LISTED:,} ({math.isqrt(MOST_LISTED)} data rows, each beside each)"

    def space(self, search: str) -> PerturbationSpace:
        """What the kernel draws: kept columns of one donor, the others of another."""
        return PerturbationSpace(len(self.bins.columns), "donor", listed=True)

    def _enumerated(self) -> tuple[np.ndarray, np.ndarray]:
        # Draw j B + i: kept columns of donor j, the others of donor i.
        own = np.arange(self.B, dtype=np.int32)
        return np.tile(own, self.B), np.outer(self.weights, self.weights).ravel()

    def shares(self, search: str, donors: np.ndarray) -> np.ndarray:
        """Draws both of whose donors are of the share."""
        return super().shares(search, donors) & np.repeat(donors, self.B, axis=0)


SPACES = {kind.NAME: kind for kind in (Row, RowBin, Flip, Joint, Conditional)}
