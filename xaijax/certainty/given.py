"""Attributions of any kind as arrays [N, P, K].

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xaijax.core.checks import real_numbers
from xaijax.core.errors import InputError
from xaijax.results.explanation import Explanation


def attributions(given: Any) -> dict[str, Any]:
    """Those of a mapping by their names; a single one is called "values"."""
    if not isinstance(given, Mapping):
        return {"values": given}
    if not given:
        raise InputError("values: got an empty dict; name at least one attribution.")
    return {str(name): one for name, one in given.items()}


def seeds_of(named: Mapping[str, Any]) -> set[int]:
    """The seeds that the attributions were drawn with, as far as they say."""
    stats = [one.stats for one in named.values() if isinstance(one, Explanation)]
    return {int(s["seed"]) for s in stats if isinstance(s.get("seed"), int | np.integer)}


def rows_spent(one: Any) -> int | None:
    """Model rows that an xaijax Explanation says it asked; None: not known."""
    spent = one.stats.get("model_rows") if isinstance(one, Explanation) else None
    return int(spent) if isinstance(spent, int | np.integer) else None


def as_values(
    name: str, given: Any, players: tuple[str, ...], shape: tuple[int, ...]
) -> np.ndarray:
    """The numbers of one attribution, float64 [N, P, K].

    given: an xaijax or shap Explanation, or an array, a tensor of torch too; players: the names of
    the P players; shape: (N, P, K) of the truth. Arrays shaped like the rows are read in C order
    where a row has P entries. Raises InputError for other shapes, other names or numbers that are
    not finite.
    """
    own = _names(given)
    if own is not None and own != players:
        raise InputError(
            f"values: {name!r} is of the players {_few(own)}, and the explainer has "
            f"{_few(players)}. Explain by the same players, in the same order."
        )
    held = getattr(given, "values", given)
    held = held if not callable(held) else given
    held = held.detach().cpu().numpy() if hasattr(held, "detach") else held
    numbers = real_numbers(held, "values")
    N, P, K = shape
    if K > 1 and numbers.shape == (N, P):
        raise InputError(
            f"values: {name!r} has shape {numbers.shape}, and the model has {K} outputs. Give "
            "[N, P, K], or say which output each instance is of by outputs=."
        )
    if K > 1 and numbers.shape == (N, K, P) and K != P:
        raise InputError(
            f"values: {name!r} has shape {numbers.shape}, outputs before players. Give [N, P, K]: "
            "values.transpose(0, 2, 1)."
        )
    other = K > 1 and numbers.shape[-1:] != (K,)
    if numbers.ndim < 1 or len(numbers) != N or numbers.size != N * P * K or other:
        raise InputError(
            f"values: {name!r} has shape {numbers.shape}; with {N:,} rows, {P:,} players and "
            f"{K:,} outputs, {(N, P) if K == 1 else (N, P, K)} is needed."
        )
    if not np.isfinite(numbers).all():
        raise InputError(f"values: {name!r} holds numbers that are not finite; leave rows out.")
    return numbers.reshape(N, P, K)


def _names(given: Any) -> tuple[str, ...] | None:
    """Names of players where something says them."""
    found = getattr(given, "feature_names", None)
    if found is None and hasattr(given, "columns") and hasattr(given, "dtypes"):
        found = given.columns  # a frame of values
    return None if found is None else tuple(map(str, found))


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:4])) + (", ..." if len(names) > 4 else "")
