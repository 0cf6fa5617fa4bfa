"""T21: how the time grows with instances, background rows and players."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bench.cases.exact import OURS, Problem, network
from bench.definition import efficiency
from bench.frame import Agreement, Case, Contender, Figure, Outcome, Size, Timing, take_turns


@dataclass(frozen=True)
class Growth:
    """Three series of problems; in each one size grows and the others stand still."""

    series: dict[str, list[tuple[int, Problem]]]
    rounds: int

    def measure(self) -> Outcome:
        """Time all problems of a series in turn, and fit the slope of the logarithms."""
        figures: list[Figure] = []
        agreements: list[Agreement] = []
        details: dict[str, dict[int, float]] = {}
        for name, problems in self.series.items():
            contenders = [
                Contender(f"{name}={size}", problem.ours(), len(problem.X))
                for size, problem in problems
            ]
            timings, results = take_turns(contenders, rounds=self.rounds)
            agreements += [
                efficiency(results[f"{name}={size}"], problem.outputs) for size, problem in problems
            ]
            sizes = [size for size, _ in problems]
            slope = _slope(name, sizes, list(timings.values()))
            label = f"log2 of time per player ({name})" if name == "P" else f"exponent in {name}"
            figures.append(Figure(label, slope, 0.1, better="near"))
            details[name] = {
                size: timing.best for size, timing in zip(sizes, timings.values(), strict=True)
            }
        worst = max(agreements, key=lambda one: one.difference / one.tolerance)
        return Outcome(
            tuple(figures),
            agreements=(worst,),
            notes=(f"{OURS} alone; the worst of {len(agreements)} comparisons is shown",),
            details=details,
        )


def _slope(name: str, sizes: list[int], timings: list[Timing]) -> float:
    logs = [math.log2(timing.best) for timing in timings]
    # 2^P hybrids: the time should double with each player, so P itself is the abscissa.
    steps = sizes if name == "P" else [math.log2(size) for size in sizes]
    return float(np.polyfit(steps, logs, 1)[0])


def setup(size: Size) -> Growth:
    """Measures the growth of the time: exponent in N (40 to 640) and in B (10 to 1,000), log2 of
    the time per player (8 to 14).

    Sizes so that the least point of a series still takes about a tenth of a second.
    """
    hidden = (8, 8, 1) if size == "smoke" else (64, 64, 1)
    sweeps = {
        "smoke": ((2, 4), (3, 6), (4, 5)),
        "full": ((40, 80, 160, 320, 640), (10, 32, 100, 316, 1_000), (8, 10, 11, 12, 13, 14)),
    }
    instances, background, players = sweeps[size]
    N, B, P = (4, 3, 5) if size == "smoke" else (400, 100, 9)
    return Growth(
        {
            "N": [(n, network(n, B, (P + 1, *hidden))) for n in instances],
            "B": [(b, network(N, b, (P, *hidden))) for b in background],
            "P": [(p, network(N // 4, B, (p, *hidden))) for p in players],
        },
        rounds=1 if size == "smoke" else 3,
    )


CASES = (Case("T21", setup, long=True),)
