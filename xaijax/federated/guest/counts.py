"""How often each identifier was asked for, over all sessions and restarts.

The file holds pseudonyms, HMACs under a key derived from the guest's secret, and counts.
"""

from __future__ import annotations

import hmac
import os
import sqlite3
import weakref
from collections.abc import Sequence
from pathlib import Path

from xaijax.core.errors import InputError


class QueryCounts:
    """Counts in a file that one guest process holds, or (path None) in memory."""

    def __init__(self, path: Path | None, secret: bytes) -> None:
        """Raises InputError where the file is another process's, or no such file."""
        self._key = hmac.digest(secret, b"xaijax.federated counts", "sha256")
        name = ":memory:" if path is None else str(path)
        if path is not None:  # for the owner's eyes only, and so is its journal
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._base = sqlite3.connect(name, timeout=0.2, check_same_thread=False)
        weakref.finalize(self, self._base.close)  # also where nobody says close()
        try:
            self._base.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._base.execute("PRAGMA synchronous = FULL")
            with self._base:
                self._base.execute(
                    "CREATE TABLE IF NOT EXISTS queries (who BLOB PRIMARY KEY, count INTEGER)"
                )
                self._base.execute("CREATE TABLE IF NOT EXISTS held (by TEXT)")
                self._base.execute(
                    "DELETE FROM held"
                )  # a write takes the exclusive lock, and keeps it
        except sqlite3.Error as error:
            self._base.close()
            raise InputError(
                f"state: {name} cannot be used ({error}). Stop the other guest that has it, or "
                "name another folder."
            ) from None

    def most(self, identifiers: Sequence[bytes]) -> int:
        """The largest count among these identifiers."""
        found = [self._count(self._pseudonym(one)) for one in identifiers]
        return max(found, default=0)

    def total(self) -> int:
        """All queries that were counted."""
        row = self._base.execute("SELECT SUM(count) FROM queries").fetchone()
        return int(row[0] or 0)

    def charge(self, identifiers: Sequence[bytes]) -> None:
        """Count one query for each, all or none; on the disk before this returns."""
        with self._base:
            self._base.executemany(
                "INSERT INTO queries VALUES (?, 1) "
                "ON CONFLICT (who) DO UPDATE SET count = count + 1",
                [(self._pseudonym(one),) for one in identifiers],
            )

    def close(self) -> None:
        """Give the file back."""
        self._base.close()

    def _count(self, who: bytes) -> int:
        row = self._base.execute("SELECT count FROM queries WHERE who = ?", (who,)).fetchone()
        return 0 if row is None else int(row[0])

    def _pseudonym(self, identifier: bytes) -> bytes:
        return hmac.digest(self._key, identifier, "sha256")[:16]
