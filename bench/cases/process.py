"""T22 and T24: what only a process of its own can show, peak memory and the cold start."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bench.cases.exact import Problem, adult_problem, network
from bench.definition import efficiency
from bench.frame import Agreement, Case, Figure, Outcome, Size
from bench.jobs import MEBI, in_process, pack

MAX_MEMORY = 256 * MEBI


def _job(name: str, problem: Problem, **more: Any) -> tuple[dict[str, Any], Agreement]:
    """Run a job on a problem in a fresh process, and compare the values that it left."""
    with tempfile.TemporaryDirectory(prefix="xaijax-bench-") as folder:
        inputs, outputs = Path(folder) / "in.npz", Path(folder) / "out.npz"
        arrays = {"X": problem.X, "background": problem.background} | more
        pack(inputs, problem.params, **arrays)
        told = in_process(name, inputs, outputs)
        with np.load(outputs, allow_pickle=False) as stored:
            found = SimpleNamespace(values=stored["values"], base_values=stored["base_values"])
    return told, efficiency(found, problem.outputs)


@dataclass(frozen=True)
class Memory:
    """Problems whose hybrids, or whose tables of 2^P values, would not fit the limit at once."""

    problems: dict[str, Problem]

    def measure(self) -> Outcome:
        """The peak of each in a process of its own."""
        figures: list[Figure] = []
        agreements: list[Agreement] = []
        details: dict[str, Any] = {}
        for label, problem in self.problems.items():
            told, agreement = _job("memory", problem, max_memory=MAX_MEMORY)
            peak = told["peak"] / MEBI
            figures.append(Figure(f"peak above the start, {label}", peak, 256, 64, unit=" MiB"))
            agreements.append(agreement)
            details[label] = told
        note = "N = 10,000 with P = 16 and B = 1,000 together would take hours: the product is cut"
        return Outcome(tuple(figures), agreements=tuple(agreements), notes=(note,), details=details)


def setup_memory(size: Size) -> Memory:
    """Few instances of the largest tables, and ten thousand instances of small ones."""
    shapes = [(4, 16, 1_000), (10_000, 16, 1)] if size == "full" else [(4, 6, 5)]
    hidden = (32, 1) if size == "full" else (8, 1)
    return Memory({f"N={N:,} P={P} B={B:,}": network(N, B, (P, *hidden)) for N, P, B in shapes})


@dataclass(frozen=True)
class Cold:
    """A fresh process, from its start to the values."""

    problem: Problem
    rounds: int

    def measure(self) -> Outcome:
        """The median of several starts."""
        runs = [_job("cold", self.problem) for _ in range(self.rounds)]
        walls = [told["wall"] for told, _ in runs]
        figure = Figure("wall clock of the process", statistics.median(walls), 6, 1.5, unit=" s")
        compiled = statistics.median(told["compile_seconds"] for told, _ in runs)
        return Outcome(
            (figure,),
            agreements=(runs[-1][1],),
            notes=(f"median of {self.rounds} processes; {compiled:.2g} s of it compilation",),
            details={"walls": walls, "runs": [told for told, _ in runs]},
        )


def setup_cold(size: Size) -> Cold:
    """T3's problem; the table is read beforehand, the codes come from a file of arrays."""
    problem = adult_problem(*((4, 3) if size == "smoke" else (1_000, 100)))
    return Cold(problem, rounds=1 if size == "smoke" else 3)


CASES = (
    Case(
        "T22",
        "peak temporary memory of a job in a process of its own, max_memory=256 MiB",
        "<= 256 MiB",
        "64 MiB",
        setup_memory,
    ),
    Case(
        "T24",
        "cold start with compilation, case T3, 1,000 rows",
        "<= 6 s",
        "1.5 s",
        setup_cold,
    ),
)
