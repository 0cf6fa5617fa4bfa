"""Oracles of QII: the definitions, in float64 NumPy, with loops; the library is not imported.

Sets are frozensets of REPLACED players.
"""

from __future__ import annotations

import itertools
import math

import numpy as np


def subsets(players):
    """Every subset, as frozensets, smallest first."""
    players = list(players)
    for size in range(len(players) + 1):
        for S in itertools.combinations(players, size):
            yield frozenset(S)


def hybrid(x, u, S, groups):
    """Row x with all columns of the players in S copied from the donor u."""
    row = np.array(x, copy=True)
    for i in S:
        for column in groups[i]:
            row[column] = u[column]
    return row


def mean_score(score, x, pool, weights, S, groups):
    """E_u[score(x_{-S} u_S, x)]: a number or a vector."""
    total = 0.0
    for u, w in zip(pool, weights, strict=True):
        total = total + w * np.asarray(score(hybrid(x, u, S, groups), x), float)
    return total


def quantity(kind, score, S, *, x=None, D, pool, pool_weights, data_weights, member, groups):
    """Q(S) of the spec's 2.2; member bool [D] by the original rows."""
    if kind in ("individual", "actual"):
        return mean_score(score, x, pool, pool_weights, S, groups)

    def mean(rows):
        share = data_weights * rows
        total = 0.0
        for row, w in zip(D, share / share.sum(), strict=True):
            if w:
                total = total + w * mean_score(score, row, pool, pool_weights, S, groups)
        return total

    everyone = np.ones(len(D))
    if kind in ("average", "rate"):
        return mean(everyone)
    if kind == "group":
        return mean(member.astype(float))
    a, b = mean(member.astype(float)), mean((~member).astype(float))
    return {"disparity": abs(a - b), "signed": a - b, "ratio": a / b if b else np.nan}[kind]


def kl(p, q):
    """sum p log(p / q), 0 log 0 = 0."""
    total = 0.0
    for a, b in zip(p, q, strict=True):
        if a > 0:
            total += a * math.log(a / b) if b > 0 else math.inf
    return total


DIFFERENCES = {
    "subtract": lambda p, q: p - q,
    "l1": lambda p, q: float(np.abs(p - q).sum()),
    "tv": lambda p, q: float(np.abs(p - q).sum()) / 2,
    "l2": lambda p, q: math.sqrt(float(((p - q) ** 2).sum())),
    "linf": lambda p, q: float(np.abs(p - q).max()),
    "kl": kl,
    "js": lambda p, q: (kl(p, (p + q) / 2) + kl(q, (p + q) / 2)) / 2,
}


def influences(Q, P, difference="subtract"):
    """v(S) = d(Q(nothing replaced), Q(S)) for all S; Q a function of S."""
    whole = np.asarray(Q(frozenset()), float)
    distance = DIFFERENCES[difference]
    v = {S: distance(np.atleast_1d(whole), np.atleast_1d(Q(S))) for S in subsets(range(P))}
    return {S: np.squeeze(np.asarray(value)) for S, value in v.items()}


def semivalue(v, P, weight):
    """sum over S without i of weight(|S|) (v(S + i) - v(S)); [P] or [P, K]."""
    return np.array(
        [
            sum(
                weight(len(S)) * (v[S | {i}] - v[S]) for S in subsets(j for j in range(P) if j != i)
            )
            for i in range(P)
        ]
    )


def of_chances(v, P, chance):
    """sum over S without i of Pr[S] m_i(S); chance a function of S."""
    return np.array(
        [
            sum(chance(S) * (v[S | {i}] - v[S]) for S in subsets(j for j in range(P) if j != i))
            for i in range(P)
        ]
    )


def minimal_winning(win, P):
    """Sets that win while EVERY strict subset loses; win a function of S."""
    return [
        S for S in subsets(range(P)) if win(S) and not any(win(T) for T in subsets(S) if T != S)
    ]


def deegan_packel(win, P):
    """1/|M| sum over minimal winning S with i of 1/|S|."""
    M = minimal_winning(win, P)
    if not M:
        return np.zeros(P)
    return np.array([sum(1 / len(S) for S in M if i in S) / len(M) for i in range(P)])


def responsibility(win, P):
    """1 / (1 + smallest |T|), T without i losing while T + i wins."""
    out = []
    for i in range(P):
        sizes = [
            len(T) for T in subsets(j for j in range(P) if j != i) if not win(T) and win(T | {i})
        ]
        out.append(1 / (1 + min(sizes)) if sizes else 0.0)
    return np.array(out)


def weights_of(index, P):
    """The weight of a single set of size s."""
    if index == "shapley":
        return lambda s: math.factorial(s) * math.factorial(P - s - 1) / math.factorial(P)
    if index == "banzhaf":
        return lambda s: 0.5 ** (P - 1)
    k = index  # size-limited
    return lambda s: 1 / ((k + 1) * math.comb(P - 1, s)) if s <= k else 0.0


def hoeffding(epsilon, delta, width):
    """Draws for P(|mean - E| >= epsilon) <= delta, terms of this width."""
    return math.ceil(width**2 * math.log(2 / delta) / (2 * epsilon**2))
