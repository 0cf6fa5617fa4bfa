"""Oracles: the definitions, in float64 NumPy, with loops; nothing of the library is imported."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np


def coalition_values(f, x, donors, weights, groups):
    """v(S) for all S of one instance: {frozenset: value or [K]}; bit 1 = kept from x."""
    P = len(groups)
    out = {}
    for size in range(P + 1):
        for S in itertools.combinations(range(P), size):
            rows = np.array(donors, copy=True)
            for i in S:
                for column in groups[i]:
                    rows[:, column] = x[column]
            answers = np.asarray(f(rows), np.float64)
            out[frozenset(S)] = np.tensordot(weights, answers, axes=1)
    return out


def semivalue(v, P, weight):
    """phi_i = sum over S without i of weight(|S|) (v(S + i) - v(S)); [P] or [P, K]."""
    phi = []
    for i in range(P):
        others = [j for j in range(P) if j != i]
        total = 0.0
        for size in range(P):
            for S in itertools.combinations(others, size):
                total = total + weight(size) * (v[frozenset((*S, i))] - v[frozenset(S)])
        phi.append(total)
    return np.array(phi)


def shapley_weight(P):
    """s! (P - s - 1)! / P!"""
    return lambda s: math.factorial(s) * math.factorial(P - s - 1) / math.factorial(P)


def shapley_by_orders(v, P):
    """The other definition of Shapley's value: the mean marginal contribution over all orders."""
    phi = 0.0
    for order in itertools.permutations(range(P)):
        before: frozenset = frozenset()
        change = [0.0] * P
        for i in order:
            after = before | {i}
            change[i] = v[after] - v[before]
            before = after
        phi = phi + np.array(change)
    return phi / math.factorial(P)


def banzhaf_weight(P):
    """2^-(P-1)"""
    return lambda s: 0.5 ** (P - 1)


def size_limited_weight(P, k, normalised=True):
    """1 / ((k+1) C(P-1, s)) up to size k, else 0."""
    share = (k + 1) if normalised else 1
    return lambda s: 1.0 / (share * math.comb(P - 1, s)) if s <= k else 0.0


def explain(f, X, donors, weight, groups=None, weights=None, link=None):
    """Values [N, P] or [N, P, K], base values [N] or [N, K], f(x)."""
    donors = np.asarray(donors)
    groups = [[j] for j in range(donors.shape[1])] if groups is None else groups
    w = np.full(len(donors), 1.0 / len(donors)) if weights is None else np.asarray(weights, float)
    w = w / w.sum()
    values, base, full = [], [], []
    for x in np.asarray(X):
        v = coalition_values(f, x, donors, w, groups)
        if link is not None:
            v = {S: link(value) for S, value in v.items()}
        values.append(semivalue(v, len(groups), weight))
        base.append(v[frozenset()])
        full.append(v[frozenset(range(len(groups)))])
    return np.array(values), np.array(base), np.array(full)


def table_of(v, P):
    """A function of frozensets as the array [2^P] that the sampled estimators' tests index."""
    return np.array([v(frozenset(i for i in range(P) if c >> i & 1)) for c in range(1 << P)])


def semivalue_of_table(table, weight):
    """`semivalue` of an array [2^P], with its sums over coalitions written as array sums; [P]."""
    P = len(table).bit_length() - 1
    corner = np.arange(1 << P)
    size = np.array([int(c).bit_count() for c in corner])
    share = np.array([weight(s) for s in range(P)])
    phi = []
    for i in range(P):
        without = corner[corner >> i & 1 == 0]
        phi.append((share[size[without]] * (table[without | 1 << i] - table[without])).sum())
    return np.array(phi)


def least_squares(table, index):
    """Shapley or Banzhaf values of [2^P] as the fit of an additive game to all coalitions; [P].

    Shapley: weights (P-1) / (C(P,s) s (P-s)), with sum phi = v(all) - v(empty) solved for the last
    player (Lundberg and Lee 2017). Banzhaf: equal weights, an intercept (Hammer and Holzman 1992).
    """
    P = len(table).bit_length() - 1
    members = (np.arange(1 << P)[:, None] >> np.arange(P) & 1).astype(float)
    size = members.sum(1).astype(int)
    if index == "banzhaf":
        design = np.column_stack([np.ones(1 << P), members])
        return np.linalg.lstsq(design, table, rcond=None)[0][1:]
    inner = (size > 0) & (size < P)
    weight = np.array([(P - 1) / (math.comb(P, s) * s * (P - s)) for s in size[inner]])
    total = table[-1] - table[0]
    z = members[inner]
    left = z[:, :-1] - z[:, -1:]
    right = table[inner] - table[0] - z[:, -1] * total
    root = np.sqrt(weight)
    first = np.linalg.lstsq(left * root[:, None], right * root, rcond=None)[0]
    return np.append(first, total - first.sum())


def antithetic_pair(v, order):
    """Mean marginal contributions along an order and its reverse, {frozenset: value}; [P]."""
    phi = np.zeros(len(order))
    for path in (order, order[::-1]):
        for place, i in enumerate(path):
            phi[i] += (v[frozenset(path[: place + 1])] - v[frozenset(path[:place])]) / 2
    return phi


def coalition_pair(v, S, P):
    """Mean of every player's marginal contributions to S and to its complement; [P]."""
    everyone = frozenset(range(P))
    return np.array([sum(v[T | {i}] - v[T - {i}] for T in (S, everyone - S)) / 2 for i in range(P)])


def dividends(v, P):
    """Harsanyi dividends: a_R = sum over T within R of (-1)^(|R| - |T|) v(T); {frozenset: a_R}."""
    table = {}
    for size in range(P + 1):
        for R in map(frozenset, itertools.combinations(range(P), size)):
            inner = (frozenset(T) for s in range(size + 1) for T in itertools.combinations(R, s))
            table[R] = sum((-1) ** (size - len(T)) * v[T] for T in inner)
    return table


def united_less_single(v, P, guests):
    """By how much each guest's united Shapley value differs from its columns' own; [m].

    From the dividends: sum a_R (1 / q - k / |R|) over R with k columns of the guest, q its owners.
    """
    owner = {c: ("guest", g) for g, columns in enumerate(guests) for c in columns}
    owner |= {c: ("host", c) for c in range(P) if c not in owner}
    out = np.zeros(len(guests))
    for R, a in dividends(v, P).items():
        q = len({owner[c] for c in R})
        for g, columns in enumerate(guests):
            k = len(R & set(columns))
            if k:
                out[g] += a * (1 / q - k / len(R))
    return out


def authors_least_squares(v, P, end_weight):
    """inv(X'WX) X'W y over all coalitions, with an intercept; ([P], intercept).

    In rational arithmetic, so that the large end weight costs no digits.
    """
    sets = list(v)
    rows = [[Fraction(i in S) for i in range(P)] + [Fraction(1)] for S in sets]
    weight = [
        Fraction(P - 1, math.comb(P, len(S)) * len(S) * (P - len(S)))
        if 0 < len(S) < P
        else Fraction(end_weight)
        for S in sets
    ]
    n = P + 1
    left = [
        [sum(w * r[i] * r[j] for w, r in zip(weight, rows, strict=True)) for j in range(n)]
        for i in range(n)
    ]
    right = [
        sum(w * r[i] * Fraction(float(v[S])) for w, r, S in zip(weight, rows, sets, strict=True))
        for i in range(n)
    ]
    for i in range(n):  # elimination; the matrix is positive definite, so no pivot is 0
        for j in range(n):
            if j != i:
                factor = left[j][i] / left[i][i]
                left[j] = [a - factor * b for a, b in zip(left[j], left[i], strict=True)]
                right[j] -= factor * right[i]
    solution = np.array([float(right[i] / left[i][i]) for i in range(n)])
    return solution[:P], solution[P]


def slope(x, y, weights=None):
    """The least-squares slope of y on x and an intercept; 0 where x is constant."""
    if np.ptp(x) == 0:
        return 0.0
    w = np.ones(len(x)) if weights is None else np.asarray(weights, float)
    dx = x - (w * x).sum() / w.sum()
    return float((w * dx * (y - (w * y).sum() / w.sum())).sum() / (w * dx * dx).sum())


def logistic_slope(x, y, weights=None):
    """b of the least sum of w log(1 + exp(-s (a + b x))) + b^2 / 2, s = +-1; 0 where x is constant.

    By bisection: for each b the best a, then the b where the derivative is zero. Both derivatives
    grow with their variable, since the loss is convex, also after it is minimised over a.
    """
    if np.ptp(x) == 0:
        return 0.0
    w = np.ones(len(x)) if weights is None else np.asarray(weights, float)
    center, width = x.mean(), x.std()
    z, share = (x - center) / width, (w * y).sum()

    def missed(a, b):
        return w / (1 + np.exp(-np.clip(a + b * z, -700, 700))) - w * y

    def best_a(b):
        reach = 50 + abs(b) * np.abs(z).max()
        return bisect(lambda a: missed(a, b).sum(), -reach, reach)

    def derivative(b):
        return (missed(best_a(b), b) * z).sum() + b / width**2

    assert 0 < share < w.sum()
    top = 1.0
    while derivative(top) < 0 or derivative(-top) > 0:
        top *= 2
    return bisect(derivative, -top, top) / width


def bisect(f, low, high):
    """Where an increasing function is zero, to the last place of float64."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if f(middle) < 0 else (low, middle)
    return middle


def additive_effects(X, y, target_slope=slope, decimals=None, standardize=False, weights=None):
    """AEC by its definition (Salih 2024, eq. 7): every pair is fitted for every feature; [F]."""
    X = np.asarray(X, float)
    n = X.shape[1]
    if standardize:
        w = np.ones(len(X)) if weights is None else np.asarray(weights, float)
        mean = w @ X / w.sum()
        spread = np.sqrt(w @ (X - mean) ** 2 / w.sum())
        X = (X - mean) / np.where(np.ptp(X, axis=0) == 0, 1.0, spread)
    cut = (lambda v: v) if decimals is None else (lambda v: round(v, decimals))
    effects = []
    for j in range(n):
        total = 0.0
        for z in range(n):
            for i in range(n):
                if i != j and z != i:
                    total += cut(slope(X[:, i], X[:, z], weights))
        effects.append(cut(cut(target_slope(X[:, j], y, weights)) * total))
    return np.array(effects)


def footrule_largest(m):
    """The largest sum of |change of rank| over all orders of m things, found by trying them all."""
    return max(sum(abs(i - p) for i, p in enumerate(o)) for o in itertools.permutations(range(m)))


def movement_rate(rank, n):
    """NMR: rank(alive) gives the columns of `alive` in order, the first of which is removed."""
    alive, before, rates = list(range(n)), None, []
    for k in range(n - 1):
        order = list(rank(alive))
        position = {f: place + 1 + k for place, f in enumerate(order)}
        if before is not None:
            moved = sum(abs(position[f] - before[f]) for f in order)
            m = len(order)
            rates.append(moved / (2 * sum(m - j for j in range(1, m, 2))))
        before = position
        alive.remove(order[0])
    return float(np.mean(rates)) if rates else float("nan")
