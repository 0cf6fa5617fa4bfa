"""A run directory: the question (manifest.json), and a file for each part, which is the truth.

Parts are replaced completely, by a new name that is moved over the old one, and never appended to.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from xaijax.core.errors import InputError, XaiError
from xaijax.core.files import lock, owner_only, unlock
from xaijax.results.explanation import Explanation
from xaijax.results.files import npz
from xaijax.results.files.npz import as_path, write_atomically
from xaijax.results.rules import Rules

FORMAT, SCHEMA = "xaijax.Run", 1
LABELS_FORMAT = "xaijax.Instances"
MANIFEST, LOCK, DISTINCT = "manifest.json", "driver.lock", "distinct.npz"
LABELS = "instances.npz"  # the index of the explained frame
WRITING = ".writing.lock"  # locked while a part is written, so that a new driver waits
RULES = "xaijax.Rules"  # the format of a part that holds rules
PART = "part"  # in the stats of a part: facts of this part, dropped when parts are joined


def _rules(fields: Mapping[str, Any]) -> Rules:
    rules = Rules.from_json(fields["rules"])  # its own stats hold only numbers and texts
    return replace(rules, stats={**rules.stats, PART: json.loads(fields.get(PART, "{}"))})


MAKERS: dict[str, Callable[[dict[str, Any]], Explanation | Rules]] = {
    npz.FORMAT: lambda fields: Explanation(**fields),
    RULES: _rules,
}


def cut_of(manifest: Mapping[str, Any]) -> Cut:
    """The rows of each part; raises ValueError or TypeError if the manifest has none."""
    rows, each = manifest["distinct"], manifest["rows_per_part"]
    ranges = manifest.get("ranges")
    return Cut.of_size(each, rows) if ranges is None else Cut.read(ranges, rows)


@dataclass(frozen=True)
class RunDirectory:
    """The folder of one run."""

    path: Path

    @classmethod
    def made(cls, out: Any) -> RunDirectory:
        """The folder `out`, created if needed; raises InputError if it holds other files."""
        path = as_path(out, "out")
        if path.exists() and not path.is_dir():
            raise InputError(f"out: {path} is a file; give the name of a directory.")
        if path.is_dir() and not (path / MANIFEST).exists():
            known = (".", LOCK, DISTINCT, LABELS)  # of a driver that did not write its manifest
            others = [file.name for file in path.iterdir() if not file.name.startswith(known)]
            if others:
                raise InputError(
                    f"out: {path} holds other files ({min(others)!r}) and no run. Give a new or an "
                    "empty directory."
                )
        path.mkdir(parents=True, exist_ok=True)
        return cls(path)

    @property
    def manifest(self) -> dict[str, Any] | None:
        """The question as JSON; None: nothing yet. It raises InputError if it is no manifest."""
        try:
            text = (self.path / MANIFEST).read_bytes()
        except FileNotFoundError:
            return None
        try:
            facts = json.loads(text)
            if facts["format"] != FORMAT or facts["schema"] > SCHEMA:
                raise ValueError(f"it holds {facts['format']!r:.40}, schema {facts['schema']!r:.9}")
            sizes = [facts[name] for name in ("rows", "distinct", "rows_per_part", "parts")]
            if not all(type(size) is int and size > 0 for size in sizes):
                raise ValueError("its sizes are no whole numbers")
            if cut_of(facts).parts != facts["parts"]:
                raise ValueError("its ranges are not those of its parts")
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{self.path / MANIFEST} is no manifest of a run that this version reads: {error}."
            ) from None
        return facts

    def write_labels(self, index: Any) -> None:
        """Keeps the index of all rows, if they have one and it is not there yet."""
        if index is not None and not (self.path / LABELS).exists():
            npz.write(self.path / LABELS, {"index": index}, LABELS_FORMAT)

    @property
    def labels(self) -> Any:
        """The index of all rows; None: rows are only counted."""
        if "index" not in (self.manifest or {}).get("question", {}).get("rows", {}):
            return None
        return npz.read(self.path / LABELS, {LABELS_FORMAT: lambda fields: fields["index"]})

    @property
    def run_id(self) -> str | None:
        """The id that distinguishes this run from others in the directory; None: no run."""
        return (self.manifest or {}).get("id")

    def write_manifest(self, content: Mapping[str, Any]) -> None:
        """Writes the manifest completely, unless another shard's driver was first.

        It stays as long as the run. Drivers of one run may begin together and plan different tiles:
        the first driver's manifest is valid for all.
        """
        head = {"format": FORMAT, "schema": SCHEMA, "id": uuid.uuid4().hex}
        text = json.dumps({**head, **content}, indent=1).encode()
        new = self.path / f".{MANIFEST}.{uuid.uuid4().hex}"
        write_atomically(new, lambda file: file.write(text))
        try:
            os.link(new, self.path / MANIFEST)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            if not (self.path / MANIFEST).exists():
                os.replace(new, self.path / MANIFEST)
        new.unlink(missing_ok=True)

    def part(self, number: int) -> Path:
        """The file of a part."""
        return self.path / f"part-{number:06d}.npz"

    def write(self, number: int, answer: Explanation | Rules, term: Term | None = None) -> None:
        """Writes a part completely: a file of `Explanation.save`, or one that holds
        `Rules.to_json`.

        It raises InputError if a driver other than that of `term` has started since.
        """
        with self._writing(term):
            if isinstance(answer, Rules):
                of_part = json.dumps(dict(answer.stats.get(PART, {})))
                npz.write(self.part(number), {"rules": answer.to_json(), PART: of_part}, RULES)
            else:
                answer.save(self.part(number))

    def read(self, number: int) -> Explanation | Rules:
        """The content of a part; raises OSError or InputError."""
        return npz.read(self.part(number), MAKERS)

    def wrong(self, number: int, first: int, last: int) -> str | None:
        """The reason why a part does not count: "" if it is missing, else what is wrong; None if it
        is valid.

        A part is valid if it can be read completely (each member has a CRC), holds the rows first
        to last - 1, and was made for this run. A worker that was given up may finish when another
        run is here.
        """
        try:
            answer = self.read(number)
        except FileNotFoundError:
            return ""
        except XaiError as error:
            return str(error)
        said = answer.stats.get(PART, {})
        if len(answer) != last - first or (said.get("first"), said.get("last")) != (first, last):
            return f"it holds {len(answer)} rows, not the rows {first} to {last - 1}"
        return None if said.get("run") == self.run_id else "it was made for another run"

    def set_aside(self, number: int) -> Path:
        """Renames a bad part, so that it is never read."""
        aside = self.path / f"aside-{number:06d}-{time.time_ns()}.npz"
        os.replace(self.part(number), aside)
        return aside

    def write_failed(self, failed: Mapping[int, str], whose: str = "") -> None:
        """Keeps why parts failed; without failures, the file is removed."""
        path = self.path / f"failed{whose}.json"
        if failed:
            text = json.dumps({str(number): said for number, said in failed.items()}, indent=1)
            write_atomically(path, lambda file: file.write(text.encode()))
        else:
            path.unlink(missing_ok=True)

    @property
    def failed(self) -> dict[int, str]:
        """Reasons why parts failed, for all drivers; a part that was answered since may be
        included.
        """
        reasons: dict[int, str] = {}
        for path in sorted(self.path.glob("failed*.json")):
            with contextlib.suppress(OSError, ValueError):
                reasons |= {int(n): str(said) for n, said in json.loads(path.read_bytes()).items()}
        return reasons

    @contextlib.contextmanager
    def driven(self, whose: str = "") -> Iterator[Term]:
        """Makes this driver the only one of the directory; with `whose`, the only one of that
        shard.

        It raises InputError if another driver is alive, with its host, process and start. The
        system releases the lock however a driver ends; if it is killed, once the processes that it
        forked have ended too. Its workers may go on: from then on they write no part.
        """
        term = Term(f"{LOCK}{whose}", uuid.uuid4().hex)
        with contextlib.ExitStack() as held:
            held.enter_context(self._locked(LOCK, term.token, shared=bool(whose)))
            if whose:
                held.enter_context(self._locked(term.lock, term.token, shared=False))
            else:  # no shard's driver is alive, and none of their workers writes any more
                for path in self.path.glob(f"{LOCK}-*"):
                    path.unlink(missing_ok=True)
            yield term

    @contextlib.contextmanager
    def _writing(self, term: Term | None) -> Iterator[None]:
        with _flock(self.path / WRITING, shared=True):
            if term is not None:
                try:
                    said = (self.path / term.lock).read_text()
                except FileNotFoundError:
                    said = ""
                if term.token not in said:
                    raise InputError(f"{self.path} has another driver now: a part is not written.")
            yield

    @contextlib.contextmanager
    def _locked(self, name: str, token: str, shared: bool) -> Iterator[None]:
        """Holds a driver's lock file, with the token and who holds it."""
        with os.fdopen(os.open(self.path / name, os.O_RDWR | os.O_CREAT, 0o666), "r+") as file:
            try:
                lock(file.fileno(), shared, wait=False)
            except BlockingIOError:
                raise InputError(
                    f"out: another driver is at work on {self.path}: {file.readline().strip()}. "
                    "Wait for it, or give another directory."
                ) from None
            except OSError:  # a file system without locks
                pass
            pid, start = os.getpid(), time.strftime("%Y-%m-%d %H:%M:%S")
            with _flock(self.path / WRITING, shared=False):  # no earlier worker writes a part
                file.seek(0)
                file.truncate()
                file.write(f"host {socket.gethostname()}, process {pid}, since {start}\n{token}\n")
                file.flush()
            try:
                yield
            finally:
                if os.getpid() == pid:
                    unlock(file.fileno())

    def within(self, number: int) -> Path:
        """The file with the completed share of a part that runs for more than a second."""
        return self.path / f".within-{number:06d}"

    def share(self, number: int) -> float:
        """Completed share of a part, from 0 to 1."""
        try:
            return min(1.0, max(0.0, float(self.within(number).read_text())))
        except (OSError, ValueError):  # not there, or half written
            return 0.0

    @property
    def written(self) -> int:
        """Number of parts that have a file."""
        return sum(1 for _ in self.path.glob("part-*.npz"))


@dataclass(frozen=True)
class Term:
    """One driver's term: the name of its lock file, and the token that it wrote there."""

    lock: str
    token: str


@contextlib.contextmanager
def _flock(path: Path, shared: bool) -> Iterator[None]:
    """Holds a file's lock, waiting for it; has no effect on systems without such locks."""
    with open(path, "ab", opener=owner_only) as file:
        with contextlib.suppress(OSError):  # a file system without locks
            lock(file.fileno(), shared)
        try:
            yield
        finally:
            unlock(file.fileno())


FIRST, LATER = 5.0, 8.0  # seconds of the first parts, and of the others
EARLY = 2  # first parts for each part that runs at once
MOST = 10_000  # rows of a part


@dataclass(frozen=True)
class Cut:
    """Consecutive chunks (first row, last row + 1, rows per part), beginning at row 0.

    Only the last part of a chunk may be smaller.
    """

    chunks: tuple[tuple[int, int, int], ...]

    @classmethod
    def read(cls, entries: Sequence[Sequence[int]], rows: int) -> Cut:
        """Chunks of a manifest; raises ValueError unless they cover every row exactly once."""
        chunks = tuple((int(first), int(last), int(each)) for first, last, each in entries)
        bounds = [0, *(last for _, last, _ in chunks)]
        if [first for first, _, _ in chunks] != bounds[:-1] or bounds[-1] != rows:
            raise ValueError("its ranges are not those of its rows")
        if not all(first < last and each > 0 for first, last, each in chunks):
            raise ValueError("its ranges hold no rows")
        return cls(chunks)

    @classmethod
    def of_size(cls, each: int, rows: int) -> Cut:
        """Parts of one size."""
        return cls(((0, rows, min(each, rows)),))

    @classmethod
    def by_time(cls, seconds: float, rows: int, at_once: int) -> Cut:
        """Parts of about `FIRST` seconds, then of `LATER`; seconds: the time of one row."""
        early, later = (
            max(1, min(MOST, int(goal / max(seconds, 1e-12)))) for goal in (FIRST, LATER)
        )
        turn = min(EARLY * at_once * early, rows)
        if early == later or rows - turn < later:  # no full larger part would follow
            return cls.of_size(early, rows)
        return cls(((0, turn, early), (turn, rows, later)))

    @property
    def largest(self) -> int:
        """Rows of the largest part."""
        return max(each for _, _, each in self.chunks)

    @property
    def parts(self) -> int:
        """Number of parts."""
        return sum(-(-(last - first) // each) for first, last, each in self.chunks)

    @cached_property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """(first, last + 1) of the rows of each part."""
        return tuple(
            (at, min(at + each, last))
            for first, last, each in self.chunks
            for at in range(first, last, each)
        )
