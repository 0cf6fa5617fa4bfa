"""The rows of a sweep, wherever they are: each task carries what it needs to read its own rows.

Letters: N rows, D distinct ones.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.checks import leaves_of
from xaijax.core.errors import InputError, InputTypeError, XaiError, XaiWarning
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.games.measure.replacement.rows import weighted_rows
from xaijax.results.files import npz
from xaijax.sweeps import parquet
from xaijax.sweeps.directory import DISTINCT
from xaijax.tables.rows import rows_of

AT_ONCE = 1 << 16  # rows that are digested, or checked, together
ROW = re.compile(r"(\bX row |^X\b.* contains .* at row )(\d+)")  # in messages


def source_of(X: Any, background: Any) -> InputRows:
    """The rows given as X: an array, a memory map, a frame, a file, files or a folder of files.

    background: the rows that the explainer was made with, which select the columns of files.

    It raises InputError or InputTypeError for anything else, and for no rows.
    """
    if isinstance(X, str | os.PathLike) and str(X).endswith(".npy"):
        X = _opened(os.fspath(X))
    names = isinstance(X, list | tuple) and any(isinstance(item, str | os.PathLike) for item in X)
    if names or isinstance(X, str | os.PathLike) or parquet.is_dataset(X):
        source: InputRows = parquet.source_of(X, *wanted_of(background), background)
    elif X is None:
        raise InputTypeError("X is None: a sweep needs the rows that are to be explained.")
    elif _reopened(X):
        source = _Mapped(X)
    else:
        if rows_of(X).kind == "array" and not hasattr(X, "shape"):
            X = checks.as_array(X, "X")
        _refuse_no_rows(X)
        source = Held(X)
    if not source.rows:
        raise InputError("X has 0 rows; at least 1 is needed.")
    return source


def _opened(path: str) -> np.ndarray:
    """The array of a .npy file, as a memory map."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(
            f"X: {path} is no .npy file of numbers: {error}. Write it with numpy.save."
        ) from error


def _refuse_no_rows(X: Any) -> None:
    """Raises for arrays without an axis of rows, and for containers without arrays."""
    if rows_of(X).is_frame:
        return
    leaves = leaves_of(X, "X")[0] if rows_of(X).kind == "tree" else [X]
    if not leaves or not all(getattr(leaf, "ndim", 0) for leaf in leaves):
        raise InputTypeError(f"X must be rows [N, F], a frame, files or arrays, got {X!r:.60}.")


def background_of(arguments: dict[str, Any]) -> Any:
    """The rows in an explainer's arguments, including those of a Baseline."""
    rows, _ = weighted_rows(arguments.get("background", arguments.get("data")), None)
    if isinstance(rows, Baseline):
        return rows.rows if rows.rows is not None else rows.row
    return rows


@dataclass(frozen=True)
class Held:
    """Rows in this process: a task carries its own rows."""

    X: Any

    @property
    def rows(self) -> int:
        """The number of rows of X."""
        return len(rows_of(self.X))

    def facts(self) -> dict[str, Any]:
        """Facts that distinguish the rows from others, as JSON."""
        rows = rows_of(self.X)
        fields = {"rows": self.rows, "kind": rows.kind, "sha256": digest_of_rows(self.X)}
        if rows.is_frame:
            fields["columns"] = [str(label) for label in rows.labels]
            if rows.index is not None:
                fields["index"] = _digest_of_labels(rows.index)
        elif hasattr(self.X, "shape"):
            fields |= {"shape": list(self.X.shape[1:]), "dtype": str(self.X.dtype)}
        return fields

    def part(self, first: int, last: int) -> RowSlice:
        """Rows first to last - 1, without their labels: the run keeps the labels of all rows."""
        table = rows_of(self.X)
        chunk = slice(first, last)
        rows = table.take(chunk, counted=True) if table.is_frame else table.part(first, last)
        return _Rows(rows, range(first, last))

    def held(self, places: np.ndarray) -> RowSlice:
        """The rows at these positions, which are already in memory."""
        return _Rows(rows_of(self.X).take(places, counted=True), places)

    def check(self, check: Callable[[Any], object]) -> None:
        """Raises what `check(X)` raises, without a copy of all rows if nothing is wrong."""
        for first in range(0, self.rows, AT_ONCE):
            piece = self.part(first, min(first + AT_ONCE, self.rows))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", XaiWarning)  # the parts give them
                    check(piece.read())
            except XaiError as error:
                check(self.X)  # another column of later rows may be reported first
                counted_in_X(error, piece)
                raise


@dataclass(frozen=True)
class _Rows:
    rows: Any
    places: range | np.ndarray

    def read(self) -> Any:
        return self.rows

    def place(self, row: int) -> int:
        return int(self.places[row])


class _Mapped(Held):
    """A memory map of a file: a task carries its name, and reads its own rows."""

    def part(self, first: int, last: int) -> RowSlice:
        X: np.memmap = self.X
        order = "C" if X.flags.c_contiguous else "F"
        return _OfFile(str(X.filename), X.dtype.str, X.offset, X.shape, order, first, last)


@dataclass(frozen=True)
class _OfFile:
    filename: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    order: Any
    first: int
    last: int

    def read(self) -> np.ndarray:
        opened = np.memmap(self.filename, self.dtype, "r", self.offset, self.shape, self.order)
        return np.array(opened[self.first : self.last])

    def place(self, row: int) -> int:
        return self.first + row


def _reopened(X: Any) -> bool:
    """Whether it maps a file from its start, so that a part can be found in the file.

    A map of mode "c" does not count: changes to it are in this process alone.
    """
    whole = isinstance(X, np.memmap) and isinstance(X.base, mmap.mmap)
    return whole and X.filename is not None and X.mode != "c"


def check_of(explainer: object) -> Callable[[Any], object] | None:
    """A function that raises for rows that a call would not accept, without the model; or None."""
    explainer = getattr(explainer, "_teacher", explainer)
    problem = getattr(explainer, "_problem", None)  # of QII, AnchorExplainer
    if problem is None:
        return getattr(explainer, "check", None)
    read = getattr(problem, "read", None)
    if read is not None:
        return read
    return lambda X: problem.table.read(X, "X", problem.model.allow_nan, "the data")


def counted_in_X(error: BaseException, piece: RowSlice) -> None:
    """Makes an error of this library name a row by its position in X, not in the part."""
    if not (isinstance(error, XaiError) and error.args and isinstance(error.args[0], str)):
        return
    text = ROW.sub(lambda match: f"{match[1]}{_place(piece, match[2])}", error.args[0])
    error.args = (text, *error.args[1:])


def _place(piece: RowSlice, row: str) -> str:
    try:
        return str(piece.place(int(row)))
    except IndexError:
        return row


def wanted_of(background: Any) -> tuple[str, list[str] | None]:
    """The form of rows from files: ("array" or a library of frames, columns or None)."""
    rows = rows_of(background)
    if rows.is_frame:
        return rows.kind, [str(label) for label in rows.labels]
    if rows.kind != "array":
        raise InputTypeError(
            "X is a table of columns, the background several arrays. Give X as the model takes it."
        )
    return "array", None


def _bytes(X: Any) -> Iterator[bytes]:
    """The bytes of all rows, piece by piece, for arrays, columns of frames, and leaves."""
    rows = rows_of(X)
    if rows.is_frame:
        for first in range(0, len(rows), AT_ONCE):
            chunk = rows_of(rows.part(first, first + AT_ONCE))
            for label, column in zip(chunk.labels, chunk.columns(), strict=True):
                yield repr(label).encode()
                yield from _of_array(column)
    elif rows.kind == "array":
        yield from _of_array(X)
    else:
        for path, leaf in jax.tree_util.tree_leaves_with_path(X):
            yield jax.tree_util.keystr(path).encode()
            yield from _of_array(leaf)


def _of_array(array: Any) -> Iterator[bytes]:
    array = np.asanyarray(array)
    yield f"{array.dtype}{array.shape}".encode()
    if array.dtype.hasobject:
        yield repr([(type(value).__name__, value) for value in array.ravel().tolist()]).encode()
        return
    for _, part in checks.chunks(array):
        yield np.ascontiguousarray(part).tobytes()


def _digest_of_labels(index: Any) -> str:
    """SHA-256 of a pandas index, over all of its levels."""
    digest = hashlib.sha256(repr(list(index.names)).encode())
    for n in range(index.nlevels):
        level = index.get_level_values(n)
        digest.update(str(level.dtype).encode())
        for chunk in _of_array(level.to_numpy()):
            digest.update(chunk)
    return digest.hexdigest()


def digest_of_rows(X: Any) -> str:
    """SHA-256 of rows of any kind."""
    digest = hashlib.sha256()
    for chunk in _bytes(X):
        digest.update(chunk)
    return digest.hexdigest()


# Values of a row follow from its bytes alone, so that equal rows have equal values. Rows are
# compared by 128 bits of BLAKE2b: two of a billion rows that differ are taken for one with a
# chance of 1e-21.

FORMAT = "xaijax.Distinct"
LOOKED_AT = 1 << 16  # rows read at a time; the first of them decide whether the others are checked
PROMISING = 0.95  # share of distinct rows among the first, above which the others are not checked
PAYS = 0.8  # share of distinct rows among all, above which all are explained


@dataclass(frozen=True)
class DistinctRows:
    """Rows that occur for the first time, and which of these each row equals."""

    first: np.ndarray  # int64 [D], ascending
    place: np.ndarray  # int64 [N], below D

    def write(self, folder: Path) -> None:
        """Writes it to a run directory."""
        npz.write(folder / DISTINCT, {"first": self.first, "place": self.place}, FORMAT)

    @classmethod
    def read(cls, folder: Path) -> DistinctRows:
        """Reads that of a run directory; raises InputError or FileNotFoundError."""
        return npz.read(folder / DISTINCT, {FORMAT: lambda fields: cls(**fields)})


def distinct_of(source: InputRows) -> DistinctRows | None:
    """The distinct rows of all rows; None if explaining them alone does not pay."""
    N = source.rows
    digests = np.empty((N, 2), np.uint64)
    for start in range(0, N, LOOKED_AT):
        last = min(start + LOOKED_AT, N)
        digests[start:last] = _digests(source.part(start, last).read())
        if start == 0 and last < N and len(_unique(digests[:last])[0]) > PROMISING * last:
            return None
    first, place = _unique(digests)
    if len(first) > PAYS * N:
        return None
    order = np.argsort(first)  # in order of occurrence
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    return DistinctRows(first[order], rank[place])


def _unique(digests: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the first of equal rows, which of these each row equals)."""
    half, rest = digests.T
    _, first, place = np.unique(half, return_index=True, return_inverse=True)
    if not np.array_equal(rest[first][place], rest):  # two share only 64 bits: sort by all bits
        pairs = np.ascontiguousarray(digests).view([("a", np.uint64), ("b", np.uint64)])[:, 0]
        _, first, place = np.unique(pairs, return_index=True, return_inverse=True)
    return first, place


def _digests(rows: Any) -> np.ndarray:
    digests = [hashlib.blake2b(text, digest_size=16).digest() for text in rows_of(rows).texts()]
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)


@dataclass(frozen=True)
class Picked:
    """The distinct rows of another source, as a source of rows."""

    source: InputRows
    first: np.ndarray  # int64 [D]

    @property
    def rows(self) -> int:
        """The number D of distinct rows."""
        return len(self.first)

    def facts(self) -> dict[str, Any]:
        """The facts of all rows."""
        return self.source.facts()

    def part(self, first: int, last: int) -> RowSlice:
        """Distinct rows first to last - 1."""
        places = self.first[first:last]
        held = getattr(self.source, "held", None)
        return _Scattered(self.source, places) if held is None else held(places)


@dataclass(frozen=True)
class _Scattered:
    """Rows at positions in files; no more than a range of them is held at a time."""

    source: InputRows
    places: np.ndarray

    def read(self) -> Any:
        chunks = []
        for start in range(int(self.places[0]), int(self.places[-1]) + 1, LOOKED_AT):
            last = min(start + LOOKED_AT, int(self.places[-1]) + 1)
            at = self.places[(self.places >= start) & (self.places < last)] - start
            if len(at):
                chunks.append(rows_of(self.source.part(start, last).read()).take(at, counted=True))
        return chunks[0] if len(chunks) == 1 else rows_of(chunks[0]).stacked(chunks)

    def place(self, row: int) -> int:
        """See `inputs.Piece`."""
        return int(self.places[row])


def may_share(arguments: dict[str, Any], options: dict[str, Any]) -> bool:
    """Whether equal rows have equal answers: not for a random model or an output for each row.

    arguments: those of the explainer.
    """
    outputs = options.get("outputs")
    return bool(getattr(arguments.get("model"), "deterministic", False)) and not np.ndim(outputs)


def of_run(folder: Path, source: InputRows, count: int) -> DistinctRows:
    """The distinct rows of a run; computed again if their file was lost or damaged."""
    try:
        distinct = DistinctRows.read(folder)
    except (FileNotFoundError, InputError):
        again = distinct_of(source)
        if again is None or len(again.first) != count:
            message = f"{folder}: {DISTINCT} is lost, and X has other rows than before."
            raise InputError(message) from None
        again.write(folder)
        return again
    return distinct


# Some rows, pickled as a description and read by the worker. `place(row)` is the position in X of
# one of them.
RowSlice: TypeAlias = _Rows | _OfFile | _Scattered | parquet.ParquetRows
# All rows of a sweep. `facts()` reads them all, and identifies them in the JSON of the question.
InputRows: TypeAlias = Held | Picked | parquet.ParquetRows
