"""`Process`: at some coalitions, with what turns answers to white, and what is turned by it.

Letters: R answers explained, one for each instance and output; P players; D coalitions whose even
part is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from xaijax.estimators.process.covariance import distance, nodes_of, with_interactions
from xaijax.estimators.process.trend import Fit, columns_of, fit

DECIDE = 400  # of the answers, by which the rate is decided
# Chance of `Process.tells_apart`, above which no large pairs are looked for. Over 60 seeds two
# pairs were taken for two others, and told as sure, 5 times of three large ones of 30 players at
# 80 coalitions (0.21), 3 times of fifteen of 25 players at 100 (0.015), and never of three of 30
# at 120 (0.005), where all were found.
CONFUSED = 0.01
TOGETHER = 512  # pairs, or sets, that are turned at a time
KEEPS = 1 << 23  # numbers of all pairs' columns, up to which those of one rate are kept


class Process:
    """The process at D coalitions, for all answers."""

    def __init__(self, signs: np.ndarray, draws_orders: bool) -> None:
        """signs: 1 for members, -1 for others, float64 [D, P]; draws_orders: of Shapley's index."""
        self.signs, (self.D, self.P) = signs, signs.shape
        self.pairs = np.stack(np.triu_indices(self.P, 1), axis=1)  # [pairs, 2]
        self._nodes = nodes_of(self.P, draws_orders)
        self._fits: dict[tuple[float, int], Fit] = {}
        self._tells: dict[float, np.ndarray] = {}
        # Whether all columns are turned once a rate, or those of each answer anew. By the process
        # alone, never by who is asked beside an answer: its digits would hang on that.
        self._keeps = self.D * len(self.pairs) <= KEEPS
        self._kept: dict[str, tuple[float, list[Any]]] = {}

    @cached_property
    def _distance(self) -> np.ndarray:
        """Players in which two of the coalitions differ; int64 [D, D]."""
        return distance(self.signs, self.signs)

    @cached_property
    def sets(self) -> np.ndarray:
        """(i, -1) for all pairs with a player, then the pairs; int64 [P + pairs, 2]."""
        alone = np.stack([np.arange(self.P), np.full(self.P, -1)], axis=1)
        return np.concatenate([alone, self.pairs])

    def fit(self, rate: float, D: int) -> Fit:
        """Of the first D answers."""
        if (rate, D) not in self._fits:
            if D > DECIDE:  # of all answers one rate's at a time
                self._fits = {key: one for key, one in self._fits.items() if key[1] <= DECIDE}
            self._fits[rate, D] = fit(self._distance[:D, :D], self.P, rate)
        return self._fits[rate, D]

    @cached_property
    def tells_apart(self) -> bool:
        """Whether the coalitions tell two pairs {a, b} and {c, d} from {a, d} and {c, b}.

        They do where one has z_a != z_c and z_b != z_d, z_a z_b + z_c z_d being z_a z_d + z_c z_b
        in all others: of a coalition with a share q of the players, for a given four, with chance
        (2 q (1 - q))^2. That none has must be as rare as CONFUSED.
        """
        q = (self.signs > 0).mean(axis=1)
        return bool(np.log1p(-((2 * q * (1 - q)) ** 2)).sum() < math.log(CONFUSED))

    def columns(self, own: Fit, pairs: np.ndarray, D: int) -> np.ndarray:
        """The level, and z_i z_j of pairs [R, width] (-1: none), turned; [R, D, 1 + width]."""
        if D < self.D or not self._keeps:
            return np.matmul(own.white, columns_of(self.signs[:D], pairs))
        (turned,) = self._turned_once("columns", own.rate, self._all_columns)
        picked = np.moveaxis(turned[:, pairs], 0, 1) * (pairs >= 0)[:, None]
        level = np.broadcast_to(own.white.sum(axis=1)[:, None], (*picked.shape[:2], 1))
        return np.concatenate([level, picked], axis=2)

    def tells(self, rate: float) -> np.ndarray:
        """The squares of each pair's turned column beside the level, [pairs]."""
        if rate not in self._tells:
            level = self.fit(rate, self.D).white.sum(axis=1)
            found = [
                (turned**2).sum(axis=0) - (level @ turned) ** 2 / (level @ level)
                for turned in self._columns_of_pairs(rate)
            ]
            self._tells[rate] = np.concatenate(found)
        return self._tells[rate]

    def of_sets(self, rate: float) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """(a part of `sets`, the answers' covariances with them, turned [D, part], what of their
        own variances the answers do not tell [part]).
        """
        return iter(self._turned_once("sets", rate, self._covariances))

    def _covariances(self, rate: float) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        white = self.fit(rate, self.D).white
        for start in range(0, len(self.sets), TOGETHER):
            part = slice(start, start + TOGETHER)
            cross, prior = with_interactions(self.signs, self.sets[part], rate, self._nodes)
            turned = white @ cross
            yield part, turned, prior - (turned**2).sum(axis=0)

    def _all_columns(self, rate: float) -> Iterator[np.ndarray]:
        yield np.concatenate([np.zeros((self.D, 0)), *self._columns_of_pairs(rate)], axis=1)

    def _columns_of_pairs(self, rate: float) -> Iterator[np.ndarray]:
        white = self.fit(rate, self.D).white
        for start in range(0, len(self.pairs), TOGETHER):
            i, j = self.pairs[start : start + TOGETHER].T
            yield white @ (self.signs[:, i] * self.signs[:, j])

    def _turned_once(
        self, name: str, rate: float, turn: Callable[[float], Iterator[Any]]
    ) -> list[Any] | Iterator[Any]:
        """What `turn` yields; kept for one rate at a time, where it is small."""
        if not self._keeps:
            return turn(rate)
        if name not in self._kept or self._kept[name][0] != rate:
            self._kept[name] = rate, list(turn(rate))
        return self._kept[name][1]
