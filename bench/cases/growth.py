"""T21: how the time grows with instances, background rows and players."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import xaijax
from bench.cases.exact import OURS, Problem, network
from bench.definition import efficiency
from bench.frame import Agreement, Case, Contender, Figure, Outcome, Size, Timing, take_turns
from xaijax_kernels.games import sampling


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


@dataclass(frozen=True)
class Costs:
    """Series of doubled sizes; each (run, check) is timed, and the check of its result is 0."""

    series: dict[str, tuple[Callable[[int], Any], Callable[[int, Any], float]]]
    sizes: dict[str, tuple[int, ...]]
    rounds: int

    def measure(self) -> Outcome:
        """The exponents by which the times grow."""
        figures, agreements = [], []
        details: dict[str, dict[int, float]] = {}
        for name, (run, check) in self.series.items():
            sizes = list(self.sizes[name])
            contenders = [Contender(f"{name}={n}", partial(_whole, run, n), n) for n in sizes]
            timings, results = take_turns(contenders, rounds=self.rounds)
            slope = _slope(name, sizes, list(timings.values()))
            figures.append(Figure(f"exponent in {name}", slope, 1.3))
            wrong = max(check(n, results[f"{name}={n}"]) for n in sizes)
            agreements.append(Agreement(f"{name} and its definition", wrong, 0.0, "no arithmetic"))
            details[name] = dict(
                zip(sizes, (timing.best for timing in timings.values()), strict=True)
            )
        notes = (f"{OURS} alone",)
        return Outcome(tuple(figures), agreements=tuple(agreements), notes=notes, details=details)


def _whole(run: Callable[[int], Any], size: int, _: int) -> Any:
    return run(size)


def _groups(columns: int) -> Any:
    names = [f"c{j}" for j in range(columns)]
    groups = {f"g{k}": names[4 * k : 4 * k + 4] for k in range(columns // 4)}
    background = np.zeros((1, columns), np.float32)
    model = xaijax.as_model(_first, backend="host", feature_names=names)
    return xaijax.Explainer(model, background, players=groups).players


def _first(rows: Any) -> np.ndarray:
    return np.asarray(rows)[:, 0]


def _merged(parts: int) -> Any:
    one = xaijax.Explanation(
        np.arange(6.0).reshape(2, 3), np.zeros(2), exact=True, stats={"seconds": 1.0}
    )
    return xaijax.merge([one] * parts)


def costs(size: Size) -> Costs:
    """Measures how the time of work outside the model grows with its size: groups of columns,
    merged parts and drawn orders.

    The least point of a series takes about a hundredth of a second.
    """

    def is_order(draws: int, found: np.ndarray) -> float:
        return float(np.abs(np.sort(found, axis=1) - np.arange(9)).max())

    series: dict[str, Any] = {
        "columns of groups": (
            _groups,
            lambda n, found: float(np.abs(found.of_column - np.arange(n) // 4).max()),
        ),
        "merged parts": (
            _merged,
            lambda n, found: float(np.abs(found.values - np.tile(found.values[:2], (n, 1))).max()),
        ),
        "draws of an order": (lambda n: sampling.orders(0, 9, 0, n), is_order),
    }
    few, most = ((40, 80), (40, 80)) if size == "smoke" else ((5_000, 40_000), (250, 4_000))
    doubled = {
        "columns of groups": _doubled(*few),
        "merged parts": _doubled(*most),
        "draws of an order": _doubled(*few),
    }
    return Costs(series, doubled, rounds=1 if size == "smoke" else 5)


def _doubled(first: int, last: int) -> tuple[int, ...]:
    return tuple(first << n for n in range((last // first).bit_length()))


CASES = (Case("T21", setup, long=True), Case("T21-costs", costs))
