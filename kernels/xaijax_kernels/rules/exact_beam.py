"""The beam search where precisions are known: one question for all candidates of a size.

A rule is accepted where its precision reaches the threshold. All candidates are looked at, not only
those that are kept, so no accepted rule of a size is overlooked.

Letters: n instances, W kept rules, F columns, A = W F candidates, T accepted rules remembered.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from xaijax_kernels.rules.beam import Cover, Propose, first_best


@dataclass
class ExactBeamState:
    """What is carried from size to size; every array begins with the axis n."""

    row: np.ndarray  # int64 [n], the instance
    allowed: np.ndarray  # bool [n, F]
    rules: np.ndarray  # bool [n, A, F], candidates
    valid: np.ndarray  # bool [n, A]; none: done
    cover: np.ndarray  # [n, A]
    found: np.ndarray  # bool [n, T, F], accepted rules, best first
    found_cover: np.ndarray  # [n, T], -1: none
    found_precision: np.ndarray  # [n, T]
    lead: np.ndarray  # bool [n, F], of all rules the one of highest precision
    lead_cover: np.ndarray  # [n]
    lead_precision: np.ndarray  # [n], -1: none yet
    size: np.ndarray  # int64 [n]
    asked: np.ndarray  # int64 [n], rules

    def take(self, rows: np.ndarray) -> ExactBeamState:
        """The instances `rows`."""
        return ExactBeamState(*(getattr(self, f.name)[rows] for f in fields(self)))

    @property
    def done(self) -> np.ndarray:
        """bool [n]."""
        return ~self.valid.any(axis=1)


@dataclass(frozen=True)
class ExactBeam:
    """Beam search by known precisions."""

    propose: Propose
    cover: Cover
    threshold: float
    width: int  # W
    levels: int  # predicates at most
    remembered: int = 1  # T

    def init(self, rows: np.ndarray, allowed: np.ndarray) -> ExactBeamState:
        """Instances `rows` int [n] with the empty rule for a candidate; allowed: bool [n, F]."""
        n, F = allowed.shape
        A, T = self.width * F, self.remembered
        valid = np.zeros((n, A), bool)
        valid[:, 0] = True
        cover = np.zeros((n, A))
        cover[:, :1] = self.cover(np.asarray(rows), np.zeros((n, 1, F), bool))
        rules, none = np.zeros((n, A, F), bool), np.zeros((n, F), bool)
        found = np.zeros((n, T, F), bool)
        below, zero = np.full((n, T), -1.0), np.zeros(n, np.int64)
        lead = (none, np.zeros(n), np.full(n, -1.0))
        known = (found, below, below.copy())
        return ExactBeamState(
            np.asarray(rows), allowed, rules, valid, cover, *known, *lead, zero, zero.copy()
        )

    def step(self, s: ExactBeamState, precision: np.ndarray) -> None:
        """Take the precisions float64 [n, A] of the valid candidates, and propose the next."""
        s.asked += s.valid.sum(axis=1)
        self._lead(s, precision)
        holds = s.valid & (precision >= self.threshold)
        self._find(s, holds, precision)
        # What holds need not be refined: whatever is added covers less.
        open_ = s.valid & ~holds
        worth = np.where(open_, precision, -np.inf)
        order = np.lexsort((-np.where(open_, s.cover, 0), -worth), axis=1)[:, : self.width]
        has = np.take_along_axis(open_, order, axis=1)
        has &= ((s.size < self.levels) & (s.found_cover[:, 0] < 1))[:, None]
        kept = np.take_along_axis(s.rules, order[:, :, None], axis=1)
        rules, valid = self.propose(kept, has, s.allowed)
        cover = self.cover(s.row, rules)
        s.rules, s.cover = rules, cover
        s.valid = valid & (cover > s.found_cover[:, :1])
        s.size += 1

    def _lead(self, s: ExactBeamState, precision: np.ndarray) -> None:
        """The most precise rule so far, for the case that none holds."""
        at = np.arange(len(s.row))
        chosen = first_best(s.valid, precision, s.cover, s.rules)
        better = s.valid.any(axis=1) & (precision[at, chosen] > s.lead_precision)
        s.lead[better] = s.rules[at, chosen][better]
        s.lead_cover[better] = s.cover[at, chosen][better]
        s.lead_precision[better] = precision[at, chosen][better]

    def _find(self, s: ExactBeamState, holds: np.ndarray, precision: np.ndarray) -> None:
        """Put accepted rules among those remembered, the best first."""
        left, at = holds.copy(), np.arange(len(s.row))
        for _ in range(self.remembered):
            some = left.any(axis=1)
            if not some.any():
                return
            chosen = first_best(left, s.cover, precision, s.rules)
            cover, own = s.cover[at, chosen], precision[at, chosen]
            for t in range(self.remembered):
                first = some & (cover > s.found_cover[:, t])
                for later in range(self.remembered - 1, t, -1):
                    s.found[first, later] = s.found[first, later - 1]
                    s.found_cover[first, later] = s.found_cover[first, later - 1]
                    s.found_precision[first, later] = s.found_precision[first, later - 1]
                s.found[first, t] = s.rules[at, chosen][first]
                s.found_cover[first, t], s.found_precision[first, t] = cover[first], own[first]
                some = some & ~first
            left[at, chosen] = False
