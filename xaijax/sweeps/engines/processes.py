"""Spawned processes of this machine, one part at a time each; one that dies is started again.

The cores are distributed to the processes, and so are the GPUs, one each, so that they do not
compete.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar

from xaijax.sweeps.engines.futures import Futures
from xaijax.sweeps.engines.worker import THREADS, Lost, boot, read, text_of, write
from xaijax.sweeps.task import Receipt, Task

GRACE = 10.0  # seconds in which a process whose pipe has ended must end too
LEFT = 1.0  # seconds in which the pipe of an ended process is still read
LOOKS, SOON = 0.2, 0.01  # seconds between two checks whether a process is alive
PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"


class Processes(Futures):
    """Tasks in processes that this engine spawns, and ends if a part takes too long."""

    deaths: ClassVar[Mapping[str, int]] = {}  # `Lost` counts them

    def __init__(self, count: int, devices: Sequence[Any]) -> None:
        """devices: of the run, as this process sees them."""
        super().__init__(self._given, count)
        gpus = [device for device in devices if device.platform == "gpu"]
        self._workers = [_Worker(number, count, gpus) for number in range(count)]
        self._idle = list(self._workers)
        self._busy: dict[Future[Receipt], _Worker] = {}

    def _given(self, function: Callable[..., Any], task: Task) -> Future[Receipt]:
        future: Future[Receipt] = Future()
        future.set_running_or_notify_cancel()  # only `_end` ends it
        worker = self._busy[future] = self._idle.pop()
        future.add_done_callback(self._free)
        worker.run((function, (task,)), future)
        return future

    def _free(self, future: Future[Receipt]) -> None:
        """Frees the process for another part; called when it answers or is ended."""
        worker = self._busy.pop(future, None)
        if worker is not None:
            self._idle.append(worker)

    def _end(self, future: Future[Receipt]) -> bool:
        worker = self._busy.get(future)
        if worker is not None:  # otherwise it has just answered
            worker.end()
            self._free(future)
        return True

    def close(self) -> None:
        """Ends all processes."""
        for worker in self._workers:
            worker.end()
        super().close()


class _Worker:
    """A process, started when it is first needed, and again after it has ended."""

    def __init__(self, number: int, of: int, gpus: Sequence[Any]) -> None:
        self._number, self._of, self._gpus = number, of, gpus
        self.process: Any = None
        self._talk = threading.Thread()  # writes to its pipes, and reads them

    def run(self, job: tuple[Callable[..., Any], tuple[Task]], future: Future[Receipt]) -> None:
        """Runs a job (function, arguments) in the process, and sets the future's result."""
        if self.process is not None and _has_ended(self.process):
            self.end()
        if self.process is None:
            self.process = self._started()
        answer: queue.Queue[Receipt | BaseException] = queue.Queue()
        self._talk = threading.Thread(target=_ask, args=(self.process, job, answer), daemon=True)
        self._talk.start()
        threading.Thread(target=_wait, args=(self.process, future, answer), daemon=True).start()

    def end(self) -> None:
        if self.process is not None:
            _kill(self.process)
            if self._talk.is_alive():
                self._talk.join(LEFT)
            if not self._talk.is_alive():  # otherwise it closes them: closing waits for a read
                _close_pipes(self.process)
            self.process = None

    def _started(self) -> Any:
        cores = _cores(self._number, self._of)
        environment = dict(os.environ) | dict(_own_gpu(self._number, self._gpus))
        if cores is not None:
            environment |= dict.fromkeys(THREADS, str(len(cores)))
        return subprocess.Popen(
            [sys.executable, "-c", boot(cores, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )


def _wait(process: Any, future: Future[Receipt], answer: queue.Queue[Any]) -> None:
    """Waits in a thread for the answer, or for the end of the process.

    Its pipes do not show the end if a process that it forked holds them and is alive.
    """
    outcome = None
    try:
        while outcome is None:
            ended = _has_ended(process)
            with contextlib.suppress(queue.Empty):
                outcome = answer.get(timeout=LEFT if ended else LOOKS)
            if ended and outcome is None:
                outcome = _lost(process)
    except BaseException as error:  # it is an outcome too, or the driver would wait for ever
        outcome = error
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _ask(process: Any, job: Any, answer: queue.Queue[Any]) -> None:
    """Sends the job in a thread, and puts the outcome into the queue; a pipe that ends is a
    death.
    """
    came = None
    try:
        body = pickle.dumps(job, protocol=5)
        try:
            write(process.stdin, body)
            came = read(process.stdout)
            outcome = pickle.loads(came)
        except Exception as error:
            if came is None and isinstance(error, EOFError | OSError | ValueError):
                outcome = _lost(process)  # ValueError: its pipes were closed
            elif came is None:
                outcome = error
            else:  # its error can be imported there, but not here
                what = f"{type(error).__name__}: {text_of(error)}"
                message = f"the answer of process {process.pid} cannot be opened here: {what}"
                outcome = RuntimeError(message)
    except BaseException as error:
        outcome = error
    answer.put(outcome)
    if process.returncode is not None:
        _close_pipes(process)


def _cores(number: int, of: int) -> list[int] | None:
    """The cores of one of several processes; None if a process cannot be pinned to cores."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    all_cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(all_cores) // of)
    first = number * each % len(all_cores)
    return all_cores[first : first + each]


def _own_gpu(number: int, gpus: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yields one of the run's GPUs for each process, in turn.

    This process, which runs the model a little, holds memory of the first GPU. Workers therefore do
    not take most of their GPU at the start, as JAX would, unless the user sets this.
    """
    if gpus:
        place = gpus[number % len(gpus)].local_hardware_id  # among those that this process sees
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        yield "CUDA_VISIBLE_DEVICES", seen.split(",")[place] if seen else str(place)
        yield PREALLOCATE, os.environ.get(PREALLOCATE, "false")


def _has_ended(process: Any) -> bool:
    """Whether it has ended; its forked processes are then ended too, before its number is
    reused.
    """
    if process.returncode is None and process.poll() is not None:
        _kill_group(process)
    return process.returncode is not None


def _kill(process: Any) -> None:
    """Ends the process and its forked processes."""
    if not _has_ended(process):
        _kill_group(process)
        process.kill()
        process.wait()


def _kill_group(process: Any) -> None:
    """Ends the processes in its session, which was made for it, if the system has sessions."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing is left in it
            os.killpg(process.pid, signal.SIGKILL)


def _lost(process: Any) -> Lost:
    """Says how the process ended; a process whose pipe is gone is of no more use, and is ended."""
    last = time.monotonic() + GRACE
    while not _has_ended(process) and time.monotonic() < last:
        time.sleep(SOON)
    _kill(process)
    code = process.returncode
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
    return Lost(f"its process {process.pid} ended {how}")


def _close_pipes(process: Any) -> None:
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):  # what was not sent yet cannot be
            pipe.close()
