"""Anything whose `.submit(function, *args)` returns a future: executors, Dask, Ray, submitit."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import queue
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

from xaijax.core.errors import InputError, SweepIncompleteError
from xaijax.core.optional import require
from xaijax.core.process import cores
from xaijax.sweeps.engines.worker import BegunFile, Lost, Outcome, attempt, in_pool, in_threads
from xaijax.sweeps.task import Task

RESTART = 60.0  # seconds that a worker of Dask may take to restart
WAY_OUT = (
    "Finished parts are kept; the same call with a new executor resumes. executor=2 starts "
    "processes that are replaced when they die or a part takes too long."
)
COUNTED = 1.0  # seconds between two counts of the workers of Dask, each a query to its scheduler
POLLED = 0.5  # seconds between two checks of a future without callbacks
# Errors of engines when the worker of a task died, by name: the number of deaths they mean.
DEATHS = {
    "KilledWorker": 2,  # Dask has tried it on several workers itself
    "WorkerCrashedError": 1,  # Ray
    "OutOfMemoryError": 1,
    "NodeDiedError": 1,
    "UncompletedJobError": 1,  # submitit: the job ended and left no outcome
}


@dataclass
class _Submitted:
    """A part that was submitted."""

    task: Task
    future: Any
    file: BegunFile

    @property
    def hangs(self) -> bool:
        """Whether its future, which was given up, still runs or was lost with its worker."""
        cancelled = getattr(self.future, "cancelled", bool)()
        return bool(cancelled) or not self.future.done()


class Futures:
    """Workers that run tasks, behind `submit(function, *arguments) -> future`.

    To add workers, give their `submit` to this class, override `_end` if running tasks can be
    ended, and name it in `choose.py`. Nothing of the explainer is put into the executor's own
    store, which may be lost with a worker: each task carries its recipe.
    """

    deaths: ClassVar[Mapping[str, int]] = DEATHS

    def __init__(self, submit: Callable[..., Any], slots: int, ahead: int = 0) -> None:
        """slots: parts that run in parallel; ahead: waiting parts for each of these."""
        self._submit, self._slots, self._ahead = submit, slots, ahead
        self._came: queue.Queue[tuple[int, Any]] = queue.Queue()
        self._out: dict[int, _Submitted] = {}
        self._tries: Counter[int] = Counter()
        self._hung: list[
            _Submitted
        ] = []  # given up, but they could not be ended: each holds a slot
        self._moved = time.monotonic()  # when a part last began or came back

    @property
    def at_once(self) -> int:
        """Parts that are submitted before the first comes back: the slots left, with some ahead of
        each.

        The number is at least 1; `submit` raises if no slot is left.
        """
        return max(1, self._left * (1 + self._ahead))

    @property
    def _left(self) -> int:
        # A hanging part that ends after all frees its slot.
        self._hung = [entry for entry in self._hung if entry.hangs]
        return self._slots - len(self._hung)

    def submit(self, task: Task) -> None:
        """Submits a part; at most `at_once` are submitted at a time.

        It raises SweepIncompleteError if the executor has ended, or hangs.
        """
        if self._left <= 0:
            raise SweepIncompleteError(
                f"the executor has no worker left of {self._slots}: {self._told_of_hung()}. "
                f"{WAY_OUT}"
            )
        self._tries[task.part] += 1
        file = BegunFile(task, self._tries[task.part])
        try:
            future = self._submit(functools.partial(attempt, str(file.path)), task)
        except (BrokenExecutor, RuntimeError) as error:
            raise SweepIncompleteError(
                f"the executor takes no more parts: {type(error).__name__}: {error}. {WAY_OUT}"
            ) from error
        self._out[task.part] = _Submitted(task, future, file)
        self._moved = time.monotonic()
        if hasattr(future, "add_done_callback"):
            future.add_done_callback(lambda done: self._came.put((task.part, done)))

    def finished(self, seconds: float | None) -> list[Outcome]:
        """Parts that came back since, waiting at most this long for the first; None: for ever.

        `Lost` is a worker's death; any other exception is the task's own.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            done = self._done(deadline)
            if done or (deadline is not None and time.monotonic() >= deadline):
                return [(part, _outcome(future, self.deaths)) for part, future in done]

    def _done(self, deadline: float | None) -> list[tuple[int, Any]]:
        """Futures that are done; waits for a moment, or for the first callback."""
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        out = [(part, entry.future) for part, entry in self._out.items()]
        polled = [(part, f) for part, f in out if not hasattr(f, "add_done_callback")]
        if polled:
            wait = POLLED if wait is None else min(POLLED, wait)
            for part, future in polled:
                if future.done():
                    self._came.put((part, future))
        came = []
        try:
            came.append(self._came.get(timeout=wait))
            while True:
                came.append(self._came.get_nowait())
        except queue.Empty:
            pass
        # A cancelled future may still call back when its part was already submitted again.
        out = self._out
        known = [(n, future) for n, future in came if n in out and out[n].future is future]
        for part, _ in known:
            self._out.pop(part).file.forget()
            self._moved = time.monotonic()
        return known

    def cancel(self, part: int, seconds: float) -> bool:
        """Gives up a part that has run for this many seconds; False if it has not.

        The time in which it waited for a worker does not count. `_end` says whether it ends. It
        raises SweepIncompleteError if parts wait and no remaining worker takes them.
        """
        entry = self._out[part]
        if entry.future.done():  # `finished` will return it
            return False
        runs = entry.file.seconds()
        if runs is None:
            self._refuse_standstill(seconds)
        if runs is None or runs < seconds:
            return False
        del self._out[part]
        if not self._end(entry.future):
            self._hung.append(entry)
        entry.file.forget()
        self._moved = time.monotonic()
        return True

    def _refuse_standstill(self, seconds: float) -> None:
        """Raises if parts wait behind others that hang; a busy executor is allowed any time."""
        if any(entry.file.begun for entry in self._out.values()):
            self._moved = time.monotonic()
        if self._left < self._slots and time.monotonic() - self._moved > seconds:
            raise SweepIncompleteError(
                f"the executor has begun none of the {len(self._out)} parts that wait for "
                f"{seconds:g} seconds: {self._told_of_hung()}. {WAY_OUT}"
            )

    def _told_of_hung(self) -> str:
        first = "; ".join(entry.task.where() for entry in self._hung[:3])
        more = f"; and {len(self._hung) - 3} more" if len(self._hung) > 3 else ""
        return f"took more than timeout= seconds, and cannot be ended from here: {first}{more}"

    def _end(self, future: Any) -> bool:
        """Stops the running part; False if it cannot be stopped, so that its slot is lost.

        Futures without callbacks are those of batch systems, which end their jobs.
        """
        return future.cancel() is not False

    def close(self) -> None:
        """Gives up submitted parts; the executor itself belongs to the user."""
        for entry in self._out.values():
            entry.future.cancel()
            entry.file.forget()


def _outcome(future: Any, named: Mapping[str, int]) -> Any:
    try:
        return future.result()
    except BrokenExecutor as error:
        return Lost(f"its executor ended: {error}")
    except Exception as error:
        # Ray raises an object of two classes, its own and that of the cause.
        names = [kind.__name__ for kind in type(error).__mro__]
        if "RayTaskError" in names:
            return getattr(error, "cause", error)
        deaths = next((named[name] for name in names if name in named), 0)
        if deaths:
            return Lost(f"{type(error).__name__}: {error}", deaths)
        return error
    except BaseException as error:  # cancelled from outside
        return Lost(f"{type(error).__name__}: {error}")


def of_executor(executor: Any) -> Futures:
    """The engine for concurrent.futures, submitit and anything else that has `submit`.

    Processes of a pool of this machine share its cores. A batch system distributes them itself;
    `max_workers`, if the executor has it, is the number of its submitted jobs.
    """
    slots = getattr(executor, "_max_workers", None)
    if slots is None:
        return Futures(executor.submit, int(getattr(executor, "max_workers", None) or cores()))
    threads = max(1, cores() // int(slots))
    submit = functools.partial(executor.submit, in_pool, os.getpid(), threads)
    return Futures(submit, int(slots))


class Dask(Futures):
    """Tasks of a Dask Client: one for each thread of its workers, and one waiting for each.

    They go to the Client and not to its `get_executor()`: futures of the latter have no key, by
    which `_end` finds the worker of a task that takes too long.
    """

    def __init__(self, client: Any) -> None:
        self._client, self._own, self._counted = client, 1, -math.inf
        super().__init__(self._sent, 1, ahead=1)

    def _sent(self, function: Callable[..., Any], task: Task) -> Any:
        return self._client.submit(in_threads, self._own, function, task, pure=False)

    @property
    def at_once(self) -> int:
        """Parts for the current workers: a cluster may start with none, and grow."""
        if time.monotonic() - self._counted > COUNTED:
            if self._closed:
                raise SweepIncompleteError(
                    "executor: the Dask Client is closed. Finished parts are kept; give another."
                )
            with contextlib.suppress(OSError):  # no scheduler at this moment: it may come back
                of_workers = list(self._client.nthreads().values())
                self._own, self._slots = min(of_workers, default=1), max(1, sum(of_workers))
            self._counted = time.monotonic()
        return super().at_once

    @property
    def _closed(self) -> bool:
        return self._client.status in ("closing", "closed")

    def finished(self, seconds: float | None) -> list[Outcome]:
        """Returns without any part now and then, so that new workers get parts."""
        return super().finished(COUNTED if seconds is None else min(seconds, COUNTED))

    def _end(self, future: Any) -> bool:
        """Restarts its worker: Dask itself cannot stop a running task.

        Without a nanny nothing can; the future is then kept, so that Dask counts the thread as
        busy.
        """
        runs = {w: keys for w, keys in self._client.processing().items() if future.key in keys}
        known = self._client.scheduler_info()["workers"]
        if any(not known.get(worker, {}).get("nanny") for worker in runs):
            return False
        future.cancel(force=True)
        for entry in self._out.values():  # Dask runs them again, later and elsewhere
            if any(entry.future.key in keys for keys in runs.values()):
                entry.file.stopped()
        outcomes = self._client.restart_workers(list(runs), RESTART, False) if runs else {}
        return all(outcome in ("OK", "removed") for outcome in outcomes.values())

    def close(self) -> None:
        """Gives up submitted and hanging parts; the user's client may go on."""
        if self._closed:
            for entry in self._out.values():
                entry.file.forget()
            return
        super().close()
        for entry in self._hung:
            entry.future.cancel(force=True)


class Ray:
    """Ray tasks; made by `xaijax.engines.ray`."""

    def __init__(self, num_cpus: float, num_gpus: float) -> None:
        self.num_cpus, self.num_gpus = num_cpus, num_gpus

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        """A future of one task; the driver submits a task again if its worker dies."""
        ray: Any = require("ray", "xaijax[scale]")
        needs = {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus, "max_retries": 0}
        threads = max(1, int(self.num_cpus))
        reference = ray.remote(**needs)(in_threads).remote(threads, function, *args)
        future = reference.future()
        future.reference = reference
        return future

    def engine(self) -> Futures:
        """The engine; raises InputError if no node has the resources of one part."""
        ray: Any = require("ray", "xaijax[scale]")
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False)
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        slots = sum(self._fit(node) for node in nodes)
        if not slots:
            have = "; ".join(f"{node.get('CPU', 0):g} and {node.get('GPU', 0):g}" for node in nodes)
            raise InputError(
                f"executor: xaijax.engines.ray(num_cpus={self.num_cpus:g}, "
                f"num_gpus={self.num_gpus:g}) fits on no node of the Ray cluster, whose CPUs and "
                f"GPUs are {have or 'none'}. Ask for less, or connect by ray.init to another one."
            )
        return _OfRay(self.submit, slots, ray)

    def _fit(self, node: Mapping[str, float]) -> int:
        """Number of parts that run on a node in parallel."""
        needs = {"CPU": self.num_cpus, "GPU": self.num_gpus}
        return min(int(node.get(name, 0) / needed) for name, needed in needs.items() if needed > 0)


class _OfRay(Futures):
    """Tasks of Ray, which can end the process of a task by force."""

    def __init__(self, submit: Callable[..., Any], slots: int, ray: Any) -> None:
        super().__init__(submit, slots)
        self._ray = ray

    def _end(self, future: Any) -> bool:
        self._ray.cancel(future.reference, force=True)
        return True

    def close(self) -> None:
        """Gives up submitted parts."""
        for entry in self._out.values():
            self._end(entry.future)
        super().close()
