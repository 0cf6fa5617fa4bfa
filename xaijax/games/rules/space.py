"""Perturbation spaces: the distribution D(z | A) of rows around x once rule A's columns are kept.

| space | a row of D(z | A) |
|---|---|
| row | a random row of the data; kept columns have x's own values |
| row_bin | a random row; a kept column stays where it is in x's bin, else a draw from the bin |
| flip | x; each free column takes one random row's value with chance p; kept: a draw from x's bin |
| joint | kept columns together from a random row that satisfies A, the rest from another row |
| conditional | a random row that satisfies A |

A new space is a class here, and in `SPACES`. In all spaces coverage is the weighted share of data
rows that satisfy A.

Letters: B donors, F columns, D listed draws, V bins, S shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from xaijax.core.errors import EnumerationLimitError
from xaijax.games.measure.replacement.base import Replacement
from xaijax.games.rules.bins import Bins
from xaijax_kernels.rules.perturbed_rows import PerturbationSpace, Pool, alias_table

MOST_LISTED = 1 << 16  # most draws of an exact average with more draws than donors


@dataclass(frozen=True)
class Perturbation:
    """A space over one pool of donors.

    A kind of space sets the attributes in capitals below, and overrides the methods that differ.
    """

    replacement: Replacement
    bins: Bins
    flip_probability: float
    table_rows: int  # draws of a table

    NAME: ClassVar[str]
    OF_ROWS: ClassVar[bool] = False  # kept columns come together, from a row that satisfies A
    ASKS_DATA: ClassVar[bool] = False  # its rows are unchanged data rows
    KEEPS_OWN: ClassVar[bool] = False  # kept columns have x's own values, in any bins
    KEEPS_DONORS: ClassVar[bool] = False  # a donor that satisfies A stays unchanged
    STAYS: ClassVar[bool] = False  # a donor's value in x's bin stays
    SHARED: ClassVar[bool] = False  # all rules could share one table of draws

    @property
    def B(self) -> int:
        """Donors."""
        return self.replacement.count

    @property
    def weights(self) -> np.ndarray:
        """Weights of the donors; float64 [B], sum 1."""
        return self.replacement.weights

    @cached_property
    def binned(self) -> np.ndarray:
        """Returns which columns have bins of several values; bool [F]."""
        return np.array(
            [
                col.edges is not None or col.interval is not None or len(col.members or ()) > 1
                for col in self.bins.columns
            ],
            bool,
        )

    @cached_property
    def draws_in_bins(self) -> bool:
        """Whether a kept column's value is drawn, rather than x's own."""
        return False

    @property
    def finite(self) -> str | None:
        """ "exact" if D(z | A) is a finite average, "table" if draws can be shared."""
        return "exact"

    @property
    def rows_of_rule(self) -> int:
        """Rows that an exact average is over."""
        return self.B

    def refuse_exact(self) -> None:
        """Raises EnumerationLimitError if an exact average is not available."""
        if self.finite == "exact":
            return
        if self.draws_in_bins:
            raise EnumerationLimitError(
                f"search='exact': perturbation={self.NAME!r} draws kept columns from their bins, "
                "one by one, so its average is no short list. Say search='table', "
                "perturbation='row', or bins=None."
            )
        raise EnumerationLimitError(
            f"search='exact': perturbation={self.NAME!r} averages over {self.rows_of_rule:,} rows "
            f"a rule, and at most {self._most_rows} are enumerated. Say search='kl-lucb'"
            f"{', search=' + repr('table') if self.SHARED else ''} or use fewer data rows."
        )

    @property
    def _most_rows(self) -> str:
        """Rows of a rule that are enumerated, for messages."""
        return f"{MOST_LISTED:,}"

    def refuse_table(self) -> None:
        """Raises if there is no table of draws for all rules."""
        if not self.SHARED:
            raise EnumerationLimitError(
                f"search='table' is for perturbation='row_bin' and 'flip'; {self.NAME!r} has no "
                "draws that all rules could share. Say search='exact' or 'kl-lucb'."
            )

    def needs_support(self) -> np.ndarray:
        """Columns in which x's bin must contain data; bool [F]."""
        F = len(self.bins.columns)
        if self.OF_ROWS:
            return np.ones(F, bool)
        return self.binned if self.draws_in_bins else np.zeros(F, bool)

    def ranges(self) -> np.ndarray:
        """Columns for which a rule may keep a range of bins, not only x's; bool [F]."""
        # Otherwise a range would be tested at x's own value only; and the tables for drawing values
        # by weight cover one bin each.
        alone = self.KEEPS_OWN or (self.draws_in_bins and self.space("draws").weighted)
        return np.array([col.edges is not None and not alone for col in self.bins.columns], bool)

    def space(self, search: str) -> PerturbationSpace:
        """The kernel's space; search: "exact", "table", or one that samples."""
        weighted = bool(np.ptp(self.weights) > 0)
        keeps = "bin" if self.draws_in_bins else "own"
        listed = search in ("exact", "table")
        F = len(self.bins.columns)
        return PerturbationSpace(F, keeps, stays=self.STAYS, weighted=weighted, listed=listed)

    def listed(self, search: str) -> tuple[np.ndarray, np.ndarray]:
        """(donor of each listed draw int32 [D], weights float64 [D] of sum 1)."""
        if search == "table":
            return self._in_turn(), np.full(self.table_rows, 1 / self.table_rows)
        if search == "exact":
            return self._enumerated()
        return np.arange(self.B, dtype=np.int32), self.weights  # a draw determines its donor

    def _enumerated(self) -> tuple[np.ndarray, np.ndarray]:
        """`listed` for an exact average."""
        return np.arange(self.B, dtype=np.int32), self.weights

    def shares(self, search: str, donors: np.ndarray) -> np.ndarray:
        """Returns which listed draws use only donors of each share; bool [D, S] from [B, S]."""
        return donors[self.listed(search)[0]]

    def _in_turn(self) -> np.ndarray:
        """Donors of a table: each occurs floor or ceil of (its weight x rows) times, in their
        order."""
        cumulative = np.cumsum(self.weights)
        at = (np.arange(self.table_rows) + 0.5) / self.table_rows
        places = np.searchsorted(cumulative / cumulative[-1], at, side="right")
        return np.minimum(places, self.B - 1).astype(np.int32)

    def pool(self, search: str, bins: np.ndarray) -> Pool:
        """The arrays of the kernel; bins int32 [B, F] of the donors."""
        F, B = bins.shape[1], self.B
        V = max((col.count for col in self.bins.columns), default=1)
        codes = self.replacement.for_loops
        per = codes.shape[1] // F
        members = np.argsort(bins, axis=0, kind="stable").T.astype(np.int32)
        sorted_ = np.take_along_axis(bins, members.T.astype(np.int64), axis=0).T  # [F, B]
        levels = np.arange(V)
        start = np.stack([np.searchsorted(col, levels) for col in sorted_]).astype(np.int32)
        count = np.stack([np.bincount(col, minlength=V) for col in sorted_]).astype(np.int32)
        chance = np.ones((F + 1, B), np.float32)
        alias = np.tile(np.arange(B, dtype=np.int32), (F + 1, 1))
        if self.space(search).weighted:
            chance[F], alias[F] = alias_table(self.weights)
            for f in range(F):
                weights = self.weights[members[f]]
                for v in np.flatnonzero(count[f]):
                    part = slice(start[f, v], start[f, v] + count[f, v])
                    chance[f, part], alias[f, part] = alias_table(weights[part])
                    alias[f, part] += start[f, v]
        donors = codes.reshape(B, F, per)
        listed = self.listed(search)[0]
        return Pool(donors, listed, bins, members, start, count, chance, alias)

    def with_bins(self, bins: Bins) -> Perturbation:
        """The same space with other bins."""
        return replace(self, bins=bins)

    def of_donors(self, replacement: Replacement) -> Perturbation:
        """The same space with the same donors in other codes."""
        return replace(self, replacement=replace(replacement, weights=self.weights))

    def weighted_by(self, weights: np.ndarray) -> Perturbation:
        """The same space with other weights of the donors."""
        return replace(self, replacement=replace(self.replacement, weights=weights))


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
    """A random row; a kept column stays if it is in x's bin, otherwise it is drawn from the bin."""

    NAME = "row_bin"
    KEEPS_DONORS = STAYS = True

    @property
    def finite(self) -> str | None:
        """ "table" if kept columns are drawn."""
        return "table" if self.draws_in_bins else "exact"


class Flip(_InBins):
    """x; each free column takes one random row's value with chance p."""

    NAME = "flip"

    @property
    def finite(self) -> str | None:
        """ "exact" if nothing is drawn and all masks of flips with all donors are few, else
        "table".
        """
        few = self.rows_of_rule <= MOST_LISTED
        return "exact" if few and not self.draws_in_bins else "table"

    @property
    def rows_of_rule(self) -> int:
        """B 2^F."""
        return self.B << len(self.bins.columns)

    def space(self, search: str) -> PerturbationSpace:
        """The kernel's space: every mask of flips, or each column flipped at random."""
        masks = search == "exact"
        takes = None if masks else min(round(self.flip_probability * 2**32), 2**32 - 1)
        return replace(super().space(search), masks=masks, takes=takes)

    def _enumerated(self) -> tuple[np.ndarray, np.ndarray]:
        F, p = len(self.bins.columns), self.flip_probability
        size = np.bitwise_count(np.arange(1 << F, dtype=np.uint64)).astype(float)
        chance = p**size * (1 - p) ** (F - size)
        donors = np.arange(self.B, dtype=np.int32)
        return np.tile(donors, 1 << F), np.outer(chance, self.weights).ravel()


class Joint(Perturbation):
    """Kept columns together from a random row that satisfies A, the rest from another row."""

    NAME = "joint"
    OF_ROWS = True

    @property
    def finite(self) -> str | None:
        """ "exact" if pairs of donors are few."""
        return "exact" if self.rows_of_rule <= MOST_LISTED else None

    @property
    def rows_of_rule(self) -> int:
        """B^2."""
        return self.B**2

    @property
    def _most_rows(self) -> str:
        return f"{MOST_LISTED:,} ({math.isqrt(MOST_LISTED)} data rows, each with each)"

    def space(self, search: str) -> PerturbationSpace:
        """The kernel's space: kept columns of one donor, the others of another."""
        return PerturbationSpace(len(self.bins.columns), "donor", listed=True)

    def _enumerated(self) -> tuple[np.ndarray, np.ndarray]:
        # Draw j B + i: kept columns of donor j, the others of donor i.
        donors = np.arange(self.B, dtype=np.int32)
        return np.tile(donors, self.B), np.outer(self.weights, self.weights).ravel()

    def shares(self, search: str, donors: np.ndarray) -> np.ndarray:
        """Draws whose donors both belong to the share."""
        return super().shares(search, donors) & np.repeat(donors, self.B, axis=0)


SPACES = {kind.NAME: kind for kind in (Row, RowBin, Flip, Joint, Conditional)}
