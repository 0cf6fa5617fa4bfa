"""`Engine`: what the driver of a sweep asks of the workers, in four methods."""

from __future__ import annotations

from typing import Protocol

from xaijax.core.errors import XaiError
from xaijax.sweeps.task import Receipt, Task


class Lost(XaiError, RuntimeError):
    """The process that ran a part ended before it answered."""

    def __init__(self, text: str, deaths: int = 1) -> None:
        super().__init__(text)
        self.deaths = deaths  # that the engine itself has seen of it


Outcome = tuple[int, Receipt | BaseException]  # of a part


class Engine(Protocol):
    """Workers that run tasks.

    To add one: write a class with these members (`futures.py` may do), and name it in `choose.py`.
    """

    @property
    def at_once(self) -> int:
        """Parts that are given out before the first comes back, at least 1."""
        ...

    def submit(self, task: Task) -> None:
        """Give a part out; at most `at_once` are out.

        Raises SweepIncompleteError where there is no worker any more.
        """
        ...

    def finished(self, seconds: float | None) -> list[Outcome]:
        """Parts that came back since, waiting for the first at most so long; None: for ever.

        `Lost` is a worker's death; any other exception is the task's own.
        """
        ...

    def cancel(self, part: int, seconds: float) -> bool:
        """Stop a part that has run for so long, whatever it does; False: it has not.

        The time in which it waited for a worker does not count.
        """
        ...

    def close(self) -> None:
        """End what this engine started; parts that are out are given up."""
        ...
