"""Long work is visible: a bar in terminals and notebooks, a line a minute elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from xaijax.methods.progress import progress_bar

EVERY = 60.0  # seconds between two lines where there is no terminal
LOOKS = 1.0  # seconds between two looks at the parts that run


class Progress:
    """Shows how many of `rows` are answered; kept: those answered by an earlier call.

    A thread reads the progress of running parts, so that the bar moves and lines are written even
    if one part takes minutes. The thread ends with the sweep.
    """

    within: Callable[[], int] = staticmethod(lambda: 0)  # answered rows of running parts

    def __init__(self, progress: bool | None, rows: int, kept: int) -> None:
        self._bar: Any = progress_bar(progress, rows, "rows")
        self._bar.initial = self._bar.n = kept
        self._lines = progress is not False and self._bar.disable
        self._rows, self._kept, self._done, self._shown = rows, kept, kept, kept
        self._start = self._told = time.monotonic()
        self._telling, self._ended = threading.Lock(), threading.Event()
        self._clock: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if self._lines or not self._bar.disable:
            self._clock = threading.Thread(target=self._tick, name="xaijax-progress", daemon=True)
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._clock is not None:
            self._clock.join()  # no line is written after the end
        self._bar.close()

    def done(self, rows: int) -> None:
        """Some more rows are answered."""
        with self._telling:
            self._done += rows
            self._show(self._done)
            if self._lines:
                self._tell()

    def _tick(self) -> None:
        while not self._ended.wait(LOOKS):
            within = self.within()
            with self._telling:
                self._show(self._done + within)
                if self._lines:
                    self._tell()

    def _show(self, rows: int) -> None:
        """Move the bar forwards only; a part that is tried again starts from zero."""
        before, self._shown = self._shown, min(self._rows, max(self._shown, rows))
        self._bar.update(self._shown - before)

    def _tell(self) -> None:
        """Write a line if the last one is old enough."""
        now = time.monotonic()
        if now - self._told >= EVERY:
            self._told = now
            sys.stderr.write(f"{self.line(now)}\n")
            sys.stderr.flush()

    def line(self, now: float) -> str:
        """How far the sweep is, in a line."""
        each = (self._shown - self._kept) / max(now - self._start, 1e-9)
        left = (self._rows - self._shown) / each if each else float("inf")
        share = self._shown / self._rows
        return (
            f"xaijax: {self._shown:,} of {self._rows:,} rows ({share:.0%}), {each:,.0f} rows a "
            f"second, {_duration(left)} left"
        )


def _duration(seconds: float) -> str:
    if seconds == float("inf"):
        return "unknown time"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
