"""T52, T53, T72, `first` and `one-row`: first answers of new processes and warm answers of one row,
by the processor and by the clock."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.environments import environment
from bench.first_jobs import LIBRARIES, MODELS, B, N, by_shap, ours, question
from bench.frame import (
    Agreement,
    Case,
    Contender,
    Figure,
    NotRun,
    Outcome,
    Size,
    ratio,
    take_turns,
    wall,
)
from bench.jobs import ROOT


def told_by(library: str, model: str = "") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a job says, and its arrays; raises NotRun if the library is not installed.

    What needs PyTorch runs in the environment of `bench/peers/gradients.txt`, if it is not here.
    """
    python = Path(sys.executable)
    own = {name: text for name, text in os.environ.items() if "CACHE" not in name}
    needs = {"captum": "captum", "images": "torch"}.get(library)
    if needs and importlib.util.find_spec(needs) is None:
        python = environment("gradients")
        own["PYTHONPATH"] = str(ROOT / "kernels")
    own.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    with tempfile.TemporaryDirectory(prefix="xaijax-bench-") as folder:
        outputs = Path(folder) / "out.npz"
        command = [str(python), "-m", "bench.first_jobs", library, model, str(outputs)]
        done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True)
        if "ModuleNotFoundError" in done.stderr:
            name = done.stderr.rsplit("No module named ", 1)[-1].split("'")[1]
            raise NotRun(f"{name} is not installed")
        if done.returncode:
            raise RuntimeError(f"the job {library} {model} failed:\n{done.stderr[-2_000:]}")
        told = json.loads(done.stdout.splitlines()[-1])
        if not outputs.exists():
            return told, {}
        with np.load(outputs, allow_pickle=False) as stored:
            return told, {name: stored[name] for name in stored.files}


def _started(told: dict[str, Any]) -> dict[str, Any]:
    """The same, with the import of the library in its first answer. Ours puts off the import of
    JAX until then.
    """
    imports, first = told["imports"], told["first"]
    return told | {"first": {clock: imports[clock] + first[clock] for clock in first}}


def median(told: Iterable[dict[str, Any]], part: str, clock: str = "processor") -> float:
    """The median of a part's seconds over some processes."""
    return statistics.median(one[part][clock] for one in told)


def adds_up(arrays: dict[str, np.ndarray]) -> Agreement:
    """Whether the values add up from the mean of the background's answers to those of X."""
    answers, values = arrays["answers"], arrays["values"]
    total = answers[N : N + B].mean() + values.sum(axis=1)
    scale = float(np.abs(answers).max())
    reason = "float32 compared with float64, of the largest answer"
    far = float(np.abs(total - answers[:N]).max()) / scale
    return Agreement("base + values and f(x)", far, 1e-4, reason)


@dataclass(frozen=True)
class FirstAnswers:
    """Ten models by four libraries, a process for each and each round."""

    models: Sequence[str]
    libraries: Sequence[str]
    rounds: int

    def measure(self) -> Outcome:
        """Runs the libraries in turn on one model after the other."""
        figures: list[Figure] = []
        agreements: list[Agreement] = []
        details: dict[str, Any] = {}
        missing: dict[str, str] = {}
        table = [["model", *self.libraries]]
        for model in self.models:
            runs: dict[str, list[dict[str, Any]]] = {}
            for _ in range(self.rounds):
                for library in self.libraries:
                    if library in missing or (library == "captum" and model != "network"):
                        continue
                    try:
                        told, arrays = told_by(library, model)
                    except NotRun as reason:
                        missing[library] = str(reason)
                        continue
                    runs.setdefault(library, []).append(told)
                    if library == "xaijax":
                        agreements.append(adds_up(arrays))
            seconds = {
                library: median(map(_started, told), "first") for library, told in runs.items()
            }
            table.append([model, *(_cell(runs.get(library, ())) for library in self.libraries)])
            peers = [seconds[one] for one in seconds if one != "xaijax"]
            over = seconds["xaijax"] / min(peers) if peers else float("nan")
            figures.append(Figure(f"{model}: ours / the fastest peer, first answer", over))
            details[model] = runs
        notes = (
            "seconds of the processor, then by the clock, of the import of the library with the "
            "first answer, and of the same cell "
            f"again; fits left out; processes each: {self.rounds}",
            "exact values of 4 rows and 20 background rows; captum: 25 permutations, the network",
            *(f"{library}: {reason}" for library, reason in missing.items()),
        )
        return Outcome(
            tuple(figures), agreements=tuple(agreements), notes=notes, details=details, table=table
        )


def _cell(told: Sequence[dict[str, Any]]) -> str:
    """ "1.20 (.80); .01 (.01)": the first answer and the second one."""
    if not told:
        return "-"
    told = [_started(one) for one in told]
    parts = [
        f"{median(told, part):.3g} ({median(told, part, 'wall'):.3g})"
        for part in ("first", "again")
    ]
    return "; ".join(parts)


def setup_answers(size: Size) -> FirstAnswers:
    """Measures the first answer in a new process of ten models, and the same cell run again,
    against shap, shapiq and captum.
    """
    if size == "smoke":
        return FirstAnswers(("host",), ("xaijax",), 1)
    return FirstAnswers(MODELS, LIBRARIES, 1)


@dataclass(frozen=True)
class Shares:
    """Processor seconds of a job's part over another job's, in turn, a process each."""

    label: str
    jobs: tuple[tuple[str, str], tuple[str, str]]  # (library, model): ours, what it is compared to
    parts: dict[str, tuple[float, float]]  # of the job: target, stretch
    rounds: int

    def measure(self) -> Outcome:
        """Medians of some processes."""
        runs: list[list[dict[str, Any]]] = [[], []]
        values: list[np.ndarray] = []
        for _ in range(self.rounds):
            for told, job in zip(runs, self.jobs, strict=True):
                said, arrays = told_by(*job)
                told.append(said)
                values.append(arrays.get("values", np.zeros(0)))
        figures = []
        for part, goals in self.parts.items():
            shares = [
                median(runs[0], part, clock) / median(runs[1], part, clock) for clock in CLOCKS
            ]
            figures.append(Figure(f"{self.label}, {part}", shares[0], *goals))
            figures.append(Figure(f"{self.label}, {part}, by the clock", shares[1]))
        mine, theirs = values[-2:]
        if mine.shape == theirs.shape and mine.size:
            far = float(np.abs(mine - theirs).max())
            agreement = Agreement("both jobs' values", far, 1e-5, "float32 compared with float64")
        else:  # answers of the model, which are no values
            finite = 0.0 if np.isfinite(mine).all() else float("nan")
            agreement = Agreement("the values and finite numbers", finite, 0.0, "exactly")
        notes = (f"medians of {self.rounds} processes each, in turn",)
        details = {"ours": runs[0], "compared": runs[1]}
        return Outcome(tuple(figures), agreements=(agreement,), notes=notes, details=details)


CLOCKS = ("processor", "wall")


def setup_quickstart(size: Size) -> Shares:
    """Measures the README's quickstart in a new process, after the imports and the fit, over
    `jax.jit` of the model alone and one call.

    Missed: The quickstart evaluates 48 million hybrids of two layers, which alone take several
    times the goal; compiling its four programs takes as long again. A warm call took 1.4 seconds
    of the processor and the first one 3.2, when the model alone took 0.1 (2026-12-01).
    """
    jobs = ("quickstart", "explained"), ("quickstart", "alone")
    return Shares("explained / the model", jobs, {"first": (3, 2)}, 3 if size == "full" else 1)


def setup_pipeline(size: Size) -> Shares:
    """Measures a Pipeline of an imputer, one-hot columns and a forest of 30, on a frame of five
    columns with 4 rows and 20 background rows, in a new process, over backend="host": the first
    answer, and one after a second `as_model`.
    """
    jobs = ("xaijax", "pipeline"), ("xaijax host", "pipeline")
    goals = {"first": (1.2, 0.8), "again": (1.1, 0.8)}
    return Shares("auto / host", jobs, goals, 3 if size == "full" else 1)


def setup_import(size: Size) -> Shares:
    """Measures `import xaijax` and two names of a first call over `import jax`, in processes."""
    jobs = ("xaijax names", ""), ("jax", "")
    return Shares("import", jobs, {"imports": (1.5, 1.2)}, 9 if size == "full" else 1)


@dataclass(frozen=True)
class OneRow:
    """Warm calls that explain one row, by ours and by shap, in turn."""

    models: Sequence[str]
    calls: int  # of a turn
    rounds: int

    def measure(self) -> Outcome:
        """Processor seconds have the goal; those by the clock are shown as well."""
        if importlib.util.find_spec("shap") is None:
            raise NotRun("shap is not installed")
        figures: list[Figure] = []
        agreements: list[Agreement] = []
        for model in self.models:
            task = question(model, "xaijax")
            contenders = [
                Contender("ours", _repeated(ours(task)), self.calls),
                Contender("shap", _repeated(by_shap(task)), self.calls),
            ]
            label = f"{model}: ours / shap's {'Tree' if task.trees else 'Exact'}Explainer"
            timings, results = take_turns(contenders, rounds=self.rounds, clock=time.process_time)
            figures.append(Figure(label, ratio(timings, "ours", "shap"), 3))
            far = (
                np.abs(results["ours"] - results["shap"]).max()
                / np.abs(task.answers(task.rows)).max()
            )
            reason = "float32 compared with float64, of the largest answer"
            agreements.append(Agreement(f"{model}: both values", float(far), 1e-5, reason))
            timings, _ = take_turns(contenders, rounds=self.rounds, clock=wall)
            figures.append(Figure(f"{label}, by the clock", ratio(timings, "ours", "shap")))
        notes = (f"the least of {self.rounds} turns of {self.calls} calls each",)
        return Outcome(tuple(figures), agreements=tuple(agreements), notes=notes)


def _repeated(explain: Callable[[slice], np.ndarray]) -> Callable[[int], np.ndarray]:
    """Explains the first row several times; returns the last values, [1, P]."""

    def run(calls: int) -> np.ndarray:
        return [explain(slice(1)) for _ in range(calls)][-1]

    return run


def setup_row(size: Size) -> OneRow:
    """Measures warm calls that explain one row of 8 columns with 20 background rows, by a network
    in JAX, a logistic model, a forest and a function on the host, over shap's ExactExplainer, or
    its TreeExplainer for the forest.

    Missed: shap's TreeExplainer reads one forest in 0.1 ms and asks scikit-learn nothing, while
    ours compares each row's answer with the estimator's own and checks its fit; the network's ratio
    is not to be trusted, since shap's NumPy waits for XLA's threads in this process: timed before
    ours ran it was 4.4, which misses the goal. Its 5,120 hybrids are 160 calls of 32 rows, at 40
    microseconds each.
    """
    if size == "smoke":
        return OneRow(("host",), 1, 1)
    return OneRow(("network", "logistic", "forest", "host"), 20, 5)


class Images:
    """The peak of a process that explains images by a network in PyTorch."""

    def measure(self) -> Outcome:
        """One process; NotRun without PyTorch."""
        told, arrays = told_by("images")
        finite = 0.0 if np.isfinite(arrays["values"]).all() else float("nan")
        figures = (
            Figure("peak of the process", told["peak"] / 1024, 1.2, unit=" GiB"),
            Figure("before the first call", told["before"] / 1024, unit=" GiB"),
        )
        agreement = Agreement("the values and finite numbers", finite, 0.0, "exactly")
        return Outcome(figures, agreements=(agreement,), details=told)


def setup_images(size: Size) -> Images:
    """Measures the peak memory of ResNet-18 in PyTorch on the host: 4 images of 224 x 224 in 16
    patches, budget 32.
    """
    del size  # the network has one
    return Images()


CASES = (
    Case("T52", setup_quickstart),
    Case("T53", setup_pipeline),
    Case("T72", setup_images),
    Case("first", setup_answers, long=True, page="docs/first_answer.md"),
    Case("one-row", setup_row),
    Case("import", setup_import),
)
