"""Oracles of Anchors: the definitions, in float64 NumPy, with loops; the library is not imported.

A rule is a frozenset of columns; `cuts` holds for each column its increasing edges, or None where
it goes by equality. f(row) is the class of one row.
"""

from __future__ import annotations

import itertools
import math

import numpy as np


def kl(p, q):
    """The divergence of two Bernoulli chances."""
    total = 0.0
    for a, b in ((p, q), (1 - p, 1 - q)):
        if a > 0:
            total += a * math.log(a / b) if b > 0 else math.inf
    return total


def upper(p, level):
    """The largest q with kl(p, q) <= level, by bisection."""
    low, high = p, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if kl(p, middle) <= level else (low, middle)
    return high


def lower(p, level):
    """The smallest such q."""
    low, high = 0.0, p
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if kl(p, middle) <= level else (middle, high)
    return low


def bin_of(value, edges):
    """Bin i is (edge i - 1, edge i]; by equality the value itself."""
    if edges is None:
        return value
    return sum(value > e for e in edges)


def satisfies(row, x, rule, cuts):
    """Whether the row is in x's bin in all columns of the rule."""
    return all(bin_of(row[j], cuts[j]) == bin_of(x[j], cuts[j]) for j in rule)


def coverage(x, data, weights, rule, cuts):
    """The weighted share of rows that satisfy the rule."""
    return sum(w for row, w in zip(data, weights, strict=True) if satisfies(row, x, rule, cuts))


def in_bin(x, data, weights, j, cuts):
    """(value, chance) of a draw of column j from x's bin."""
    rows = [(r[j], w) for r, w in zip(data, weights, strict=True) if satisfies(r, x, {j}, cuts)]
    if not rows:
        return [(x[j], 1.0)]
    total = sum(w for _, w in rows)
    return [(v, w / total) for v, w in rows]


def rows_of(space, x, data, weights, rule, cuts, p=0.5):
    """Every (row, chance) of D(z | rule)."""
    F = len(x)
    if space == "conditional":
        holds = [(r, w) for r, w in zip(data, weights, strict=True) if satisfies(r, x, rule, cuts)]
        total = sum(w for _, w in holds)
        yield from ((r, w / total) for r, w in holds)
        return
    if space == "joint":
        holds = [(r, w) for r, w in zip(data, weights, strict=True) if satisfies(r, x, rule, cuts)]
        total = sum(w for _, w in holds)
        for (base, a), (free, b) in itertools.product(holds, zip(data, weights, strict=True)):
            row = np.array(free, float)
            for j in rule:
                row[j] = base[j]
            yield row, a / total * b
        return
    for donor, w in zip(data, weights, strict=True):
        masks = [(set(range(F)), 1.0)]
        if space == "flip":
            free = [j for j in range(F) if j not in rule]
            masks = [
                (set(m), p ** len(m) * (1 - p) ** (len(free) - len(m)))
                for size in range(len(free) + 1)
                for m in itertools.combinations(free, size)
            ]
        choices = []
        for j in sorted(rule):
            stays = space == "row_bin" and satisfies(donor, x, {j}, cuts)
            if space == "row":
                choices.append([(x[j], 1.0)])
            elif stays:
                choices.append([(donor[j], 1.0)])
            else:
                choices.append(in_bin(x, data, weights, j, cuts))
        for (taken, c), drawn in itertools.product(masks, itertools.product(*choices)):
            row = np.array([donor[j] if j in taken else x[j] for j in range(F)], float)
            chance = w * c
            for j, (value, probability) in zip(sorted(rule), drawn, strict=True):
                row[j] = value
                chance *= probability
            yield row, chance


def precision(space, f, x, data, weights, rule, cuts, p=0.5):
    """P(f(z) = f(x)) over D(z | rule)."""
    label = f(x)
    return sum(c for row, c in rows_of(space, x, data, weights, rule, cuts, p) if f(row) == label)


def optimum(space, f, x, data, weights, cuts, threshold):
    """(coverage, precision, rule) of the best of all rules; None where no rule holds.

    The highest coverage, then precision, then fewer predicates, then the first columns.
    """
    accepted = []
    F = len(x)
    for size in range(F + 1):
        for rule in itertools.combinations(range(F), size):
            value = precision(space, f, x, data, weights, rule, cuts)
            if value >= threshold:
                cover = coverage(x, data, weights, rule, cuts)
                accepted.append((-cover, -value, size, rule))
    if not accepted:
        return None
    cover, value, _, rule = min(accepted)
    return -cover, -value, rule
