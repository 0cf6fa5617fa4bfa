"""The content of a ledger's file: lines of JSON, each with a digest of itself and the line before.

    {"kind": "ledger", "version": 1, "budget": "2.0", "salt": ...}         the first line
    {"kind": "charge", "query": ..., "epsilon": "0.5"}
    {"kind": "answer", "query": ..., "answer": {...}}

A line counts if it ends in a newline. The digests have no key: they detect accidental changes, but
not deliberate ones.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from xaijax.core.errors import PrivacyError

VERSION = 1


@dataclass
class Book:
    """A ledger, as read."""

    budget: Fraction = Fraction(0)
    salt: str = ""
    spent: Fraction = Fraction(0)
    unanswered: set[str] = field(default_factory=set)  # queries that were charged last
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    last: str = ""  # digest of the last line
    whole: int = 0  # bytes that count
    digests: dict[int, str] = field(default_factory=dict)  # of the line that ends at a byte

    def key(self, query: Mapping[str, Any] | None) -> str:
        """The identity of a question, keyed with the ledger's own secret: it is useless elsewhere.

        None: a question that cannot be recognised later; the key is a new one each time.
        """
        text = json.dumps(query, sort_keys=True, allow_nan=False)
        if query is None:
            text = secrets.token_hex(32)
        return hmac.new(bytes.fromhex(self.salt), text.encode(), hashlib.sha256).hexdigest()

    def add(self, record: Mapping[str, Any], digest: str, size: int) -> None:
        """Counts one line of `size` bytes; raises KeyError, TypeError or ValueError for an invalid
        one.
        """
        kind = record["kind"]
        if (kind == "ledger") != (self.whole == 0):
            raise ValueError("the first line, and no other one, says what the file is")
        if kind == "ledger":
            self.budget, self.salt = Fraction(record["budget"]), record["salt"]
            bytes.fromhex(self.salt)  # the key for questions
        elif kind == "charge":
            self.spent += Fraction(record["epsilon"])
            self.unanswered.add(record["query"])
        elif kind == "answer":
            if not isinstance(record["answer"], dict):
                raise TypeError("an answer is a dict")
            self.answers[record["query"]] = record["answer"]
            self.unanswered.discard(record["query"])
        else:
            raise ValueError("an unknown kind of line")
        self.last, self.whole = digest, self.whole + size
        self.digests[self.whole] = digest


def first_line(budget: float) -> dict[str, Any]:
    """The first record of a new ledger."""
    salt = secrets.token_hex(32)
    return {"kind": "ledger", "version": VERSION, "budget": repr(budget), "salt": salt}


def written(record: Mapping[str, Any], before: str) -> tuple[bytes, str]:
    """(the line, its digest); before: the digest of the line before it."""
    digest = _digest(record, before)
    line = json.dumps({**record, "digest": digest}, allow_nan=False)
    return line.encode() + b"\n", digest


def read(content: bytes, path: Path) -> Book:
    """The book from a file's bytes; an incomplete line after the last newline is left out.

    It raises PrivacyError for what no ledger of this version wrote.
    """
    lines = content.split(b"\n")[:-1]
    if not lines:
        raise PrivacyError(
            f"path: {path} has no whole line, so it is no ledger, or one that was cut off. Restore "
            "it, say another path, or delete the file if nothing was ever released by it."
        )
    book = Book()
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            digest = record.pop("digest")
            if digest != _digest(record, book.last):
                raise ValueError("another line")
            _refuse_version(record, path)
            book.add(record, digest, len(line) + 1)
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            ArithmeticError,  # from fractions
            RecursionError,  # from deep JSON
        ) as error:
            if isinstance(error, PrivacyError):
                raise
            raise PrivacyError(
                f"path: line {number} of {path} is not what this ledger wrote, so what was spent "
                "is not known. Restore the file; release nothing more of the data until then."
            ) from None
    return book


def _refuse_version(record: Mapping[str, Any], path: Path) -> None:
    if record["kind"] == "ledger" and record["version"] != VERSION:
        raise PrivacyError(f"path: {path} has version {record['version']!r}; update xaijax.")


def _digest(record: Mapping[str, Any], before: str) -> str:
    text = json.dumps(record, sort_keys=True, allow_nan=False)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def exact(epsilon: float) -> Fraction:
    """An epsilon as the fraction that is written, so ten times 0.1 is 1; sums are exact."""
    return Fraction(repr(float(epsilon)))
