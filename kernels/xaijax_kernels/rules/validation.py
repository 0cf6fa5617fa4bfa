"""Candidate validation: whether a rule's precision is above the threshold, by draws of its own.

A rule is undecided while its mean and its bounds disagree: (mean >= tau and lower <= tau - stop) or
(mean < tau and upper >= tau + stop). It is accepted where mean >= tau and lower > tau - stop, so
what is promised is a precision of at least tau - stop, with chance 1 - delta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xaijax_kernels.rules.bernoulli import lower, upper
from xaijax_kernels.rules.lucb import Arms


@dataclass(frozen=True)
class Validation:
    """The rule of validation, the same for the empty rule as for any other."""

    threshold: float
    stop_epsilon: float
    batch: int  # draws of a pull

    def step(self, arms: Arms, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(draws wanted next int64 [N, A], accepted bool [N, A], lower bounds [N, A]).

        rate: [N] or [N, 1], of the bounds. Arms that want no draws are decided.
        """
        level = np.asarray(rate).reshape(-1, 1) / np.maximum(arms.draws, 1)
        means = arms.means().clip(0)
        floor = np.where(arms.draws > 0, lower(means, level), 0.0)
        high = means >= self.threshold
        sure = np.where(high, floor > self.threshold - self.stop_epsilon, True)
        unsure_low = ~high
        if self.threshold + self.stop_epsilon <= 1:
            unsure_low &= upper(means, level) >= self.threshold + self.stop_epsilon
        else:  # no bound can be that high
            unsure_low &= False
        undecided = arms.valid & ((arms.draws == 0) | (high & ~sure) | unsure_low)
        accepted = arms.valid & (arms.draws > 0) & high & sure
        return np.where(undecided, self.batch, 0), accepted & ~undecided, floor
