"""One try of a part, on any worker: it records its beginning, and its errors can be pickled.

A part has begun when an empty file is in the run directory, which all workers see (`BegunFile`).
Few engines distinguish a part that runs from one that waits.

A spawned process gets tasks by one pipe and sends outcomes by another. It is started by `boot` and
not by multiprocessing, which would run the user's script again in it. The model's prints go to
stderr, and not between the outcomes.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import platform
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from xaijax.core.errors import InputError, XaiError
from xaijax.core.optional import require
from xaijax.sweeps.directory import RunDirectory
from xaijax.sweeps.task import Receipt, Task, run

BOOT = (
    "import sys; sys.path[:] = {path!r}; from xaijax.sweeps.engines import worker; worker.serve()"
)
XLA_THREADS = "PJRT_NPROC"  # read by XLA's CPU client when it starts
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def boot(cores: Sequence[int] | None, path: Sequence[str]) -> str:
    """The program of a worker; cores: its own cores, since libraries count those that they see."""
    pin = "" if cores is None else f"import os; os.sched_setaffinity(0, {list(cores)!r}); "
    return pin + BOOT.format(path=list(path))


def write(stream: BinaryIO, body: bytes) -> None:
    """Sends one message, a pickle, as a pickle of its bytes, which says where it ends."""
    pickle.dump(body, stream, protocol=5)
    stream.flush()


def read(stream: BinaryIO) -> bytes:
    """The next message as bytes, so that errors of the pipe differ from those of unpickling.

    It raises EOFError if the other side has ended.
    """
    try:
        return pickle.load(stream)
    except pickle.UnpicklingError:
        raise EOFError from None


def in_threads(count: int, function: Callable[..., Any], *args: Any) -> Any:
    """The function's result, with at most `count` threads of XLA if this process has none yet.

    Otherwise each of several workers would take all cores, and they would compete. The user's
    settings stay.
    """
    os.environ.setdefault(XLA_THREADS, str(count))
    with kept_while_running():
        return function(*args)


def in_pool(driver: int, count: int, function: Callable[..., Any], *args: Any) -> Any:
    """The same in a process of a pool.

    From now on the process has at most `count` threads of linear algebra and OpenMP; other engines
    limit these themselves. driver: the process whose own threads may be the pool, and whose
    settings stay as they are.
    """
    if os.getpid() == driver:
        return function(*args)
    for name in THREADS:  # for libraries that the task loads
        os.environ.setdefault(name, str(count))
    least: dict[str, int] = {}
    libraries: Any = require("threadpoolctl", "scikit-learn")
    for library in libraries.threadpool_info():  # for those that are loaded, as they are set
        kind = library["user_api"]
        least[kind] = min(count, library["num_threads"], least.get(kind, count))
    libraries.threadpool_limits(limits=least)
    return in_threads(count, function, *args)


def serve() -> None:
    """Runs tasks until there are no more: (function, arguments) in; a result or an exception
    out.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends this
    coming, going = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    while True:
        try:
            function, arguments = pickle.loads(read(coming))
        except EOFError:
            return
        except Exception as error:  # a module that it needs is missing here
            outcome = sendable(error)
        else:
            try:
                outcome = function(*arguments)
            except Exception as error:
                outcome = sendable(error)
        sys.stderr.flush()
        try:
            write(going, pickle.dumps(outcome, protocol=5))
        except BrokenPipeError:
            return


# Dask starts its workers with MALLOC_TRIM_THRESHOLD_=65536, so glibc returns every freed buffer to
# the system. The buffers of each tile are then allocated anew, page by page, which took a fifth of
# a worker's processor time. Between parts the engine's setting is restored.

TRIM, MMAP = "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"  # glibc reads them at the start
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
USUAL_MMAP = 128 << 10  # bytes, the default of glibc
KEPT_TRIM, KEPT_MMAP = (1 << 31) - 1, 32 << 20  # the largest that mallopt takes
_lock = threading.Lock()
_parts = 0  # running in this process


@contextmanager
def kept_while_running() -> Iterator[None]:
    """Keeps freed memory, if the environment of this process makes glibc give it back."""
    trim, mmap = os.environ.get(TRIM, ""), os.environ.get(MMAP, "")
    libc = ctypes.CDLL(None) if trim.isdigit() else None
    if libc is None or not hasattr(libc, "mallopt"):  # not requested, or another C library
        yield
        return
    _count(libc, 1, KEPT_TRIM, KEPT_MMAP)
    try:
        yield
    finally:
        _count(libc, -1, int(trim), int(mmap) if mmap.isdigit() else USUAL_MMAP)


def _count(libc: ctypes.CDLL, change: int, trim: int, mmap: int) -> None:
    """Sets both when the first part begins or the last one ends; then returns free memory."""
    global _parts
    with _lock:
        first_or_last = _parts == 0 or _parts + change == 0
        _parts += change
        if first_or_last:
            libc.mallopt(M_TRIM_THRESHOLD, ctypes.c_int(trim))
            libc.mallopt(M_MMAP_THRESHOLD, ctypes.c_int(mmap))
            if _parts == 0:
                libc.malloc_trim(ctypes.c_size_t(0))


Outcome = tuple[int, Receipt | BaseException]  # of a part
WRITING = "of_writing"  # attribute of errors raised while writing a part; pickled with them


class Lost(XaiError, RuntimeError):
    """The process that ran a part ended before it answered."""

    def __init__(self, text: str, deaths: int = 1) -> None:
        super().__init__(text)
        self.deaths = deaths  # deaths that the engine itself has seen


def attempt(path: str, task: Task) -> Receipt:
    """Calls `run`; path: the file that is there meanwhile. It raises errors that can be pickled."""
    try:
        _begin(Path(path))
        return run(task)
    except Exception as error:
        if isinstance(error, OSError) and _while_writing(error):
            setattr(error, WRITING, True)
        able = sendable(error)
        if able is error:
            raise
        raise able from error
    finally:
        Path(path).unlink(missing_ok=True)


def _begin(path: Path) -> None:
    if not path.parent.is_dir():
        raise InputError(
            f"out: {path.parent} is no directory on {platform.node()}. Give one that all workers "
            "see."
        )
    path.touch()


def _while_writing(error: OSError) -> bool:
    """Whether it comes from a file of the part: the model may raise the same error."""
    writes = RunDirectory.write.__code__, _begin.__code__
    return any(frame.f_code in writes for frame, _ in traceback.walk_tb(error.__traceback__))


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
    copied = RuntimeError(f"{type(error).__name__}: {text_of(error)}")
    for note in getattr(error, "__notes__", ()):
        copied.add_note(str(note))
    return copied


def text_of(error: BaseException) -> str:
    """The text of the error, if it has one."""
    try:
        return str(error)
    except Exception as other:
        return f"(its text raises {type(other).__name__})"


class BegunFile:
    """The file that is there while a part runs; since when it runs, by this machine's clock."""

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
