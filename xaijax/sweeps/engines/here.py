"""This process: parts are run one after the other, and their exceptions come through."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

from xaijax.sweeps.engines.protocol import Outcome
from xaijax.sweeps.task import Opened, Receipt, Task, run


class Here:
    """See `Engine`; opened: the person's own explainer, asked until it changes."""

    at_once = 1

    def __init__(self, opened: Opened, timeout: float | None) -> None:
        self._opened, self._timeout = opened, timeout
        self._waiting: list[Task] = []

    def submit(self, task: Task) -> None:
        """Keep it until it is asked for."""
        self._waiting.append(task)

    def finished(self, seconds: float | None) -> list[Outcome]:
        """Run the part that waits; raises what it raises, TimeoutError where it takes too long."""
        task = self._waiting.pop()
        if self._opened.changed:
            self._opened = self._opened.anew()
        if self._timeout is None:
            return [(task.part, run(task, self._opened))]
        return [(task.part, self._within(task, self._opened, self._timeout))]

    def _within(self, task: Task, opened: Opened, seconds: float) -> Receipt:
        """In a thread of its own, which is left behind where it takes too long."""
        found: list[Any] = []

        def work() -> None:
            try:
                found.append(run(task, opened))
            except BaseException as error:
                found.append(error)

        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
        thread.start()
        thread.join(min(seconds, threading.TIMEOUT_MAX))
        if not found:
            raise TimeoutError(
                f"{task.where()}, took more than timeout={seconds:g} seconds. The parts before are "
                "kept; its thread cannot be ended and is left behind. With executor=1 a process of "
                "its own runs the parts, and is ended."
            )
        if isinstance(found[0], BaseException):
            raise found[0]
        return found[0]

    def cancel(self, part: int, seconds: float) -> bool:
        """Nothing runs while this is asked."""
        return False

    def close(self) -> None:
        """Nothing was started."""
