"""Oracles of private releases: from the definitions, in exact arithmetic; no library import.

Sets are bit masks of REPLACED players. Nothing here is fast.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np

LATTICE = 1 << 20


# --- exact values of one report --------------------------------------------------------------


def hybrid(x, u, S, groups):
    """Row x with the columns of the players in S copied from the donor u."""
    row = np.array(x, copy=True)
    for i, columns in enumerate(groups):
        if S >> i & 1:
            for column in columns:
                row[column] = u[column]
    return row


def whole_score(value, bounds):
    """A score clipped to its bounds and put on the lattice, as a Fraction."""
    low, high = bounds
    clipped = min(max(float(value), low), high)
    return Fraction(int(np.rint(clipped * LATTICE)), LATTICE)


def whole_chances(chances):
    """Chances cut off at the lattice, divided by their sum first where that is above 1."""
    total = max(1.0, float(np.sum(chances)))
    return [Fraction(math.floor(float(c) / total * LATTICE), LATTICE) for c in chances]


def mean(weights, values):
    """sum of weights times values over the sum of weights, for Fractions."""
    return sum((w * v for w, v in zip(weights, values, strict=True)), Fraction(0)) / sum(weights)


def quantity(kind, score, S, D, pool, groups, *, x=None, member=None, a=None, b=None):
    """Q(S), a Fraction: score(row, own row) -> Fraction; a, b: weights of data rows and donors."""
    b = [Fraction(1)] * len(pool) if b is None else b
    a = [Fraction(1)] * len(D) if a is None else a

    def of_row(row):
        if S == 0:
            return score(row, row)
        return mean(b, [score(hybrid(row, u, S, groups), row) for u in pool])

    if kind in ("individual", "actual"):
        return of_row(x)
    values = [of_row(row) for row in D]
    if kind in ("average", "rate"):
        return mean(a, values)
    inside = mean([w * int(m) for w, m in zip(a, member, strict=True)], values)
    if kind == "group":
        return inside
    gap = inside - mean([w * int(not m) for w, m in zip(a, member, strict=True)], values)
    return gap if kind == "signed" else abs(gap)


def shapley_weight(s, P):
    """Of one set of size s."""
    return Fraction(math.factorial(s) * math.factorial(P - s - 1), math.factorial(P))


def weights_of(index, P):
    """[P], of one set of size s; index a word, or k for sets of at most k."""
    if index == "shapley":
        return [shapley_weight(s, P) for s in range(P)]
    if index == "banzhaf":
        return [Fraction(1, 2 ** (P - 1))] * P
    return [Fraction(1, (index + 1) * math.comb(P - 1, s)) if s <= index else 0 for s in range(P)]


def semivalue(v, weights):
    """phi_i = sum over S without i of p(|S|) (v(S + i) - v(S)); v a list [2^P]."""
    P = len(weights)
    out = []
    for i in range(P):
        without = [S for S in range(1 << P) if not S >> i & 1]
        out.append(sum(weights[S.bit_count()] * (v[S | 1 << i] - v[S]) for S in without))
    return out


def of_chances(v, chance):
    """sum over S without i of Pr[S] (v(S + i) - v(S))."""
    P = len(v).bit_length() - 1
    return [
        sum(
            Fraction(float(chance[S])) * (v[S | 1 << i] - v[S])
            for S in range(1 << P)
            if not S >> i & 1
        )
        for i in range(P)
    ]


def steps(value):
    """The nearest multiple of the lattice, halves going up."""
    return math.floor(value * LATTICE + Fraction(1, 2))


# --- tiny worlds: all data sets of n rows of two bits, all classifiers of two bits -------------

BITS = 2
ROWS = 1 << BITS


def classifiers():
    """All functions of two bits to {0, 1}, [16, 4]."""
    return np.array(list(itertools.product((0, 1), repeat=ROWS)))


def worlds(n):
    """All data sets, int [4^n, n]; a row is a number of two bits."""
    return np.array(list(itertools.product(range(ROWS), repeat=n)))


def pair_scores(agrees):
    """Score of the hybrid of row x, donor u and set S: [16 classifiers, x, u, S] of 0 and 1."""
    c = classifiers()
    x, u, S = np.meshgrid(range(ROWS), range(ROWS), range(ROWS), indexing="ij")
    mixed = (x & ~S) | (u & S)
    return (c[:, mixed] == c[:, x]) * 1 if agrees else c[:, mixed]


def tables(kind, n, member=None, x=0, pool=None):
    """Q(S) of every world and classifier, float64 [16, 4^n, 4]; sums of n^2 terms, so nearly exact.

    pool: public donors; None: the data.
    """
    score = pair_scores(kind in ("actual", "average"))
    D = worlds(n)
    donors = D if pool is None else np.repeat(np.array(pool)[None], len(D), axis=0)
    if kind in ("individual", "actual"):
        return score[:, x][:, donors].mean(axis=2)
    pairs = score[:, D[:, :, None], donors[:, None, :]]  # [16, worlds, n, donors, S]
    rows = pairs.mean(axis=3)
    if kind in ("average", "rate"):
        return rows.mean(axis=2)
    inside = rows[:, :, member].mean(axis=2)
    if kind == "group":
        return inside
    gap = inside - rows[:, :, ~member].mean(axis=2)
    return gap if kind == "signed" else np.abs(gap)


def weighted_tables(kind, a, b, member=None):
    """Q(S) as `tables`, with weights a [n] of data rows and b [n] of the same rows as donors."""
    score, D = pair_scores(kind == "average"), worlds(len(a))
    pairs = score[:, D[:, :, None], D[:, None, :]]
    rows = np.tensordot(pairs, b / b.sum(), axes=(3, 0))  # [16, worlds, n, S]

    def over(share):
        return np.tensordot(rows, share / share.sum(), axes=(2, 0))

    if kind != "disparity":
        return over(a if kind in ("average", "rate") else a * member)
    return np.abs(over(a * member) - over(a * ~member))


def vector_tables(kind, n, member=None, x=0):
    """q(S) [81, 4^n, 4, 3] of all classifiers with three classes, certain of one."""
    labels = np.array(list(itertools.product(range(3), repeat=ROWS)))
    at, u, S = np.meshgrid(range(ROWS), range(ROWS), range(ROWS), indexing="ij")
    score = np.eye(3)[labels[:, (at & ~S) | (u & S)]]  # [81, x, u, S, 3]
    D = worlds(n)
    if kind == "individual":
        return score[:, x][:, D].mean(axis=2)
    rows = score[:, D[:, :, None], D[:, None, :]].mean(axis=3)  # [81, worlds, n, S, 3]
    if kind == "rate":
        return rows.mean(axis=2)
    return np.abs(rows[:, :, member].mean(axis=2) - rows[:, :, ~member].mean(axis=2))


def neighbours(n):
    """(world, its neighbour) for every replacement of one row by another; int [M] each."""
    D = worlds(n)
    place = np.arange(len(D))
    first, second = [], []
    for j in range(n):
        unit = ROWS ** (n - 1 - j)
        for value in range(ROWS):
            other = place + (value - D[:, j]) * unit
            keep = value > D[:, j]
            first.append(place[keep])
            second.append(other[keep])
    return np.concatenate(first), np.concatenate(second)


def largest_move(values, n):
    """max over neighbours of |change|, and of the sum over the last axis; values [16, 4^n, V]."""
    first, second = neighbours(n)
    change = np.abs(values[:, first] - values[:, second])
    return change.max(), change.sum(axis=2).max()


def worst_neighbours(values, n):
    """(classifier [4], world [n], neighbour [n], L1 distance) of the largest L1 change."""
    first, second = neighbours(n)
    change = np.abs(values[:, first] - values[:, second]).sum(axis=2)
    f, m = np.unravel_index(change.argmax(), change.shape)
    D = worlds(n)
    return classifiers()[f], D[first[m]], D[second[m]], float(change[f, m])


def index_matrix(weights):
    """[2^P, P]: phi = v @ matrix."""
    P = len(weights)
    eye = np.eye(1 << P)
    return np.array([[float(p) for p in semivalue(list(row), weights)] for row in eye])


def bits(rows):
    """Rows of two bits as numbers -> float32 [n, 2]; bit i is column i."""
    return (np.asarray(rows)[:, None] >> np.arange(BITS) & 1).astype(np.float32)


# --- constants of indices ----------------------------------------------------------------------


def l1_by_signs(weights):
    """max over signs s of sum over S, not empty, of |sum_i s_i c_i(S)|, all 2^P signs."""
    P = len(weights)
    best = Fraction(0)
    for signs in itertools.product((1, -1), repeat=P):
        total = Fraction(0)
        for S in range(1, 1 << P):
            size, inner = S.bit_count(), Fraction(0)
            for i, s in enumerate(signs):
                inner += s * weights[size - 1] if S >> i & 1 else -s * weights[size]
            total += abs(inner)
        best = max(best, total)
    return best


# --- noise and statistics ----------------------------------------------------------------------


def discrete_laplace(k, scale):
    """P(noise = k), elementwise."""
    q = math.exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** np.abs(k)


def measured_epsilon(hits, other, draws, confidence):
    """A lower bound of ln(P(event) / P'(event)): Clopper-Pearson on both sides.

    Each side errs with chance 1 - confidence at most.
    """
    from scipy.stats import beta  # noqa: PLC0415

    alpha = 1 - confidence
    low = beta.ppf(alpha, hits, draws - hits + 1) if hits else 0.0
    high = beta.ppf(1 - alpha, other + 1, draws - other) if other < draws else 1.0
    return math.log(low / high) if low > 0 else -math.inf
