"""Designs of one draw, its coalitions and terms: orders, random sets, or listed coalitions.

A draw depends on (seed, draw) alone. The terms of the draws are independent, and each has the value
as its mean (QII paper, V-B; the spec's 2.6). Each design has

    coalitions, terms    L and T
    listed               the coalitions bool [L, P] if all draws ask the same, else None
    masks(first, stop)   kept players of the draws first..stop-1; bool [D, L, P]
    of(values, first)    terms [n, D, T, K] of scores [n, D, L, K]

Letters: D draws, P players, L coalitions of a draw, T terms of a draw, K scores, n games.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from xaijax_kernels.games import sampling


@dataclass(frozen=True)
class _Marginals:
    """Draws of P + 1 coalitions, which give a term for every player."""

    seed: int
    P: int

    listed = None

    @property
    def coalitions(self) -> int:
        """P + 1."""
        return self.P + 1

    @property
    def terms(self) -> int:
        """P."""
        return self.P


@dataclass(frozen=True)
class Orders(_Marginals):
    """Marginal influences along random orders: an unbiased term for every player.

    In a random order i follows each single set of size s with probability s! (P-s-1)! / P!, so its
    marginal gets the weight p(s) P C(P-1, s): 1 for Shapley.
    """

    p: np.ndarray | None  # [P], weights of single sets of replaced players; None: Shapley's

    @property
    def factors(self) -> np.ndarray:
        """[P], by the number of players replaced before."""
        P = self.P
        if self.p is None:  # with many players the weights of single sets underflow float64
            return np.ones(P)
        return np.array([self.p[s] * P * math.comb(P - 1, s) for s in range(P)])

    def masks(self, first: int, stop: int) -> np.ndarray:
        """Kept players, bool [D, L, P]."""
        orders = sampling.orders(self.seed, self.P, first, stop)
        place = np.argsort(orders, axis=1)  # position of each player in the order
        return place[:, None, :] >= np.arange(self.P + 1)[:, None]

    def of(self, values: np.ndarray, first: int) -> np.ndarray:
        """Terms [n, D, T, K]."""
        D = values.shape[1]
        orders = sampling.orders(self.seed, self.P, first, first + D)
        change = (values[:, :, :-1] - values[:, :, 1:]) * self.factors[:, None]
        out = np.empty_like(change)
        np.put_along_axis(out, orders[None, :, :, None].astype(np.int64), change, axis=2)
        return out


@dataclass(frozen=True)
class Sets(_Marginals):
    """Marginal influences on random sets: each player with probability 1/2 (Banzhaf), or by
    Pr[S]."""

    chance: np.ndarray | None = None  # [2^P]; None: uniform

    @cached_property
    def _wheel(self) -> sampling.Wheel:
        assert self.chance is not None
        return sampling.Wheel(self.chance / self.chance.sum())

    def replaced(self, first: int, stop: int) -> np.ndarray:
        """The sets, bool [D, P]."""
        if self.chance is None:
            return sampling.coalitions(self.seed, self.P, first, stop)
        drawn = self._wheel.places(self.seed, (sampling.CHANCES,), first, stop)
        return ((drawn[:, None] >> np.arange(self.P)) & 1).astype(bool)

    def masks(self, first: int, stop: int) -> np.ndarray:
        """Kept players, bool [D, L, P]."""
        S = self.replaced(first, stop)[:, None, :]
        changed = np.concatenate([np.zeros((1, self.P), bool), np.eye(self.P, dtype=bool)])
        return ~(S ^ changed)

    def of(self, values: np.ndarray, first: int) -> np.ndarray:
        """Terms [n, D, T, K]. Pr[S] has no term for the players in S, and is not renormalised."""
        S = self.replaced(first, first + values.shape[1])[None, :, :, None]
        change = values[:, :, :1] - values[:, :, 1:]  # Q(S) - Q(S with i changed)
        if self.chance is None:
            return np.where(S, -change, change)
        return np.where(S, 0.0, change) * self.chance.sum()


@dataclass(frozen=True)
class ListedSets:
    """The same coalitions in every draw; the terms are sums of their scores."""

    listed: np.ndarray  # bool [L, P], kept players
    contrast: np.ndarray  # float64 [T, L]

    @property
    def coalitions(self) -> int:
        """L."""
        return len(self.listed)

    @property
    def terms(self) -> int:
        """T."""
        return len(self.contrast)

    def masks(self, first: int, stop: int) -> np.ndarray:
        """Kept players, bool [D, L, P]."""
        return np.broadcast_to(self.listed, (stop - first, *self.listed.shape))

    def of(self, values: np.ndarray, first: int) -> np.ndarray:
        """Terms [n, D, T, K]."""
        whole = np.eye(len(self.listed))
        if np.array_equal(self.contrast, whole):
            return values
        if np.array_equal(self.contrast, whole[:1] - whole[1:]):  # many times faster than einsum
            return values[:, :, :1] - values[:, :, 1:]
        return np.einsum("tl,ndlk->ndtk", self.contrast, values)


Design: TypeAlias = Orders | Sets | ListedSets
