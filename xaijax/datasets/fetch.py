"""Finds a table's file in `XAIJAX_DATA`, in the user's cache or by a download, or raises an error.

Names prove nothing: a file is used only if its SHA-256 is a pinned one.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xaijax.core.errors import XaiError
from xaijax.core.optional import require
from xaijax.core.public import public_class

if TYPE_CHECKING:
    from pandas import DataFrame, Series

VARIABLE = "XAIJAX_DATA"
TIMEOUT = 5.0  # seconds for one connection; without a network the error must come at once


@dataclass(frozen=True)
class TableFile:
    """One file of a table: its place in the folder, the bytes it must have, and where to get
    them.
    """

    place: str  # below XAIJAX_DATA and below the cache, with forward slashes
    sha256: Sequence[str]  # accepted digests; the first is that of the file behind `url`
    page: str  # where the user finds the file and reads about it
    url: str | None = None  # None: no stable address of exactly these bytes is known
    member: str | None = None  # the file's name in the zip archive behind `url`
    archive_sha256: str | None = None  # of that archive
    source: str = ""  # where the data come from, with the address
    target: str = ""  # the column that is y
    columns: Sequence[str] | None = None  # their names where the file has no head


@dataclass(frozen=True)
class CheckedFile:
    """A file whose bytes were checked."""

    path: Path
    sha256: str


_checked: dict[tuple[str, int, int], str] = {}  # (path, size, mtime) -> digest, once per process


def digest(path: Path) -> str:
    """SHA-256 of a file, computed once per process as long as the file does not change."""
    state = path.stat()
    key = (str(path.resolve()), state.st_size, state.st_mtime_ns)
    if key not in _checked:
        with path.open("rb") as stream:
            _checked[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _checked[key]


def optional(module: str, install: str = "xaijax[data]") -> Any:
    """Imports a library of an extra, or raises MissingExtraError that says how to install it."""
    try:
        return require(module, install)
    except ImportError as error:
        raise MissingExtraError(str(error)) from error


def find(file: TableFile) -> CheckedFile:
    """Returns the file from `XAIJAX_DATA`, or else the cache, or else its address.

    Raises:
        DataHashError: the file's bytes differ from the expected ones.
        DataNotFoundError: the file is in none of these places; the message says how to get it.
    """
    folder = os.environ.get(VARIABLE)
    if folder:
        path = Path(folder) / file.place
        if path.is_file():
            return _verified(path, file)
    pooch = optional("pooch")
    cached = Path(pooch.os_cache("xaijax")) / file.place
    if cached.is_file() and (file.url is None or digest(cached) in file.sha256):
        return _verified(cached, file)
    if file.url is None:
        raise DataNotFoundError(_nowhere(file, folder, cached, "no stable address is known"))
    try:
        _download(pooch, file, cached)
    except OSError as error:
        # The library's own message may contain addresses of proxies; its type is enough.
        failure = f"{file.url} ({type(error).__name__} within {TIMEOUT:g} s a connection)"
        raise DataNotFoundError(_nowhere(file, folder, cached, failure)) from error
    return _verified(cached, file)


def _verified(path: Path, file: TableFile) -> CheckedFile:
    digest_found = digest(path)
    if digest_found not in file.sha256:
        expected = " or ".join(file.sha256)
        raise DataHashError(
            f"{path} has SHA-256 {digest_found}, expected {expected}. "
            f"Replace the file by the original: {file.url or file.page}"
        )
    return CheckedFile(path, digest_found)


def _download(pooch: Any, file: TableFile, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    expected = file.archive_sha256 or file.sha256[0]
    name = target.name if file.member is None else f"{target.name}.zip"
    try:
        got = pooch.retrieve(
            file.url,
            known_hash=f"sha256:{expected}",
            fname=name,
            path=target.parent,
            downloader=pooch.HTTPDownloader(timeout=TIMEOUT),
        )
    except ValueError as error:  # pooch's word for "other bytes than expected"
        raise DataHashError(f"The download of {file.url} was refused: {error}") from error
    if file.member is not None:
        with zipfile.ZipFile(got) as archive:
            content = archive.read(file.member)
        partial = target.with_name(f"{target.name}.part")
        partial.write_bytes(content)
        partial.replace(target)


def _nowhere(file: TableFile, folder: str | None, cached: Path, download: str) -> str:
    first = str(Path(folder) / file.place) if folder else "not set"
    return (
        f"The table's file {file.place} was not found. Looked in: "
        f"(1) the folder in the environment variable {VARIABLE}: {first}; "
        f"(2) the cache: {cached}; "
        f"(3) a download: {download}. "
        f"To get it: see {file.page}, save the file as {file.place} in a folder of your choice "
        f"and set {VARIABLE} to that folder, or save it at the cache's path above."
    )


class DataNotFoundError(XaiError, FileNotFoundError):
    """A table's file is in none of the searched places, and could not be downloaded."""


class DataHashError(XaiError, ValueError):
    """A table's file exists, but its bytes differ from the expected ones."""


class MissingExtraError(XaiError, ImportError):
    """An optional library that the tables need is not installed."""


@public_class
@dataclass(frozen=True, eq=False)
class Table:
    """A data set that `xaijax.datasets` returns. It unpacks as `X, y = ...`.

    A file is searched in the folder that the environment variable `XAIJAX_DATA` names, then in the
    user's cache, then at its public address. Its SHA-256 is checked in each case.

    Attributes:
        X: pandas frame of N rows, the columns in the order of the file unless a reading has
            another.
        y: pandas Series [N], the target.
        source: text: where the data come from, with the address.
        files: the files that the rows come from, in the order of the rows; each has `path` and
            `sha256`.
        path: the file read; the first if there are several.
        sha256: text: SHA-256 of the file read; for several files their digests, joined by commas.

    Example:
        >>> import xaijax as xj
        >>> table = xj.datasets.titanic()  # doctest: +SKIP
        >>> table.X.shape, table.y.name, table.path.name  # doctest: +SKIP
        ((891, 11), 'Survived', 'titanic.csv')
    """

    X: DataFrame
    y: Series
    source: str
    files: tuple[CheckedFile, ...]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y))

    def __repr__(self) -> str:
        rows, columns = self.X.shape
        return f"Table({rows:,} rows, {columns} columns, y={self.y.name!r}, {self.source})"

    @property
    def path(self) -> Path:
        """The file read; the first if there are several."""
        return self.files[0].path

    @property
    def sha256(self) -> str:
        """SHA-256 of the file read; for several files their digests, joined by commas."""
        return ",".join(file.sha256 for file in self.files)
