"""Locks files, and appends to them durably.

The system releases a lock however its holder ends.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path

BINARY = getattr(os, "O_BINARY", 0)  # Windows would write "\r\n" otherwise
PLACE = 1 << 30  # the byte that Windows locks: beyond the content, so that others can read it

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def owner_only(path: str, flags: int) -> int:
    """The `opener=` of `open` for files that contain rows: other users of the machine cannot read
    them.
    """
    return os.open(path, flags, 0o600)


def lock(file: int, shared: bool = False, wait: bool = True) -> None:
    """Locks an open file. On Windows there are no shared locks: anyone gets one.

    It raises BlockingIOError if another process holds the lock and wait is False, and OSError on a
    file system without locks.
    """
    if sys.platform != "win32":
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
    elif not shared:
        _lock_place(file, wait)


def unlock(file: int) -> None:
    """Releases a lock; closing is not enough if a child was forked with the file open."""
    with contextlib.suppress(OSError):  # a file system without locks, or a file without one
        if sys.platform == "win32":
            _at_place(file, msvcrt.LK_UNLCK)
        else:
            fcntl.flock(file, fcntl.LOCK_UN)


def append(path: Path, content: bytes) -> int:
    """Appends to a file that only its owner can read, as `append_to` does."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | BINARY, 0o600)
    try:
        return append_to(file, content)
    finally:
        os.close(file)


def append_to(file: int, content: bytes) -> int:
    """Appends all or nothing, and returns the new length once it is on the disk."""
    end = os.fstat(file).st_size
    left = memoryview(content)
    try:
        while left:
            left = left[os.write(file, left) :]
        os.fsync(file)
    except OSError:  # a full disk: what comes next must not follow half of this
        os.ftruncate(file, end)
        raise
    return end + len(content)


def sync_folder(folder: Path) -> None:
    """Makes a new name in a folder survive a power cut, where folders can be opened."""
    if sys.platform != "win32":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


if sys.platform == "win32":

    def _lock_place(file: int, wait: bool) -> None:
        while True:
            try:
                return _at_place(file, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK)
            except OSError as error:
                if not wait and error.errno == errno.EACCES:
                    raise BlockingIOError(errno.EAGAIN, "another holds the lock") from None
                if error.errno != errno.EDEADLOCK:  # it waits for ten seconds at a time
                    raise

    def _at_place(file: int, mode: int) -> None:
        before = os.lseek(file, 0, os.SEEK_CUR)
        os.lseek(file, PLACE, os.SEEK_SET)
        try:
            msvcrt.locking(file, mode, 1)
        finally:
            os.lseek(file, before, os.SEEK_SET)
