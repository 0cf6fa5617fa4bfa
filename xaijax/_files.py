"""One file per Explanation: a .npz of arrays with a JSON text inside, and no pickle."""

from __future__ import annotations

import io
import json
import os
import uuid
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from xaijax._codec import Members, decode, encode
from xaijax._errors import InputError, InputTypeError

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
                if isinstance(member, str):
                    _put(archive, name, lambda out, text=member: out.write(text.encode()))
                else:
                    _put(archive, f"{name}.npy", lambda out, array=member: _put_array(out, array))

    write_atomically(path, write_zip)


def read(path: str | os.PathLike[str], formats: Collection[str]) -> tuple[str, dict[str, Any]]:
    """(the format, the fields) that `write` was given; see `xaijax.load`."""
    source = as_path(path)
    with source.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise InputError(f"path: {source} is no file of Explanation.save (no .npz file).")
        try:
            with zipfile.ZipFile(file) as archive:
                return _read_zip(archive, source, formats)
        except (zipfile.BadZipFile, KeyError, TypeError, AttributeError, EOFError) as error:
            raise InputError(f"path: {source} is damaged: {error}.") from error
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"path: {source} is damaged: {error}.") from error


def as_path(path: str | os.PathLike[str]) -> Path:
    """`path` as a Path.

    Raises:
        InputTypeError: it is none.
    """
    if not isinstance(path, str | os.PathLike):
        raise InputTypeError(f"path: got {type(path).__name__}; accepted are str and os.PathLike.")
    return Path(path)


def write_atomically(
    path: str | os.PathLike[str], write_content: Callable[[BinaryIO], object]
) -> Path:
    """Write under a temporary name beside `path`, then rename; returns the path.

    Whoever reads meanwhile sees the old file or the new one, never half of one.

    Raises:
        InputError: the folder of `path` does not exist, or `path` is a folder.
    """
    target = as_path(path)
    if not target.parent.is_dir():
        raise InputError(f"path: the folder {target.parent} does not exist; make it first.")
    if target.is_dir():
        raise InputError(f"path: {target} is a folder; give the name of a file.")
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            write_content(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _put(archive: zipfile.ZipFile, name: str, write_content: Callable[[Any], object]) -> None:
    # A ZipInfo made by hand has a fixed date: equal explanations make equal files.
    with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as out:
        write_content(out)


def _put_array(out: Any, array: np.ndarray) -> None:
    np.lib.format.write_array(out, array, allow_pickle=False)


def _read_zip(
    archive: zipfile.ZipFile, source: Path, formats: Collection[str]
) -> tuple[str, dict[str, Any]]:
    if META not in archive.namelist():
        raise InputError(f"path: {source} is no file of Explanation.save (no {META} in it).")
    meta = json.loads(archive.read(META))
    if meta["format"] not in formats:
        raise InputError(f"path: {source} holds {meta['format']!r}, not an Explanation.")
    if meta["schema"] > SCHEMA:
        raise InputError(
            f"path: {source} has schema {meta['schema']}, this xaijax reads up to {SCHEMA}; "
            "update xaijax."
        )

    def member(name: str) -> Any:
        if name.endswith(".json"):
            return archive.read(name).decode()
        content = io.BytesIO(archive.read(f"{name}.npy"))  # read whole: the CRC is checked
        return np.lib.format.read_array(content, allow_pickle=False)

    fields = {name: decode(value, member) for name, value in meta["fields"].items()}
    return meta["format"], fields
