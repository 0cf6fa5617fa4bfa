"""KL-LUCB: which arms are the best, for many bandits at once, by `init` and `step`.

Kaufmann and Kalyanakrishnan 2013, algorithm 1 with KL bounds. Pure NumPy in float64; a bandit's
arms never look at another's.

Letters: N bandits, A arms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xaijax_kernels.rules.bernoulli import exploration_rate, upper


@dataclass
class Arms:
    """What is known of the arms."""

    valid: np.ndarray  # bool [N, A]; the others are padding
    hits: np.ndarray  # int64 [N, A], draws that agreed
    draws: np.ndarray  # int64 [N, A]

    @classmethod
    def new(cls, valid: np.ndarray) -> Arms:
        """No draws yet."""
        return cls(valid, np.zeros(valid.shape, np.int64), np.zeros(valid.shape, np.int64))

    def take(self, rows: np.ndarray) -> Arms:
        """The bandits `rows`."""
        return Arms(self.valid[rows], self.hits[rows], self.draws[rows])

    def means(self) -> np.ndarray:
        """float64 [N, A]; -1 for arms without draws, -2 for padding, so that it is never best."""
        mean = np.where(self.draws > 0, self.hits / np.maximum(self.draws, 1), -1.0)
        return np.where(self.valid, mean, -2.0)


def top_arms(means: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The `wanted` [N] arms of largest mean; bool [N, A]. Of equal ones the last."""
    A = means.shape[1]
    order = np.argsort(means, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(A), order.shape), axis=1)
    return rank >= A - wanted[:, None]


@dataclass(frozen=True)
class KlLucb:
    """The best arms within `epsilon`, with chance 1 - `delta`."""

    epsilon: float
    delta: float
    batch: int  # draws of a pull
    first: int  # draws of the first pull of an arm: few, since most arms are soon out of it

    def init(self, valid: np.ndarray) -> np.ndarray:
        """The state: rounds t, int64 [N, 1], from 1."""
        return np.ones((len(valid), 1), np.int64)

    def step(
        self, state: np.ndarray, arms: Arms, wanted: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(the next state, draws int64 [N, A] that are wanted next, the best arms bool [N, A]).

        A bandit that wants no draws is done, and its best arms are the answer: as many as `wanted`,
        or all where there are no more.
        """
        count = arms.valid.sum(axis=1)
        contested = count > wanted
        fresh = arms.valid & (arms.draws == 0) & contested[:, None]
        means = arms.means()
        best = top_arms(means, np.minimum(wanted, count)) & arms.valid
        rate = exploration_rate(np.maximum(count, 1), state[:, 0], self.delta)[:, None]
        # One bound an arm: the lower one of the best, the upper one of the others.
        bound = upper(np.where(best, 1 - means, means).clip(0, 1), rate / np.maximum(arms.draws, 1))
        above = np.where(arms.valid & ~best, bound, -np.inf)
        below = np.where(best, 1 - bound, np.inf)
        u, l = above.argmax(axis=1), below.argmin(axis=1)
        rows = np.arange(len(u))
        open_ = above[rows, u] - below[rows, l] > self.epsilon
        open_ &= contested & ~fresh.any(axis=1)
        draws = np.where(fresh, self.first, 0)
        draws[rows[open_], u[open_]] = self.batch
        draws[rows[open_], l[open_]] = self.batch
        return state + open_[:, None], draws, best
