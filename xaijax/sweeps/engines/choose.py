"""Finds the engine that `executor=` names, and the parts that belong to one of several drivers."""

from __future__ import annotations

import contextvars
import numbers
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.sweeps.engines.futures import Dask, Futures, Ray, of_executor
from xaijax.sweeps.engines.processes import Processes
from xaijax.sweeps.engines.worker import Outcome
from xaijax.sweeps.task import OpenedTask, Receipt, Task, run


def shard_of(executor: Any) -> tuple[Shard, Any]:
    """(this driver's own parts, what runs them); raises if it is not an executor."""
    if isinstance(executor, Shard):
        return executor, shard_of(executor.executor)[1]
    if isinstance(executor, numbers.Integral):  # NumPy's too; whole_number refuses bool
        return Shard(), checks.whole_number(executor, "executor")
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise InputTypeError(
            "executor must be None, a number of processes, or have a method submit (a Dask Client, "
            f"concurrent.futures, xaijax.engines.ray()); got {type(executor).__name__}."
        )
    return Shard(), executor


def engine_of(executor: Any, opened: OpenedTask, timeout: float | None) -> Engine:
    """The engine, to be closed at the end."""
    if executor is None:
        return Here(opened, timeout)
    if isinstance(executor, int):
        return Processes(executor, opened.devices)
    if isinstance(executor, Ray):
        return executor.engine()
    if hasattr(executor, "nthreads"):  # a Dask Client
        return Dask(executor)
    return of_executor(executor)


@public
def ray(num_cpus: float = 1, num_gpus: float = 0) -> Ray:
    """Returns Ray tasks as the `executor=` of `xaijax.sweep`. It needs Ray, from the extra [scale].

    It uses the cluster that `ray.init` connected to, or starts a local one.

    Args:
        num_cpus, num_gpus: resources of the cluster that one part takes.

    Returns:
        An executor.

    Example:
        >>> import xaijax as xj
        >>> executor = xj.engines.ray(num_cpus=2)
    """
    gpus = 0.0 if type(num_gpus) is int and num_gpus == 0 else checks.positive(num_gpus, "num_gpus")
    return Ray(checks.positive(num_cpus, "num_cpus"), gpus)


@public
def slurm(executor: Any = None) -> Shard:
    """Returns this job's share of a SLURM array, as the `executor=` of `xaijax.sweep`.

    Each job of `sbatch --array=0-9` runs the same script, and computes every tenth part into one
    directory that all jobs see.

    Args:
        executor: runs this job's own parts, as for `xaijax.sweep`. None: this process.

    Returns:
        An executor.

    Raises:
        InputError: SLURM's variables are not set.
    """
    return of_slurm(executor=executor)


@public
def shard(k: int, n: int, executor: Any = None) -> Shard:
    """Returns share k (from 0) of n drivers of one directory, as the `executor=` of `xaijax.sweep`.

    Args:
        k, n: ints. The driver with k = p modulo n computes part p.
        executor: runs this driver's own parts, as for `xaijax.sweep`. None: this process.

    Returns:
        An executor.

    Raises:
        InputError, InputTypeError: k is not below n, or not a whole number.

    Example:
        >>> import xaijax as xj
        >>> executor = xj.engines.shard(0, 4)
    """
    count = checks.whole_number(n, "n")
    number = checks.whole_number(k, "k", least=0)
    if number >= count:
        raise InputError(f"k must be from 0 to n - 1 = {count - 1}, got {number}.")
    return Shard(number, count, executor)


class Here:
    """An engine like `Futures` in this process; it raises what a part raises.

    opened: the user's own explainer, used until it changes.
    """

    at_once = 1

    def __init__(self, opened: OpenedTask, timeout: float | None) -> None:
        self._opened, self._timeout = opened, timeout
        self._waiting: list[Task] = []

    def submit(self, task: Task) -> None:
        """Keeps the task until it is requested."""
        self._waiting.append(task)

    def finished(self, seconds: float | None) -> list[Outcome]:
        """Runs the waiting part; raises what it raises, and TimeoutError if it takes too long."""
        task = self._waiting.pop()
        if self._opened.changed:
            self._opened = self._opened.anew()
        if self._timeout is None:
            return [(task.part, run(task, self._opened))]
        return [(task.part, self._within(task, self._opened, self._timeout))]

    def _within(self, task: Task, opened: OpenedTask, seconds: float) -> Receipt:
        """Runs a part in a separate thread, which is left behind if it takes too long."""
        future: Future[Receipt] = Future()

        def work() -> None:
            try:
                future.set_result(run(task, opened))
            except BaseException as error:
                future.set_exception(error)

        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
        thread.start()
        thread.join(min(seconds, threading.TIMEOUT_MAX))
        if not future.done():
            raise TimeoutError(
                f"{task.where()}, took more than timeout={seconds:g} seconds. Its thread cannot be "
                "ended and is left behind; a process (executor=1) would be. Other parts are kept."
            )
        return future.result()

    def cancel(self, part: int, seconds: float) -> bool:
        """Returns False: nothing runs while this is called."""
        return False

    def close(self) -> None:
        """Does nothing: nothing was started."""


Engine = Here | Futures


@dataclass(frozen=True)
class Shard:
    """One of several drivers: a part belongs to shard k if its number modulo the shards is k."""

    number: int = 0
    of: int = 1
    executor: Any = None  # runs this driver's own parts

    @property
    def name(self) -> str:
        """The ending of file names; "" for one driver of all parts."""
        return f"-{self.number}-of-{self.of}" if self.of > 1 else ""

    def has(self, part: int) -> bool:
        """Whether this shard computes the part."""
        return part % self.of == self.number


def of_slurm(environment: Mapping[str, str] = os.environ, executor: Any = None) -> Shard:
    """The shard given by the variables of a SLURM array job.

    It raises InputError outside of such a job, and for an array with gaps.
    """
    try:
        first = int(environment["SLURM_ARRAY_TASK_MIN"])
        step = int(environment.get("SLURM_ARRAY_TASK_STEP", "1"))
        task, count = (int(environment[f"SLURM_ARRAY_TASK_{name}"]) for name in ("ID", "COUNT"))
    except (KeyError, ValueError) as error:
        raise InputError(
            f"engines.slurm() needs a job of a SLURM array (sbatch --array=0-9) with its variables "
            f"SLURM_ARRAY_TASK_ID, _MIN and _COUNT: {error!r}. Or say engines.shard(k, n)."
        ) from None
    place, rest = divmod(task - first, max(1, step))
    if rest or not 0 <= place < count:
        raise InputError(
            f"engines.slurm(): task {task} is none of {count} from {first} in steps of {step}. "
            "Number the tasks from 0 without gaps, or say engines.shard(k, n)."
        )
    return shard(place, count, executor)
