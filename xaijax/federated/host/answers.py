"""Answers of guests, kept so that nothing is requested twice; in memory, or in a file as well.

The file names rows by their place in the aligned list, sorted, so that the same people in another
order are the same; and the list by a salted digest: it holds no identifier. Records are written as
answers come, each with a checksum; a torn end is dropped.

Letters: L identifiers of the aligned list, E numbers of an answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core.errors import FederatedProtocolError, InputError
from xaijax.core.files import append, lock

REFERENCE = -1  # the place of the reference
SCHEMA = 2
FORGET = "Call host.forget() (or delete the file of answers), and explain again."


class GuestAnswers:
    """The answers of one guest, by place in the aligned list."""

    def __init__(self, path: Path | None, guest: str, identifiers: Sequence[bytes]) -> None:
        """Raises InputError for a file of another guest or list."""
        self._path, self._guest = path, guest
        self._take(identifiers)
        self._rows: dict[int, np.ndarray] = {}  # by rank
        self._length: int | None = None  # of the file as this host left it; None: there is none
        self.again: Counter[int] = Counter()  # number of repeated requests for each place
        # State, width, version, release; None: nothing answered.
        self.facts: dict[str, Any] | None = None
        if path is not None and path.exists():
            self._read(path)

    @property
    def version(self) -> str:
        """The guest's model version; "" before its first answer."""
        return "" if self.facts is None else str(self.facts["version"])

    @property
    def state(self) -> bytes:
        """The guest's fingerprint; b"" before its first answer."""
        return b"" if self.facts is None else bytes.fromhex(self.facts["state"])

    def check_list(self, identifiers: Sequence[bytes]) -> None:
        """Raises InputError if answers of another list of identifiers are held."""
        if self.facts is not None and sorted(identifiers) != self._sorted:
            raise InputError(
                "answers: they are of another list of identifiers. Align before the first "
                "explanation, or call host.forget()."
            )

    def realign(self, identifiers: Sequence[bytes]) -> None:
        """Replaces the list of identifiers; see `check_list`."""
        self.check_list(identifiers)
        self._take(identifiers)

    def _take(self, identifiers: Sequence[bytes]) -> None:
        self._sorted = sorted(identifiers)
        places = sorted(range(len(identifiers)), key=lambda place: identifiers[place])
        self._place = {REFERENCE: REFERENCE} | dict(enumerate(places))  # by rank
        self._rank = {place: rank for rank, place in self._place.items()}

    def missing(self, places: Sequence[int]) -> list[int]:
        """The positions without answers so far."""
        return [place for place in places if self._rank[place] not in self._rows]

    @property
    def places(self) -> list[int]:
        """Places of people who were answered, those with the fewest repeated requests first."""
        known = [self._place[rank] for rank in self._rows if rank != REFERENCE]
        return sorted(known, key=lambda place: (self.again[place], place))

    def rows(self, places: Sequence[int]) -> np.ndarray:
        """Answers [n, E] at these positions; all must have answers."""
        return np.stack([self._rows[self._rank[place]] for place in places])

    def fit(self, width: int, version: str | None, release: str) -> None:
        """Raises FederatedProtocolError if kept answers are not of this width, version and release.

        version: None accepts any.
        """
        if self.facts is None:
            return
        held = (self.facts["version"], self.facts["width"])
        if held != (version or held[0], width):
            raise FederatedProtocolError(
                f"guest {self._guest!r}: its kept answers are of model version {held[0]!r}, with "
                f"{held[1]:,} numbers each; wanted are version {version or held[0]!r}, {width:,} "
                f"numbers. {FORGET}"
            )
        if self.facts["release"] != release:
            raise FederatedProtocolError(
                f"guest {self._guest!r}: its kept answers are of another release of the split "
                f"model than the host's side. {FORGET}"
            )

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Keeps the guest's facts about itself, before its first answer."""
        if self.facts is None:
            if self._path is not None:
                self._start(self._path, facts)
            self.facts = dict(facts)

    def check_same(self, facts: Mapping[str, Any]) -> None:
        """Raises FederatedProtocolError if the guest would now answer otherwise than before."""
        if self.facts is not None and facts != self.facts:
            changed = ", ".join(name for name, value in facts.items() if value != self.facts[name])
            raise FederatedProtocolError(
                f"guest {self._guest!r} has changed since its first answers ({changed}), which "
                f"cannot be mixed with new ones. {FORGET}"
            )

    def add(self, places: Sequence[int], rows: np.ndarray) -> None:
        """Keeps answers [n, E]; they are on the disk, if there is a file, before this returns."""
        new = [(self._rank[place], np.array(row)) for place, row in zip(places, rows, strict=True)]
        self._rows.update(new)
        if self._path is not None:
            self._length = append(self._path, b"".join(_record(*pair) for pair in new))

    def forget(self) -> None:
        """Drops all answers, and the file."""
        self._rows, self.facts, self._length = {}, None, None
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _start(self, path: Path, facts: Mapping[str, Any]) -> None:
        salt = secrets.token_hex(16)
        header = {"schema": SCHEMA, "guest": self._guest, "salt": salt, **facts}
        header["list"] = _digest(salt, self._sorted)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise InputError(_shared(path.parent)) from None
        with os.fdopen(opened, "wb") as file:
            self._length = file.write(json.dumps(header).encode() + b"\n")

    def check_file(self) -> None:
        """Raises InputError if another host has written since this one read its file."""
        if self._path is not None:
            length = self._path.stat().st_size if self._path.exists() else None
            if length != self._length:
                raise InputError(_shared(self._path.parent))

    def _read(self, path: Path) -> None:
        first, _, rest = path.read_bytes().partition(b"\n")
        try:
            header = json.loads(first)
            facts = {name: header[name] for name in ("state", "width", "version", "release")}
            expected = (SCHEMA, self._guest, _digest(header["salt"], self._sorted))
            same = expected == (header["schema"], header["guest"], header["list"])
            width = facts["width"]
            if type(width) is not int or width < 0:
                raise ValueError("a width that no row has")
            size = 8 + 8 * width + 4  # of a record
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InputError(f"answers: {path} is no file of answers; name another.") from None
        if not same:
            raise InputError(
                f"answers: {path} is of another guest or another list of identifiers. Name another "
                "file, or delete it."
            )
        self.facts = facts
        whole = len(rest) // size * size
        for start in range(0, whole, size):
            record = rest[start : start + size]
            place = int.from_bytes(record[:8], "little", signed=True)
            row = np.frombuffer(record[8:-4], "<f8")
            if _record(place, row) == record and -1 <= place < len(self._sorted):
                self._rows[place] = row
        if whole < len(rest):
            with path.open("r+b") as file:
                file.truncate(len(first) + 1 + whole)
        self._length = len(first) + 1 + whole


@contextlib.contextmanager
def alone_in(folder: Path | None, answers: Iterable[GuestAnswers]) -> Iterator[None]:
    """Locks a folder of answers while requests are sent to guests.

    Raises InputError if another host holds the lock, or has written to the folder since this host
    read it.
    """
    if folder is None:
        yield
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        if sys.platform != "win32":  # which opens no folders; `check_file` sees other writers there
            opened = os.open(folder, os.O_RDONLY)
            held.callback(os.close, opened)  # which gives the lock back
            try:
                lock(opened, wait=False)
            except BlockingIOError:
                raise InputError(_shared(folder)) from None
            except OSError:  # a file system without locks; `check_file` sees other writers
                pass
        for guest_answers in answers:
            guest_answers.check_file()
        yield


def _shared(folder: Path) -> str:
    return (
        f"answers: another host uses the folder {folder}, and two hosts would mix what guests "
        "answered. Name another folder; or, when that host is done, construct this Host again, "
        "which then reads the answers in the folder."
    )


def _record(place: int, row: np.ndarray) -> bytes:
    body = place.to_bytes(8, "little", signed=True) + np.asarray(row, "<f8").tobytes()
    return body + zlib.crc32(body).to_bytes(4, "little")


def _digest(salt: str, identifiers: Sequence[bytes]) -> str:
    digest = hashlib.sha256(bytes.fromhex(salt))
    for identifier in identifiers:
        digest.update(len(identifier).to_bytes(4, "big") + identifier)
    return digest.hexdigest()
