"""The driver of a sweep: submits parts, collects receipts, and submits lost parts again.

Files are the truth. A receipt without a valid part is a failure; a valid part without a receipt is
a success, which a later call finds.
"""

from __future__ import annotations

import errno
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from xaijax.core.errors import ResumeMismatchError, SweepIncompleteError, XaiError
from xaijax.sweeps.directory import RunDirectory
from xaijax.sweeps.engines.choose import Engine
from xaijax.sweeps.engines.worker import Lost, is_of_writing, text_of
from xaijax.sweeps.task import Receipt, Task

DEATHS = 3  # deaths of a part's process until it is given up; after one fewer it runs alone
FULL = (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES, errno.EPERM)  # not the part's fault
# Seconds between two checks of the clocks of parts that have a deadline, or this share of the
# deadline if that is more: a check may query a shared file system for each running part.
LOOKS, SHARE = 0.2, 0.01


@dataclass
class Driver:
    """Runs the tasks of some parts through an engine.

    Attributes:
        retries: how many times a part that raised, hung or left no valid file is tried again.
        timeout: seconds that a part may take on a worker; None: no limit.
        done: called with the number of rows of each answered part.
        failed: why parts were given up, and the first exception.
    """

    engine: Engine
    directory: RunDirectory
    retries: int
    timeout: float | None
    done: Callable[[int], None]
    failed: dict[int, str] = field(default_factory=dict)
    first: BaseException | None = None
    _looked: float = -math.inf
    _tries: Counter[int] = field(default_factory=Counter)
    _deaths: Counter[int] = field(default_factory=Counter)
    _out: dict[int, Task] = field(default_factory=dict)
    _waiting: deque[Task] = field(default_factory=deque)
    _alone: deque[Task] = field(default_factory=deque)

    def within(self) -> int:
        """Answered rows of the parts that are still running."""
        out = list(self._out.items())
        return int(sum(self.directory.share(n) * (task.last - task.first) for n, task in out))

    def close(self) -> None:
        """Removes the progress files of workers that were ended."""
        for part in self._out:
            self.directory.within(part).unlink(missing_ok=True)

    def run(self, tasks: Iterable[Task]) -> None:
        """Runs all tasks, until each is answered or given up."""
        coming = iter(tasks)
        while True:
            self._give_out(coming)
            if not self._out:
                return
            for part, outcome in self.engine.finished(self._pause):
                if part in self._out:
                    self._came(self._out.pop(part), outcome)
            self._stop_late()

    @property
    def _pause(self) -> float | None:
        timeout = self.timeout
        return None if timeout is None else min(max(LOOKS, SHARE * timeout), timeout)

    def _give_out(self, coming: Iterator[Task]) -> None:
        while len(self._out) < self.engine.at_once:
            task = self._waiting.popleft() if self._waiting else next(coming, None)
            if task is None:
                break
            self._submit(task)
        if not self._out and self._alone:  # no other part can be affected
            self._submit(self._alone.popleft())

    def _submit(self, task: Task) -> None:
        self.directory.within(task.part).unlink(missing_ok=True)  # left by a killed process
        self._out[task.part] = task
        self.engine.submit(task)

    def _came(self, task: Task, outcome: Receipt | BaseException) -> None:
        if isinstance(outcome, Receipt):
            wrong = self.directory.wrong(task.part, task.first, task.last)
            if wrong is None:
                self.done(outcome.rows)
                return
            outcome = OSError(f"{task.where()}: no valid file was left: {wrong or 'it is missing'}")
        if isinstance(outcome, ResumeMismatchError):
            raise outcome  # every part would answer another question than the existing ones
        if isinstance(outcome, Lost):
            self._deaths[task.part] += outcome.deaths
            if self._deaths[task.part] >= DEATHS:
                self._give_up(task, outcome)
            elif self._deaths[task.part] == DEATHS - 1:
                self._alone.append(task)
            else:
                self._waiting.append(task)
            return
        if isinstance(outcome, OSError) and outcome.errno in FULL and is_of_writing(outcome):
            raise outcome  # the model may raise the same for files that it opens
        self._tries[task.part] += 1
        certain = isinstance(outcome, XaiError)  # the same rows would be refused again
        if certain or self._tries[task.part] > self.retries:
            self._give_up(task, outcome)
        else:
            self._waiting.append(task)

    def _stop_late(self) -> None:
        """Stops parts that have taken longer than `timeout`; each such run counts as a try."""
        pause, now = self._pause, time.monotonic()
        if self.timeout is None or pause is None or now - self._looked < pause / 2:
            return
        self._looked = now
        for part, task in list(self._out.items()):
            if not self.engine.cancel(part, self.timeout):
                continue
            del self._out[part]
            message = f"{task.where()}, took more than timeout={self.timeout:g} seconds"
            self._came(task, TimeoutError(message))

    def _give_up(self, task: Task, why: BaseException) -> None:
        self.failed[task.part] = f"{task.where()}: {type(why).__name__}: {text_of(why)}"
        self.first = self.first or why


def time_of(engine: Engine, task: Task, timeout: float | None) -> float | None:
    """Seconds for one row, from a measured task; None if its rows were not answered.

    Exceptions of the task are dropped, since the part that holds these rows raises them again.
    """
    engine.submit(task)
    while True:
        try:
            outcomes = engine.finished(None if timeout is None else min(LOOKS, timeout))
        except Exception as error:  # from an engine that runs parts here
            outcomes = [(task.part, error)]
        for _, outcome in outcomes:
            if isinstance(outcome, ResumeMismatchError):
                raise outcome
            return outcome.seconds / outcome.rows if isinstance(outcome, Receipt) else None
        if timeout is not None and engine.cancel(task.part, timeout):
            return None


def incomplete(directory: RunDirectory, failed: dict[int, str], parts: int) -> SweepIncompleteError:
    """The error at the end of a sweep with parts that were given up."""
    first = "; ".join(list(failed.values())[:3])
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    return SweepIncompleteError(
        f"{len(failed):,} of {parts:,} parts of {directory.path} failed, the others are kept: "
        f"{first}{more}. run.failed lists them (xaijax.open_run); the same call tries them again."
    )
