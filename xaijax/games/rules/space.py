"""Perturbation spaces: D(z | A), which rows stand beside x once the columns of rule A are kept.

| space | a row of D(z given A) |
|---|---|
| row | a random row of the data; kept columns have x's own values |
| row_bin | a random row; a kept column stays where it is in x's bin, else a draw from the bin |
| flip | x; each free column takes one random row's value with chance p; kept: a draw from x's bin |
| joint | kept columns together from a random row that satisfies A, the rest from another row |
| conditional | a random row that satisfies A |

Coverage is in all of them the weighted share of data rows that satisfy A.

Letters: B donors, F columns, D listed draws, V bins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from xaijax.core.errors import EnumerationLimitError
from xaijax.games.measure.replacement import Replacement
from xaijax.games.rules.bins import Bins
from xaijax_kernels.rules.perturbed_rows import Pool, Space, alias_table

SPACES = ("row", "row_bin", "flip", "joint", "conditional")
MOST_LISTED = 1 << 16  # draws of an exact average that has more draws than donors


@dataclass(frozen=True)
class Perturbation:
    """One space over one pool of donors."""

    kind: str  # of SPACES
    replacement: Replacement
    bins: Bins
    flip_probability: float
    table_rows: int  # draws of a table

    @property
    def B(self) -> int:
        """Donors."""
        return len(self.replacement.codes)

    @property
    def weights(self) -> np.ndarray:
        """Of the donors; float64 [B], sum 1."""
        return self.replacement.weights

    @property
    def binned(self) -> np.ndarray:
        """Which columns have bins of several values; bool [F]."""
        return np.array(
            [
                one.edges is not None or one.interval is not None or len(one.members or ()) > 1
                for one in self.bins.columns
            ],
            bool,
        )

    @property
    def draws_in_bins(self) -> bool:
        """Whether a kept column's value is drawn, rather than x's own."""
        return self.kind in ("row_bin", "flip") and bool(self.binned.any())

    @property
    def finite(self) -> str | None:
        """ "exact" where D(z | A) is a finite average, "table" where draws can be shared."""
        if self.kind in ("row", "conditional"):
            return "exact"
        if self.kind == "joint":
            return "exact" if self.B**2 <= MOST_LISTED else None
        if self.draws_in_bins:
            return "table"
        if self.kind == "row_bin":
            return "exact"
        return "exact" if self._flips <= MOST_LISTED else "table"

    @property
    def _flips(self) -> int:
        return self.B << len(self.bins.columns)

    def refuse_exact(self) -> None:
        """Raise EnumerationLimitError where an exact average is asked for and there is none."""
        if self.finite == "exact":
            return
        if self.draws_in_bins:
            raise EnumerationLimitError(
                f"search='exact': perturbation={self.kind!r} draws kept columns from their bins, "
                "one by one, so its average is no short list. Say search='table', "
                "perturbation='row', or bins=None."
            )
        joint = self.kind == "joint"
        count = self.B**2 if joint else self._flips
        most = f" ({math.isqrt(MOST_LISTED)} data rows, each beside each)" if joint else ""
        raise EnumerationLimitError(
            f"search='exact': perturbation={self.kind!r} averages over {count:,} rows a rule, and "
            f"at most {MOST_LISTED:,} are enumerated{most}. Say search='kl-lucb'"
            f"{', search=' + repr('table') if self.kind == 'flip' else ''} or use fewer data rows."
        )

    def refuse_table(self) -> None:
        """Raise where there is no table of draws that all rules could share."""
        if self.kind not in ("row_bin", "flip"):
            raise EnumerationLimitError(
                f"search='table' is for perturbation='row_bin' and 'flip'; {self.kind!r} has no "
                "draws that all rules could share. Say search='exact' or 'kl-lucb'."
            )

    def needs_support(self) -> np.ndarray:
        """Columns in whose bin of x there must be data; bool [F]."""
        if self.kind in ("joint", "conditional"):
            return np.ones(len(self.bins.columns), bool)
        return self.binned if self.draws_in_bins else np.zeros(len(self.bins.columns), bool)

    def space(self, search: str) -> Space:
        """What the kernel draws; search: "exact", "table", or one that samples."""
        F = len(self.bins.columns)
        weighted = bool(np.ptp(self.weights) > 0)
        keeps = "bin" if self.draws_in_bins else "own"
        if self.kind == "joint":
            return Space(F, "donor", listed=True)
        one = Space(F, keeps, stays=self.kind == "row_bin", weighted=weighted)
        if self.kind == "flip":
            takes = min(round(self.flip_probability * 2**32), 2**32 - 1)
            masks = search == "exact"
            one = replace(one, masks=masks, takes=None if masks else takes)
        return replace(one, listed=search in ("exact", "table"))

    def listed(self, search: str) -> tuple[np.ndarray, np.ndarray]:
        """(donor of each listed draw int32 [D], weights float64 [D] of sum 1)."""
        own = np.arange(self.B, dtype=np.int32)
        if search == "table":
            return self._in_turn(), np.full(self.table_rows, 1 / self.table_rows)
        if self.kind == "flip":
            F, p = len(self.bins.columns), self.flip_probability
            size = np.bitwise_count(np.arange(1 << F, dtype=np.uint64)).astype(float)
            chance = p**size * (1 - p) ** (F - size)
            return np.tile(own, 1 << F), np.outer(chance, self.weights).ravel()
        if self.kind == "joint":  # draw j B + i: kept columns of donor j, the others of donor i
            return np.tile(own, self.B), np.outer(self.weights, self.weights).ravel()
        return own, self.weights

    def shares(self, search: str, donors: np.ndarray) -> np.ndarray:
        """Which listed draws are made of a share of the donors alone; bool [D, S] of [B, S]."""
        of_draws = donors[self.listed(search)[0]]
        if self.kind == "joint" and search == "exact":
            return of_draws & np.repeat(donors, self.B, axis=0)
        return of_draws

    def _in_turn(self) -> np.ndarray:
        """Donors of a table: each floor or ceil of (its weight x rows) times, in their order."""
        ends = np.cumsum(self.weights)
        at = (np.arange(self.table_rows) + 0.5) / self.table_rows
        found = np.searchsorted(ends / ends[-1], at, side="right")
        return np.minimum(found, self.B - 1).astype(np.int32)

    def pool(self, search: str, bins: np.ndarray) -> Pool:
        """The arrays of the kernel; bins int32 [B, F] of the donors."""
        F, B = bins.shape[1], self.B
        V = max((one.count for one in self.bins.columns), default=1)
        codes = self.replacement.codes
        per = codes.shape[1] // F
        members = np.argsort(bins, axis=0, kind="stable").T.astype(np.int32)
        sorted_ = np.take_along_axis(bins, members.T.astype(np.int64), axis=0).T  # [F, B]
        levels = np.arange(V)
        start = np.stack([np.searchsorted(one, levels) for one in sorted_]).astype(np.int32)
        count = np.stack([np.bincount(one, minlength=V) for one in sorted_]).astype(np.int32)
        chance = np.ones((F + 1, B), np.float32)
        alias = np.tile(np.arange(B, dtype=np.int32), (F + 1, 1))
        if self.space(search).weighted:
            chance[F], alias[F] = alias_table(self.weights)
            for f in range(F):
                own = self.weights[members[f]]
                for v in np.flatnonzero(count[f]):
                    part = slice(start[f, v], start[f, v] + count[f, v])
                    chance[f, part], alias[f, part] = alias_table(own[part])
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
