"""Long work is visible: a bar in terminals and notebooks, a line a minute elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from xaijax.methods.progress import progress_bar

EVERY = 60.0  # seconds between two lines where there is no terminal
LEAST = 1.0  # seconds that the clock waits at least before it looks again


class Progress:
    """Rows that are answered, of `rows`; kept: of an earlier call.

    Lines come also while a part runs for minutes: a thread waits for the next one, and ends with
    the sweep.
    """

    def __init__(self, progress: bool | None, rows: int, kept: int) -> None:
        self._bar: Any = progress_bar(progress, rows, "rows")
        self._bar.initial = self._bar.n = kept
        self._lines = progress is not False and self._bar.disable
        self._rows, self._kept, self._done = rows, kept, kept
        self._start = self._told = time.monotonic()
        self._telling, self._ended = threading.Lock(), threading.Event()
        self._clock: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if self._lines:
            self._clock = threading.Thread(target=self._tick, name="xaijax-progress", daemon=True)
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._clock is not None:
            self._clock.join()  # it waits for nothing else, so that no line comes after the end
        self._bar.close()

    def done(self, rows: int) -> None:
        """Some more rows are answered."""
        with self._telling:
            self._done += rows
        self._bar.update(rows)
        if self._lines:
            self._tell()

    def _tick(self) -> None:
        wait = EVERY
        while not self._ended.wait(max(wait, LEAST)):
            wait = self._tell()

    def _tell(self) -> float:
        """Write a line where the last one is old enough; returns the seconds to the next one."""
        with self._telling:
            now = time.monotonic()
            if now - self._told >= EVERY:
                self._told = now
                sys.stderr.write(f"{self.line(now)}\n")
                sys.stderr.flush()
            return self._told + EVERY - now

    def line(self, now: float) -> str:
        """How far the sweep is, in a line."""
        each = (self._done - self._kept) / max(now - self._start, 1e-9)
        left = (self._rows - self._done) / each if each else float("inf")
        share = self._done / self._rows
        return (
            f"xaijax: {self._done:,} of {self._rows:,} rows ({share:.0%}), {each:,.0f} rows a "
            f"second, {_duration(left)} left"
        )


def _duration(seconds: float) -> str:
    if seconds == float("inf"):
        return "unknown time"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
