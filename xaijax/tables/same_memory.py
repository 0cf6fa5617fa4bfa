"""Tells whether two arguments are the same rows in memory, without reading their values.

A private release may depend on private values only in ways that its noise hides. Whether a pool, or
the people explained, ARE the private data is therefore decided by the arguments: the same object,
or shared memory. Copies count as other rows.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from xaijax.tables.rows import rows_of

MOST_WORK = 100_000  # work limit for interleaving strides; undecided counts as shared


def shares_memory(a: Any, b: Any) -> bool:
    """Whether they are the same object, or an array or column of one shares memory with the
    other."""
    if a is None or b is None:
        return False
    return a is b or any(_overlap(buffer, other) for buffer in _buffers(a) for other in _buffers(b))


def is_same(a: Any, b: Any) -> bool:
    """Whether they are the same object, or two arrays over the same elements in memory."""
    if a is b:
        return True
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return False
    places = [(x.__array_interface__["data"][0], x.shape, x.strides, x.dtype) for x in (a, b)]
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
    """Hashes uint64 [N] of rows, an array [N, *F] or a frame; equal rows have equal hashes."""
    digests = [hashlib.blake2b(text, digest_size=8).digest() for text in rows_of(rows).texts()]
    return np.frombuffer(b"".join(digests), "<u8")


def hash_of_numbers(rows: Any) -> int | None:
    """Python's 64-bit hash of an array, valid in this process only; None if it is not an array
    of numbers.
    """
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "biuf":
        return None
    return hash((rows.dtype.str, rows.shape, rows.tobytes()))
