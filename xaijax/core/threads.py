"""Calls of a function beside each other, results in order; and BLAS in one thread for each."""

from __future__ import annotations

import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

_T = TypeVar("_T")
_LIMIT = threading.Lock()
_limited: list[Any] = []  # one for each that is inside; the first holds what there was before


def threads_of(thread_safe: bool) -> int:
    """As many as this process has cores, or 1."""
    return cores() if thread_safe else 1


def cores() -> int:
    """Those that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return max(1, len(usable(0)) if usable else os.cpu_count() or 1)


def in_order(function: Callable[..., _T], given: Iterable[Any], threads: int) -> Iterator[_T]:
    """function(one) of each, in order, so many at a time; of 1 thread in the calling one.

    An exception comes out in its turn, as it would one by one; what is not begun then is left, and
    what is under way is not waited for.
    """
    if threads < 2:
        yield from map(function, given)
        return
    pool = ThreadPoolExecutor(threads, "xaijax-model")
    under_way: deque[Future[_T]] = deque()
    try:
        for one in given:
            # A thread starts without the caller's context variables (np.errstate is one).
            context = contextvars.copy_context()
            under_way.append(pool.submit(context.run, function, one))
            if len(under_way) >= threads:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def one_thread_of_blas() -> Iterator[None]:
    """Products of matrices in the calling thread alone, until the last that asked for it is done.

    The limit is the process's own. Two that set it in turn would leave it set for good: the second
    would take what the first has set for what there was before.
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
