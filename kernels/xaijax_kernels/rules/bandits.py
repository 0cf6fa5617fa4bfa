"""Bernoulli bandits: bounds on a probability, the best arms, and accepted rules.

The bounds are by the Kullback-Leibler divergence (Kaufmann and Kalyanakrishnan 2013, "Information
complexity in bandit subset selection"): with n draws of mean p and a rate beta, the probability
lies between `lower` and `upper` at level beta / n. `KlLucb` and `Rejects` find the best arms of
many bandits at once, by `init` and `step`; bandits are independent of one another. Everything is
NumPy in float64.

Letters: N bandits, A arms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# KL-LUCB's constant for alpha = 1.1:
# 2 e + 1 + e / (alpha - 1) + (e + 1) / (alpha - 1)^2 = 405.4476, rounded up.
EXPLORATION = 405.5
ALPHA = 1.1
_STEPS = 7  # Newton steps; the test compares with bisection over all p and levels that occur


def upper(p: Any, level: Any) -> np.ndarray:
    """The largest q >= p with KL(p, q) <= level; arrays of probabilities and of levels >= 0.

    Newton's method in the log-odds y of q. KL is convex in y with slope q - p, and the start lies
    above the root, so every iterate does too: the result errs outwards, by rounding only.
    """
    p, level = np.broadcast_arrays(np.asarray(p, np.float64), np.asarray(level, np.float64))
    inside = (p > 0) & (p < 1) & (level > 0)
    s = np.where(inside, p, 0.5)
    L = np.where(inside, level, 0.5)
    entropy = -s * np.log(s) - (1 - s) * np.log1p(-s)
    # Three bounds from above: Pinsker's, (q - p)^2 <= 2 q KL, and (1 - p) y <= KL + entropy.
    q = np.minimum(s + np.sqrt(L / 2), s + L + np.sqrt(L * (L + 2 * s)))
    q = np.minimum(q, 1 - 2.0**-53)
    y = np.minimum(np.log(q) - np.log1p(-q), (L + entropy) / (1 - s))
    for _ in range(_STEPS):
        small = np.exp(-np.abs(y))
        q = np.where(y > 0, 1.0, small) / (1 + small)
        # p softplus(-y) + (1 - p) softplus(y), minus the entropy
        gap = np.log1p(small) + np.where(y > 0, (1 - s) * y, -s * y) - entropy - L
        y = y - np.maximum(gap, 0.0) / np.maximum(q - s, 1e-300)
    small = np.exp(-np.abs(y))
    q = np.where(y > 0, 1.0, small) / (1 + small)
    return np.where(inside, np.maximum(q, p), np.where(p <= 0, -np.expm1(-level), p))


def lower(p: Any, level: Any) -> np.ndarray:
    """The smallest q <= p with KL(p, q) <= level."""
    return 1 - upper(1 - np.asarray(p, np.float64), level)


def exploration_rate(arms: Any, rounds: Any, delta: float) -> np.ndarray:
    """KL-LUCB's rate a + ln a, a = ln(405.5 n t^1.1 / delta), of n arms in round t = 1, 2, ..."""
    a = np.log(EXPLORATION * np.asarray(arms, np.float64) / delta) + ALPHA * np.log(rounds)
    return a + np.log(a)


def widening_rate(candidate: Any, look: Any, delta: float) -> np.ndarray:
    """ln(1 / share) of look t = 1, 2, ... at candidate c = 1, 2, ... of one instance.

    share = delta a_c a_t with a_i = 6 / (pi i)^2, which sum to 1. Given the history before
    candidate c, its draws are independent, and their number at look t is fixed. The bound at that
    look therefore fails with probability at most its share, and any look at any candidate with at
    most delta.
    """
    i = np.asarray(candidate, np.float64) * np.asarray(look, np.float64)
    return np.log(1 / delta) + 2 * np.log(np.pi**2 / 6 * i)


def validation_rate(beam: int, features: int, delta: float) -> float:
    """ln((1 + (W - 1) F) / delta): the rate at which a kept rule is validated."""
    return float(np.log((1 + (beam - 1) * features) / delta))


@dataclass
class Arms:
    """Counts of draws and of hits for each arm."""

    valid: np.ndarray  # bool [N, A]; the others are padding
    hits: np.ndarray  # int64 [N, A], draws that agreed
    draws: np.ndarray  # int64 [N, A]

    @classmethod
    def new(cls, valid: np.ndarray) -> Arms:
        """Arms without draws."""
        return cls(valid, np.zeros(valid.shape, np.int64), np.zeros(valid.shape, np.int64))

    def take(self, rows: np.ndarray) -> Arms:
        """The bandits `rows`."""
        return Arms(self.valid[rows], self.hits[rows], self.draws[rows])

    def means(self) -> np.ndarray:
        """Means float64 [N, A]; -1 for arms without draws, -2 for padding, so that it is never
        best."""
        mean = np.where(self.draws > 0, self.hits / np.maximum(self.draws, 1), -1.0)
        return np.where(self.valid, mean, -2.0)


def top_arms(means: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The `wanted` [N] arms of largest mean; bool [N, A]. The last of equal arms is taken."""
    A = means.shape[1]
    order = np.argsort(means, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(A), order.shape), axis=1)
    return rank >= A - wanted[:, None]


@dataclass(frozen=True)
class KlLucb:
    """Finds the best arms within `epsilon`, with probability 1 - `delta`: algorithm 1 with KL
    bounds."""

    epsilon: float
    delta: float
    batch: int  # draws of a pull
    first: int  # draws of the first pull of an arm: few, since most arms are soon eliminated

    def init(self, valid: np.ndarray) -> np.ndarray:
        """The state: rounds t, int64 [N, 1], from 1."""
        return np.ones((len(valid), 1), np.int64)

    def step(
        self, state: np.ndarray, arms: Arms, wanted: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(the next state, requested draws int64 [N, A], the best arms bool [N, A]).

        A bandit that requests no draws is done, and its best arms are the result: `wanted` arms, or
        all if there are fewer.
        """
        count = arms.valid.sum(axis=1)
        contested = count > wanted
        fresh = arms.valid & (arms.draws == 0) & contested[:, None]
        means = arms.means()
        best = top_arms(means, np.minimum(wanted, count)) & arms.valid
        rate = exploration_rate(np.maximum(count, 1), state[:, 0], self.delta)[:, None]
        # One bound per arm: lower for the best arms, upper for the others.
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


@dataclass(frozen=True)
class Rejects:
    """Successive accepts and rejects (SAR) with `budget` draws per arm on average.

    Bubeck, Wang and Viswanathan 2013, "Multiple identifications in multi-armed bandits". In every
    phase the arm with the clearest gap is accepted or rejected. It gives no guarantee: delta and
    epsilon are not used.
    """

    budget: int

    def init(self, valid: np.ndarray) -> np.ndarray:
        """The state int64 [N, A + 1]: a column for the phase, then for each arm 1 alive, 2
        accepted, 0 rejected."""
        phase = np.zeros((len(valid), 1), np.int64)
        return np.concatenate([phase, valid.astype(np.int64)], axis=1)

    def step(
        self, state: np.ndarray, arms: Arms, wanted: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(the next state, requested draws int64 [N, A], the best arms bool [N, A])."""
        state = state.copy()
        phase, standing = state[:, 0], state[:, 1:]
        count = arms.valid.sum(axis=1)
        played = (phase > 0) & self._contested(standing, wanted)
        self._decide(standing, arms, played, wanted)
        going = self._contested(standing, wanted)
        standing[~going] = np.where(self._kept(standing[~going], wanted), 2, 0)
        phase += going
        level = self._level(count, phase)
        # At least one, since an arm may already have more draws than its phase requires.
        due = np.maximum(level[:, None] - arms.draws, 1)
        return state, np.where(going[:, None] & (standing == 1), due, 0), standing == 2

    def _contested(self, standing: np.ndarray, wanted: int) -> np.ndarray:
        """Whether places are left, and more arms are alive than that."""
        left = wanted - (standing == 2).sum(axis=1)
        return ((standing == 1).sum(axis=1) > left) & (left > 0)

    def _kept(self, standing: np.ndarray, wanted: int) -> np.ndarray:
        """The accepted arms at the end, and those alive if places are left."""
        left = wanted - (standing == 2).sum(axis=1)
        return (standing == 2) | ((standing == 1) & (left > 0)[:, None])

    def _decide(self, standing: np.ndarray, arms: Arms, rows: np.ndarray, wanted: int) -> None:
        """Accepts or rejects the arm with the largest gap in the bandits `rows` bool [N]."""
        active = np.flatnonzero(rows)
        if not len(active):
            return
        alive = standing[active] == 1
        left = wanted - (standing[active] == 2).sum(axis=1)
        means = np.where(alive, arms.means()[active], -np.inf)
        order = np.argsort(-means, axis=1, kind="stable")
        sorted_ = np.take_along_axis(means, order, axis=1)
        at = np.arange(len(active))
        last_in, first_out = sorted_[at, left - 1], sorted_[at, left]
        place = np.arange(means.shape[1])
        is_in = place < left[:, None]
        with np.errstate(invalid="ignore"):
            gap = np.where(is_in, sorted_ - first_out[:, None], last_in[:, None] - sorted_)
        gap = np.where(np.isfinite(sorted_), gap, -np.inf)
        clearest = gap.argmax(axis=1)
        chosen = order[at, clearest]
        standing[active, chosen] = np.where(is_in[at, clearest], 2, 0)

    def _level(self, count: np.ndarray, phase: np.ndarray) -> np.ndarray:
        """Draws of each live arm by the end of the phase; int64 [N]."""
        K = np.maximum(count, 2)
        harmonic = np.cumsum(np.r_[0.0, 1 / np.arange(1, K.max(initial=2) + 1)])
        log_bar = 0.5 + harmonic[K] - 1
        left = np.maximum(K + 1 - phase, 1)
        return np.ceil((self.budget * K - K) / (log_bar * left)).astype(np.int64).clip(1)


@dataclass(frozen=True)
class Validation:
    """Decides which rules are valid, the empty rule included.

    A rule is undecided while its mean and its bounds disagree: (mean >= tau and lower <= tau -
    stop) or (mean < tau and upper >= tau + stop). It is accepted where mean >= tau and lower > tau
    - stop. An accepted rule therefore has a precision of at least tau - stop with probability 1 -
    delta.
    """

    threshold: float
    stop_epsilon: float
    batch: int  # draws of a pull

    def step(self, arms: Arms, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(requested draws int64 [N, A], accepted bool [N, A], lower bounds [N, A]).

        rate: [N] or [N, 1], of the bounds. Arms that request no draws are decided.
        """
        level = np.asarray(rate).reshape(-1, 1) / np.maximum(arms.draws, 1)
        means = arms.means().clip(0)
        floor = np.where(arms.draws > 0, lower(means, level), 0.0)
        high = means >= self.threshold
        sure = np.where(high, floor > self.threshold - self.stop_epsilon, True)
        unsure_low = ~high
        if self.threshold + self.stop_epsilon <= 1:
            unsure_low &= upper(means, level) >= self.threshold + self.stop_epsilon
        else:  # no lower bound reaches this
            unsure_low &= False
        undecided = arms.valid & ((arms.draws == 0) | (high & ~sure) | unsure_low)
        accepted = arms.valid & (arms.draws > 0) & high & sure
        return np.where(undecided, self.batch, 0), accepted & ~undecided, floor
