"""What runs in a spawned process: tasks come in by one pipe, outcomes go out by another.

The process is started by `boot` and not by multiprocessing, which would run the person's script
again in it. Whatever the model prints goes to stderr, and not between the outcomes.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

from xaijax.core.optional import require
from xaijax.sweeps.engines.attempt import sendable

LENGTH = struct.Struct("<Q")
BOOT = (
    "import sys; sys.path[:] = {path!r}; from xaijax.sweeps.engines import worker; worker.serve()"
)
XLA_THREADS = "PJRT_NPROC"  # read by XLA's CPU client when it begins
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def boot(cores: Sequence[int] | None, path: Sequence[str]) -> str:
    """The program of a worker; cores: that are its own, since libraries count those they see."""
    own = "" if cores is None else f"import os; os.sched_setaffinity(0, {list(cores)!r}); "
    return own + BOOT.format(path=list(path))


def send(stream: BinaryIO, content: Any) -> None:
    """One message: its length, and a pickle."""
    write(stream, pickle.dumps(content, protocol=5))


def write(stream: BinaryIO, body: bytes) -> None:
    """One message, of what is pickled already."""
    stream.write(LENGTH.pack(len(body)) + body)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """The next message, opened; raises EOFError where the other side has ended."""
    return pickle.loads(read(stream))


def read(stream: BinaryIO) -> bytes:
    """The next message as it comes, so that errors of the pipe are not taken for those of opening.

    Raises EOFError where the other side has ended.
    """
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    (length,) = LENGTH.unpack(head)
    body = stream.read(length)
    if len(body) < length:
        raise EOFError
    return body


def in_threads(count: int, function: Callable[..., Any], *args: Any) -> Any:
    """Its result, by so many threads of XLA where this process has none yet: else each of several
    workers takes all cores, and they fight. What the person has set stays.
    """
    os.environ.setdefault(XLA_THREADS, str(count))
    with kept_while_running():
        return function(*args)


def in_pool(driver: int, count: int, function: Callable[..., Any], *args: Any) -> Any:
    """The same in a process of a pool, which has at most so many threads of linear algebra and
    OpenMP from now on; other engines limit these themselves. driver: the process whose own threads
    may be the pool, and whose settings stay as they are.
    """
    if os.getpid() == driver:
        return function(*args)
    for name in THREADS:  # of libraries that the task loads
        os.environ.setdefault(name, str(count))
    least: dict[str, int] = {}
    libraries: Any = require("threadpoolctl", "scikit-learn")
    for one in libraries.threadpool_info():  # of those that are loaded, as they stand
        kind = one["user_api"]
        least[kind] = min(count, one["num_threads"], least.get(kind, count))
    libraries.threadpool_limits(limits=least)
    return in_threads(count, function, *args)


def serve() -> None:
    """Run tasks until there are no more: (function, arguments) in; out a result or an exception."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's, who ends this process
    coming, going = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    while True:
        try:
            function, arguments = receive(coming)
        except EOFError:
            return
        except Exception as error:  # what it needs is not here
            outcome = sendable(error)
        else:
            try:
                outcome = function(*arguments)
            except Exception as error:
                outcome = sendable(error)
        sys.stderr.flush()
        try:
            send(going, outcome)
        except BrokenPipeError:
            return


# Dask starts its workers with MALLOC_TRIM_THRESHOLD_=65536, by which glibc gives every freed
# buffer back to the system: those of each tile then come anew, page by page, which took a fifth of
# a worker's processor time. Between parts the engine's setting holds.

TRIM, MMAP = "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"  # glibc reads them at the start
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
USUAL_MMAP = 128 << 10  # bytes, of glibc
KEPT_TRIM, KEPT_MMAP = (1 << 31) - 1, 32 << 20  # the largest that mallopt takes
_lock = threading.Lock()
_parts = 0  # that run in this process


@contextmanager
def kept_while_running() -> Iterator[None]:
    """Keep freed memory, where the environment of this process asks glibc to give it back."""
    trim, mmap = os.environ.get(TRIM, ""), os.environ.get(MMAP, "")
    libc = ctypes.CDLL(None) if trim.isdigit() else None
    if libc is None or not hasattr(libc, "mallopt"):  # nobody asked, or another library of C
        yield
        return
    _count(libc, 1, KEPT_TRIM, KEPT_MMAP)
    try:
        yield
    finally:
        _count(libc, -1, int(trim), int(mmap) if mmap.isdigit() else USUAL_MMAP)


def _count(libc: ctypes.CDLL, change: int, trim: int, mmap: int) -> None:
    """Set both where the first part begins or the last one ends; then give back what is free."""
    global _parts
    with _lock:
        first_or_last = _parts == 0 or _parts + change == 0
        _parts += change
        if first_or_last:
            libc.mallopt(M_TRIM_THRESHOLD, ctypes.c_int(trim))
            libc.mallopt(M_MMAP_THRESHOLD, ctypes.c_int(mmap))
            if _parts == 0:
                libc.malloc_trim(ctypes.c_size_t(0))
