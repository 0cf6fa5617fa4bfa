"""`Ledger`: the spent part of a privacy budget, in a file that is only appended to.

A charge is on the disk before the noise is drawn, the answer before anyone sees it. A process may
be killed at any moment:

- before the charge is complete: nothing was drawn; the next process cuts off the incomplete line;
- between charge and answer: it is charged. If the same query is made again, it is charged once
  more. The file cannot show that no answer was seen, since a file that lost its last line looks the
  same. Two answers then have two charges;
- after the answer: it is charged, and the same query gets the same numbers, free of charge.

All of this happens under a lock of the file, so processes wait for each other. Keep the file on a
local disk, next to the data and as private as they are: it holds digests of the questions.

The file holds lines of JSON, each with a digest of itself and the line before:

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
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from xaijax.core import checks
from xaijax.core.errors import BudgetExceededError, InputError, PrivacyError
from xaijax.core.files import BINARY, append_to, lock, sync_folder, unlock
from xaijax.core.public import public_class
from xaijax.results.files.npz import as_path

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
            if record["kind"] == "ledger" and record["version"] != VERSION:
                raise PrivacyError(
                    f"path: {path} has version {record['version']!r}, this xaijax reads {VERSION}. "
                    "Update xaijax."
                )
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
                f"path: line {number} of {path} was not written by this ledger, so the epsilon "
                "that was spent is unknown. Restore the file before you release more of the data."
            ) from None
    return book


def _digest(record: Mapping[str, Any], before: str) -> str:
    text = json.dumps(record, sort_keys=True, allow_nan=False)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def exact(epsilon: float) -> Fraction:
    """An epsilon as the fraction that is written, so ten times 0.1 is 1; sums are exact."""
    return Fraction(repr(float(epsilon)))


@public_class
class Ledger:
    """Keeps a privacy budget for one private data set in a file.

    Each release charges its epsilon. The sum of all charges is never above the budget; epsilons are
    added exactly, as decimal fractions (ten times 0.1 is 1). A charge is on the disk before noise
    is drawn, and the answer before anyone sees it, so a process may be killed at any moment. If a
    question was charged and its answer is not in the file, it is charged again. Other processes
    wait while one uses the file.

    An identical question (question, data, model, epsilon, composition) gets the same numbers again,
    free of charge, if its model can be recognised: a JAX function, or a scikit-learn estimator.
    With any other model it is charged again.

    Args:
        path: the path of the file, text or `os.PathLike`. The file is created if there is none, in
            an existing folder, readable and writable for its owner only. A file that others may
            read or write is refused. The path is resolved once, so a change of the current folder
            does not matter. Keep the file on a local disk.
        budget: float above 0. The largest sum of epsilons that may ever be released. It is set
            once: the same number is needed each time the file is opened.

    Raises:
        InputError, InputTypeError: the budget is not a finite number above 0, the path is not a
            file, or its folder does not exist.
        PrivacyError: the file has another budget, is not a ledger, was altered, or others may read
            or write it. Later uses also raise it if the file vanished, was replaced or lost lines.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import xaijax as xj
        >>> data = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 1], [2, 2]], np.float32)
        >>> model = xj.as_model(lambda X: X[:, 0] > 0, output="label", classes=[0, 1])
        >>> report = xj.QII(model, data, quantity="rate").explain()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = xj.privacy.Ledger(f"{folder}/people.ledger", budget=3.0)
        ...     first = xj.privacy.release(report, epsilon=2.0, ledger=ledger)
        ...     again = xj.privacy.release(report, epsilon=2.0, ledger=ledger)
        ...     ledger.spent, ledger.remaining
        (2.0, 1.0)
        >>> bool((again.values == first.values).all())
        True

        The second release is the same question, and free of charge.

    A file that was restored to an older state before this object was made cannot be distinguished
    from a valid one. The file is as private as the data. Use one ledger for one data set.
    """

    def __init__(self, path: str | os.PathLike[str], budget: float) -> None:
        place = as_path(path)
        self._budget = checks.positive(budget, "budget")
        self._file = LedgerFile(place, first_line(self._budget))
        with self._file.opened() as (_, book):
            if book.budget != exact(self._budget):
                said, opened = _apart(self._budget, float(book.budget))
                raise PrivacyError(
                    f"budget={said}, but the ledger {self.path} was opened with {opened}. Say that "
                    "one, or another path for other data."
                )

    @property
    def path(self) -> Path:
        """The path of the file, absolute."""
        return self._file.path

    @property
    def budget(self) -> float:
        """The largest sum of epsilons that may be released."""
        return self._budget

    @property
    def spent(self) -> float:
        """The sum of epsilons charged so far, by any process."""
        with self._file.opened() as (_, book):
            return float(book.spent)

    @property
    def remaining(self) -> float:
        """The budget minus all charges so far."""
        with self._file.opened() as (_, book):
            return float(exact(self._budget) - book.spent)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, budget={self.budget:g}, spent={self.spent:g})"

    def _known(self, query: Mapping[str, Any] | None, epsilon: float) -> dict[str, Any] | None:
        """The answer that this query got; None: it must be drawn, and the budget suffices."""
        with self._file.opened() as (_, book):
            key = book.key(query)
            if key in book.answers:
                return book.answers[key]
            self._refuse_overspending(book, key, epsilon)
            return None

    def _answer(
        self,
        query: Mapping[str, Any] | None,
        epsilon: float,
        draw: Callable[[], dict[str, Any]],
        may: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Charges, then draws, then keeps the answer; or returns the answer that exists.

        query: None for one that cannot be recognised later. may: called before the charge, it
            raises if a draw is impossible.
        """
        with self._file.opened() as (file, book):
            key = book.key(query)
            if key in book.answers:
                return book.answers[key]
            self._refuse_overspending(book, key, epsilon)
            may()
            charge = {"kind": "charge", "query": key, "epsilon": repr(epsilon)}
            self._file.append(file, book, charge)
            answer = draw()
            self._file.append(file, book, {"kind": "answer", "query": key, "answer": answer})
            return answer

    def _refuse_overspending(self, book: Book, key: str, epsilon: float) -> None:
        left = exact(self._budget) - book.spent
        if exact(epsilon) <= left:
            return
        again = (
            " It was charged before, and its answer is not in the file; whether anyone saw it is "
            "not known, so it would be charged again."
        )
        wanted, free = _apart(epsilon, float(left))
        raise BudgetExceededError(
            f"epsilon={wanted} is more than the {free} left of the ledger's budget of "
            f"{self._budget:g}.{again if key in book.unanswered else ''} Nothing was drawn or "
            "charged. Say a smaller epsilon=: a new ledger for the same data would not be private."
        )


def _apart(a: float, b: float) -> tuple[str, str]:
    """Two numbers in the fewest digits, six or more, in which they differ."""
    for digits in range(6, 17):
        texts = f"{a:.{digits}g}", f"{b:.{digits}g}"
        if texts[0] != texts[1]:
            return texts
    return repr(float(a)), repr(float(b))


# After the first opening the file is identified by device and inode, its length and the digest of
# the last line. Another file, a shorter one, or one that differs up to that line is refused.


class LedgerFile:
    """One file, from its first opening on."""

    def __init__(self, path: Path, first: Mapping[str, Any]) -> None:
        """first: the first line of a new file. The path is resolved once, since folders may change
        later.
        """
        self.path = Path(os.path.realpath(path))
        self._file: tuple[int, int] | None = None
        self._whole, self._last = 0, ""
        if self.path.exists() and not self.path.is_file():
            raise InputError(f"path: {self.path} is no file; give the name of a file.")
        if not self.path.parent.is_dir():
            raise InputError(f"path: the folder {self.path.parent} does not exist; make it first.")
        if not self.path.exists():
            _create(self.path, written(first, "")[0])

    @contextmanager
    def opened(self) -> Iterator[tuple[int, Book]]:
        """Yields (the file, its content) while no other process or thread has it."""
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
        """Writes one line and waits until it is on the disk; cuts off an incomplete line before
        it.
        """
        line, digest = written(record, book.last)
        if os.fstat(file).st_size > book.whole:
            os.ftruncate(file, book.whole)
        append_to(file, line)
        book.add(record, digest, len(line))
        self._whole, self._last = book.whole, book.last

    def _read(self, file: int) -> Book:
        status = os.fstat(file)
        same = status.st_dev, status.st_ino
        if self._file is not None and self._file != same:
            raise self._changed("was replaced by another file")
        if sys.platform != "win32" and status.st_mode & 0o077:
            raise PrivacyError(
                f"path: others than its owner may read or write {self.path} (mode "
                f"{status.st_mode & 0o777:o}). Say chmod 600 if nobody has, else another path."
            )
        if status.st_size < self._whole:
            raise self._changed("is shorter than it was")
        parts = []
        os.lseek(file, 0, os.SEEK_SET)
        while part := os.read(file, 1 << 20):
            parts.append(part)
        book = read(b"".join(parts), self.path)
        if self._file is not None and book.digests.get(self._whole) != self._last:
            raise self._changed("has other lines than it had")
        self._file, self._whole, self._last = same, book.whole, book.last
        return book

    def _changed(self, how: str) -> PrivacyError:
        return PrivacyError(
            f"path: the ledger {self.path} {how}, so charges may be missing. Before you release "
            "more, restore the file that has all of them and open it again: Ledger(path, budget)."
        )


def _create(path: Path, line: bytes) -> None:
    """Creates the file with its first line in it atomically; one that exists by now stays."""
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
