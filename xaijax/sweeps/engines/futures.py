"""Anything whose `.submit(function, *args)` returns a future: executors, Dask, Ray, submitit."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from typing import Any

from xaijax.core.errors import SweepIncompleteError
from xaijax.core.optional import require
from xaijax.sweeps.engines.protocol import Lost, Outcome
from xaijax.sweeps.engines.worker import in_threads
from xaijax.sweeps.task import Task, run

POLLED = 0.5  # seconds between two looks at a future that calls nobody back
# What engines raise where the worker of a task died, by name: (deaths that it stands for).
DEATHS = {
    "KilledWorker": 2,  # Dask has tried it on several workers itself
    "WorkerCrashedError": 1,  # Ray
    "OutOfMemoryError": 1,
    "NodeDiedError": 1,
}


class Futures:
    """See `Engine`.

    Nothing of the explainer is put into the executor's own store, which may be lost with a worker:
    each task carries its recipe.
    """

    def __init__(
        self,
        submit: Callable[..., Any],
        at_once: int,
        cancel: Callable[[Any], bool],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.at_once = at_once
        self._submit, self._cancel, self._close = submit, cancel, close
        self._came: queue.Queue[tuple[int, Any]] = queue.Queue()
        self._out: dict[int, Any] = {}
        self._since: dict[int, float] = {}

    def submit(self, task: Task) -> None:
        """See `Engine`; raises SweepIncompleteError where the executor has ended."""
        try:
            future = self._submit(run, task)
        except (BrokenExecutor, RuntimeError) as error:
            raise SweepIncompleteError(
                f"the executor takes no more parts: {type(error).__name__}: {error}. What is done "
                "is kept; call again with a new executor. executor=2 starts processes that are "
                "replaced when they die."
            ) from error
        self._out[task.part], self._since[task.part] = future, time.monotonic()
        if hasattr(future, "add_done_callback"):
            future.add_done_callback(lambda done: self._came.put((task.part, done)))

    def finished(self, seconds: float | None) -> list[Outcome]:
        """See `Engine`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            done = self._done(deadline)
            if done or (deadline is not None and time.monotonic() >= deadline):
                return [(part, _outcome(future)) for part, future in done]

    def _done(self, deadline: float | None) -> list[tuple[int, Any]]:
        """Futures that are done; waits for a moment, or for the first that calls back."""
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        if any(not hasattr(one, "add_done_callback") for one in self._out.values()):
            wait = POLLED if wait is None else min(POLLED, wait)
            for part, one in self._out.items():
                if not hasattr(one, "add_done_callback") and one.done():
                    self._came.put((part, one))
        found = []
        try:
            found.append(self._came.get(timeout=wait))
            while True:
                found.append(self._came.get_nowait())
        except queue.Empty:
            pass
        # A cancelled one may still call back, when its part is already out again.
        known = [one for one in found if self._out.get(one[0]) is one[1]]
        for part, _ in known:
            del self._out[part]
        return known

    def cancel(self, part: int, seconds: float) -> bool:
        """Give the future up; whether its process ends is up to the executor.

        Its time begins when it is given out, or is first seen to run where it says so.
        """
        future, now = self._out[part], time.monotonic()
        begun = getattr(future, "running", None)
        if begun is not None and not begun():
            self._since[part] = now
        if now - self._since[part] < seconds:
            return False
        del self._out[part]
        self._cancel(future)
        return True

    def close(self) -> None:
        """Give up what is out; the executor itself is the person's."""
        for future in self._out.values():
            self._cancel(future)
        self._close()


def _outcome(future: Any) -> Any:
    try:
        return future.result()
    except BrokenExecutor as error:
        return Lost(f"its executor ended: {error}")
    except Exception as error:
        # Ray raises an object of two classes, its own and that of the cause.
        names = [one.__name__ for one in type(error).__mro__]
        deaths = next((DEATHS[name] for name in names if name in DEATHS), 0)
        if deaths:
            return Lost(f"{type(error).__name__}: {error}", deaths)
        return getattr(error, "cause", None) or error
    except BaseException as error:  # cancelled by somebody else
        return Lost(f"{type(error).__name__}: {error}")


def of_executor(executor: Any) -> Futures:
    """Of concurrent.futures, submitit and whatever else has `submit`."""
    at_once = getattr(executor, "_max_workers", None) or os.cpu_count() or 1
    return Futures(executor.submit, int(at_once), lambda future: bool(future.cancel()))


def of_dask(client: Any) -> Futures:
    """Of a Dask Client: as many parts as its workers have threads, and one waiting for each."""

    def submit(function: Callable[..., Any], task: Task) -> Any:
        return client.submit(in_threads, own, function, task, pure=False)

    of_workers = list(client.nthreads().values())
    own = min(of_workers, default=1)
    return Futures(
        submit, max(1, sum(of_workers)), lambda future: bool(future.cancel(force=True) or True)
    )


class Ray:
    """Ray tasks; made by `xaijax.engines.ray`."""

    def __init__(self, num_cpus: float, num_gpus: float) -> None:
        self.num_cpus, self.num_gpus = num_cpus, num_gpus

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        """A future of one task; a task whose worker dies is given out again by the driver."""
        ray: Any = require("ray", "xaijax[scale-ray]")
        needs = {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus, "max_retries": 0}
        threads = max(1, int(self.num_cpus))
        reference = ray.remote(**needs)(in_threads).remote(threads, function, *args)
        future = reference.future()
        future.reference = reference
        return future

    def engine(self) -> Futures:
        """See `Engine`."""
        ray: Any = require("ray", "xaijax[scale-ray]")
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False)
        cores = ray.cluster_resources().get("CPU", 1)
        at_once = max(1, int(cores // max(self.num_cpus, 1e-9)))

        def cancel(future: Any) -> bool:
            ray.cancel(future.reference, force=True)
            return True

        return Futures(self.submit, at_once, cancel)
