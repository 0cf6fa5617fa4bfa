"""Rules that stop the sampling of an instance; they hold however often they are checked.

`Narrow` stops an instance when every interval is narrow, `Top` when the k players of the largest
|value| and their signs are certain.

What `Top` claims of an instance is a set T and signs s: for all i in T, all j outside and both
signs u, s_i phi_i + u phi_j > 0. This says that |phi_i| > |phi_j|, and, as the sum of the two, that
s_i is the sign of phi_i. Each of these is tested by a one-sided confidence sequence of the pairs'
s_i Z_i + u Z_j: in a common order Z_i and Z_j are correlated, which makes the sum precise.

**How many tests can go wrong.** They are not 2 k (P - k). Let T* be the true set, i* the largest
outside it, u* its sign. A wrong claim rejects at least one of these, which are all true:

- i* is in T. Then some j of T* is not, and s phi_i* > |phi_j| is claimed, s phi_i* - u_j phi_j > 0
  among it, u_j the sign of phi_j: 2 k, by s and j.
- i* is not in T, but some i other than i* and outside T* is. Then s_i phi_i > |phi_i*| is claimed,
  s_i phi_i - u* phi_i* > 0 among it: 2 (P - k - 1), by s_i and i.
- T = T*, with a wrong sign of i. Then the same is claimed of i: 2 k at most, by s_i and i.

2 (P + k - 1) tests therefore share 1 - confidence, for any T*. With k = P nothing is outside, and 2
P signs are tested. An instance of K outputs makes K claims, which share it too.

Letters: n instances that continue, D pairs drawn, d pairs at a time, P players or sets of them, K
outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from xaijax.core.errors import ModelOutputError
from xaijax.core.sequences import half_widths, log_bounded_factor, time_uniform_quantile
from xaijax.estimators.estimator import Result

TOGETHER = 32  # pairs in one sum, always, because other groups would round differently
NUMBERS = 1 << 20  # of a chunk of instances at a time

# (means, sums of squares, players) -> whether the means are certainly above 0, see `larger`
Positive = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
# (instances, pairs) -> the values from each of these pairs alone, [n', d, P, K]
Estimates = Callable[[slice | np.ndarray, slice], np.ndarray]


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run at one check. All continuing instances have the same pairs."""

    number: int  # number of the check, from 1
    most: int  # number of checks within the full budget; fixed before the first
    pairs: int  # D
    result: Result  # values and standard errors [n, P, K]
    low: np.ndarray  # [n], the smallest v(S) of the coalitions so far, empty and full included
    high: np.ndarray  # [n], the largest
    resolution: np.ndarray  # [n], rounding error of a value: smaller differences mean nothing
    estimates: Estimates | None  # None: the units drawn are not independent pairs

    def of(self, rows: np.ndarray) -> Checkpoint:
        """The checkpoint of the instances int [n']."""
        r, whole = self.result, self.estimates
        estimates = None if whole is None else lambda part, pairs: whole(rows[part], pairs)
        result = Result(r.values[rows], r.std_errors[rows], r.dof[rows])
        limits = self.low[rows], self.high[rows], self.resolution[rows]
        return Checkpoint(self.number, self.most, self.pairs, result, *limits, estimates)


@dataclass(frozen=True)
class Narrow:
    """Stops an instance when all errors are certainly within the tolerance.

    Each value is within it with the probability `confidence` at least, whenever its instance stops:
    by a confidence sequence if pairs are independent; otherwise by an interval at each check, whose
    error probabilities add up to 1 - confidence over all possible checks.
    """

    tolerance: float
    confidence: float = 0.95

    # Checks per doubling of the pairs. One: if checks share the error probability, each further
    # check widens all intervals.
    checks = 1

    def bound(self, independent: bool) -> str:
        """The name of the bound; independent: whether the pairs are."""
        return "asymptotic" if independent else "checks"

    def undecided(self, check: Checkpoint) -> np.ndarray:
        """The players whose half-widths [n, P, K] are not within the tolerance, bool [n, P]."""
        errors, missed = check.result.std_errors, 1 - self.confidence
        if check.estimates is not None:
            quantile = time_uniform_quantile(check.pairs, missed)
            if math.isinf(quantile):  # so few pairs prove nothing, even if they are all equal
                return np.ones(errors.shape[:2], bool)
            wide = errors * quantile
        else:
            level = 1 - missed / check.most
            wide = half_widths(errors, check.result.dof.min(axis=1), level)
        return ~(wide <= self.tolerance).all(axis=2)

    def unmet(self, count: int, of: int, budget: int) -> str:
        """The warning if `count` of the sampled instances used their budget up before."""
        return (
            f"tolerance={self.tolerance:g} is not met by {count:,} of {of:,} sampled instances "
            f"within budget={budget:,}; their std_errors say how far. Raise budget= or tolerance=."
        )


@dataclass(frozen=True)
class Top:
    """Stops an instance when its set of the k largest |values| and their signs are certain.

    All of an instance's claims hold together with the probability `confidence` at least, whenever
    it stops. bounds: of v(S); outputs outside raise an error. None: the claims are asymptotic in
    the number of pairs. Values that differ by rounding only are not ordered.
    """

    k: int
    confidence: float
    bounds: tuple[float, float] | None = None

    # Checks per doubling of the pairs. Two: a further check costs no confidence.
    checks = 2

    def bound(self, independent: bool) -> str:
        """The name of the bound; pairs must be independent."""
        assert independent
        return "asymptotic" if self.bounds is None else "bounded"

    def alpha(self, P: int, K: int) -> float:
        """The error probability of one test."""
        return (1 - self.confidence) / shared_by(self.k, P, K)

    def undecided(self, check: Checkpoint) -> np.ndarray:
        """The players in an open test of the k largest so far; bool [n, P]."""
        values, D = check.result.values, check.pairs
        n, P, K = values.shape
        alpha = self.alpha(P, K)
        quantile = time_uniform_quantile(D, alpha, two_sided=False)
        self._refuse_outside(check)
        if self.bounds is None and math.isinf(quantile):
            return np.ones((n, P), bool)
        order = np.argsort(-np.abs(values), axis=1, kind="stable")
        members, others = order[:, : self.k], order[:, self.k :]
        top, across = of_both(values, members, others)
        about = values if self.bounds is None else None
        squares, products = pair_moments(check, members, about)
        if self.bounds is None:
            # The standard errors may include more variance than a few draws show; NaN if unknown.
            squares = np.maximum(squares, check.result.std_errors**2 * D * (D - 1))
            positive = by_quantile(quantile, D)
        else:
            positive = self._by_bounds(D, alpha)
        own_square, other_square = of_both(squares, members, others)
        # Only differences above rounding count.
        least = 2 * check.resolution[:, None, None, None]
        if self.k == P:
            open_signs = ~(positive(np.abs(top), own_square, 1) & (np.abs(top) > least))[:, :, 0]
            open_players = np.zeros(values.shape, bool)
            np.put_along_axis(open_players, members, open_signs, axis=1)
            return open_players.any(axis=2)
        apart = np.abs(top) - np.abs(across) > least
        product = np.take_along_axis(products, others[:, None], axis=2)
        sums = own_square, other_square, product
        certain = larger(np.where(top < 0, -1.0, 1.0), top, across, sums, positive) & apart
        return players_of(~certain, members, others)

    def unmet(self, count: int, of: int, budget: int) -> str:
        """The warning if `count` of the sampled instances used their budget up before."""
        return (
            f"top={self.k} is not certain at confidence={self.confidence:g} for {count:,} of "
            f"{of:,} sampled instances within budget={budget:,}; stats['certain'] says which. "
            "Raise budget=; values that are equal are never told apart."
        )

    def _by_bounds(self, D: int, alpha: float) -> Positive:
        """`positive` of `larger`: each contribution is within +- the span of the bounds, and so is
        its mean over a pair.
        """
        assert self.bounds is not None
        span, least = self.bounds[1] - self.bounds[0], math.log(1 / alpha)
        return lambda mean, square, players: (
            log_bounded_factor(D * mean, square, 2.0 * players * span) >= least
        )

    def _refuse_outside(self, check: Checkpoint) -> None:
        """Raises ModelOutputError for outputs outside the bounds."""
        if self.bounds is None:
            return
        (low, high), slack = self.bounds, check.resolution.max()
        bounds = np.concatenate([check.low, check.high])
        outside = bounds[~((low - slack <= bounds) & (bounds <= high + slack))]
        if len(outside):
            raise ModelOutputError(
                f"bounds=({low:g}, {high:g}): a coalition of these instances has v(S) = "
                f"{outside[0]:.6g}. Give bounds that all answers are within, or leave bounds= out."
            )


# An instance's result never depends on the others of the call.
Rule: TypeAlias = Narrow | Top


def shared_by(k: int, P: int, K: int) -> int:
    """Number of tests that share the probability of a wrong claim."""
    return 2 * K * (P if k == P else P + k - 1)


def of_both(
    table: np.ndarray, members: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The entries of members int [n, k, K] and of others int [n, o, K] in a table [n, P, K], as
    [n, k, 1, K] and [n, 1, o, K].
    """
    member, other = (np.take_along_axis(table, places, axis=1) for places in (members, others))
    return member[:, :, None], other[:, None]


def larger(
    signs: np.ndarray, member: np.ndarray, other: np.ndarray, sums: Any, positive: Positive
) -> np.ndarray:
    """Whether |phi_i| > |phi_j| and the sign of phi_i are certain: s phi_i + u phi_j > 0 for both
    u = -1 and 1; bool. Arrays broadcast.

    signs: s, -1 or 1, the claimed sign of phi_i. member, other: the means over the pairs that
    sampled both. sums: over these pairs, the squares of each one's deviations from its mean, and
    their products. positive(mean, square, players): whether a mean of draws with such a sum of
    squares is certainly above 0, for draws that are sums over this number of players.
    """
    own_square, other_square, product = sums
    certain = np.ones(np.broadcast_shapes(member.shape, other.shape), bool)
    for u in (-1.0, 1.0):
        square = np.maximum(own_square + other_square + 2 * u * signs * product, 0.0)
        certain &= positive(signs * member + u * other, square, 2)
    return certain


def by_quantile(quantile: np.ndarray | float, count: np.ndarray | int) -> Positive:
    """`positive` of `larger` by a number of standard errors of a mean of `count` draws."""
    return lambda mean, square, _: mean > quantile * np.sqrt(square / (count * (count - 1)))


def players_of(tests: np.ndarray, members: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The players in one of these tests, bool [n, P].

    tests: bool [n, k, P - k, K], of members int [n, k, K] against others int [n, P - k, K].
    """
    n, k, left, K = tests.shape
    players = np.zeros((n, k + left, K), bool)
    np.put_along_axis(players, members, tests.any(axis=2), axis=1)
    np.put_along_axis(players, others, tests.any(axis=1), axis=1)
    return players.any(axis=2)


def pair_moments(
    check: Checkpoint, members: np.ndarray, about: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """(squares [n, P, K], products with the members [n, k, P, K]): sums over pairs of the
    deviations of each pair's estimates.

    members: int [n, k, K]. about: subtracted from the estimates [n, P, K]; None: the mean of the
    earlier pairs, 0 for the first. Sums have one order for any number of instances.
    """
    assert check.estimates is not None
    n, k, K = members.shape
    P = check.result.values.shape[1]
    squares, products = np.zeros((n, P, K)), np.zeros((n, k, P, K))
    step = max(1, NUMBERS // (min(TOGETHER, check.pairs) * P * K))
    for first in range(0, n, step):
        rows = slice(first, min(first + step, n))
        chosen, total = members[rows][:, None], np.zeros_like(squares[rows])[:, None]
        for at in range(0, check.pairs, TOGETHER):
            pairs = slice(at, min(at + TOGETHER, check.pairs))
            left = check.estimates(rows, pairs)  # [n', d, P, K]
            if about is None:
                sums = np.add.accumulate(np.concatenate([total, left], axis=1), axis=1)
                before = np.maximum(1, np.arange(pairs.start, pairs.stop))[:, None, None]
                left, total = left - sums[:, :-1] / before, sums[:, -1:]
            else:
                left = left - about[rows, None]
            of_members = np.take_along_axis(left, chosen, axis=2)  # [n', d, k, K]
            for d in range(left.shape[1]):
                squares[rows] += left[:, d] ** 2
                products[rows] += of_members[:, d, :, None] * left[:, d, None]
    return squares, products
