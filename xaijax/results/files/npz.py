"""One file per Explanation: a .npz of arrays with a JSON text inside, and no pickle."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import json
import math
import os
import re
import sys
import uuid
import zipfile
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from xaijax.core.errors import InputError, InputTypeError, XaiError
from xaijax.core.files import lock, owner_only, sync_folder
from xaijax.core.optional import require
from xaijax.core.process import failpoint
from xaijax.results.files.untrusted_zip import Members as Opened
from xaijax.results.files.untrusted_zip import one_error, refused, schema_of
from xaijax.tables import plain_frames
from xaijax.tables.rows import rows_of

Made = TypeVar("Made")

FORMAT = "xaijax.Explanation"
SCHEMA = 1
META = "meta.json"
KEEPS_OPEN = sys.platform != "win32"  # whether an open file can be renamed


def write(path: str | os.PathLike[str], fields: Mapping[str, Any], format: str = FORMAT) -> None:
    """Writes the fields of an Explanation, or of the result that `format` names."""
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
                    put = partial(np.lib.format.write_array, array=member, allow_pickle=False)
                    _put(archive, f"{name}.npy", put)

    write_atomically(path, write_zip)


def read(
    path: str | os.PathLike[str],
    makers: Mapping[str, Callable[[dict[str, Any]], Made]],
    max_bytes: int | None = None,
) -> Made:
    """The result that `makers[format]` makes of the fields passed to `write`; see `xaijax.load`."""
    source = file_to_read(path)
    with source.open("rb") as file, one_error(f"path: {source}"):
        if not zipfile.is_zipfile(file):
            raise InputError(
                f"path: {source} is no file of Explanation.save (no .npz file). "
                "Rules.load reads what Rules.save wrote."
            )
        archive = Opened(file, max_bytes)
        if META not in archive.names:
            raise InputError(f"path: {source} is no file of Explanation.save (no {META} in it).")
        meta = json.loads(archive.read(META))
        if meta["format"] not in list(makers):
            raise InputError(f"path: {source} holds {meta['format']!r:.60}, not an Explanation.")
        schema_of(meta, SCHEMA, source, "path")

        def member(name: str) -> Any:
            if name.endswith(".json"):
                return archive.read(name).decode()
            return archive.array(f"{name}.npy")

        fields = {name: decode(value, member) for name, value in meta["fields"].items()}
        try:
            return makers[meta["format"]](fields)
        except XaiError as error:
            raise refused(source, error) from error


def as_path(path: str | os.PathLike[str], name: str = "path") -> Path:
    """`path` as a Path; name: that of the argument, for messages.

    Raises:
        InputError: no file can have this name.
        InputTypeError: it is not a path.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InputTypeError(
            f"{name}: got {type(path).__name__}; accepted are str, and os.PathLike of text."
        )
    if "\0" in text:
        raise InputError(f"{name}: {text!r} has a null character, which no file name has.")
    try:
        os.lstat(text)
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name}: {text[:60]!r} has {text[error.start]!r}, which no file name here can have. "
            "Give another."
        ) from None
    except OSError as error:  # nothing there, or not readable: opening it reports that
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(
                f"{name}: {text[:60]!r}... has {len(text):,} characters; give a shorter one."
            ) from None
    return Path(text)


def file_to_read(path: str | os.PathLike[str]) -> Path:
    """`path` as a Path of a file, or of nothing: a pipe may wait for ever, a device may not end.

    Raises:
        InputError, InputTypeError: as for `as_path`, or it is not a regular file.
    """
    source = as_path(path)
    if source.is_dir():
        raise InputError(f"path: {source} is a folder; give the name of a file.")
    if source.exists() and not source.is_file():
        raise InputError(
            f"path: {source} is no regular file, but a pipe or a device. Copy it into a file."
        )
    return source


def file_to_write(path: str | os.PathLike[str], name: str = "path") -> Path:
    """`path` as a Path of a file that can be made; name: that of the argument, for messages.

    Raises:
        InputError, InputTypeError: as for `as_path`; the folder does not exist; or the path is a
            folder.
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
    """Writes under a temporary name next to `path`, then renames it; returns the path.

    Readers see the old file or the new one, never an incomplete one. Files left by killed writers
    of the same path are removed. The new file has mode 0600, since it may hold rows.

    Raises:
        InputError: the folder of `path` does not exist, or `path` is a folder.
    """
    target = file_to_write(path)
    _remove_stale(target)
    temporary, opened = new_temporary(target)
    try:
        with opened as file:
            write_content(file)
            file.flush()
            os.fsync(file.fileno())
            failpoint("after-temporary")
            if KEEPS_OPEN:  # renamed under its lock, so that nobody considers it stale
                os.replace(temporary, target)
        if not KEEPS_OPEN:
            os.replace(temporary, target)
        with contextlib.suppress(OSError):  # a folder that cannot be opened
            sync_folder(target.parent)
        failpoint("after-rename")
    finally:
        temporary.unlink(missing_ok=True)
    return target


def new_temporary(target: Path) -> tuple[Path, BinaryIO]:
    """Opens a file with a new name next to the target, locked as long as its writer is alive."""
    while True:
        temporary = target.with_name(f".{_stem(target)}.{uuid.uuid4().hex}.tmp")
        file: BinaryIO = open(temporary, "xb", opener=owner_only)
        with contextlib.suppress(OSError):  # a file system without locks
            lock(file.fileno())
        if _still_there(temporary, file):
            return temporary, file
        file.close()  # removed as stale between the two lines above


def _remove_stale(target: Path) -> None:
    """Removes temporary files of this target whose writers have ended.

    The writers may have run in any process or container. If files cannot be locked, nothing is
    removed.
    """
    name = re.compile(rf"\.{re.escape(_stem(target))}\.[0-9a-f]{{32}}\.tmp")
    for path in [file for file in target.parent.iterdir() if name.fullmatch(file.name)]:
        with contextlib.suppress(OSError):  # gone, locked, not ours, or no locks here: it stays
            if not KEEPS_OPEN:
                path.unlink()  # refused while a writer has it open
            elif not path.is_symlink():
                with path.open("rb") as file:
                    lock(file.fileno(), wait=False)
                    if _still_there(path, file):
                        path.unlink()


def _stem(target: Path) -> str:
    """The start of its name that leaves room for the rest: a name has at most 255 bytes."""
    return os.fsdecode(os.fsencode(target.name)[:200])


def _still_there(path: Path, file: BinaryIO) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    return False


def _put(archive: zipfile.ZipFile, name: str, write_content: Callable[[Any], object]) -> None:
    # A ZipInfo made by hand has a fixed date, so equal explanations make equal files.
    with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as out:
        write_content(out)


# JSON keeps None, bool, int, finite floats, str, lists and dicts with plain keys as they are.
# Anything else is a dict with one marked key: "$array" and "$objects" name a member of the file,
# the others need none. Dates, times and durations of Python are ISO texts after their type's name.

_TIMES: tuple[Any, ...] = (dt.date, dt.time, dt.datetime, dt.timedelta)
Members = dict[str, np.ndarray | str]  # arrays, and JSON texts (named *.json)


def encode(value: Any, where: str, members: Members) -> Any:
    """The JSON form of `value`; arrays are put into `members` under names made of `where`.

    Raises:
        InputError: a type cannot be stored exactly; the message names it and its position.
    """
    if isinstance(value, np.ndarray):
        return _encode_array(value, where, members)
    if isinstance(value, np.generic):
        return _encode_scalar(value, where)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, list | tuple):
        items = [encode(item, f"{where}[{i}]", members) for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"$tuple": items}
    if isinstance(value, Mapping):
        return _encode_mapping(value, where, members)
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if rows_of(value).is_frame:
        plain = plain_frames.to_plain(value)
        return {"$frame": encode(plain, where, members)}
    if plain_frames.is_index(value):
        return {"$index": encode(plain_frames.from_index(value, where), where, members)}
    if type(value) in _TIMES:  # not those of pandas, which derive from them
        return {"$time": _encode_time(value, where)}
    missing = plain_frames.missing_name(value)
    if missing is not None:
        return {"$pandas": missing}
    raise InputError(
        f"{where}: a value of type {type(value).__name__} has no exact form in the file; "
        "make it numbers, texts, lists, dicts or NumPy arrays first."
    )


def decode(value: Any, member: Callable[[str], Any]) -> Any:
    """The value that `encode` was given; `member(name)` reads one member of the file."""
    if isinstance(value, list):
        return [decode(item, member) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next((key for key in value if key.startswith("$")), None)
    if tag is None:
        return {key: decode(item, member) for key, item in value.items()}
    content = value[tag]

    def again(item: Any) -> Any:
        return decode(item, member)

    made: dict[str, Callable[[], Any]] = {
        "$dict": lambda: {again(k): again(v) for k, v in content},
        "$tuple": lambda: tuple(map(again, content)),
        "$frame": lambda: plain_frames.from_plain(again(content)),
        "$index": lambda: plain_frames.to_index(again(content)),
        "$array": lambda: _decode_array(member(content), value),
        "$objects": lambda: _decode_objects(again(json.loads(member(content))), value["shape"]),
        "$scalar": lambda: _decode_scalar(*content),
        "$time": lambda: _decode_time(*content),
        "$pandas": lambda: plain_frames.missing_value(content),
        "$float": lambda: float(content),
        "$bytes": lambda: bytes.fromhex(content),
    }
    return made[tag]()


def _decode_objects(items: list[Any], shape: Sequence[int]) -> np.ndarray:
    if not all(type(n) is int and n >= 0 for n in shape) or math.prod(shape) != len(items):
        raise ValueError(f"shape {tuple(shape)!r:.60} for {len(items):,} objects")
    result = np.empty(shape, dtype=object)
    for i, item in enumerate(items):  # one by one: NumPy would spread a list over axes
        result.flat[i] = item
    return result


def _encode_mapping(value: Mapping[Any, Any], where: str, members: Members) -> Any:
    if all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {key: encode(item, f"{where}[{key!r}]", members) for key, item in value.items()}
    pairs = [
        [encode(key, f"{where} key", members), encode(item, f"{where}[{key!r}]", members)]
        for key, item in value.items()
    ]
    return {"$dict": pairs}


def _encode_array(array: np.ndarray, where: str, members: Members) -> Any:
    name = re.sub(r"[^A-Za-z0-9_]+", "_", where).strip("_") + f".{len(members)}"
    if isinstance(array, np.ma.MaskedArray):
        raise InputError(f"{where}: a masked array has no exact form in the file; fill it first.")
    if array.dtype == object:
        items = [encode(item, where, members) for item in array.flat]
        members[f"{name}.json"] = json.dumps(items, allow_nan=False)
        return {"$objects": f"{name}.json", "shape": list(array.shape)}
    if array.dtype.hasobject or array.dtype.kind == "T":
        raise InputError(
            f"{where}: an array of dtype {array.dtype} has no exact form in the file; "
            "use a plain dtype, object for texts."
        )
    if _is_extended(array.dtype):
        # The .npy format stores bfloat16 and its relatives only as nameless bytes.
        plain = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        members[name] = plain
        return {"$array": name, "dtype": array.dtype.name, "shape": list(array.shape)}
    members[name] = array
    return {"$array": name}


def _decode_array(array: np.ndarray, value: Mapping[str, Any]) -> np.ndarray:
    if "dtype" not in value:
        return array
    dtype = _dtype(value["dtype"])
    if not _is_extended(dtype):
        raise ValueError(f"{dtype} is no dtype that is kept as bytes")
    return array.view(dtype).reshape(value["shape"])


def _encode_scalar(value: np.generic, where: str) -> Any:
    if value.dtype.hasobject or value.dtype.names is not None:
        raise InputError(f"{where}: a NumPy scalar of dtype {value.dtype} cannot be saved.")
    name = value.dtype.name if _is_extended(value.dtype) else value.dtype.str
    return {"$scalar": [name, np.asarray(value).tobytes().hex()]}


def _decode_scalar(name: str, digits: str) -> np.generic:
    (number,) = np.frombuffer(bytes.fromhex(digits), dtype=_dtype(name))
    return number


def _encode_time(value: Any, where: str) -> list[Any]:
    """[word, ISO text, fold (which of two equal clock readings), offset or name of the zone]."""
    word = type(value).__name__
    if isinstance(value, dt.timedelta):
        return [word, f"{value.days} {value.seconds} {value.microseconds}", 0, None]
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return [word, value.isoformat(), 0, None]
    zone = value.tzinfo
    stored = getattr(zone, "key", None) if isinstance(zone, zoneinfo.ZoneInfo) else None
    if type(zone) is dt.timezone and repr(zone) == repr(_offset(_seconds(zone))):  # no own name
        stored = _seconds(zone)
    if zone is not None and stored is None:
        raise InputError(
            f"{where}: the time zone {zone!r:.60} has no exact form in the file; "
            "use datetime.timezone or zoneinfo.ZoneInfo."
        )
    return [word, value.replace(tzinfo=None).isoformat(), value.fold, stored]


def _decode_time(word: str, text: str, fold: int, zone: str | float | None) -> Any:
    kind = next(time for time in _TIMES if time.__name__ == word)
    if kind is dt.timedelta:
        return kind(*map(int, text.split()))
    if kind is dt.date:
        return kind.fromisoformat(text)
    tzinfo: Any = None
    if zone is not None:
        tzinfo = zoneinfo.ZoneInfo(zone) if isinstance(zone, str) else _offset(zone)
    return kind.fromisoformat(text).replace(tzinfo=tzinfo, fold=fold)


def _seconds(zone: dt.timezone) -> float:
    return zone.utcoffset(None).total_seconds()


def _offset(seconds: float) -> dt.timezone:
    return dt.timezone(dt.timedelta(seconds=seconds)) if seconds else dt.UTC


def _is_extended(dtype: np.dtype) -> bool:
    return dtype.kind == "V" and dtype.names is None and dtype.type is not np.void


def _dtype(name: str) -> np.dtype:
    require("ml_dtypes", "ml_dtypes")  # it registers the name "bfloat16"; jax depends on it
    if not isinstance(name, str):
        raise TypeError(f"{name!r:.60} is no name of a dtype")
    return np.dtype(name)
