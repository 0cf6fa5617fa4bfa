"""What guests answered, kept so that nothing is asked twice; in memory, or in a file as well.

The file names rows by their place in the aligned list, and the list by a salted digest: it holds no
identifier. Records are written as answers come, each with a checksum; a torn end is dropped.

Letters: L identifiers of the aligned list, E numbers of an answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core.errors import FederatedProtocolError, InputError

REFERENCE = -1  # the place of the reference
SCHEMA = 2


class Answers:
    """The answers of one guest, by place in the aligned list."""

    def __init__(self, path: Path | None, guest: str, identifiers: Sequence[bytes]) -> None:
        """Raises InputError for a file of another guest or list."""
        self._path, self._guest, self._identifiers = path, guest, identifiers
        self._rows: dict[int, np.ndarray] = {}
        self._again: Counter[int] = Counter()
        self.facts: dict[str, Any] | None = (
            None  # state, width, version, release; None: nothing answered
        )
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
        """Raise InputError where answers of another list of identifiers are held."""
        if self.facts is not None and tuple(identifiers) != tuple(self._identifiers):
            raise InputError(
                "answers: they are of another list of identifiers. Align before the first "
                "explanation, or call host.forget()."
            )

    def realign(self, identifiers: Sequence[bytes]) -> None:
        """Go by another list of identifiers; see `check_list`."""
        self.check_list(identifiers)
        self._identifiers = identifiers

    def missing(self, places: Sequence[int]) -> list[int]:
        """Those that were not answered yet."""
        return [place for place in places if place not in self._rows]

    @property
    def places(self) -> list[int]:
        """Those of people who were answered, first who was asked again least often."""
        known = [place for place in self._rows if place != REFERENCE]
        return sorted(known, key=lambda place: (self._again[place], place))

    def count_again(self, places: Sequence[int]) -> None:
        """Remember that people who were answered were asked again."""
        self._again.update(places)

    def rows(self, places: Sequence[int]) -> np.ndarray:
        """Answers [n, E] at these places, all of which were answered."""
        return np.stack([self._rows[place] for place in places])

    def fit(self, width: int, version: str, release: str) -> None:
        """Raise FederatedProtocolError where kept answers are not those that are wanted now.

        version: "" takes any.
        """
        if self.facts is None:
            return
        held = (self.facts["version"], self.facts["width"])
        if held != (version or held[0], width):
            raise FederatedProtocolError(
                f"guest {self._guest!r}: its kept answers are of model version {held[0]!r}, with "
                f"{held[1]:,} numbers each; wanted are version {version or held[0]!r}, {width:,} "
                "numbers. Call host.forget() (or delete the file of answers), and explain again."
            )
        if self.facts["release"] != release:
            raise FederatedProtocolError(
                f"guest {self._guest!r}: its kept answers are of another release of the split "
                "model than the host's side. Call host.forget() (or delete the file of answers), "
                "and explain again."
            )

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Keep what the guest says of itself, before its first answer."""
        if self.facts is None:
            if self._path is not None:
                self._start(self._path, facts)
            self.facts = dict(facts)

    def check_same(self, facts: Mapping[str, Any]) -> None:
        """Raise FederatedProtocolError where the guest would now answer otherwise than before."""
        if self.facts is not None and facts != self.facts:
            changed = ", ".join(name for name, value in facts.items() if value != self.facts[name])
            raise FederatedProtocolError(
                f"guest {self._guest!r} has changed since its first answers ({changed}): its rows, "
                "model or policy are others. Answers of both cannot be mixed; call host.forget() "
                "(or delete the file of answers), and explain again."
            )

    def add(self, places: Sequence[int], rows: np.ndarray) -> None:
        """Keep answers [n, E]; on the disk, where there is a file, before this returns."""
        for place, row in zip(places, rows, strict=True):
            self._rows[place] = np.array(row)
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(b"".join(_record(p, r) for p, r in zip(places, rows, strict=True)))
                file.flush()
                os.fsync(file.fileno())

    def forget(self) -> None:
        """Drop all answers, and the file."""
        self._rows, self.facts = {}, None
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _start(self, path: Path, facts: Mapping[str, Any]) -> None:
        salt = secrets.token_hex(16)
        header = {"schema": SCHEMA, "guest": self._guest, "salt": salt, **facts}
        header["list"] = _digest(salt, self._identifiers)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(json.dumps(header).encode() + b"\n")

    def _read(self, path: Path) -> None:
        first, _, rest = path.read_bytes().partition(b"\n")
        try:
            header = json.loads(first)
            facts = {name: header[name] for name in ("state", "width", "version", "release")}
            own = (SCHEMA, self._guest, _digest(header["salt"], self._identifiers))
            same = own == (header["schema"], header["guest"], header["list"])
            width = facts["width"]
            if type(width) is not int or width < 0:
                raise ValueError("a width that no row has")
            size = 8 + 8 * width + 4  # of a record
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InputError(f"answers: {path} is no file of answers; name another.") from None
        if not same:
            raise InputError(
                f"answers: {path} is of another guest or another list of identifiers. Name another "
                "file, or delete this one."
            )
        self.facts = facts
        whole = len(rest) // size * size
        for start in range(0, whole, size):
            record = rest[start : start + size]
            place = int.from_bytes(record[:8], "little", signed=True)
            row = np.frombuffer(record[8:-4], "<f8")
            if _record(place, row) == record and -1 <= place < len(self._identifiers):
                self._rows[place] = row
        if whole < len(rest):
            with path.open("r+b") as file:
                file.truncate(len(first) + 1 + whole)


def _record(place: int, row: np.ndarray) -> bytes:
    body = place.to_bytes(8, "little", signed=True) + np.asarray(row, "<f8").tobytes()
    return body + zlib.crc32(body).to_bytes(4, "little")


def _digest(salt: str, identifiers: Sequence[bytes]) -> str:
    digest = hashlib.sha256(bytes.fromhex(salt))
    for one in identifiers:
        digest.update(len(one).to_bytes(4, "big") + one)
    return digest.hexdigest()
