"""One try of a part, on any worker: it marks its beginning, and its errors can be pickled.

A part has begun when its mark is there, an empty file of the run directory, which all workers see.
Few engines distinguish a part that runs from one that waits.
"""

from __future__ import annotations

import os
import pickle
import platform
import time
import traceback
from pathlib import Path

from xaijax.core.errors import InputError, XaiError
from xaijax.sweeps.directory import RunDirectory
from xaijax.sweeps.task import Receipt, Task, run

Outcome = tuple[int, Receipt | BaseException]  # of a part
WRITING = "of_writing"  # attribute of errors raised while writing a part; pickled with them


class Lost(XaiError, RuntimeError):
    """The process that ran a part ended before it answered."""

    def __init__(self, text: str, deaths: int = 1) -> None:
        super().__init__(text)
        self.deaths = deaths  # deaths that the engine itself has seen


def attempt(mark: str, task: Task) -> Receipt:
    """Calls `run`; mark: the file that is there meanwhile. It raises errors that can be pickled."""
    try:
        try:
            _begin(Path(mark))
            return run(task)
        except OSError as error:
            if _while_writing(error):
                setattr(error, WRITING, True)
            raise
        finally:
            Path(mark).unlink(missing_ok=True)
    except Exception as error:
        able = sendable(error)
        if able is error:
            raise
        raise able from error


def _begin(mark: Path) -> None:
    if not mark.parent.is_dir():
        raise InputError(f"out: {mark.parent} is no directory on {platform.node()}; share it.")
    try:
        mark.touch()
    except OSError as error:
        setattr(error, WRITING, True)
        raise


def _while_writing(error: OSError) -> bool:
    """Whether the error comes from the file of the part: the model may raise the same error."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code is RunDirectory.write.__code__ for frame, _ in frames)


def is_of_writing(error: BaseException) -> bool:
    """Whether a worker could not write a part: another try would not do better."""
    return bool(vars(error).get(WRITING))


def sendable(error: Exception) -> Exception:
    """The error, or a RuntimeError with its type, text and notes if it cannot be unpickled.

    An exception whose class takes other arguments than its text can be pickled, but not unpickled:
    this breaks pools, and leaves a driver without an answer.
    """
    try:
        if type(pickle.loads(pickle.dumps(error, protocol=5))) is type(error):
            return error
    except Exception:  # whatever it is, the error is reported below
        pass
    told = RuntimeError(f"{type(error).__name__}: {text_of(error)}")
    for note in getattr(error, "__notes__", ()):
        told.add_note(str(note))
    return told


def text_of(error: BaseException) -> str:
    """The text of the error, if it has one."""
    try:
        return str(error)
    except Exception as other:
        return f"(its text raises {type(other).__name__})"


class Mark:
    """The driver's view of a mark: since when the part runs, by this machine's clock."""

    def __init__(self, task: Task, number: int) -> None:
        # A dot: neither a part, nor another user's file in the directory.
        self.path = Path(task.out) / f".begun-{task.part:06d}-{number}"
        self._seen: int | None = None
        self._since: float | None = None
        self.forget()  # one left by a driver that was killed

    def seconds(self) -> float | None:
        """Seconds for which the part has run since it last began; None: it has not begun."""
        try:
            seen = os.stat(self.path).st_mtime_ns
        except FileNotFoundError:
            seen = self._seen  # it ends at this moment, or begins again
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        return None if self._since is None else time.monotonic() - self._since

    @property
    def begun(self) -> bool:
        """Whether it had begun when `seconds` was last called."""
        return self._since is not None

    def stopped(self) -> None:
        """Records that its process was ended, and that its engine will run it again."""
        self._since = None

    def forget(self) -> None:
        """Removes the file, which a process that was killed leaves behind."""
        self.path.unlink(missing_ok=True)
