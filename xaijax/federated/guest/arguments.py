"""Reads and checks the arguments of a `Guest`.

Letters: N rows, F columns of the guest.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.federated.guest.policy import Policy, check_columns, check_part
from xaijax.federated.split.parts import LONGEST, columns_by_name, feature_names_of
from xaijax.tables.frames import frame_labels, is_labelled, same_labels
from xaijax.tables.rows import rows_of

SECRET = 32  # bytes, at least


def secret_of(secret: Any, policy: Policy, state: Any) -> bytes:
    """The long-term secret, or a new one if nothing depends on it."""
    if secret is None:
        if policy.epsilon is not None or state is not None:
            raise InputError(
                "secret is needed for noise and for a state folder, which outlive a restart. Make "
                f"one once (`xaijax guest secret FILE`, {SECRET} random bytes), and keep it."
            )
        return secrets.token_bytes(SECRET)
    checks.instance(secret, "secret", bytes, "bytes")
    if len(secret) < SECRET:
        raise InputError(f"secret has {len(secret)} bytes; at least {SECRET} random ones needed.")
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
                "accepted if the policy names an arbiter."
            )
        if part.columns != rows.shape[1]:
            raise InputError(
                f"parts: {version!r} is of {part.columns} columns, but rows have {rows.shape[1]}."
            )
    check_columns(policy, rows)
    for part in held.values():
        if part is not None:
            check_part(policy, part, rows)
    unknown = [v for v in policy.versions or () if v not in held]
    if unknown:
        raise InputError(f"versions: the policy allows {unknown}, but parts has {list(held)}.")
    return held


def party_of(party: Any, parts: Mapping[str, Any]) -> str:
    """The guest's own name, from `party` or its parts; "" if it has none."""
    if party is not None and not (isinstance(party, str) and 0 < len(party) <= LONGEST):
        raise InputError(f"party must be a text of 1 to {LONGEST} characters, got {party!r:.60}.")
    for version, part in parts.items():
        owner = getattr(part, "party", None)
        if owner is not None and party is not None and owner != party:
            raise InputError(
                f"parts: {version!r} is the part of {owner!r}, this guest is {party!r}. Give the "
                f"part of {party!r}."
            )
        party = owner if party is None else party
    return party or ""


class GuestColumns:
    """Positions of a guest's columns: in the given table, in the kept rows, and in each part.

    Rows are kept in the order of the first part that has names, so that reordering a table's
    columns does not change its fingerprint or its noise.
    """

    def __init__(self, rows: Any, feature_names: Any, parts: Mapping[str, Any], F: int) -> None:
        """rows: as given, an array or a frame [N, F]. Raises InputError for other columns."""
        named = {v: p.feature_names for v, p in parts.items() if getattr(p, "feature_names", None)}
        self.labels = _labels(rows, feature_names, bool(named), F)
        kept_names: Sequence[str] | None = next(iter(named.values()), self.labels)
        if self.labels is None and len(set(named.values())) > 1:
            raise InputError(
                f"rows is an array, and the parts of {list(named)} name its columns in different "
                "orders. Give a frame, or feature_names=."
            )
        self.kept_names: Sequence[str] | None = kept_names
        self.places = list(range(F))  # of the kept columns in the table that was given
        self.of = {version: list(range(F)) for version in parts}  # of a part, as places in kept
        if self.labels is None or kept_names is None:
            return
        for version, names in named.items():
            columns_by_name(self.labels, names, "rows", f"the part of version {version!r}")
            self.of[version] = columns_by_name(kept_names, names, "rows", "the part")
        if named:
            self.places = columns_by_name(self.labels, kept_names, "rows", "the part")
            unnamed = [list(kept_names).index(label) for label in self.labels]
            self.of |= {version: unnamed for version in parts if version not in named}


def _labels(rows: Any, feature_names: Any, named: bool, F: int) -> tuple[str, ...] | None:
    """The names [F] of the columns of a table; None of an array without."""
    names = feature_names_of(feature_names, F)
    if not rows_of(rows).is_frame:
        return names
    if names is not None:
        same_labels(frame_labels(rows, "rows"), names, "rows", "feature_names")
    return frame_labels(rows, "rows") if named else names


def reference_row(reference: Any, rows: np.ndarray, columns: GuestColumns) -> np.ndarray:
    """The row [F] that means "switched off", in the column order of rows [N, F]."""
    if isinstance(reference, str):
        checks.one_of(reference, "reference", ("median",))
        return np.median(rows, axis=0)
    row, places = checks.as_array(reference, "reference").astype(np.float64), columns.places
    if is_labelled(reference) and columns.labels is not None and columns.kept_names is not None:
        labels = [str(label) for label in reference.index]
        places = columns_by_name(labels, columns.kept_names, "reference", "rows")
        row = row[places]
    elif row.shape == rows.shape[1:]:
        row = row[columns.places]
    if row.shape != rows.shape[1:] or not np.isfinite(row).all():
        raise InputError(
            f"reference must be 'median' or {rows.shape[1]} finite numbers, got shape {row.shape}."
        )
    return row
