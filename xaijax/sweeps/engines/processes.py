"""Spawned processes of this machine, one part at a time each; one that dies is started again.

The cores are dealt out to the processes, and so are the GPUs, one each, so that they do not fight.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import jax

from xaijax.sweeps.engines.attempt import attempt, text_of
from xaijax.sweeps.engines.protocol import Lost, Outcome
from xaijax.sweeps.engines.worker import BEGUN, THREADS, boot, read, write
from xaijax.sweeps.task import Receipt, Task

BEGUN_AS_SENT = pickle.dumps(BEGUN, protocol=5)
GRACE = 10.0  # seconds in which a process whose pipe has ended ends too
PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"


class Processes:
    """See `Engine`."""

    def __init__(self, count: int) -> None:
        self.at_once = count
        self._came: queue.Queue[Outcome] = queue.Queue()
        self._idle = [_Worker(self._came, number, count) for number in range(count)]
        self._busy: dict[int, _Worker] = {}  # by the part that it runs

    def submit(self, task: Task) -> None:
        """Give it to an idle process."""
        worker = self._idle.pop()
        self._busy[task.part] = worker
        worker.run(task)

    def finished(self, seconds: float | None) -> list[Outcome]:
        """See `Engine`."""
        found = []
        try:
            found.append(self._came.get(timeout=seconds))
            while True:
                found.append(self._came.get_nowait())
        except queue.Empty:
            pass
        known = [one for one in found if one[0] in self._busy]  # and not cancelled meanwhile
        self._idle += [self._busy.pop(part) for part, _ in known]
        return known

    def cancel(self, part: int, seconds: float) -> bool:
        """End its process; the next part gets a new one."""
        worker = self._busy[part]
        if worker.begun is None or time.monotonic() - worker.begun < seconds:
            return False
        del self._busy[part]
        worker.end()
        self._idle.append(worker)
        return True

    def close(self) -> None:
        """End all processes."""
        for worker in [*self._idle, *self._busy.values()]:
            worker.end()


class _Worker:
    """A process, started when it is first needed and after it has ended."""

    def __init__(self, came: queue.Queue[Outcome], number: int, of: int) -> None:
        self._came, self._number, self._of = came, number, of
        self._process: Any = None
        self.begun: float | None = None

    def run(self, task: Task) -> None:
        self.begun = None
        if self._process is not None and self._process.poll() is not None:
            self.end()
        if self._process is None:
            self._process = self._started()
        threading.Thread(target=self._wait, args=(self._process, task), daemon=True).start()

    def _wait(self, process: Any, task: Task) -> None:
        """In a thread: whatever happens is an outcome, else the driver would wait for ever."""
        outcome: Receipt | BaseException
        try:
            outcome = self._asked(process, task)
        except BaseException as error:
            outcome = error
        self._came.put((task.part, outcome))

    def _asked(self, process: Any, task: Task) -> Receipt | BaseException:
        """One task sent, one outcome read; a pipe that ends is a death."""
        body = pickle.dumps((attempt, (None, task)), protocol=5)
        try:
            write(process.stdin, body)
            came = read(process.stdout)
            if came == BEGUN_AS_SENT:  # what comes before is no fault of the part
                self.begun = time.monotonic()
                came = read(process.stdout)
        except (EOFError, OSError, ValueError):  # ValueError: its pipes were closed
            return Lost(f"its process {process.pid} ended {_told(_status(process))}")
        try:
            _, outcome = pickle.loads(came)
        except Exception as error:  # what it raised can be imported there, and not here
            return RuntimeError(
                f"the answer of process {process.pid} cannot be opened here: "
                f"{type(error).__name__}: {text_of(error)}"
            )
        return outcome

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                _close(pipe)
            self._process = None

    def _started(self) -> Any:
        cores = _cores(self._number, self._of)
        environment = dict(os.environ) | dict(_own_gpu(self._number))
        if cores is not None:
            environment |= dict.fromkeys(THREADS, str(len(cores)))
        return subprocess.Popen(
            [sys.executable, "-c", boot(cores, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )


def _cores(number: int, of: int) -> list[int] | None:
    """The cores of one of several processes; None: where a process cannot be kept to some."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    all_cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(all_cores) // of)
    first = number * each % len(all_cores)
    return all_cores[first : first + each]


def _own_gpu(number: int) -> Iterator[tuple[str, str]]:
    """Of several GPUs one for each process, in turn.

    This process, which asks the model a little, holds memory of the first one. So none takes most
    of its GPU at its start, as JAX would, unless the person says so.
    """
    if jax.default_backend() == "gpu":
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        devices = seen.split(",") if seen else [str(d.id) for d in jax.local_devices()]
        yield "CUDA_VISIBLE_DEVICES", devices[number % len(devices)]
        yield PREALLOCATE, os.environ.get(PREALLOCATE, "false")


def _status(process: Any) -> int:
    """How it ended; a process whose pipe is gone is of no more use, and is ended."""
    try:
        return process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _told(code: int) -> str:
    if code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with status {code}"


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except OSError:  # what was not sent yet cannot be
        pass
