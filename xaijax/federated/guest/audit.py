"""The guest's log: who asked for how much, in a chain from which no entry can be removed.

Each line carries an HMAC, under a key derived from the guest's secret, of itself and of the one
before. It holds no row, no identifier, no token and no key. It is a file of JSON lines rather
than a database, so that auditors can read and copy it without this library.
"""

from __future__ import annotations

import datetime
import hmac
import json
import os
import sqlite3
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.files import append
from xaijax.results.files.npz import as_path

START = "0" * 64  # the code before the first entry
TAIL = "torn"  # the event that says that the last line of a killed process was cut off


class AuditLog:
    """Appends entries, to a file or (path None) in memory."""

    def __init__(self, path: Path | None, secret: bytes) -> None:
        """Raises InputError if the file is not a whole chain under this secret."""
        self.path = path
        self._key = hmac.digest(secret, b"xaijax.federated audit", "sha256")
        self.count, self.head = 0, START
        self.instances = 0  # that went out, by all entries
        self.counts: str | None = None  # the last fingerprint of the counts of queries
        self.entries: list[dict[str, Any]] = []  # of a log in memory
        if path is not None and path.exists():
            torn = self.read(path)
            if torn:
                with path.open("r+b") as file:
                    file.truncate(path.stat().st_size - torn)
                self.add(TAIL, bytes=torn)

    def add(self, event: str, **facts: Any) -> None:
        """Appends one entry; facts are names, counts and codes."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        entry = {"number": self.count + 1, "time": now, "event": event, **facts}
        entry["before"] = self.head
        entry["mac"] = self._mac(entry)
        if self.path is None:
            self.entries.append(entry)
        else:
            append(self.path, json.dumps(entry).encode() + b"\n")
        self._take(entry, entry["mac"])

    def read(self, path: Path) -> int:
        """Checks and counts the entries of a file.

        Returns the bytes of a last line that a killed process left unfinished. It raises InputError
        for an entry that does not continue the chain.
        """
        *whole, rest = path.read_bytes().split(b"\n")
        for line in whole:
            try:
                entry = json.loads(line)
                mac = entry.pop("mac")
                good = (entry["number"], entry["before"]) == (self.count + 1, self.head)
                good = good and hmac.compare_digest(mac, self._mac(entry))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                good, mac, entry = False, "", {}
            if not good:
                raise InputError(
                    f"audit log {path}: entry {self.count + 1} does not continue the chain: "
                    "changed, or of another secret. Keep it as evidence; name another folder."
                )
            self._take(entry, mac)
        return len(rest)

    def _take(self, entry: dict[str, Any], mac: str) -> None:
        self.count, self.head = self.count + 1, mac
        if entry["event"] in ("answer", "block"):
            self.instances += entry["instances"]
        self.counts = entry.get("counts", self.counts)

    def _mac(self, entry: dict[str, Any]) -> str:
        said = json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()
        return hmac.new(self._key, said, "sha256").hexdigest()


def verify_audit(path: str | Path, secret: bytes) -> tuple[int, str]:
    """Checks a guest's log: whether an entry was changed, removed or inserted.

    The log (audit.jsonl in the guest's state folder) says who asked when, for how many instances,
    for which model version, and what was refused. It holds no row, identifier, token or key. Each
    entry carries a code (an HMAC under a key derived from the guest's secret) of itself and of the
    entry before.

    Args:
        path: the log.
        secret: bytes, the guest's secret.

    Returns:
        (entries, head): how many entries the log has, and the code of the last one. Note both:
        entries that are cut off at the end show only by comparing with an earlier check. A last
        line that a killed process left unfinished does not count.

    Raises:
        InputError: an entry was changed, removed or inserted, or the secret is a different one.
        OSError: the file cannot be read.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows, secret = np.array([[0.0, 2.0, 1.0], [4.0, 0.0, 1.0]]), bytes(range(32))
        >>> part = xj.federated.Part("linear", {"weights": np.array([0.5, -1.0, 2.0])})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     guest = xj.federated.Guest(rows, [1, 2], part, secret=secret, state=folder)
        ...     guest.close()
        ...     entries, head = xj.federated.verify_audit(f"{folder}/audit.jsonl", secret)
        >>> entries, head == guest.audit.head
        (1, True)

        The only entry says that the guest was started.
    """
    checks.instance(secret, "secret", bytes, "bytes")
    log = AuditLog(None, secret)
    log.read(as_path(path))
    return log.count, log.head


# The file holds pseudonyms, HMACs under a key derived from the guest's secret, and counts. Their
# fingerprint, an HMAC of a sum over all of them, goes into the guest's log, so that another file is
# not taken for this one. Queries are counted before they are logged. The file therefore also says
# which fingerprint the log had at that time, and proves both.

MODULUS = 1 << 256


class QueryCounts:
    """Counts in a file that one guest process holds, or (path None) in memory."""

    def __init__(self, path: Path | None, secret: bytes) -> None:
        """Raises InputError if the file is another process's, or no such file."""
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
                # A write takes the exclusive lock, and keeps it.
                self._base.execute("DELETE FROM held")
        except sqlite3.Error as error:
            self._base.close()
            raise InputError(
                f"state: {name}: {error}. Stop the other guest that has it, or name another folder."
            ) from None
        rows = self._base.execute("SELECT who, count FROM queries")
        self._sum = sum(self._weight(who, count) for who, count in rows) % MODULUS
        marks = self._base.execute("SELECT logged, proof FROM marks").fetchone()
        self.logged: str | None = None if marks is None else marks[0]
        # Whether the counts are those that this class wrote with the fingerprint in the log.
        self.known = marks is None or hmac.compare_digest(str(marks[1]), self._proof())

    @property
    def fingerprint(self) -> str:
        """The fingerprint of all that is counted; it differs after each charge."""
        return self._mac(b"mark", self._sum.to_bytes(32, "big"))

    def _proof(self) -> str:
        return self._mac(b"proof", f"{self.fingerprint} {self.logged}".encode())

    def _mac(self, purpose: bytes, content: bytes) -> str:
        return hmac.digest(self._key, purpose + b"\0" + content, "sha256")[:16].hex()

    def _weight(self, who: bytes, count: int) -> int:
        said = b"weight\0" + bytes(who) + b"%d" % count
        return int.from_bytes(hmac.digest(self._key, said, "sha256"), "big") if count else 0

    def most(self, identifiers: Sequence[bytes]) -> int:
        """The largest count among these identifiers."""
        counts = [self._count(self._pseudonym(identifier)) for identifier in identifiers]
        return max(counts, default=0)

    def total(self) -> int:
        """All queries that were counted."""
        row = self._base.execute("SELECT SUM(count) FROM queries").fetchone()
        return int(row[0] or 0)

    def charge(self, identifiers: Sequence[bytes], logged: str | None = None) -> None:
        """Counts one query for each, all or none; the count is on the disk before this returns.

        logged: the fingerprint that the log has now.
        """
        who = [self._pseudonym(name) for name in identifiers]
        counts = [self._count(pseudonym) for pseudonym in who]
        before = self._sum, self.logged
        added = sum(
            self._weight(pseudonym, n + 1) - self._weight(pseudonym, n)
            for pseudonym, n in zip(who, counts, strict=True)
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
                [(pseudonym,) for pseudonym in who],
            )

    def close(self) -> None:
        """Gives the file back."""
        self._base.close()

    def _count(self, who: bytes) -> int:
        row = self._base.execute("SELECT count FROM queries WHERE who = ?", (who,)).fetchone()
        return 0 if row is None else int(row[0])

    def _pseudonym(self, identifier: bytes) -> bytes:
        return hmac.digest(self._key, identifier, "sha256")[:16]
