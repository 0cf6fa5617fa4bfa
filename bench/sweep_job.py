"""A sweep in a process of its own: `python -m bench.sweep_job '{"rows": ..., "out": ...}'`.

Prints one line of JSON: seconds, the peak above the start, those in which parts were explained, and
those in which equal rows are looked for.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import xaijax
from bench.jobs import ROOT, _peak_above, _unpack
from bench.models import forward
from xaijax.sweeps.directory import RunDirectory
from xaijax.sweeps.inputs import distinct_of, source_of

FIRST = 1_000.0  # and above, in the last column: the rows of a part
NOTES = "asked"
PAUSE = 0.02  # seconds that a call of the model takes where workers are killed


def in_process(env: dict[str, str] | None = None, **job: Any) -> tuple[int, dict[str, Any]]:
    """Run a job in a fresh process; its exit status and its JSON (empty where it was killed)."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.sweep_job", json.dumps(job)],
        cwd=ROOT,
        env=os.environ | (env or {}),
        capture_output=True,
        text=True,
    )
    if done.returncode > 0:
        raise RuntimeError(f"the sweep failed:\n{done.stderr[-2_000:]}")
    return done.returncode, json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}


def begun(out: Path, **job: Any) -> subprocess.Popen[bytes]:
    """Start a job in a fresh process, which may be killed; its messages go into a file."""
    with out.with_suffix(".log").open("ab") as log:
        command = [sys.executable, "-m", "bench.sweep_job", json.dumps({**job, "out": str(out)})]
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)


def product(rows: Any) -> np.ndarray:
    """A model on the host that costs nothing."""
    rows = np.asarray(rows, np.float64)
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


def noted(folder: str, rows: Any) -> np.ndarray:
    """The same after a pause; notes which process was asked which part, by the last column."""
    rows = np.asarray(rows)
    for part in np.unique(rows[rows[:, -1] >= FIRST, -1]) - FIRST:
        _note(Path(folder), int(part))
    time.sleep(PAUSE)
    return product(rows)


def _note(folder: Path, part: int) -> None:
    with (folder / NOTES).open("a") as file:  # short lines are appended whole
        file.write(f"{os.getpid()} {part}\n")


def asked_parts(folder: Path) -> list[tuple[int, int]]:
    """(process, part) of all that was noted in a folder, each once, the newest last."""
    path = folder / NOTES
    lines = path.read_text().splitlines() if path.exists() else []
    return list(dict.fromkeys((int(one.split()[0]), int(one.split()[1])) for one in lines))


@contextmanager
def noting(notes: Path) -> Iterator[list[int]]:
    """Notes each part that this process has answered and begins to write: its failpoints come then.

    The model cannot tell: it is asked the first rows of all by every driver.
    """
    write = RunDirectory.write

    def told(self: RunDirectory, number: int, answer: Any, term: Any = None) -> None:
        _note(notes, number)
        write(self, number, answer, term)

    RunDirectory.write = told
    try:
        yield []
    finally:
        RunDirectory.write = write


@contextmanager
def killing(notes: Path, out: Path, receipts: Sequence[int]) -> Iterator[list[int]]:
    """Kills the worker that was asked last, whenever so many parts are there; a list of those."""
    killed: list[int] = []
    gone: list[int] = []

    def watch() -> None:
        for count in receipts:
            while len(list(out.glob("part-*.npz"))) < count:
                time.sleep(0.002)
            while len(killed) <= receipts.index(count):
                workers = [one for one, _ in asked_parts(notes) if one not in (os.getpid(), *gone)]
                gone.append(workers[-1])
                with suppress(ProcessLookupError):  # it has ended itself: kill another
                    os.kill(workers[-1], signal.SIGKILL)
                    killed.append(workers[-1])

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield killed
    thread.join()


def explainer_of(job: dict[str, Any]) -> Any:
    """The network of T3, in JAX or NumPy, or one of four methods on a model that costs nothing."""
    if job["method"] == "network":
        params, arrays = _unpack(Path(job["inputs"]))
        return xaijax.Explainer(xaijax.as_model(forward, params), arrays["background"])
    if job["method"] == "host network":
        params, arrays = _unpack(Path(job["inputs"]))
        model = xaijax.as_model(functools.partial(numpy_forward, params), backend="host")
        return xaijax.Explainer(model, arrays["background"])
    background = np.load(job["inputs"])["background"]
    function: Any = product
    if job.get("receipts"):
        function = functools.partial(noted, job["notes"])
    model = xaijax.as_model(function, backend="host", threshold=1.0)
    if job["method"] == "federated":
        return xaijax.FederatedExplainer(model, background, {"guest": [1, 2]})
    if job["method"] == "qii":
        return xaijax.QII(model, background, quantity="individual")
    if job["method"] == "anchors":
        label = xaijax.as_model(_label, backend="host", output="label")
        return xaijax.AnchorExplainer(label, background, search_names(background))
    return xaijax.Explainer(model, background)


def numpy_forward(params: dict[str, Any], rows: Any) -> np.ndarray:
    """The same network as `forward`, in NumPy."""
    hidden = (np.asarray(rows, np.float32) - params["shift"]) / params["scale"]
    for weight, bias in params["layers"][:-1]:
        hidden = np.maximum(hidden @ weight + bias, 0)
    weight, bias = params["layers"][-1]
    return (hidden @ weight + bias)[:, 0]


def _label(rows: Any) -> np.ndarray:
    return product(rows) > 1


def search_names(background: np.ndarray) -> list[str]:
    """Names of its columns."""
    return [f"x{j}" for j in range(background.shape[1])]


@contextmanager
def executor_of(kind: str, count: int) -> Iterator[Any]:
    """Workers of this machine by the name of their engine."""
    if kind == "here":
        yield None
    elif kind == "processes":
        yield count
    elif kind == "dask":
        distributed = import_module("distributed")
        import_module("dask").config.set({"distributed.worker.profile.enabled": False})
        with distributed.LocalCluster(
            count, threads_per_worker=1, dashboard_address=None
        ) as cluster:
            with distributed.Client(cluster) as client:
                yield client
    else:
        ray = import_module("ray")
        ray.init(num_cpus=count, include_dashboard=False, log_to_driver=False)
        yield xaijax.engines.ray()
        ray.shutdown()


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Sweep as the job says; with "warm" so many rows are explained in one call before."""
    if job.get("cores"):
        os.sched_setaffinity(0, job["cores"])
    explainer = explainer_of(job)
    background = np.load(job["inputs"])["background"]
    told: dict[str, Any] = {}
    if job.get("warm"):
        source = source_of(job["rows"], background)
        rows = source.part(0, job["warm"]).read()
        explainer(rows, progress=False)
        started = time.perf_counter()
        explainer(rows, progress=False)
        told["one_call"] = time.perf_counter() - started
    watched: Any = nullcontext([])
    if job.get("receipts"):
        watched = killing(Path(job["notes"]), Path(job["out"]), job["receipts"])
    elif job.get("notes"):
        watched = noting(Path(job["notes"]))
    with (
        executor_of(job.get("executor", "here"), job.get("count", 1)) as executor,
        watched as killed,
    ):
        started = time.perf_counter()
        peak, run = _peak_above(
            lambda: xaijax.sweep(
                explainer,
                job["rows"],
                job["out"],
                executor,
                job.get("rows_per_part"),
                progress=False,
                options=job.get("options"),
            )
        )
        told |= {"seconds": time.perf_counter() - started, "peak": peak}
    told |= {"killed": len(killed), "driver": os.getpid()}
    if job["method"] == "network":
        parts: Any = (xaijax.load(path) for path in run.path.glob("part-*.npz"))
        told["explained"] = sum(part.stats["part"]["seconds"] for part in parts)
        started = time.perf_counter()
        distinct_of(source_of(job["rows"], background))
        told["looked"] = time.perf_counter() - started
    return told


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
