"""The k players of the largest |value|, and their signs, are certain.

What is claimed of an instance is a set T and signs s: for all i in T, all j outside and both signs
u, s_i phi_i + u phi_j > 0. That says that |phi_i| > |phi_j|, and, as the sum of the two, that s_i
is the sign of phi_i. Each of these is tested by a one-sided confidence sequence of the pairs'
s_i Z_i + u Z_j: in a common order much of what moves the one moves the other.

**How many tests can go wrong.** Not 2 k (P - k). Let T* be the true set, i* the largest outside it,
u* its sign. A wrong claim rejects at least one of these, all of which are true:

- i* is in T. Then some j of T* is not, and s phi_i* > |phi_j| is claimed, s phi_i* - u_j phi_j > 0
  among it, u_j the sign of phi_j: 2 k, by s and j.
- i* is not in T, but some i other than i* and outside T* is. Then s_i phi_i > |phi_i*| is claimed,
  s_i phi_i - u* phi_i* > 0 among it: 2 (P - k - 1), by s_i and i.
- T = T*, with a wrong sign of i. Then the same is claimed of i: 2 k at most, by s_i and i.

So 2 (P + k - 1) tests share 1 - confidence, whatever T* is. With k = P nothing is outside, and 2 P
signs are tested. An instance of K outputs makes K claims, which share it too.

Letters: n instances, D pairs, P players, K outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xaijax.core.errors import ModelOutputError
from xaijax.core.sequences import log_bounded_factor, time_uniform_quantile
from xaijax.estimators.stopping import moments
from xaijax.estimators.stopping.contest import CANDIDATES, FEW, Contest
from xaijax.estimators.stopping.larger import larger, players_of, signs_of, told_by
from xaijax.estimators.stopping.rule import Look


def shared_by(k: int, P: int, K: int) -> int:
    """How many tests share the chance of a wrong claim."""
    return 2 * K * (P if k == P else P + k - 1)


@dataclass(frozen=True)
class Top:
    """Stops an instance where its set of the k largest |values| and their signs are certain.

    All of an instance's claims hold together with the chance `confidence` at least, whenever it
    stops. bounds: of v(S), which is refused outside; None: the claims are asymptotic in the number
    of pairs. Values that rounding alone may have put in order are not told
    apart.
    """

    k: int
    confidence: float
    bounds: tuple[float, float] | None = None

    @property
    def checks(self) -> int:
        """Two: a further check costs no confidence, and spares pairs."""
        return 2

    def bound(self, independent: bool) -> str:
        """By what it holds; only of independent pairs."""
        assert independent
        return "asymptotic" if self.bounds is None else "bounded"

    def met(self, look: Look) -> np.ndarray:
        """Where every test of the set at hand is decided, bool [n]."""
        return ~self.undecided(look).any(axis=1)

    def undecided(self, look: Look) -> np.ndarray:
        """The players in a test that is open, of the k largest at hand; bool [n, P]."""
        values, D = look.result.values, look.pairs
        n, P, K = values.shape
        alpha = self._alpha(P, K)
        quantile = time_uniform_quantile(D, alpha, two_sided=False)
        self._refuse_outside(look)
        if self.bounds is None and math.isinf(quantile):
            return np.ones((n, P), bool)
        order = np.argsort(-np.abs(values), axis=1, kind="stable")
        members, others = order[:, : self.k], order[:, self.k :]
        own = np.take_along_axis(values, members, axis=1)[:, :, None]  # [n, k, 1, K]
        across = np.take_along_axis(values, others, axis=1)[:, None]  # [n, 1, others, K]
        sums = moments.spread if self.bounds is None else moments.variation
        own_square, other_square, product = _picked(sums(look, members), members, others)
        if self.bounds is None:
            # What the standard errors add to a player's spread, where few draws show too little.
            kept = look.result.std_errors**2 * D * (D - 1)  # NaN where nothing is known
            own_square = np.maximum(
                own_square, np.take_along_axis(kept, members, axis=1)[:, :, None]
            )
            other_square = np.maximum(
                other_square, np.take_along_axis(kept, others, axis=1)[:, None]
            )
        told = told_by(quantile, D) if self.bounds is None else self._told_within(D, alpha)
        # Only what could be told apart at all, by more than rounding.
        least = 2 * look.resolution[:, None, None, None]
        if self.k == P:
            open_signs = ~(told(np.abs(own), own_square, 1) & (np.abs(own) > least))[:, :, 0]
            found = np.zeros(values.shape, bool)
            np.put_along_axis(found, members, open_signs, axis=1)
            return found.any(axis=2)
        apart = np.abs(own) - np.abs(across) > least
        sums_of_two = own_square, other_square, product
        certain = larger(signs_of(own), own, across, *sums_of_two, told) & apart
        return players_of(~certain, members, others)

    def contest(self, look: Look, rows: np.ndarray, undecided: np.ndarray) -> Contest | None:
        """How the instances `rows` [n'] of the look go on where a few players alone are asked.

        None: they do not. By bounds= each pair is within a range that is proved of all players.
        undecided: bool [n', P].
        """
        _, P, K = look.result.values.shape
        if self.bounds is not None or self.k == P or self.k + FEW > CANDIDATES < P:
            return None
        return Contest.begun(look.of(rows), self.k, self._alpha(P, K), undecided)

    def _alpha(self, P: int, K: int) -> float:
        return (1 - self.confidence) / shared_by(self.k, P, K)

    def unmet(self, count: int, of: int, budget: int) -> str:
        """What is said where the budget ended first."""
        return (
            f"top={self.k} is not certain at confidence={self.confidence:g} for {count:,} of "
            f"{of:,} sampled instances within budget={budget:,}; stats['certain'] says which. "
            "Raise budget=; values that are equal are never told apart."
        )

    def _told_within(self, D: int, alpha: float) -> Callable[..., np.ndarray]:
        """`told` of `larger` by the bounds: each contribution is within +- the span, and so is its
        mean over a pair.
        """
        assert self.bounds is not None
        span = self.bounds[1] - self.bounds[0]

        def told(mean: np.ndarray, square: np.ndarray, players: int) -> np.ndarray:
            return log_bounded_factor(D * mean, square, 2.0 * players * span) >= math.log(1 / alpha)

        return told

    def _refuse_outside(self, look: Look) -> None:
        """Raise ModelOutputError for answers that the bounds say there are not."""
        if self.bounds is None:
            return
        low, high = self.bounds
        for one in np.concatenate([look.low, look.high]):
            if not low - look.resolution.max() <= one <= high + look.resolution.max():
                raise ModelOutputError(
                    f"bounds=({low:g}, {high:g}): a coalition of these instances has v(S) = "
                    f"{one:.6g}. Give bounds that all answers are within, or leave bounds= out."
                )


def _picked(
    found: moments.Moments, members: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Squares of the members [n, k, 1, K] and of the others [n, 1, others, K]; their products."""
    return (
        np.take_along_axis(found.of_each, members, axis=1)[:, :, None],
        np.take_along_axis(found.of_each, others, axis=1)[:, None],
        np.take_along_axis(found.with_members, others[:, None], axis=2),
    )
