"""Oracles of interactions: the definitions, subsets enumerated in float64; no library is imported.

A game is a dict {frozenset of players: number}, an answer {sorted tuple of players: number} for all
sets of 1 to `order` players.
"""

from __future__ import annotations

import itertools
import math

import numpy as np


def sets_of(P, order):
    """All sets of 1 to `order` players, by size, then in player order."""
    return [S for s in range(1, order + 1) for S in itertools.combinations(range(P), s)]


def subsets(players):
    """All subsets of some players, as frozensets."""
    for size in range(len(players) + 1):
        for T in itertools.combinations(players, size):
            yield frozenset(T)


def derivative(v, S, T):
    """The discrete derivative of v at T by the players of S: sum over L in S of (-1)^(s-l)."""
    return math.fsum((-1) ** (len(S) - len(L)) * v[T | L] for L in subsets(S))


def _averaged(v, P, S, weight):
    """Sum over T without S of weight(t) times the derivative at T."""
    others = [i for i in range(P) if i not in S]
    return math.fsum(weight(len(T)) * derivative(v, S, T) for T in subsets(others))


def sii(v, P, order):
    """Shapley interaction index (Grabisch and Roubens 1999): (n-t-s)! t! / (n-s+1)!."""
    out = {}
    for S in sets_of(P, order):
        s = len(S)

        def weight(t, s=s):
            return math.factorial(P - t - s) * math.factorial(t) / math.factorial(P - s + 1)

        out[S] = _averaged(v, P, S, weight)
    return out


def banzhaf(v, P, order):
    """Banzhaf interaction index: the plain mean of the derivatives, 2^-(n-s)."""
    return {S: 0.5 ** (P - len(S)) * _averaged(v, P, S, lambda t: 1.0) for S in sets_of(P, order)}


def moebius(v, P, order):
    """Moebius coefficients (Harsanyi dividends): the derivative at the empty set."""
    return {S: derivative(v, S, frozenset()) for S in sets_of(P, order)}


def stii(v, P, order):
    """Shapley-Taylor (Sundararajan, Dhamdhere and Agarwal 2020, equation 2).

    Of top order the mean over orders of players of the derivative where the first of S arrives:
    order / n times the sum of the derivatives over C(n-1, t); below, the derivative at nothing.
    """
    out = {}
    for S in sets_of(P, order):
        if len(S) < order:
            out[S] = derivative(v, S, frozenset())
        else:
            out[S] = order / P * _averaged(v, P, S, lambda t: 1 / math.comb(P - 1, t))
    return out


def _bernoulli(n):
    """B_n with B_1 = -1/2, by the recursion sum C(n+1, k) B_k = 0."""
    B = [1.0]
    for m in range(1, n + 1):
        B.append(-math.fsum(math.comb(m + 1, k) * B[k] for k in range(m)) / (m + 1))
    return B[n]


def k_sii(v, P, order):
    """n-Shapley values (Bordt and von Luxburg 2023, definition 4): order by order from SII."""
    base = sii(v, P, order)
    values = {S: base[S] for S in sets_of(P, 1)}
    for n in range(2, order + 1):
        after = {}
        for S in sets_of(P, n):
            if len(S) == n:
                after[S] = base[S]
                continue
            others = [i for i in range(P) if i not in S]
            more = itertools.combinations(others, n - len(S))
            united = math.fsum(base[tuple(sorted((*S, *K)))] for K in more)
            after[S] = values[S] + _bernoulli(n - len(S)) * united
        values = after
    return values


def fsii(v, P, order):
    """Faithful Shapley interactions (Tsai, Yeh and Ravikumar 2023, equation 6).

    The game of that order that is nearest to v in the Shapley kernel's weights, and equal to it at
    nothing and at everything: a constrained least-squares problem, solved as one.
    """
    sets = [(), *sets_of(P, order)]
    everything = list(subsets(range(P)))
    X = np.array([[float(T >= set(S)) for S in sets] for T in everything])
    y = np.array([v[T] for T in everything])
    empty_and_full = [i for i, T in enumerate(everything) if len(T) in (0, P)]
    inner = [i for i in range(len(y)) if i not in empty_and_full]
    mass = np.array(
        [(P - 1) / (math.comb(P, t) * t * (P - t)) for t in (len(everything[i]) for i in inner)]
    )
    # The constraints are met by E = one solution + what they leave free.
    start = np.linalg.lstsq(X[empty_and_full], y[empty_and_full], rcond=None)[0]
    free = np.linalg.svd(X[empty_and_full])[2][len(empty_and_full) :].T
    root = np.sqrt(mass)[:, None]
    left = (root * X[inner]) @ free
    right = root[:, 0] * (y[inner] - X[inner] @ start)
    E = start + free @ np.linalg.lstsq(left, right, rcond=None)[0]
    return dict(zip(sets[1:], E[1:], strict=True))


ORACLES = {
    "sii": sii,
    "k-sii": k_sii,
    "stii": stii,
    "fsii": fsii,
    "banzhaf": banzhaf,
    "moebius": moebius,
}


def interactions(index, v, P, order):
    """The answer as an array [M], or [M, K] of a game with values [K]; sets as of `sets_of`."""
    first = np.asarray(v[frozenset()])
    if first.ndim:
        parts = [{S: float(value[k]) for S, value in v.items()} for k in range(len(first))]
        return np.stack([interactions(index, part, P, order) for part in parts], axis=-1)
    values = ORACLES[index](v, P, order)
    return np.array([values[S] for S in sets_of(P, order)])


def game_of(table):
    """{frozenset: number or [K]} of a table [2^P] or [2^P, K]."""
    P = len(table).bit_length() - 1
    return {frozenset(i for i in range(P) if c >> i & 1): table[c] for c in range(1 << P)}
