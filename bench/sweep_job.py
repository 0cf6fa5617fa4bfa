"""A sweep in a process of its own: `python -m bench.sweep_job '{"rows": ..., "out": ...}'`.

Prints one line of JSON: seconds, the peak above the start, those in which parts were explained, and
those in which equal rows are looked for.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import xaijax
from bench.jobs import ROOT, _peak_above, _unpack
from bench.models import forward
from xaijax.core.optional import require
from xaijax.core.travel import made_of
from xaijax.sweeps.distinct import distinct_of
from xaijax.sweeps.inputs import background_of, source_of

FLAG = 99.0  # and above, in the last column of a row whose first worker is killed


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


def product(rows: Any) -> np.ndarray:
    """A model on the host that costs nothing."""
    rows = np.asarray(rows, np.float64)
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


def kills(folder: str, rows: Any) -> np.ndarray:
    """The same, but it kills its process once for each flag."""
    rows = np.asarray(rows)
    for flag in np.unique(rows[rows[:, -1] >= FLAG, -1]).tolist():
        mark = Path(folder) / str(flag)
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
    return product(rows)


def explainer_of(job: dict[str, Any]) -> Any:
    """The network of T3, or one of four methods on a model that costs nothing."""
    if job["method"] == "network":
        params, arrays = _unpack(Path(job["inputs"]))
        return xaijax.Explainer(xaijax.as_model(forward, params), arrays["background"])
    background = np.load(job["inputs"])["background"]
    function = functools.partial(kills, job["marks"]) if job.get("marks") else product
    model = xaijax.as_model(function, backend="host", threshold=1.0)
    if job["method"] == "federated":
        return xaijax.FederatedExplainer(model, background, {"guest": [1, 2]})
    if job["method"] == "qii":
        return xaijax.QII(model, background, quantity="individual")
    if job["method"] == "anchors":
        label = xaijax.as_model(_label, backend="host", output="label")
        return xaijax.AnchorExplainer(label, background, search_names(background))
    return xaijax.Explainer(model, background)


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
        distributed: Any = require("distributed", "xaijax[scale]")
        require("dask", "xaijax[scale]").config.set({"distributed.worker.profile.enabled": False})
        with distributed.LocalCluster(
            count, threads_per_worker=1, dashboard_address=None
        ) as cluster:
            with distributed.Client(cluster) as client:
                yield client
    else:
        ray: Any = require("ray", "ray")
        ray.init(num_cpus=count, include_dashboard=False, log_to_driver=False)
        yield xaijax.engines.ray()
        ray.shutdown()


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Sweep as the job says; with "warm" so many rows are explained in one call before."""
    if job.get("cores"):
        os.sched_setaffinity(0, job["cores"])
    explainer = explainer_of(job)
    background = background_of(made_of(explainer))
    told: dict[str, Any] = {}
    if job.get("warm"):
        source = source_of(job["rows"], background)
        rows = source.part(0, job["warm"]).read()
        explainer(rows, progress=False)
        started = time.perf_counter()
        explainer(rows, progress=False)
        told["one_call"] = time.perf_counter() - started
    with executor_of(job.get("executor", "here"), job.get("count", 1)) as executor:
        started = time.perf_counter()
        peak, run = _peak_above(
            lambda: xaijax.sweep(
                explainer,
                job["rows"],
                job["out"],
                executor,
                job["rows_per_part"],
                progress=False,
                options=job.get("options"),
            )
        )
        told |= {"seconds": time.perf_counter() - started, "peak": peak}
    if job["method"] == "network":
        parts: Any = (xaijax.load(path) for path in run.path.glob("part-*.npz"))
        told["explained"] = sum(part.stats["part"]["seconds"] for part in parts)
        started = time.perf_counter()
        distinct_of(source_of(job["rows"], background))
        told["looked"] = time.perf_counter() - started
    return told


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
