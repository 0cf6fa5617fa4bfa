"""How often each identifier was asked for, over all sessions and restarts.

The file holds pseudonyms, HMACs under a key derived from the guest's secret, and counts. A mark, an
HMAC of a sum over all of them, goes into the guest's log, so that another file does not pass for
this one. Queries are counted before they are logged; so the file also says which mark the log had
at that time, and proves both.
"""

from __future__ import annotations

import hmac
import os
import sqlite3
import weakref
from collections.abc import Sequence
from pathlib import Path

from xaijax.core.errors import InputError

MODULUS = 1 << 256


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
                self._base.execute("CREATE TABLE IF NOT EXISTS marks (logged TEXT, proof TEXT)")
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
        rows = self._base.execute("SELECT who, count FROM queries")
        self._sum = sum(self._weight(who, count) for who, count in rows) % MODULUS
        found = self._base.execute("SELECT logged, proof FROM marks").fetchone()
        self.logged: str | None = None if found is None else found[0]
        # Whether the counts are those that this class wrote with the mark of the log.
        self.known = found is None or hmac.compare_digest(str(found[1]), self._proof())

    @property
    def mark(self) -> str:
        """Of all that is counted; another one after each charge."""
        return self._mac(b"mark", self._sum.to_bytes(32, "big"))

    def _proof(self) -> str:
        return self._mac(b"proof", f"{self.mark} {self.logged}".encode())

    def _mac(self, purpose: bytes, content: bytes) -> str:
        return hmac.digest(self._key, purpose + b"\0" + content, "sha256")[:16].hex()

    def _weight(self, who: bytes, count: int) -> int:
        said = b"weight\0" + bytes(who) + b"%d" % count
        return int.from_bytes(hmac.digest(self._key, said, "sha256"), "big") if count else 0

    def most(self, identifiers: Sequence[bytes]) -> int:
        """The largest count among these identifiers."""
        found = [self._count(self._pseudonym(one)) for one in identifiers]
        return max(found, default=0)

    def total(self) -> int:
        """All queries that were counted."""
        row = self._base.execute("SELECT SUM(count) FROM queries").fetchone()
        return int(row[0] or 0)

    def charge(self, identifiers: Sequence[bytes], logged: str | None = None) -> None:
        """Count one query for each, all or none; on the disk before this returns.

        logged: the mark that the log has now.
        """
        who = [self._pseudonym(one) for one in identifiers]
        counts = [self._count(one) for one in who]
        before = self._sum, self.logged
        added = sum(
            self._weight(one, n + 1) - self._weight(one, n)
            for one, n in zip(who, counts, strict=True)
        )
        self._sum, self.logged = (self._sum + added) % MODULUS, logged
        try:
            self._write(who)
        except BaseException:
            self._sum, self.logged = before
            raise

    def _write(self, who: Sequence[bytes]) -> None:
        with self._base:
            self._base.execute("DELETE FROM marks")
            self._base.execute("INSERT INTO marks VALUES (?, ?)", (self.logged, self._proof()))
            self._base.executemany(
                "INSERT INTO queries VALUES (?, 1) "
                "ON CONFLICT (who) DO UPDATE SET count = count + 1",
                [(one,) for one in who],
            )

    def close(self) -> None:
        """Give the file back."""
        self._base.close()

    def _count(self, who: bytes) -> int:
        row = self._base.execute("SELECT count FROM queries WHERE who = ?", (who,)).fetchone()
        return 0 if row is None else int(row[0])

    def _pseudonym(self, identifier: bytes) -> bytes:
        return hmac.digest(self._key, identifier, "sha256")[:16]
