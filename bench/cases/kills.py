"""T27: workers and drivers of sweeps are killed; what is left, and what was asked twice.

T71: how long the first part of a sweep takes, and how much work a killed driver loses.
"""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import xaijax
from bench.cases.exact import Problem, adult_problem
from bench.cases.sweeps import MODULES, SAME, equal, values_of
from bench.frame import Agreement, Case, Figure, Outcome, Size
from bench.jobs import pack
from bench.models import adult_codes
from bench.sweep_job import FIRST, asked_parts, begun, explainer_of, in_process

LOST = 3  # parts; as many as a failpoint counts to
POINTS = ("mid-write", "after-temporary", "after-rename")


@dataclass(frozen=True)
class Kills:
    """A worker is killed at each of some receipts, and the driver at its failpoints."""

    rows: np.ndarray
    each: int
    receipts: tuple[int, ...]
    engines: tuple[str, ...]
    methods: tuple[str, ...]
    kills: int

    def measure(self) -> Outcome:
        """Of each engine and method, what is left, beside an undisturbed run."""
        figures, agreements, notes = [], [], []
        with tempfile.TemporaryDirectory(prefix="xaijax-bench-") as name:
            folder = Path(name)
            inputs, rows = folder / "in.npz", folder / "rows.npy"
            np.savez(inputs, background=self.rows[:5])
            told = self.rows.copy()  # the last column says the part, and the model what it is asked
            told[:, -1] = FIRST + np.arange(len(told)) // self.each
            np.save(rows, told)
            base: dict[str, Any] = {"inputs": str(inputs), "rows": str(rows), "count": 2}
            base["rows_per_part"] = self.each
            in_process(**base, method="explainer", out=str(folder / "calm"))
            wanted = values_of(folder / "calm")
            for engine in self.engines:
                if engine != "processes" and importlib.util.find_spec(MODULES[engine]) is None:
                    notes.append(f"{engine}: not run, it is not installed")
                    continue
                again, killed, left = self._workers(folder, base, engine)
                due = len(self.receipts)
                figures.append(Figure(f"{engine}: workers killed", killed, due, better="more"))
                # A part that waits for a worker is not asked before that worker's own is done.
                figures.append(Figure(f"{engine}: parts asked again", again, due))
                agreements.append(equal(f"workers of {engine} killed", left, wanted))
            figures.append(Figure("drivers killed, of each method", self.kills))
            for method in self.methods:
                again, agreement = self._driver(folder, base, method)
                figures.append(Figure(f"{method}: parts asked again", again, self.kills))
                agreements.append(agreement)
        return Outcome(tuple(figures), agreements=tuple(agreements), notes=tuple(notes))

    def _workers(
        self, folder: Path, base: dict[str, Any], engine: str
    ) -> tuple[int, int, np.ndarray]:
        """(parts that were asked again, workers that were killed, the values that are left)."""
        notes, out = folder / f"notes-{engine}", folder / f"killed-{engine}"
        notes.mkdir()
        job = {**base, "method": "explainer", "executor": engine, "notes": str(notes)}
        _, told = in_process(**job, out=str(out), receipts=self.receipts)
        # The driver itself asks the first rows too, for the manifest.
        asked = [part for process, part in asked_parts(notes) if process != told["driver"]]
        return len(asked) - len(set(asked)), told["killed"], values_of(out)

    def _driver(self, folder: Path, base: dict[str, Any], method: str) -> tuple[int, Agreement]:
        """Kill the driver at points drawn at random, until it ends; parts are never lost.

        Returns how often a part was asked again that nobody had removed, and how results agree.
        """
        rng, out, notes = random.Random(method), folder / f"drivers-{method}", folder / method
        notes.mkdir()
        job = {**base, "method": method, "out": str(out), "notes": str(notes)}
        if method == "anchors":
            job["options"] = {"max_size": 1}
        killed = there = removed = 0
        while killed < self.kills:
            point = f"{rng.choice(POINTS)}:{rng.randint(1, 3)}"
            status, _ = in_process({"XAIJAX_FAILPOINT": point}, **job)
            killed += status < 0
            now = len(list(out.glob("part-*.npz")))
            if now < there:
                return 0, Agreement(f"{method}: parts after a kill", there - now, 0.0, SAME)
            there = now
            if status == 0:  # all is there: lose some, so that there is work again
                for path in rng.sample(sorted(out.glob("part-*.npz")), min(LOST, there)):
                    path.unlink()
                    there -= 1
                    removed += 1
        in_process(**job)
        again = len(asked_parts(notes)) - len(self.rows) // self.each - removed
        calm = {key: value for key, value in job.items() if key != "notes"}
        in_process(**{**calm, "out": str(folder / f"calm-{method}")})
        runs = [xaijax.open_run(one) for one in (out, folder / f"calm-{method}")]
        if method == "anchors":
            texts = [[str(rule) for rule in run.rules()] for run in runs]
            differ = float(texts[0] != texts[1])
            return again, Agreement(f"{method}: drivers killed", differ, 0.0, SAME)
        found, wanted = (run.explanation().values for run in runs)
        return again, equal(f"{method}: drivers killed", found, wanted)


def setup_kills(size: Size) -> Kills:
    """Measures sweeps of 40 parts in which 3 workers (3 engines) and 50 times the driver (4
    methods) are killed: the bytes must be those of an undisturbed run.

    40 parts of a model that costs nothing.
    """
    rng, smoke = np.random.default_rng(0), size == "smoke"
    rows = rng.integers(0, 40, (40 * 5 if not smoke else 30, 4)).astype(np.float64)
    engines = ("processes",) if smoke else ("processes", "dask", "ray")
    methods = ("explainer", "anchors") if smoke else ("explainer", "federated", "qii", "anchors")
    receipts = (1, 3, 4) if smoke else (4, 14, 24)
    return Kills(rows, 5, receipts, engines, methods, 1 if smoke else 50)


WAIT = 300.0  # seconds after which a sweep without a part is wrong


@dataclass(frozen=True)
class Lost:
    """T71: sweeps with parts by time; drivers that are killed, and interrupted, after a while.

    The work that a worker loses is what it has done since it wrote its last part. Workers write
    parts of one size in turn, so that of several the oldest of their newest parts counts.
    """

    problem: Problem
    rows: dict[str, np.ndarray]  # by method
    workers: tuple[int, ...]  # 0: the driver's own process
    pauses: tuple[float, ...]  # seconds after a part at which the driver is killed

    def measure(self) -> Outcome:
        """For each method and number of workers: a sweep that is killed some times."""
        figures, agreements, details = [], [], {}
        with tempfile.TemporaryDirectory(prefix="xaijax-bench-") as name:
            folder = Path(name)
            inputs = folder / "in.npz"
            pack(inputs, self.problem.params, background=self.problem.background)
            for method, rows in self.rows.items():
                np.save(folder / "rows.npy", rows)
                job: dict[str, Any] = {"method": method, "inputs": str(inputs)}
                job["rows"] = str(folder / "rows.npy")
                made = explainer_of(job)
                for count in self.workers:
                    label = f"{method}, " + (f"{count} workers" if count else "no workers")
                    out = folder / f"{method}-{count}".replace(" ", "-")
                    job |= {"executor": "processes" if count else "here", "count": count}
                    first, killed, stopped = self._run(out, job, max(1, count))
                    figures += [
                        Figure(f"{label}: time to the first part", first, 15, 5, unit=" s"),
                        Figure(f"{label}: work lost by kill -9", max(killed), 15, 5, unit=" s"),
                        Figure(f"{label}: work lost at Ctrl-C", stopped, 15, 5, unit=" s"),
                    ]
                    part = xaijax.load(min(out.glob("part-*.npz")))
                    wanted = made(rows[: len(part)], progress=False).values
                    agreements.append(equal(f"{label}, a part and one call", part.values, wanted))
                    sizes = xaijax.open_run(out).sizes
                    details[label] = {"sizes": sizes[:8], "killed": killed}
        notes = (
            "from the start of the process, its imports and compilation included",
            f"work lost: of {len(self.pauses)} kills the largest, for each worker",
            *(
                f"{label}: first parts of {one['sizes'][0]:,} rows"
                for label, one in details.items()
            ),
        )
        return Outcome(tuple(figures), agreements=tuple(agreements), notes=notes, details=details)

    def _run(
        self, out: Path, job: dict[str, Any], workers: int
    ) -> tuple[float, list[float], float]:
        """Seconds to the first part; those lost at each kill; those lost at an interrupt."""
        started, first, lost = time.time(), 0.0, []
        for pause in (*self.pauses, self.pauses[0]):
            there = len(list(out.glob("part-*.npz")))
            driver = begun(out, **job)
            try:
                # Until each worker has written a part of this driver.
                new = _until(lambda: _written(out), there + workers, driver)
                first = first or new[0] - started
                time.sleep(pause)
                now, last = time.time(), _written(out)[-workers]
                how = signal.SIGKILL if len(lost) < len(self.pauses) else signal.SIGINT
                driver.send_signal(how)
                if driver.wait(WAIT) == 0:
                    raise RuntimeError(f"{out.name}: the sweep ended before it was killed")
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(driver.pid, signal.SIGKILL)
            lost.append(now - last)
        return first, lost[:-1], lost[-1]


def _written(out: Path) -> list[float]:
    return sorted(one.stat().st_mtime for one in out.glob("part-*.npz"))


def _until(found: Callable[[], list[float]], count: int, driver: Any) -> list[float]:
    last = time.monotonic() + WAIT
    while len(written := found()) < count:
        if driver.poll() is not None or time.monotonic() > last:
            raise RuntimeError(f"{count} parts were not written; status {driver.poll()}")
        time.sleep(0.02)
    return written


def setup_lost(size: Size) -> Lost:
    """Measures sweeps of 28,000 Adult rows of 12 columns with 200 background rows, in JAX (and
    2,000 in NumPy): the first part, and drivers that are ended 1 and 5 s after a part.

    Missed: the first part of two workers in JAX takes 18.5 s on two cores that other processes
    used too (load 8 to 12), and 11.0 s on two quiet cores (4bb3eda950, 2026-11-29).

    Imports take 3.6 s of the 18.5 s, the start of a worker 6.9 s and the part 4 s. On quiet cores
    a kill loses 3.3 s and Ctrl-C 3.8 s.
    """
    smoke = size == "smoke"
    problem = adult_problem(4, 3 if smoke else 200)
    distinct = np.unique(adult_codes(1, 1)[2], axis=0)
    if smoke:
        return Lost(problem, {"host network": distinct}, (0,), (0.2,))
    rows = {"network": distinct, "host network": distinct[:2_000]}
    return Lost(problem, rows, (0, 2), (1.0, 5.0))


CASES = (Case("T71", setup_lost, long=True), Case("T27", setup_kills, long=True))
