"""The file of a ledger: made whole, opened by one at a time, only ever longer.

Whoever has opened it before knows the file (device and inode), how long it was and the digest of
the last line; a file that is another one, shorter, or other up to there is refused.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xaijax.core.errors import InputError, PrivacyError
from xaijax.core.files import BINARY, append_to, lock, sync_folder, unlock
from xaijax.privacy.ledger import book as books
from xaijax.privacy.ledger.book import Book


class LedgerFile:
    """One file, from its first opening on."""

    def __init__(self, path: Path, first: Mapping[str, Any]) -> None:
        """first: the line of a new one. The path is resolved once: folders may change later."""
        self.path = Path(os.path.realpath(path))
        self._file: tuple[int, int] | None = None
        self._whole, self._last = 0, ""
        if self.path.exists() and not self.path.is_file():
            raise InputError(f"path: {self.path} is no file; give the name of a file.")
        if not self.path.parent.is_dir():
            raise InputError(f"path: the folder {self.path.parent} does not exist; make it first.")
        if not self.path.exists():
            _create(self.path, books.written(first, "")[0])

    @contextmanager
    def opened(self) -> Iterator[tuple[int, Book]]:
        """(the file, what it says) while no other process or thread has it."""
        try:
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | BINARY)
        except FileNotFoundError:
            raise self._changed("is not there any more") from None
        try:
            lock(file)
            try:
                book = self._read(file)
                yield file, book
            finally:
                unlock(file)
        finally:
            os.close(file)

    def append(self, file: int, book: Book, record: Mapping[str, Any]) -> None:
        """Write one line and wait until it is on the disk; a torn line before it is cut off."""
        line, digest = books.written(record, book.last)
        if os.fstat(file).st_size > book.whole:
            os.ftruncate(file, book.whole)
        append_to(file, line)
        book.add(record, digest, len(line))
        self._whole, self._last = book.whole, book.last

    def _read(self, file: int) -> Book:
        found = os.fstat(file)
        same = found.st_dev, found.st_ino
        if self._file is not None and self._file != same:
            raise self._changed("was replaced by another file")
        if sys.platform != "win32" and found.st_mode & 0o077:
            raise PrivacyError(
                f"path: others than its owner may read or write {self.path} (mode "
                f"{found.st_mode & 0o777:o}), and a ledger is as private as the data. Say "
                "chmod 600 if nobody has, else another path."
            )
        if found.st_size < self._whole:
            raise self._changed("is shorter than it was")
        parts = []
        os.lseek(file, 0, os.SEEK_SET)
        while part := os.read(file, 1 << 20):
            parts.append(part)
        book = books.read(b"".join(parts), self.path)
        if self._file is not None and book.digests.get(self._whole) != self._last:
            raise self._changed("has other lines than it had")
        self._file, self._whole, self._last = same, book.whole, book.last
        return book

    def _changed(self, how: str) -> PrivacyError:
        return PrivacyError(
            f"path: the ledger {self.path} {how}, so charges may be missing. Restore the file that "
            "has all of them, and open it anew: Ledger(path, budget). Release nothing before."
        )


def _create(path: Path, line: bytes) -> None:
    """Make the file with its first line in it, at once; one that is there meanwhile stays."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY
    try:
        _fill(os.open(new, flags, 0o600), line)
        try:
            os.link(new, path)
        except FileExistsError:
            return
        except OSError:  # no links here: a process that is killed now leaves a file that is refused
            _fill(os.open(path, flags, 0o600), line)
    finally:
        new.unlink(missing_ok=True)
    sync_folder(path.parent)


def _fill(file: int, line: bytes) -> None:
    try:
        append_to(file, line)
    finally:
        os.close(file)
