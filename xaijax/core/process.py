"""Limits of this process: whether it may use JAX after a fork; runs calls in parallel.

JAX in a forked child waits for ever, since the child has none of the parent's threads. The process
may fork freely before its first use of JAX. A child of a later fork is refused at once.
"""

from __future__ import annotations

import contextvars
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from xaijax.core.errors import ForkedProcessError

_T = TypeVar("_T")

_used = False  # by this library, in this process
_forked = False  # from a process in which JAX had begun


def before_jax() -> None:
    """Raises ForkedProcessError if JAX would deadlock; called before any use of JAX."""
    global _used
    if _forked:
        raise ForkedProcessError(
            f"this process ({os.getpid()}) was forked after its parent had used JAX, whose threads "
            "it lacks. Start workers by spawn (multiprocessing.get_context('spawn'), or joblib's "
            "loky), or fork before the first explanation."
        )
    _used = True


def _begun() -> bool:
    """Whether JAX has started, by this library or by other code; the check does not start it."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    known = getattr(bridge, "backends_are_initialized", None)  # not public; without it `_used`
    return _used or (known is not None and bool(known()))


def _in_child() -> None:
    global _forked
    _forked = _forked or _begun()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


VARIABLE = "XAIJAX_FAILPOINT"
_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Ends this process as by SIGKILL if the environment says `name`; "name:3" means at the third
    call. Otherwise it does nothing.
    """
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    where, _, time = wanted.partition(":")
    if where != name:
        return
    _passed[name] += 1
    if _passed[name] >= int(time or 1):
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


_LIMIT = threading.Lock()
_limited: list[Any] = []  # one for each caller inside; the first holds the limit before


def threads_of(thread_safe: bool) -> int:
    """Number of threads: the cores of this process, or 1."""
    return cores() if thread_safe else 1


def cores() -> int:
    """Number of cores that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return max(1, len(usable(0)) if usable else os.cpu_count() or 1)


def in_order(function: Callable[..., _T], items: Iterable[Any], threads: int) -> Iterator[_T]:
    """Yields function(one) of each, in order, `threads` at a time; with 1 thread in the calling
    one.

    An exception is raised in its turn, as in a loop; calls that have not begun are then dropped,
    and calls that are running are not waited for.
    """
    if threads < 2:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(threads, "xaijax-model")
    under_way: deque[Future[_T]] = deque()
    try:
        for item in items:
            # A thread starts without the caller's context variables (np.errstate is one).
            context = contextvars.copy_context()
            under_way.append(pool.submit(context.run, function, item))
            if len(under_way) >= threads:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def one_thread_of_blas() -> Iterator[None]:
    """Restricts matrix products to the calling thread, until the last caller that asked for it is
    done.

    The limit is set for the whole process. Two callers that set it in turn would leave it set
    permanently: the second would restore the limit of the first.
    """
    import scipy.linalg  # noqa: F401, PLC0415 - what is not loaded yet would not be limited
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - not loaded by `import xaijax`

    with _LIMIT:
        _limited.append(None if _limited else threadpool_limits(1, "blas"))
    try:
        yield
    finally:
        with _LIMIT:
            first = _limited[0]
            _limited.pop()
            if not _limited:
                first.restore_original_limits()


def available_host_memory() -> int:
    """Bytes of main memory that are free or can be freed."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    names = os.sysconf_names if hasattr(os, "sysconf_names") else {}
    if "SC_PHYS_PAGES" in names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return 4 << 30
