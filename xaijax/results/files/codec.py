"""Values as JSON plus NumPy arrays, and back: what a file of ours is made of.

JSON keeps None, bool, int, finite floats, str, lists and dicts with plain keys as they are.
Anything else is a dict with one marked key: "$array" and "$objects" name a member of the file, the
others stand on their own. Dates, times and durations of Python are ISO texts after their type's
name.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.tables import plain_frames
from xaijax.tables.rows import rows_of

_TIMES: tuple[Any, ...] = (dt.date, dt.time, dt.datetime, dt.timedelta)
Members = dict[str, np.ndarray | str]  # arrays, and JSON texts (named *.json)


def encode(value: Any, where: str, members: Members) -> Any:
    """The JSON form of `value`; arrays are put into `members` under names made of `where`.

    Raises:
        InputError: a type that has no exact form, named with its place.
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
    """What `encode` was given; `member(name)` reads one member of the file."""
    if isinstance(value, list):
        return [decode(item, member) for item in value]
    if not isinstance(value, dict):
        return value
    mark = next((key for key in value if key.startswith("$")), None)
    if mark is None:
        return {key: decode(item, member) for key, item in value.items()}
    content = value[mark]
    if mark == "$dict":
        return {decode(k, member): decode(v, member) for k, v in content}
    if mark == "$tuple":
        return tuple(decode(item, member) for item in content)
    if mark == "$frame":
        return plain_frames.from_plain(decode(content, member))
    if mark == "$index":
        return plain_frames.to_index(decode(content, member))
    if mark == "$array":
        return _decode_array(member(content), value)
    if mark == "$objects":
        items = [decode(item, member) for item in json.loads(member(content))]
        shape = tuple(value["shape"])
        if not all(type(n) is int and n >= 0 for n in shape) or math.prod(shape) != len(items):
            raise ValueError(f"shape {shape!r:.60} for {len(items):,} objects")
        result = np.empty(shape, dtype=object)
        for i, item in enumerate(items):  # one by one: NumPy would spread a list over axes
            result.flat[i] = item
        return result
    if mark == "$scalar":
        name, digits = content
        (one,) = np.frombuffer(bytes.fromhex(digits), dtype=_dtype(name))
        return one
    if mark == "$time":
        return _decode_time(*content)
    if mark == "$pandas":
        return plain_frames.missing_value(content)
    simple: dict[str, Callable[[str], Any]] = {"$float": float, "$bytes": bytes.fromhex}
    return simple[mark](content)


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
        # The .npy format knows bfloat16 and its relatives only as nameless bytes.
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


def _encode_time(value: Any, where: str) -> list[Any]:
    """[word, ISO text, which of two equal readings of a clock, offset or name of the zone]."""
    word = type(value).__name__
    if isinstance(value, dt.timedelta):
        return [word, f"{value.days} {value.seconds} {value.microseconds}", 0, None]
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return [word, value.isoformat(), 0, None]
    zone = value.tzinfo
    told = getattr(zone, "key", None) if isinstance(zone, zoneinfo.ZoneInfo) else None
    if type(zone) is dt.timezone and repr(zone) == repr(_offset(_seconds(zone))):  # no own name
        told = _seconds(zone)
    if zone is not None and told is None:
        raise InputError(
            f"{where}: the time zone {zone!r:.60} has no exact form in the file; "
            "use datetime.timezone or zoneinfo.ZoneInfo."
        )
    return [word, value.replace(tzinfo=None).isoformat(), value.fold, told]


def _decode_time(word: str, text: str, fold: int, zone: str | float | None) -> Any:
    kind = next(one for one in _TIMES if one.__name__ == word)
    if kind is dt.timedelta:
        return kind(*map(int, text.split()))
    if kind is dt.date:
        return kind.fromisoformat(text)
    own: Any = None
    if zone is not None:
        own = zoneinfo.ZoneInfo(zone) if isinstance(zone, str) else _offset(zone)
    return kind.fromisoformat(text).replace(tzinfo=own, fold=fold)


def _seconds(zone: dt.timezone) -> float:
    return zone.utcoffset(None).total_seconds()


def _offset(seconds: float) -> dt.timezone:
    return dt.timezone(dt.timedelta(seconds=seconds)) if seconds else dt.UTC


def _is_extended(dtype: np.dtype) -> bool:
    return dtype.kind == "V" and dtype.names is None and dtype.type is not np.void


def _dtype(name: str) -> np.dtype:
    require("ml_dtypes", "ml_dtypes")  # it makes the name "bfloat16" known; jax brings it
    if not isinstance(name, str):
        raise TypeError(f"{name!r:.60} is no name of a dtype")
    return np.dtype(name)
