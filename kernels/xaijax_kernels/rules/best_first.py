"""Finds the optimum over all rules: best-first search by coverage, for many instances at once.

Coverage only falls as predicates are added, so expanding the rule of highest coverage visits rules
in the order of their coverage. The first that reaches the threshold has the highest coverage of
all. Each rule is made once: a child adds a column after its parent's last. Rules that cover less
than an accepted one are pruned.

Letters: n instances, F columns, Q rules waiting, m rules evaluated in a round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xaijax_kernels.rules.beam import Cover, SearchState, first_best, lead


@dataclass
class BestFirstState(SearchState):
    """State carried from round to round; every array begins with the axis n."""

    row: np.ndarray  # int64 [n], the instance
    allowed: np.ndarray  # bool [n, F]
    waiting: np.ndarray  # bool [n, Q, F]
    waits: np.ndarray  # [n, Q], coverage of waiting rules, -1: empty
    asked_rules: np.ndarray  # bool [n, m, F], of this round
    asked_cover: np.ndarray  # [n, m], -1: none
    best: np.ndarray  # bool [n, F], the best accepted rule
    best_cover: np.ndarray  # [n], -1: none yet
    best_precision: np.ndarray  # [n]
    lead: np.ndarray  # bool [n, F], of all rules the one of highest precision
    lead_cover: np.ndarray  # [n]
    lead_precision: np.ndarray  # [n], -1: none yet
    asked: np.ndarray  # int64 [n], rules

    @property
    def done(self) -> np.ndarray:
        """bool [n]."""
        return (self.asked_cover < 0).all(axis=1)


@dataclass(frozen=True)
class BestFirst:
    """Best-first search by coverage."""

    cover: Cover
    threshold: float
    levels: int  # predicates at most
    each: int  # m

    def init(self, rows: np.ndarray, allowed: np.ndarray) -> BestFirstState:
        """Instances `rows` int [n], the empty rule first; allowed: bool [n, F]."""
        n, F = allowed.shape
        none = np.zeros((n, F), bool)
        first_cover = np.full((n, self.each), -1.0)
        first_cover[:, :1] = self.cover(np.asarray(rows), none[:, None])
        return BestFirstState(
            np.asarray(rows),
            allowed,
            np.zeros((n, 0, F), bool),
            np.zeros((n, 0)),
            np.zeros((n, self.each, F), bool),
            first_cover,
            none,
            np.full(n, -1.0),
            np.full(n, -1.0),
            none.copy(),
            np.zeros(n),
            np.full(n, -1.0),
            np.zeros(n, np.int64),
        )

    def step(self, s: BestFirstState, precision: np.ndarray) -> None:
        """Takes the precisions float64 [n, m] of this round's rules, and chooses the next ones."""
        at = np.arange(len(s.row))
        real = s.asked_cover >= 0
        s.asked += real.sum(axis=1)
        lead(s, real, precision, s.asked_cover, s.asked_rules)
        holds = real & (precision >= self.threshold)
        # The best of this round and of earlier ones, by the same order of preference.
        cover = np.concatenate([s.best_cover[:, None], s.asked_cover], axis=1)
        precisions = np.concatenate([s.best_precision[:, None], precision], axis=1)
        rules = np.concatenate([s.best[:, None], s.asked_rules], axis=1)
        among = np.concatenate([s.best_cover[:, None] >= 0, holds], axis=1)
        chosen = first_best(among, cover, precisions, rules)
        s.best = np.where(among.any(axis=1)[:, None], rules[at, chosen], s.best)
        s.best_cover = np.where(among.any(axis=1), cover[at, chosen], s.best_cover)
        s.best_precision = np.where(among.any(axis=1), precisions[at, chosen], s.best_precision)
        self._push(s, real)
        self._pop(s)

    def _push(self, s: BestFirstState, open_: np.ndarray) -> None:
        """Adds the children of this round's rules: one more column after the last.

        Accepted rules have children too: one that covers as much may be more precise.
        """
        n, m, F = s.asked_rules.shape
        last = np.where(s.asked_rules, np.arange(F), -1).max(axis=2)  # [n, m]
        later = np.arange(F) > last[:, :, None]
        small = s.asked_rules.sum(axis=2) < self.levels
        valid = later & (open_ & small)[:, :, None] & s.allowed[:, None]
        children = (s.asked_rules[:, :, None] | np.eye(F, dtype=bool)).reshape(n, m * F, F)
        cover = np.where(valid.reshape(n, -1), self.cover(s.row, children), -1.0)
        s.waiting = np.concatenate([s.waiting, children], axis=1)
        s.waits = np.concatenate([s.waits, cover], axis=1)

    def _pop(self, s: BestFirstState) -> None:
        """Removes and returns the waiting rules of highest coverage, and drops those below an
        accepted rule."""
        s.waits = np.where(s.waits < s.best_cover[:, None], -1.0, s.waits)
        order = np.argsort(-s.waits, axis=1, kind="stable")
        used = int((s.waits >= 0).sum(axis=1).max(initial=0))
        order = order[:, : max(used, self.each)]
        waiting = np.take_along_axis(s.waiting, order[:, :, None], axis=1)
        waits = np.take_along_axis(s.waits, order, axis=1)
        short = self.each - waits.shape[1]
        if short > 0:
            waiting = np.pad(waiting, ((0, 0), (0, short), (0, 0)))
            waits = np.pad(waits, ((0, 0), (0, short)), constant_values=-1.0)
        s.asked_rules, s.asked_cover = waiting[:, : self.each], waits[:, : self.each]
        s.waiting, s.waits = waiting[:, self.each :], waits[:, self.each :]
