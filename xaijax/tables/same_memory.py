"""Whether two things that were passed are the same rows in memory; what is in them is never read.

A private release may not depend on private values in other ways than its noise hides. Whether a
pool or people explained ARE the private data is therefore decided by what was passed: the same
object, or memory that both share. Copies are other rows.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from xaijax.tables.rows import rows_of

MOST_WORK = 100_000  # spent on strides that interleave; undecided counts as shared


def shares_memory(a: Any, b: Any) -> bool:
    """Whether they are one object, or an array or a column of one shares memory with the other."""
    if a is None or b is None:
        return False
    return a is b or any(_overlap(one, other) for one in _buffers(a) for other in _buffers(b))


def is_same(a: Any, b: Any) -> bool:
    """Whether they are one object, or two arrays of the same elements of the same memory."""
    if a is b:
        return True
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return False
    places = [
        (one.__array_interface__["data"][0], one.shape, one.strides, one.dtype) for one in (a, b)
    ]
    return places[0] == places[1]


def _buffers(thing: Any) -> list[np.ndarray]:
    rows = rows_of(thing)
    if rows.is_frame:
        return rows.columns()
    if isinstance(thing, np.ndarray):
        return [thing]
    if isinstance(thing, list | tuple) or not hasattr(thing, "__array__"):
        return []
    return [np.asarray(thing)]


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=MOST_WORK))
    except np.exceptions.TooHardError:
        return True


def fingerprints(rows: Any) -> np.ndarray:
    """uint64 [N], equal for equal rows whatever rows come with them; an array [N, *F] or a
    frame.
    """
    digests = [hashlib.blake2b(text, digest_size=8).digest() for text in rows_of(rows).texts()]
    return np.frombuffer(b"".join(digests), "<u8")


def hash_of_numbers(rows: Any) -> int | None:
    """Python's own 64-bit hash of an array, for this process only; None for what is no array of
    numbers: cells may be any objects then.
    """
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "biuf":
        return None
    return hash((rows.dtype.str, rows.shape, rows.tobytes()))
