"""One file per Explanation: a .npz of arrays with a JSON text inside, and no pickle."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from xaijax.core.errors import InputError, InputTypeError, XaiError
from xaijax.core.failpoint import failpoint
from xaijax.results.files.codec import Members, decode, encode
from xaijax.results.files.temporary import KEEPS_OPEN, new_temporary, remove_stale
from xaijax.results.files.untrusted_zip import Members as Opened
from xaijax.results.files.untrusted_zip import one_error, refused, schema_of

Made = TypeVar("Made")

FORMAT = "xaijax.Explanation"
SCHEMA = 1
META = "meta.json"


def write(path: str | os.PathLike[str], fields: Mapping[str, Any], format: str = FORMAT) -> None:
    """Write the fields of an Explanation, or of what `format` names; see `Explanation.save`."""
    members: Members = {}
    content = {name: encode(value, name, members) for name, value in fields.items()}
    meta = {"format": format, "schema": SCHEMA, "fields": content}

    def write_zip(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            _put(archive, META, lambda out: out.write(json.dumps(meta, allow_nan=False).encode()))
            for name, member in members.items():
                failpoint("mid-write")
                if isinstance(member, str):
                    _put(archive, name, lambda out, text=member: out.write(text.encode()))
                else:
                    _put(archive, f"{name}.npy", lambda out, array=member: _put_array(out, array))

    write_atomically(path, write_zip)


def read(
    path: str | os.PathLike[str],
    makers: Mapping[str, Callable[[dict[str, Any]], Made]],
    max_bytes: int | None = None,
) -> Made:
    """What `makers[format]` makes of the fields that `write` was given; see `xaijax.load`."""
    source = file_to_read(path)
    with source.open("rb") as file, one_error(f"path: {source}"):
        if not zipfile.is_zipfile(file):
            raise InputError(
                f"path: {source} is no file of Explanation.save (no .npz file). "
                "Rules.load reads what Rules.save wrote."
            )
        format, fields = _read_zip(Opened(file, max_bytes), source, makers)
        try:
            return makers[format](fields)
        except XaiError as error:
            raise refused(source, error) from error


def as_path(path: str | os.PathLike[str], name: str = "path") -> Path:
    """`path` as a Path; name: of the argument, for messages.

    Raises:
        InputError: no file can have this name.
        InputTypeError: it is none.
    """
    given = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(given, str):
        raise InputTypeError(
            f"{name}: got {type(path).__name__}; accepted are str, and os.PathLike of text."
        )
    if "\0" in given:
        raise InputError(f"{name}: {given!r} has a null character, which no file name has.")
    try:
        os.lstat(given)
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name}: {given[:60]!r} has the character {given[error.start]!r}, which this system's "
            "file names cannot have. Give another name."
        ) from None
    except OSError as error:  # nothing there, or no way to look: who opens it says so
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(
                f"{name}: {given[:60]!r}... has {len(given):,} characters, more than this system "
                "takes in a name or a path. Give a shorter one."
            ) from None
    return Path(given)


def file_to_read(path: str | os.PathLike[str]) -> Path:
    """`path` as a Path, of a file or of nothing: a pipe may wait for ever, a device may not end.

    Raises:
        InputError, InputTypeError: as of `as_path`, or it is something else than a file.
    """
    source = as_path(path)
    if source.is_dir():
        raise InputError(f"path: {source} is a folder; give the name of a file.")
    if source.exists() and not source.is_file():
        raise InputError(
            f"path: {source} is no regular file, but a pipe or a device. Copy what comes from it "
            "into a file, and give its name."
        )
    return source


def file_to_write(path: str | os.PathLike[str], name: str = "path") -> Path:
    """`path` as a Path, of a file that can be made; name: of the argument, for messages.

    Raises:
        InputError, InputTypeError: what `as_path` raises; a folder that does not exist; a path that
            is a folder.
    """
    target = as_path(path, name)
    if not target.parent.is_dir():
        raise InputError(f"{name}: the folder {target.parent} does not exist; make it first.")
    if target.is_dir():
        raise InputError(f"{name}: {target} is a folder; give the name of a file.")
    return target


def write_atomically(
    path: str | os.PathLike[str], write_content: Callable[[BinaryIO], object]
) -> Path:
    """Write under a temporary name beside `path`, then rename; returns the path.

    Whoever reads meanwhile sees the old file or the new one, never half of one. What killed writers
    of the same path left is removed. The new file has mode 0600: it may hold rows.

    Raises:
        InputError: the folder of `path` does not exist, or `path` is a folder.
    """
    target = file_to_write(path)
    remove_stale(target)
    temporary, opened = new_temporary(target)
    try:
        with opened as file:
            write_content(file)
            file.flush()
            os.fsync(file.fileno())
            failpoint("after-temporary")
            if (
                KEEPS_OPEN
            ):  # the name goes while the lock is held, so that nobody takes it for stale
                os.replace(temporary, target)
        if not KEEPS_OPEN:
            os.replace(temporary, target)
        _sync_folder(target.parent)
        failpoint("after-rename")
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _sync_folder(folder: Path) -> None:
    """Let the folder's new entry reach the disk, where folders can be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _put(archive: zipfile.ZipFile, name: str, write_content: Callable[[Any], object]) -> None:
    # A ZipInfo made by hand has a fixed date: equal explanations make equal files.
    with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as out:
        write_content(out)


def _put_array(out: Any, array: np.ndarray) -> None:
    np.lib.format.write_array(out, array, allow_pickle=False)


def _read_zip(
    archive: Opened, source: Path, formats: Collection[str]
) -> tuple[str, dict[str, Any]]:
    if META not in archive.names:
        raise InputError(f"path: {source} is no file of Explanation.save (no {META} in it).")
    meta = json.loads(archive.read(META))
    if meta["format"] not in list(formats):
        raise InputError(f"path: {source} holds {meta['format']!r:.60}, not an Explanation.")
    schema_of(meta, SCHEMA, source, "path")

    def member(name: str) -> Any:
        if name.endswith(".json"):
            return archive.read(name).decode()
        return archive.array(f"{name}.npy")

    fields = {name: decode(value, member) for name, value in meta["fields"].items()}
    return meta["format"], fields
