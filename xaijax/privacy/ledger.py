"""`Ledger`: what was spent of a privacy budget, in a file that is only ever appended to.

One line of JSON a record, each with a digest of itself and of the line before it:

    {"kind": "ledger", "budget": "2.0", "salt": ...}         the first line
    {"kind": "charge", "query": ..., "epsilon": "0.5"}       fsynced BEFORE the noise is drawn
    {"kind": "answer", "query": ..., "answer": {...}}        fsynced BEFORE anyone sees the answer

A line counts when it ends in a newline. Whatever moment a process is killed at:

- before the charge is whole: nothing was drawn; the torn line is cut off by the next process;
- between charge and answer: charged, and nothing was seen. The same query is drawn again under the
  charge it has, since one charge pays for one answer, and no answer has left;
- after the answer: it is charged, and the same query gets the same numbers, free of charge.

All of it happens under a lock of the file, so that processes wait for each other. Keep the file on
a local disk, beside the data and as private as they are: it holds digests of the questions.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from xaijax._errors import BudgetExceededError, InputError, InputTypeError, PrivacyError
from xaijax._files import as_path
from xaijax._public import public_class

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

VERSION = 1


def exact(epsilon: float) -> Decimal:
    """An epsilon as it is written, so that ten times 0.1 is 1."""
    return Decimal(repr(float(epsilon)))


def positive(value: Any, name: str) -> float:
    """A finite number above 0, for `epsilon` and `budget`."""
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str):
        raise InputTypeError(f"{name} must be a number above 0, got {type(value).__name__}.")
    number = float(value)
    if not 0 < number < float("inf"):
        raise InputError(f"{name} must be a finite number above 0, got {value!r}.")
    return number


@dataclass
class _Book:
    """A ledger as read."""

    budget: Decimal | None = None
    salt: str = ""
    spent: Decimal = Decimal(0)
    charges: dict[str, Decimal] = field(default_factory=dict)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    last: str = ""  # digest of the last line
    whole: int = 0  # bytes that count


@public_class
class Ledger:
    """A privacy budget for one private data set, kept in a file.

    Arguments:
        path: of the file; made where there is none, in a folder that exists. Readable and writable
            for its owner only.
        budget: the largest sum of epsilons that may ever be released.

    Composition is the plain sum. An identical query (question, data, model, epsilon, composition)
    is answered with the numbers it got before, free of charge.

    Raises:
        InputError: budget is not a finite number above 0, or the folder does not exist.
        PrivacyError: the file has another budget, is no ledger, or was altered.
    """

    def __init__(self, path: str | os.PathLike[str], budget: float) -> None:
        self._path = as_path(path)
        self._budget = positive(budget, "budget")
        if not self._path.parent.is_dir():
            raise InputError(f"path: the folder {self._path.parent} does not exist; make it first.")
        with self._opened():
            pass

    @property
    def path(self) -> Path:
        """Of the file."""
        return self._path

    @property
    def budget(self) -> float:
        """The largest sum of epsilons."""
        return self._budget

    @property
    def spent(self) -> float:
        """The sum of epsilons charged so far, by any process."""
        with self._opened() as (_, book):
            return float(book.spent)

    @property
    def remaining(self) -> float:
        """What is left of the budget."""
        with self._opened() as (_, book):
            return float(exact(self._budget) - book.spent)

    def __repr__(self) -> str:
        return f"Ledger({str(self._path)!r}, budget={self.budget:g}, spent={self.spent:g})"

    def _known(self, query: Mapping[str, Any], epsilon: float) -> dict[str, Any] | None:
        """The answer that the query got before; refuses what the budget cannot pay."""
        with self._opened() as (_, book):
            key = _key(book, query)
            if key not in book.answers:
                self._refuse_overspending(book, key, epsilon)
            return book.answers.get(key)

    def _answer(
        self, query: Mapping[str, Any], epsilon: float, draw: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """Charge, then draw, then keep the answer; or the answer that there is."""
        with self._opened() as (file, book):
            key = _key(book, query)
            if key in book.answers:
                return book.answers[key]
            self._refuse_overspending(book, key, epsilon)
            if key not in book.charges:
                _append(file, book, {"kind": "charge", "query": key, "epsilon": repr(epsilon)})
            answer = draw()
            _append(file, book, {"kind": "answer", "query": key, "answer": answer})
            return answer

    def _refuse_overspending(self, book: _Book, key: str, epsilon: float) -> None:
        left = exact(self._budget) - book.spent
        if key not in book.charges and exact(epsilon) > left:
            raise BudgetExceededError(
                f"epsilon={epsilon:g} is more than the {float(left):g} left of the ledger's budget "
                f"of {self._budget:g}. Nothing was drawn or charged. Ask with a smaller "
                "epsilon=, or stop here: a new ledger for the same data would not be private."
            )

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, _Book]]:
        """(the file, what it says) while no other process or thread has it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        file = os.open(self._path, flags, stat.S_IRUSR | stat.S_IWUSR)
        try:
            _lock(file)
            try:
                yield file, self._read(file)
            finally:
                _unlock(file)
        finally:
            os.close(file)

    def _read(self, file: int) -> _Book:
        book = _read_book(file, self._path)
        if book.budget is None:
            salt = secrets.token_hex(32)
            first = {"kind": "ledger", "version": VERSION, "budget": repr(self._budget)}
            _append(file, book, first | {"salt": salt})
            _sync_folder(self._path.parent)
            book.budget, book.salt = exact(self._budget), salt
        if book.budget != exact(self._budget):
            raise PrivacyError(
                f"budget={self._budget:g}, but the ledger {self._path} was opened with "
                f"{float(book.budget):g}. A budget is set once: say that one, or another path for "
                "other data."
            )
        return book


def _key(book: _Book, query: Mapping[str, Any]) -> str:
    """Which question it is, keyed with the ledger's own secret: it tells nothing elsewhere."""
    text = json.dumps(query, sort_keys=True, allow_nan=False)
    return hmac.new(bytes.fromhex(book.salt), text.encode(), hashlib.sha256).hexdigest()


def _read_book(file: int, path: Path) -> _Book:
    os.lseek(file, 0, os.SEEK_SET)
    parts = []
    while part := os.read(file, 1 << 20):
        parts.append(part)
    lines = b"".join(parts).split(b"\n")
    book = _Book()
    for number, line in enumerate(lines[:-1]):  # what follows the last newline is torn, or empty
        record = _checked(line, book.last, number, path)
        book.last = record["digest"]
        book.whole += len(line) + 1
        if record["kind"] == "ledger":
            book.budget, book.salt = Decimal(record["budget"]), record["salt"]
        elif record["kind"] == "charge":
            book.charges[record["query"]] = Decimal(record["epsilon"])
            book.spent += Decimal(record["epsilon"])
        else:
            book.answers[record["query"]] = record["answer"]
    return book


def _checked(line: bytes, before: str, number: int, path: Path) -> dict[str, Any]:
    try:
        record = json.loads(line)
        own = record.pop("digest")
        sound = own == _digest(record, before) and (number == 0) == (record["kind"] == "ledger")
    except (ValueError, KeyError, TypeError, AttributeError):
        sound, record, own = False, {}, ""
    if not sound:
        raise PrivacyError(
            f"path: line {number + 1} of {path} is not what this ledger wrote, so what was spent "
            "is not known. Restore the file; release nothing more of the data until then."
        )
    return record | {"digest": own}


def _digest(record: Mapping[str, Any], before: str) -> str:
    text = json.dumps(record, sort_keys=True, allow_nan=False)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def _append(file: int, book: _Book, record: dict[str, Any]) -> None:
    """Write one line and wait until it is on the disk; a torn line before it is cut off."""
    digest = _digest(record, book.last)
    line = json.dumps(record | {"digest": digest}, allow_nan=False).encode() + b"\n"
    if os.fstat(file).st_size > book.whole:
        os.ftruncate(file, book.whole)
    left = memoryview(line)
    while left:
        left = left[os.write(file, left) :]
    os.fsync(file)
    book.last, book.whole = digest, book.whole + len(line)
    if record["kind"] == "charge":
        book.charges[record["query"]] = Decimal(record["epsilon"])
        book.spent += Decimal(record["epsilon"])


def _sync_folder(folder: Path) -> None:
    """Make the new file's name last through a power cut, where folders can be synced."""
    if sys.platform == "win32":
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


def _lock(file: int) -> None:
    if sys.platform == "win32":
        os.lseek(file, 0, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_LOCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX)


def _unlock(file: int) -> None:
    if sys.platform == "win32":
        os.lseek(file, 0, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_UN)
