"""T25, T26 and T28: sweeps, their rate, memory and workers, rows that occur often."""

from __future__ import annotations

import importlib.util
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import xaijax
from bench.cases.exact import Problem, adult_problem
from bench.frame import Agreement, Case, Figure, NotRun, Outcome, Size
from bench.jobs import MEBI, pack
from bench.models import adult_codes, forward
from bench.sweep_job import in_process

SAME = "the same program on the same rows: not a bit may differ"


def values_of(out: Path) -> np.ndarray:
    return xaijax.open_run(out).explanation().values


def equal(between: str, found: np.ndarray, wanted: np.ndarray) -> Agreement:
    differ = float(found.tobytes() != wanted.tobytes()) and float(np.abs(found - wanted).max())
    return Agreement(between, differ, 0.0, SAME)


def _parquet(rows: np.ndarray, path: Path) -> str:
    arrow = _needed("pyarrow", "pyarrow.parquet")
    columns = {f"x{j}": rows[:, j] for j in range(rows.shape[1])}
    arrow.parquet.write_table(arrow.table(columns), path, row_group_size=100_000)
    return str(path)


def _needed(name: str, module: str = "") -> Any:
    if importlib.util.find_spec(name) is None:
        raise NotRun(f"{name} is not installed: pip install 'xaijax[scale]'")
    importlib.import_module(module or name)
    return importlib.import_module(name)


@dataclass(frozen=True)
class Rate:
    """T25: many rows of Adult, drawn with repetition, from Parquet, in one process.

    At commit 0b6436e5f7 (2026-11-26) 28,492 of the rows were distinct, and rows/s that the model
    was asked were 0.902 of those of one call; looking for equal rows took 4.01 % of the time, and
    the driver's peak for a quarter of the rows was 8.1 MiB.
    """

    problem: Problem
    table: np.ndarray
    rows: int
    warm: int  # rows of the one call
    each: int  # rows of a part

    def measure(self) -> Outcome:
        """One process: a call on some rows, warm, then the sweep."""
        with tempfile.TemporaryDirectory(prefix="xaijax-bench-") as name:
            folder = Path(name)
            rng = np.random.default_rng(0)
            drawn = self.table[rng.integers(0, len(self.table), self.rows)]
            rows = _parquet(drawn, folder / "rows.parquet")
            inputs = folder / "in.npz"
            pack(inputs, self.problem.params, background=self.problem.background)
            job: dict[str, Any] = {"method": "network", "inputs": str(inputs), "rows": rows}
            job |= {"out": str(folder / "run"), "rows_per_part": self.each, "warm": self.warm}
            _, told = in_process(**job)
            asked = xaijax.open_run(folder / "run").manifest["distinct"]
            model = xaijax.as_model(forward, self.problem.params)
            made = xaijax.Explainer(model, self.problem.background)
            some = made(drawn[: self.each], progress=False).values
            found = xaijax.open_run(folder / "run").explanation(lazy=True).values
            agreement = equal("a part and one call", np.array(found[: self.each]), some)
        one_call = self.warm / told["one_call"]  # rows a second; it asks all of its rows
        rate = self.rows / told["seconds"] / one_call
        over = (told["seconds"] - told["explained"] - told["looked"]) / told["seconds"]
        return Outcome(
            (
                Figure("rows/s of the sweep over those of one call", rate, 0.95, better="more"),
                Figure("driver's peak above the start", told["peak"] / MEBI, 300, unit=" MiB"),
                Figure("checkpoints' share of the time", 100 * over, 2, unit=" %"),
            ),
            agreements=(agreement,),
            notes=(
                f"{self.rows:,} rows, {asked:,} of them distinct, in parts of {self.each:,}; one "
                f"call of {self.warm:,}",
            ),
            details=told,
        )


@dataclass(frozen=True)
class Repeated:
    """T28: rows that occur often, over each of them once, in one process each."""

    problem: Problem
    rows: np.ndarray  # all different
    times: int
    each: int

    def measure(self) -> Outcome:
        """The distinct rows, then all of them in a random order."""
        with tempfile.TemporaryDirectory(prefix="xaijax-bench-") as name:
            folder = Path(name)
            inputs = folder / "in.npz"
            pack(inputs, self.problem.params, background=self.problem.background)
            order = np.random.default_rng(0).permutation(len(self.rows) * self.times)
            order %= len(self.rows)
            job: dict[str, Any] = {"method": "network", "inputs": str(inputs), "warm": self.each}
            job["rows_per_part"] = self.each
            told = {}
            for label, rows in (("once", self.rows), ("often", self.rows[order])):
                path = _parquet(rows, folder / f"{label}.parquet")
                _, told[label] = in_process(**job, rows=path, out=str(folder / label))
            often, once = (values_of(folder / label) for label in ("often", "once"))
        ratio = told["often"]["seconds"] / told["once"]["seconds"]
        return Outcome(
            (Figure(f"{self.times} times the rows / the rows once", ratio, 1.2, unit="x"),),
            agreements=(equal("rows that occur often", often, once[order]),),
            notes=(f"{len(self.rows):,} distinct rows",),
            details=told,
        )


@dataclass(frozen=True)
class Workers:
    """T26: two workers of each engine over one process with one thread.

    The start of the workers and their compilation are included, and Dask's profiler is off, as
    docs/scaling.md says. One thread is the mean of a run before and one after the others.
    At commit 86b6059aae (2026-11-26) two sweeps of a half each, at once on a core each, were 1.8x.
    """

    problem: Problem
    rows: np.ndarray
    each: int
    engines: tuple[str, ...]

    def measure(self) -> Outcome:
        """Each engine in a process of its own, between two with one thread."""
        figures, agreements, notes = [], [], []
        with tempfile.TemporaryDirectory(prefix="xaijax-bench-") as name:
            folder = Path(name)
            rows = _parquet(self.rows, folder / "rows.parquet")
            inputs = folder / "in.npz"
            pack(inputs, self.problem.params, background=self.problem.background)
            job: dict[str, Any] = {"method": "network", "inputs": str(inputs), "rows": rows}
            job |= {"rows_per_part": self.each, "count": 2}
            _, alone = in_process(**job, out=str(folder / "alone"), cores=[0])
            wanted = values_of(folder / "alone")
            seconds = {}
            for engine in self.engines:
                if engine != "processes" and importlib.util.find_spec(MODULES[engine]) is None:
                    notes.append(f"{engine}: not run, it is not installed")
                    continue
                _, told = in_process(**job, out=str(folder / engine), executor=engine)
                seconds[engine] = told["seconds"]
                agreements.append(equal(engine, values_of(folder / engine), wanted))
            _, after = in_process(**job, out=str(folder / "after"), cores=[0])
            one = (alone["seconds"] + after["seconds"]) / 2
            for engine, taken in seconds.items():
                label = f"{engine}: one thread / two workers"
                figures.append(Figure(label, one / taken, 1.7, 1.9, better="more", unit="x"))
        return Outcome(tuple(figures), agreements=tuple(agreements), notes=tuple(notes))


MODULES = {"dask": "distributed", "ray": "ray"}


def setup_rate(size: Size) -> Rate:
    """Measures a sweep of 1,000,000 x 12 Adult rows from Parquet, 100 background rows, exact: rate,
    memory and checkpoints.

    A million rows; the demo's network.
    """
    problem = adult_problem(*((4, 3) if size == "smoke" else (4, 100)))
    _, _, table = adult_codes(1, 1)
    rows, warm, each = (40, 10, 20) if size == "smoke" else (1_000_000, 10_000, 10_000)
    return Rate(problem, table, rows, warm, each)


def setup_workers(size: Size) -> Workers:
    """Measures a sweep of 100,000 Adult rows on 2 workers over one process of one thread.

    100,000 rows, some 27,000 of them distinct; parts small enough to be dealt out evenly.
    """
    problem = adult_problem(*((4, 3) if size == "smoke" else (4, 100)))
    _, _, table = adult_codes(1, 1)
    rows, each = (40, 20) if size == "smoke" else (100_000, 1_000)
    drawn = table[np.random.default_rng(0).integers(0, len(table), rows)]
    engines = ("processes",) if size == "smoke" else ("processes", "dask", "ray")
    return Workers(problem, drawn, each, engines)


def setup_repeated(size: Size) -> Repeated:
    """Measures a sweep of Adult rows that occur 20 times over one of each row once.

    20,000 distinct rows, each 20 times.
    """
    problem = adult_problem(*((4, 3) if size == "smoke" else (4, 100)))
    _, _, table = adult_codes(1, 1)
    distinct = np.unique(table, axis=0)
    rows, times, each = (20, 3, 10) if size == "smoke" else (20_000, 20, 5_000)
    return Repeated(problem, distinct[:: len(distinct) // rows][:rows], times, each)


CASES = (
    Case("T25", setup_rate, long=True),
    Case("T26", setup_workers, long=True),
    Case("T28", setup_repeated, long=True),
)
