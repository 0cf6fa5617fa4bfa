"""T27: workers and drivers of sweeps are killed; what is left, and what was asked twice."""

from __future__ import annotations

import importlib.util
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import xaijax
from bench.cases.sweeps import MODULES, SAME, equal, values_of
from bench.frame import Agreement, Case, Figure, Outcome, Size
from bench.sweep_job import FIRST, asked_parts, in_process

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


CASES = (Case("T27", setup_kills, long=True),)
