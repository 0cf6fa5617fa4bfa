"""Whom a quantity of the whole data is about: members, the rest, and their weights.

Letters: N data rows, G groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.methods.qii.quantities import Interest
from xaijax.players.players import column_finder
from xaijax.tables.rows import rows_of
from xaijax.tables.series import aligned


def members_of(
    members: Any, interest: Interest, data: Any, names: tuple[str, ...], N: int
) -> np.ndarray | None:
    """Read `members=`, bool [N], decided by the rows as they are; None where nobody is asked for.

    names: of the columns. Raises InputError for an empty group, a group of everybody where the rest
    is compared, another length, an unknown column or value.
    """
    if not interest.of_members:
        if members is not None:
            raise InputError(
                f"members= goes with quantity='group', 'disparity' and 'ratio', not with "
                f"{interest.name!r}. Leave it out."
            )
        return None
    if members is None:
        raise InputError(
            f"members= is needed for quantity={interest.name!r}: a bool for each data row, "
            "{column: value}, or a function of the data."
        )
    if isinstance(members, Mapping):
        mask = _by_values(members, data, names, N)
    elif callable(members):
        mask = _bools(members(data), data, N, "members(data)")
    else:
        mask = _bools(members, data, N, "members")
    if not mask.any():
        raise InputError("members: the group is empty, so it has no share of outcomes.")
    if interest.whom == "members and rest" and mask.all():
        raise InputError(
            f"members: the group is everybody, so quantity={interest.name!r} has nobody to compare "
            "it with. Say quantity='rate'."
        )
    return mask


def _by_values(members: Mapping[Any, Any], data: Any, names: tuple[str, ...], N: int) -> np.ndarray:
    if not members:
        raise InputError("members: {} names no column; say {column: value}.")
    mask = np.ones(N, bool)
    find = column_finder(names, "members")
    for label, value in members.items():
        j = find(label)
        if hasattr(value, "__len__") and not isinstance(value, str | bytes):
            raise InputTypeError(
                f"members: {{{label!r}: value}} takes one value, got {type(value).__name__} "
                f"{value!r}. For several say a function of the data, as lambda data: "
                f"data[{label!r}].isin([...])."
            )
        values = rows_of(data).column(j)
        own = np.asarray(values == value)
        if own.shape != (N,):
            own = np.zeros(N, bool)
        if not own.any():
            seen = list(dict.fromkeys(np.asarray(values).tolist()[:1000]))[:10]
            raise InputError(
                f"members: no data row has {value!r} in column {names[j]!r}; it has {seen}."
            )
        mask &= own
    return mask


def _bools(given: Any, data: Any, N: int, name: str) -> np.ndarray:
    given = aligned(given, data, name)
    try:
        mask = np.asarray(given)
    except (TypeError, ValueError):
        mask = np.zeros(0)
    if mask.dtype.kind != "b":
        raise InputTypeError(
            f"{name} must be True or False for each data row, got {type(given).__name__} of "
            f"{mask.dtype}. Or say {{column: value}}."
        )
    if mask.shape != (N,):
        raise InputError(f"{name} has shape {mask.shape}, but the data has {N} rows: give [{N}].")
    return mask


def groups_of(interest: Interest, mask: np.ndarray | None, weights: np.ndarray) -> Any:
    """float64 [G, N], each row of sum 1: the weights of the means; None for individuals."""
    if not interest.of_data:
        return None
    chosen = [np.ones(len(weights), bool)] if mask is None else [mask]
    if interest.whom == "members and rest":
        assert mask is not None
        chosen.append(~mask)
    rows = np.stack([np.where(own, weights, 0.0) for own in chosen])
    if not rows.any(axis=1).all():
        raise InputError("data_weights are all zero in the group of members= or in the rest.")
    return rows / rows.sum(axis=1, keepdims=True)
