"""What a `Guest` is made with, read and checked.

Letters: N rows, F columns of the guest.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.federated.guest.policy import Policy, check_columns, check_part

SECRET = 32  # bytes, at least


def secret_of(secret: Any, policy: Policy, state: Any) -> bytes:
    """The long-term secret, or a new one where nothing hangs on it."""
    if secret is None:
        if policy.epsilon is not None or state is not None:
            raise InputError(
                "secret is needed for noise and for a state folder: both must be the same after a "
                f"restart. Make one once (`xaijax guest secret FILE`, {SECRET} random bytes) and "
                "keep it."
            )
        return secrets.token_bytes(SECRET)
    if not isinstance(secret, bytes):
        raise InputTypeError(f"secret must be bytes, got {type(secret).__name__}.")
    if len(secret) < SECRET:
        raise InputError(
            f"secret has {len(secret)} bytes; at least {SECRET} random ones are needed."
        )
    return secret


def parts_of(parts: Any, policy: Policy, rows: np.ndarray) -> dict[str, Any]:
    """The parts by model version, each checked against rows [N, F] and the policy."""
    held = dict(parts) if isinstance(parts, Mapping) else {"1": parts}
    if not held:
        raise InputError('parts is empty; give a part, or {"model version": part}.')
    for version, part in held.items():
        if not isinstance(version, str) or not 0 < len(version) <= 100:
            raise InputError(f"parts: a model version is a short text, got {version!r}.")
        if part is None and policy.arbiter is not None:
            continue
        if part is None or not hasattr(part, "answers"):
            raise InputTypeError(
                f"parts: a Part or FunctionPart is needed, got {type(part).__name__}. None is "
                "accepted where the policy names an arbiter."
            )
        if part.columns != rows.shape[1]:
            raise InputError(
                f"parts: version {version!r} is of {part.columns} columns, but rows have "
                f"{rows.shape[1]}."
            )
    check_columns(policy, rows)
    for part in held.values():
        if part is not None:
            check_part(policy, part, rows)
    unknown = [v for v in policy.versions or () if v not in held]
    if unknown:
        raise InputError(f"versions: the policy allows {unknown}, but parts has {list(held)}.")
    return held


def reference_row(reference: Any, rows: np.ndarray) -> np.ndarray:
    """The row [F] that stands for "switched off"."""
    if isinstance(reference, str):
        checks.one_of(reference, "reference", ("median",))
        return np.median(rows, axis=0)
    row = checks.as_array(reference, "reference").astype(np.float64)
    if row.shape != rows.shape[1:] or not np.isfinite(row).all():
        raise InputError(
            f"reference must be 'median' or {rows.shape[1]} finite numbers, got shape {row.shape}."
        )
    return row
