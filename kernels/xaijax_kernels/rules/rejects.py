"""Successive accepts and rejects: the best arms within a fixed budget, many bandits at once.

Bubeck, Wang and Viswanathan 2013, "Multiple identifications in multi-armed bandits" (SAR). In every
phase one arm with the clearest gap is accepted or rejected. There is no guarantee to choose: delta
and epsilon have no part in it.

Letters: N bandits, A arms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xaijax_kernels.rules.lucb import Arms


@dataclass(frozen=True)
class Rejects:
    """SAR with `budget` draws an arm on average."""

    budget: int

    def init(self, valid: np.ndarray) -> np.ndarray:
        """The state int64 [N, A + 1]: a column for the phase, then 1 alive, 2 accepted, 0 out."""
        phase = np.zeros((len(valid), 1), np.int64)
        return np.concatenate([phase, valid.astype(np.int64)], axis=1)

    def step(
        self, state: np.ndarray, arms: Arms, wanted: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(the next state, draws int64 [N, A] wanted next, the best arms bool [N, A])."""
        state = state.copy()
        phase, standing = state[:, 0], state[:, 1:]
        count = arms.valid.sum(axis=1)
        played = (phase > 0) & self._contested(standing, wanted)
        self._decide(standing, arms, played, wanted)
        going = self._contested(standing, wanted)
        standing[~going] = np.where(self._kept(standing[~going], wanted), 2, 0)
        phase += going
        level = self._level(count, phase)
        # At least one, since an arm may bring more draws along than its phase is due.
        due = np.maximum(level[:, None] - arms.draws, 1)
        return state, np.where(going[:, None] & (standing == 1), due, 0), standing == 2

    def _contested(self, standing: np.ndarray, wanted: int) -> np.ndarray:
        """Whether there are more arms alive than places left, and places left."""
        left = wanted - (standing == 2).sum(axis=1)
        return ((standing == 1).sum(axis=1) > left) & (left > 0)

    def _kept(self, standing: np.ndarray, wanted: int) -> np.ndarray:
        """At the end: the accepted arms, with those alive where places are left."""
        left = wanted - (standing == 2).sum(axis=1)
        return (standing == 2) | ((standing == 1) & (left > 0)[:, None])

    def _decide(self, standing: np.ndarray, arms: Arms, rows: np.ndarray, wanted: int) -> None:
        """Accept or reject the arm with the largest gap in the bandits `rows` bool [N]."""
        here = np.flatnonzero(rows)
        if not len(here):
            return
        alive = standing[here] == 1
        left = wanted - (standing[here] == 2).sum(axis=1)
        means = np.where(alive, arms.means()[here], -np.inf)
        order = np.argsort(-means, axis=1, kind="stable")
        sorted_ = np.take_along_axis(means, order, axis=1)
        at = np.arange(len(here))
        last_in, first_out = sorted_[at, left - 1], sorted_[at, left]
        place = np.arange(means.shape[1])
        is_in = place < left[:, None]
        with np.errstate(invalid="ignore"):
            gap = np.where(is_in, sorted_ - first_out[:, None], last_in[:, None] - sorted_)
        gap = np.where(np.isfinite(sorted_), gap, -np.inf)
        clearest = gap.argmax(axis=1)
        chosen = order[at, clearest]
        standing[here, chosen] = np.where(is_in[at, clearest], 2, 0)

    def _level(self, count: np.ndarray, phase: np.ndarray) -> np.ndarray:
        """Draws an arm that is alive has had by the end of the phase; int64 [N]."""
        K = np.maximum(count, 2)
        harmonic = np.cumsum(np.r_[0.0, 1 / np.arange(1, K.max(initial=2) + 1)])
        log_bar = 0.5 + harmonic[K] - 1
        left = np.maximum(K + 1 - phase, 1)
        return np.ceil((self.budget * K - K) / (log_bar * left)).astype(np.int64).clip(1)
