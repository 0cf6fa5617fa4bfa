"""T22, T24, T36 and T39: what only a process of its own can show, peak memory, the cold start and
what is compiled in it."""

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


def _told(name: str, problem: Problem) -> dict[str, Any]:
    """What a job that leaves no values says of a problem."""
    with tempfile.TemporaryDirectory(prefix="xaijax-bench-") as folder:
        inputs = Path(folder) / "in.npz"
        pack(inputs, problem.params, X=problem.X, background=problem.background)
        return in_process(name, inputs, Path(folder) / "out.npz")


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

    # "tables" in the label: by full tables; "sampled": by orders; "beyond": without the result.
    problems: dict[str, Problem]

    def measure(self) -> Outcome:
        """The peak of each in a process of its own."""
        figures: list[Figure] = []
        agreements: list[Agreement] = []
        details: dict[str, Any] = {}
        for label, problem in self.problems.items():
            told, agreement = _job(
                "memory",
                problem,
                max_memory=MAX_MEMORY,
                tables="tables" in label,
                sampled="sampled" in label,
            )
            beyond = told["kept"] if "beyond" in label else 0
            peak = (told["peak"] - beyond) / MEBI
            figures.append(Figure(f"peak above the start, {label}", peak, 256, 64, unit=" MiB"))
            agreements.append(agreement)
            details[label] = told
        note = (
            "N = 10,000, P = 16, B = 1,000 with all players differing would take hours: it is cut"
        )
        return Outcome(tuple(figures), agreements=tuple(agreements), notes=(note,), details=details)


def setup_memory(size: Size) -> Memory:
    """The corners of N <= 10,000, P <= 16, B <= 1,000 that can be run, by rows and by tables; and a
    million rows, whose values alone are 61 and 92 MiB."""
    full = size == "full"
    shapes = [(4, 16, 1_000), (10_000, 16, 1)] if full else [(4, 6, 5)]
    hidden = (32, 1) if full else (8, 1)
    problems = {f"N={N:,} P={P} B={B:,}": network(N, B, (P, *hidden)) for N, P, B in shapes}
    N, P, B = shapes[0]
    problems[f"N={5 * N} P={P} B={B // 10:,}, by tables"] = network(
        5 * N, max(1, B // 10), (P, *hidden)
    )
    N, P, B = (10_000, 16, 1_000) if full else (20, 6, 10)
    problems[f"N={N:,} P={P} B={B:,}, two players differ"] = _two_differ(N, P, B, hidden)
    for P, how in ((8, ""), (12, ", sampled")):
        N = 1_000_000 if full else 20
        problems[f"N={N:,} P={P} B=1{how}, beyond the result"] = network(N, 1, (P, *hidden))
    return Memory(problems)


def _two_differ(N: int, P: int, B: int, hidden: tuple[int, ...]) -> Problem:
    """Rows that are zero but for one player, another one in X than in the background: all pairs are
    planned, but each has four hybrids."""
    dense = network(N, B, (P, *hidden))
    X, background = np.zeros_like(dense.X), np.zeros_like(dense.background)
    X[:, 0], background[:, 1] = dense.X[:, 0], dense.background[:, 1]
    return Problem(X, background, dense.params)


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
        compiled = statistics.median(told["compilation"] for told, _ in runs)
        return Outcome(
            (figure,),
            agreements=(runs[-1][1],),
            notes=(f"median of {self.rounds} processes; {compiled:.2g} s of it compilation",),
            details={"walls": walls, "runs": [told for told, _ in runs]},
        )


@dataclass(frozen=True)
class First:
    """A fresh process, from the model to the values, with what the structure's programs cost."""

    problem: Problem
    rounds: int

    def measure(self) -> Outcome:
        """The medians of several starts, with the structure and without."""
        figures: list[Figure] = []
        agreements: list[Agreement] = []
        details: dict[str, Any] = {}
        for name, plain in (("", False), ("plain: ", True)):
            runs = [_job("cold", self.problem, plain=plain) for _ in range(self.rounds)]
            first, compilation, programs = (
                statistics.median(told[key] for told, _ in runs)
                for key in ("first", "compilation", "programs")
            )
            goals = (None, None) if plain else (5, 3)
            figures.append(Figure(f"{name}to the first answer", first, *goals, unit=" s"))
            goals = (None, None) if plain else (2, 1)
            figures.append(Figure(f"{name}compilation", compilation, *goals, unit=" s"))
            figures.append(Figure(f"{name}compiled programs", programs))
            agreements.append(runs[-1][1])
            details[name or "structure"] = [told for told, _ in runs]
        notes = (
            f"medians of {self.rounds} processes, imports left out",
            "compilation: tracing and lowering included, as JAX counts them",
        )
        return Outcome(tuple(figures), agreements=tuple(agreements), notes=notes, details=details)


@dataclass(frozen=True)
class Ready:
    """The first explanation in a fresh process, and what others after it trace and compile."""

    problems: dict[str, Problem]  # of one instance
    rounds: int

    def measure(self) -> Outcome:
        """Medians of several processes, of each problem."""
        figures: list[Figure] = []
        agreements: list[Agreement] = []
        details: dict[str, Any] = {}
        for label, problem in self.problems.items():
            runs = [_job("ready", problem) for _ in range(self.rounds)]
            alone = [_told("jit", problem)["seconds"] for _ in range(self.rounds)]
            ours, jit = statistics.median(t["seconds"] for t, _ in runs), statistics.median(alone)
            figures.append(Figure(f"{label}: processor time of the first", ours, unit=" s"))
            figures.append(Figure(f"{label}: of jit(f).lower().compile()", jit, unit=" s"))
            share = Figure(f"{label}: (the first - 0.5 s) / compile", (ours - 0.5) / jit, 3)
            figures.append(share)
            told, agreement = runs[-1]
            agreements.append(agreement)
            for kind in ("another explainer", "as_model again", "one donor more"):
                traces, programs = told[kind]
                figures.append(Figure(f"{label}: traces, {kind}", traces, 0))
                figures.append(Figure(f"{label}: programs compiled, {kind}", programs, 0))
            details[label] = {"runs": [one for one, _ in runs], "jit": alone}
        notes = (f"medians of {self.rounds} processes, imports left out; one instance",)
        return Outcome(tuple(figures), agreements=tuple(agreements), notes=notes, details=details)


def setup_ready(size: Size) -> Ready:
    """An MLP 100-64-64, exact at 12 players, sampled at 100."""
    full = size == "full"
    hidden, donors = ((100, 64, 64, 1), 101) if full else ((8, 1), 5)
    problems = {f"P={P}": network(1, donors, (P, *hidden)) for P in ((12, 100) if full else (4,))}
    return Ready(problems, rounds=3 if full else 1)


def _cold_problem(size: Size) -> Problem:
    """T3's problem; the table is read beforehand, the codes come from a file of arrays."""
    return adult_problem(*((4, 3) if size == "smoke" else (1_000, 100)))


def setup_cold(size: Size) -> Cold:
    """All of the process."""
    return Cold(_cold_problem(size), rounds=1 if size == "smoke" else 3)


def setup_first(size: Size) -> First:
    """From the model to the values."""
    return First(_cold_problem(size), rounds=1 if size == "smoke" else 3)


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
    Case(
        "T36",
        "first explanation in a new process, MLP 100-64-64, P = 12 and 100; others after it",
        "processor time <= 3x of compiling f + 0.5 s; 0 traces and 0 programs after it",
        "2x + 0.2 s",
        setup_ready,
    ),
    Case(
        "T39",
        "the demo's problem (T3) in a new process: the first answer and what is compiled for it",
        "first answer <= 5 s; compilation <= 2 s",
        "3 s; 1 s",
        setup_first,
    ),
)
