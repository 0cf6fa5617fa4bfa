"""A release before its noise: whole numbers, the noise that they need, and public facts.

An index of exact integer sums is computed in rational arithmetic and rounded once, to the lattice.

Letters: N people explained (1 for quantities of the data), G groups, C sets, P players, K outputs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from xaijax.core.errors import PrivacyError
from xaijax.privacy import mechanism
from xaijax.privacy.facts import Facts, public_facts
from xaijax.privacy.mechanism import refuse_no_noise, scale_for
from xaijax.privacy.sensitivity import INDIVIDUAL, bound, paper_bound
from xaijax.results.explanation import Explanation
from xaijax.results.recount import LATTICE, ExactSums, Recount


@dataclass(frozen=True)
class ReleasePlan:
    """A release for which nothing is drawn yet."""

    values: list[int]  # in lattice steps, without noise
    needed: NoiseNeeded
    public: dict[str, Any]  # the mechanism and the provenance of the copy


def planned(
    explanation: Explanation,
    facts: Facts,
    recount: Recount,
    epsilon: float,
    composition: str,
    calibration: str,
) -> ReleasePlan:
    """Counts the sums, and finds the noise that they need; charges nothing."""
    sample = recount.sample
    spendable = epsilon if sample is None else mechanism.amplified(epsilon, sample.rate)
    exact = recount.sums()
    _refuse_other_sizes(facts, exact)
    chance = recount.chance
    if chance is not None:
        chance = chance_on_lattice(chance)
    try:
        if calibration == "paper":
            needed = by_the_paper(facts, exact, spendable)
        else:
            needed = proved(facts, exact, chance, spendable, composition)
    except mechanism.TooLittleNoise as little:
        rate = 1.0 if sample is None else sample.rate
        most = mechanism.of_all_rows(spendable * little.factor, rate)
        raise PrivacyError(
            f"epsilon={epsilon:g} leaves no noise: fewer than one value in twenty would be "
            f"changed. The largest epsilon that adds noise to this report is {most:.6g}."
        ) from None
    public = {
        "noise": "discrete Laplace, OpenDP make_laplace on i64",
        "lattice": 1 / LATTICE,
        "scale": needed.scale / LATTICE,
        "sensitivity": needed.sensitivity / LATTICE,
        "composition": composition if calibration == "proved" else "none",
        "calibration": calibration,
        "epsilon_of_mechanism": spendable,
    }
    shown = {"mechanism": public, "provenance": public_facts(explanation.provenance)}
    values = lattice_values(facts, exact, chance)
    mechanism.refuse_large(values)
    return ReleasePlan(values, needed, shown)


def lattice_values(facts: Facts, exact: ExactSums, chance: np.ndarray | None) -> list[int]:
    """The values before noise, in lattice steps, in the order of values [N, P] or [N, P, K]."""
    P = facts.players
    out: list[int] = []
    for n in range(len(exact.sums)):
        v, below = influences(exact, n, facts.difference, facts.signed)
        per_score = [_values(v[:, k], facts, chance) for k in range(v.shape[1])]
        out += [
            on_lattice(Fraction(per_score[k][i]) / below)
            for i in range(P)
            for k in range(len(per_score))
        ]
    return out


def _values(v: np.ndarray, facts: Facts, chance: np.ndarray | None) -> list[Any]:
    """The values of one game [P], in units of its denominator."""
    if facts.unary:
        return [int(value) for value in v[1:]]
    if chance is not None:
        return list(of_chances(v, chance))
    assert facts.weights is not None
    return list(semivalues(v, exact_weights(facts.weights)))


def _refuse_other_sizes(facts: Facts, exact: ExactSums) -> None:
    """Raises if the sums belong to another question than the provenance."""
    recorded = [facts.games, facts.players]
    came = [len(exact.sums), exact.sets.shape[1]]
    groups = [group for group in (facts.members, facts.rest) if group is not None]
    if groups and not facts.weighted:
        counted = groups if facts.quantity == "disparity" else groups[:1]
        recorded += counted
        came += [int(weights.sum()) for weights in exact.outer]
    if recorded != came:
        raise PrivacyError(
            f"explanation cannot be released: its provenance records the sizes {recorded}, but "
            f"{came} were counted."
        )


# How far a distance between vectors of probabilities can move, if one influence of one class can
# move by 1. A pair's two vectors p, p' are at least 0 and sum to at most 1, so they are at most 2
# apart in L1, 1 in total variation and in the largest entry, the root of 2 in L2; and by the
# triangle inequality | |a| - |b| | <= |a - b| a distance moves no more than its argument does.
OF_VECTORS = {
    "l1": Fraction(2),
    "tv": Fraction(1),
    "linf": Fraction(1),
    "l2": Fraction(14142135624, 10**10),
}


@dataclass(frozen=True)
class NoiseNeeded:
    """The noise that a release needs, in lattice steps."""

    sensitivity: int  # L1, of all values together; of one value for "sequential"
    scale: float


def influence_sensitivity(facts: Facts, exact: ExactSums) -> Fraction:
    """The most that one record can move one influence iota(S) of one score, in units of the score.

    It is computed from the integer weights that are really used, so their rounding is included.
    """
    b = Fraction(0) if facts.public_pool else _largest(exact.inner)
    a = Fraction(0) if facts.quantity in INDIVIDUAL else max(map(_largest, exact.outer))
    before, after = bound(facts.quantity, a, b, facts.outcome == "label")
    return (before + after) * Fraction(exact.width, exact.unit)


def _largest(weights: np.ndarray) -> Fraction:
    return Fraction(int(weights.max()), int(weights.sum()))


def proved(
    facts: Facts, exact: ExactSums, chance: np.ndarray | None, epsilon: float, composition: str
) -> NoiseNeeded:
    """The noise that `epsilon` needs; every step rounds up."""
    delta = influence_sensitivity(facts, exact)
    K = exact.sums.shape[3]
    if delta == 0:
        raise PrivacyError(
            "explanation cannot be released: nothing in it depends on the data, provided X= and "
            "pool= are public, or its bounds have no width, so that it needs no noise."
        )
    largest, all_players, each = _index_constants(facts, chance)
    if facts.difference == "subtract":
        # K classes: each by itself, or all together, since a pair's vectors move by 2 in L1.
        outputs = min(K * all_players, 2 * each) if K > 1 else all_players
        single, total = largest * delta, outputs * delta
    else:
        moved = delta * OF_VECTORS[facts.difference] if K > 1 else delta
        if facts.difference == "l2":
            moved += Fraction(1, ROOT)  # the root is truncated
        single, total, K = largest * moved, all_players * moved, 1
    count = facts.games * facts.players * K
    if composition == "sequential":
        # Rounding to the lattice moves a value by at most half a step on either side.
        step = math.ceil(LATTICE * single) + 1
        refuse_no_noise(step, epsilon / count)
        return NoiseNeeded(step, scale_for(step, epsilon / count))
    steps = math.ceil(LATTICE * facts.games * total) + count
    refuse_no_noise(steps, epsilon)
    return NoiseNeeded(steps, scale_for(steps, epsilon))


def _index_constants(
    facts: Facts, chance: np.ndarray | None
) -> tuple[Fraction, Fraction, Fraction]:
    """(largest constant of one player, L1 of all players, sum of all players' constants)."""
    P = facts.players
    if facts.unary:  # P different influences
        return Fraction(1), Fraction(P), Fraction(P)
    if chance is not None:
        largest, total = factors_of_chances(chance)
        return largest, total, P * largest
    assert facts.weights is not None
    weights = exact_weights(facts.weights)
    return factor_of_one(weights), factor_of_all(weights), P * factor_of_one(weights)


def by_the_paper(facts: Facts, exact: ExactSums, epsilon: float) -> NoiseNeeded:
    """The noise of Table I: Lap(sensitivity / epsilon) for each value, and twice that for an index.

    It raises PrivacyError for what the paper does not cover.
    """
    groups = [facts.members or 0, facts.rest or 0]
    group = min(groups) if facts.quantity == "disparity" else groups[0]
    of_paper = paper_bound(facts.quantity, facts.data_rows, facts.pool_rows, group)
    covered = facts.difference == "subtract" and facts.outcome != "proba" and not facts.weighted
    if not covered or (facts.weights is None and not facts.unary):
        raise PrivacyError(
            "calibration='paper' goes with what the paper has a sensitivity for: labels or scores "
            "of equal weights, difference='subtract', unary influences, Shapley, Banzhaf and "
            "limited sizes. Say calibration='proved'."
        )
    width = Fraction(exact.width, exact.unit)
    size = of_paper * width * (1 if facts.unary else 2)
    steps = math.ceil(LATTICE * size)
    refuse_no_noise(steps, epsilon)
    return NoiseNeeded(steps, steps / epsilon)


ROOT = 1 << 40  # a Euclidean distance is cut off at a multiple of 1 / (ROOT denominator)
CHANCE = 1 << 52  # Pr[S] is rounded to multiples of 1 / CHANCE


def influences(exact: ExactSums, n: int, difference: str, signed: bool) -> tuple[np.ndarray, int]:
    """(v(S) of game n, Python integers in an array [C, K], or [C, 1] for a distance; denominator).

    v(S) = d(Q(nothing replaced), Q(S replaced)); two groups are compared, absolutely or signed.
    """
    sums = exact.sums[n].astype(object)
    weight = [int(outer.sum()) for outer in exact.outer]
    below = int(exact.inner.sum()) * exact.unit * math.prod(weight)
    if len(weight) == 1:
        Q = sums[0]
    else:
        Q = sums[0] * weight[1] - sums[1] * weight[0]
        Q = Q if signed else np.abs(Q)
    change = Q[:1] - Q  # [C, K]
    if difference == "subtract":
        return change, below
    value, more = _DISTANCES[difference](change)
    return value[:, None], below * more


def _root(change: np.ndarray) -> tuple[np.ndarray, int]:
    squares = (change * change).sum(axis=1)
    return np.array([math.isqrt(q * ROOT * ROOT) for q in squares], object), ROOT


# [C, K] -> ([C], the factor of the denominator)
_DISTANCES: dict[str, Callable[[np.ndarray], tuple[np.ndarray, int]]] = {
    "l1": lambda change: (np.abs(change).sum(axis=1), 1),
    "tv": lambda change: (np.abs(change).sum(axis=1), 2),
    "linf": lambda change: (np.abs(change).max(axis=1), 1),
    "l2": _root,
}


def semivalues(v: np.ndarray, weights: Sequence[Fraction]) -> list[Fraction]:
    """sum over S without i of p(|S|) (v(S + i) - v(S)) for each player; v integers [2^P].

    The differences are summed by size first: these sums are integers, and only P fractions remain.
    """
    P = len(weights)
    others = np.bitwise_count(np.arange(1 << (P - 1), dtype=np.uint32)).astype(np.int64)
    order = np.argsort(others, kind="stable")
    first = np.searchsorted(others[order], np.arange(P))
    out = []
    for i in range(P):
        marginal = _marginals(v, i)[order]
        by_size = np.add.reduceat(marginal, first)
        terms = (w * int(total) for w, total in zip(weights, by_size, strict=True))
        out.append(sum(terms, Fraction(0)))
    return out


def of_chances(v: np.ndarray, chance: np.ndarray) -> list[Fraction]:
    """sum over S without i of Pr[S] (v(S + i) - v(S)) for each player; chance [2^P]."""
    P = len(chance).bit_length() - 1
    whole = np.array([int(p * CHANCE) for p in chance_on_lattice(chance)], object)
    out = []
    for i in range(P):
        without = whole.reshape(-1, 2, 1 << i)[:, 0].reshape(-1)
        out.append(Fraction(int((without * _marginals(v, i)).sum()), CHANCE))
    return out


def chance_on_lattice(chance: np.ndarray) -> np.ndarray:
    """The values Pr[S] that are used, float64: exact multiples of 1 / CHANCE."""
    return np.rint(chance * CHANCE) / CHANCE


def _marginals(v: np.ndarray, i: int) -> np.ndarray:
    """v(S + i) - v(S) for all S without i, in ascending order [2^(P-1)]."""
    halves = v.reshape(-1, 2, 1 << i)
    return (halves[:, 1] - halves[:, 0]).reshape(-1)


def on_lattice(value: Fraction) -> int:
    """The nearest multiple of 1 / LATTICE, as a whole number; halves are rounded up."""
    return math.floor(value * LATTICE + Fraction(1, 2))


# The factor by which an index multiplies the sensitivity of its game.
#
# A record moves the game v by a function delta with |delta(S)| <= 1 (times the sensitivity of one
# influence) and delta(nothing) = 0, since v(nothing) = 0 for all data. An index is linear: phi_i
# = sum over S of c_i(S) v(S), c_i(S) = p(|S| - 1) if i is in S and -p(|S|) if it is not.
#
# One player: |delta phi_i| <= sum over S, not empty, of |c_i(S)| = 2 (mass of p) - p(0), attained
# by delta(S) = sign c_i(S). With Shapley's mass 1 this is 2 - 1/P, with Banzhaf's 2 - 2^-(P-1).
#
# All players: the largest sum_i |delta phi_i| is the largest sum_i s_i delta phi_i over signs s,
# so
#
#     L1 = max over s of sum over S, not empty, of |sum_i s_i c_i(S)|.
#
# A semivalue treats players alike: only the number m of positive signs counts. Among the sets of
# size r, C(m, j) C(P - m, r - j) have j players of positive sign. The signs inside add up to 2j -
# r and those outside to (2m - P) - (2j - r):
#
#     L1 = max over m of sum over r, j of C(m, j) C(P - m, r - j)
#          |p(r - 1) (2j - r) - p(r) ((2m - P) - (2j - r))|,        p(P) = 0,
#
# which takes P^3 steps in place of 4^P. Signs and their opposites give the same, hence m <= P/2.

ENUMERATED = 10  # players up to which an index without symmetry is enumerated


def exact_weights(weights: Sequence[float]) -> tuple[Fraction, ...]:
    """The weight of one set of size s [P], as the fraction that the float represents.

    The weights of Shapley, Banzhaf and limited sizes have denominators below 20 C(19, 9) < 10^7, so
    two such fractions are never within one rounding of each other.
    """
    return tuple(Fraction(float(w)).limit_denominator(10**7) for w in weights)


def factor_of_one(weights: Sequence[Fraction]) -> Fraction:
    """The constant of one player's value; weights: those of one set of size s [P]."""
    P = len(weights)
    mass = sum((math.comb(P - 1, s) * abs(w) for s, w in enumerate(weights)), Fraction(0))
    return 2 * mass - abs(weights[0])


def factor_of_all(weights: Sequence[Fraction]) -> Fraction:
    """The L1 constant of the values of all players together."""
    return _factor_of_all(tuple(weights))


@functools.lru_cache(256)
def _factor_of_all(weights: tuple[Fraction, ...]) -> Fraction:
    P = len(weights)
    unit = math.lcm(*(w.denominator for w in weights))
    p = [int(w * unit) for w in weights] + [0]
    largest = 0
    for m in range(P // 2 + 1):
        total = 0
        for r in range(1, P + 1):
            for j in range(max(0, r - (P - m)), min(m, r) + 1):
                inside = 2 * j - r
                outside = 2 * m - P - inside
                sets = math.comb(m, j) * math.comb(P - m, r - j)
                total += sets * abs(p[r - 1] * inside - p[r] * outside)
        largest = max(largest, total)
    return Fraction(largest, unit)


def factors_of_chances(chance: np.ndarray) -> tuple[Fraction, Fraction]:
    """(the largest of one player, that of all) for an index with its own probabilities Pr[S] [2^P].

    Up to 10 players all signs are enumerated; for more, the bound is the sum over players.
    """
    P = len(chance).bit_length() - 1
    sets = np.arange(1 << P)
    c = np.zeros((P, 1 << P))
    for i in range(P):
        inside = sets >> i & 1 == 1
        c[i, inside] = chance[sets[inside] & ~(1 << i)]
        c[i, ~inside] = -chance[~inside]
    c[:, 0] = 0.0  # v(nothing) never moves
    singles = np.abs(c).sum(axis=1)
    total = singles.sum()
    if P <= ENUMERATED:
        signs = 1.0 - 2.0 * (np.arange(1 << (P - 1))[:, None] >> np.arange(P) & 1)
        total = max(np.abs(sign @ c).sum() for sign in np.array_split(signs, len(signs)))
    # Sums of 2^P floats: their rounding is far below one part in 10^9.
    return _above(singles.max()), _above(total)


def _above(number: float) -> Fraction:
    return Fraction(float(number)) * (1 + Fraction(1, 10**9))
