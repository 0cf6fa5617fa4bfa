"""Ours against one sampled peer: time and error at equal numbers of distinct coalitions.

The error of either side is measured against one long run, on the first instances, over several
seeds. Letters: N instances, P players, B background rows, S seeds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import xaijax
from bench import games
from bench.cases.exact import OURS, Problem
from bench.definition import REASON, efficiency, tolerance
from bench.frame import LEAST_SECONDS, Agreement, Contender, Duel, Figure, Size, Timing, ratio
from bench.models import forward
from bench.truth import Truth, centred, long_run, squared
from xaijax.estimators.driver import EstimatorName

Peer = Callable[[games.Game, int, int, int], np.ndarray]  # game, P, budget, seed -> [N, P]

PLAIN, ALONE = "xaijax, layer not declared", "the network after its first layer"


@dataclass(frozen=True)
class Contest:
    """Ours against one peer, on one problem."""

    problem: Problem
    estimator: EstimatorName
    budget: int  # distinct coalitions of an instance, empty and full not counted
    name: str  # of the peer
    peer: Peer  # for its error
    timed: Callable[[int], np.ndarray]  # for its time: values of the first n instances
    goals: tuple[float, float | None]  # of the ratio of times
    error_goals: tuple[float | None, float | None] = (None, None)
    measured: int = 16  # instances whose error is measured
    seeds: int = 10
    size: Size = "full"
    structure: Any = None  # what ours declares of the network; it is then timed without as well,
    alone: Callable[[int], Any] | None = None  # and what is left of the network, alone

    def ours(
        self, budget: int | None = None, estimator: EstimatorName | None = None, plain: bool = False
    ) -> Any:
        """The explainer; its seed is set before a call, and it is compiled once for all seeds."""
        structure = None if plain else self.structure
        return xaijax.Explainer(
            xaijax.as_model(forward, self.problem.params, structure=structure),
            self.problem.background,
            estimator=estimator or self.estimator,
            budget=budget or self.budget,
        )

    @functools.cached_property
    def _sides(self) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        """Values [S, measured, P] of both, and how many coalitions each asked at most."""
        X, P = self.problem.X[: self.measured], self.problem.X.shape[1]
        game = games.of_network(self.problem.params, self.problem.background)(X)
        ours, theirs, asked = [], [], {OURS: 0, self.name: 0}
        explain = self.ours()
        for seed in range(self.seeds):
            explain.seed = seed
            explanation = explain(X, progress=False)
            ours.append(explanation.values)
            asked[OURS] = max(asked[OURS], int(explanation.stats["coalitions"].max()))
            counted = games.Counted(game, P)
            theirs.append(self.peer(counted, P, self.budget, seed))
            asked[self.name] = max(asked[self.name], counted.asked)
        return {OURS: np.stack(ours), self.name: np.stack(theirs)}, asked

    @functools.cached_property
    def _truth(self) -> Truth:
        problem, X = self.problem, self.problem.X[: self.measured]
        P = X.shape[1]
        budget = 10 * max(self.budget, 2 * P)
        explain = self.ours(budget, "permutation")

        def run(seed: int) -> tuple[np.ndarray, np.ndarray]:
            explain.seed = seed
            found = explain(X, progress=False)
            assert found.std_errors is not None
            return found.values, found.std_errors

        def smallest(truth: np.ndarray) -> float:
            return min(float(squared(side, truth).mean()) for side in self._sides[0].values())

        inputs = (X, problem.background, problem.params, budget)
        return long_run(inputs, run, smallest, keep=self.size == "full")

    def errors(self) -> dict[str, float]:
        """Mean squared error of both sides."""
        truth = self._truth.values
        return {name: float(squared(side, truth).mean()) for name, side in self._sides[0].items()}

    def duel(self) -> Duel:
        """The times of both, their errors beside."""

        def check(results: Mapping[str, Any]) -> list[Agreement]:
            sides, asked = self._sides
            gap = abs(asked[OURS] - asked[self.name])
            reason = "equal, but for the pair of orders that does not fit"
            beside = []
            if self.structure is not None:
                difference = float(np.abs(results[OURS].values - results[PLAIN].values).max())
                accepted = tolerance(self.problem.outputs)
                beside = [Agreement("values without the layer", difference, accepted, REASON)]
            return [
                *beside,
                efficiency(results[OURS], self.problem.outputs),
                Agreement("coalitions asked", gap, 2.0 * (self.problem.X.shape[1] - 1), reason),
                self._truth.agreement(min(self.errors().values()), "smallest error"),
                *(centred(name, side, self._truth) for name, side in sides.items()),
            ]

        def figures(timings: Mapping[str, Timing], results: Mapping[str, Any]) -> list[Figure]:
            del results
            faster, errors = ratio(timings, self.name, OURS), self.errors()
            worse = errors[OURS] / errors[self.name]
            ceiling = None
            if self.alone is not None:  # by all turns of these two: a peer's long calls have fewer
                ceiling = faster * ratio(timings, OURS, ALONE)
            label = f"{self.name} / ours"
            found = [
                Figure(label, faster, *self.goals, better="more", unit="x", ceiling=ceiling),
                Figure(f"MSE ours / {self.name}'s", worse, *self.error_goals),
            ]
            if self.structure is not None:
                label = f"{self.name} / ours, layer not declared"
                found.insert(1, Figure(label, ratio(timings, self.name, PLAIN), unit="x"))
            if ceiling is not None:
                label = f"{self.name} / {ALONE} alone, the ceiling here"
                found.append(Figure(label, ceiling, unit="x"))
            return found

        X, B = self.problem.X, len(self.problem.background)
        asked, errors, explain = self._sides[1], self.errors(), self.ours()
        least = LEAST_SECONDS if self.size == "full" else 0.0
        contenders = [
            Contender(OURS, lambda n: explain(X[:n], progress=False), len(X)),
            Contender(self.name, self.timed, len(X), least),
        ]
        if self.structure is not None:
            plain = self.ours(plain=True)
            contenders.append(Contender(PLAIN, lambda n: plain(X[:n], progress=False), len(X)))
        if self.alone is not None:
            contenders.append(Contender(ALONE, self.alone, len(X)))
        # A call of half a second goes by a quarter from turn to turn, and a share of a ceiling is
        # of two such calls.
        rounds = 3 if self.alone is None else 8
        return Duel(
            contenders=contenders,
            check=check,
            figures=figures,
            rounds=rounds if self.size == "full" else 1,
            notes=(
                f"{len(X)} instances, {B} background rows",
                f"coalitions {asked[OURS]:,} and {asked[self.name]:,}",
                f"MSE {errors[OURS]:.3g} and {errors[self.name]:.3g} on {self.measured} instances, "
                f"{self.seeds} seeds",
            ),
        )
