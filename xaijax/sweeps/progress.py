"""Long work is visible: a bar in terminals and notebooks, a line a minute elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from xaijax.methods.progress import progress_bar

EVERY = 60.0  # seconds between two lines where there is no terminal


class Progress:
    """Rows that are answered, of `rows`; kept: of an earlier call."""

    def __init__(self, progress: bool | None, rows: int, kept: int) -> None:
        self._bar: Any = progress_bar(progress, rows, "rows")
        self._bar.initial = self._bar.n = kept
        self._lines = progress is not False and self._bar.disable
        self._rows, self._kept, self._done = rows, kept, kept
        self._start = self._told = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def done(self, rows: int) -> None:
        """Some more rows are answered."""
        self._done += rows
        self._bar.update(rows)
        now = time.monotonic()
        if self._lines and now - self._told >= EVERY:
            self._told = now
            sys.stderr.write(f"{self.line(now)}\n")
            sys.stderr.flush()

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
