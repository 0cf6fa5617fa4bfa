"""Oracles: the definitions, in float64 NumPy, with loops; nothing of the library is imported."""

from __future__ import annotations

import itertools
import math

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
