"""Numbers for the bytes of rows: of each instance, by which its draws are keyed, and of all."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from xaijax.tables.rows import rows_of


def fingerprints(rows: Any) -> np.ndarray:
    """uint64 [N], equal for equal rows whatever stands beside them; an array [N, *F] or a frame."""
    digests = [hashlib.blake2b(text, digest_size=8).digest() for text in rows_of(rows).texts()]
    return np.frombuffer(b"".join(digests), "<u8")


def hash_of_numbers(rows: Any) -> int | None:
    """Python's own 64-bit hash of an array, for this process only; None for what is no array of
    numbers: cells may be any objects then.
    """
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "biuf":
        return None
    return hash((rows.dtype.str, rows.shape, rows.tobytes()))
