"""Memory that a part frees stays with its process until the part is done.

Dask starts its workers with MALLOC_TRIM_THRESHOLD_=65536, by which glibc gives every freed buffer
back to the system: those of each tile then come anew, page by page, which took a fifth of a
worker's processor time. Between parts the engine's setting holds.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
