"""Attributions of any kind as arrays [N, P, K].

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xaijax.core.checks import real_numbers
from xaijax.core.errors import InputError
from xaijax.methods.explainer.explainer import Explainer
from xaijax.methods.fingerprint import functions_of
from xaijax.results.asked import asked_output
from xaijax.results.explanation import Explanation
from xaijax.results.same_question import (
    amount_of,
    refuse_other_amounts,
    refuse_other_functions,
    refuse_other_outputs,
)


def attributions(given: Any) -> dict[str, Any]:
    """Those of a mapping by their names; a single one is called "values"."""
    if not isinstance(given, Mapping):
        return {"values": given}
    if not given:
        raise InputError("values: got an empty dict; name at least one attribution.")
    return {str(name): one for name, one in given.items()}


def refuse_other_amounts_of(named: Mapping[str, Any], explainer: Explainer) -> None:
    """Raise InputError for explanations of another quantity or link, before the model is asked.

    Other orders of outputs are refused too where the model says what its outputs are called.
    """
    own = amount_of(asked_output(explainer.model) | {"link": explainer.quantity.name})
    functions = functions_of(explainer.quantity)
    known = explainer.model.output_names
    for name, one in named.items():
        if isinstance(one, Explanation):
            called = f"values: {name!r}", "the explainer"
            refuse_other_amounts(amount_of(one.provenance, one.kind), own, called)
            refuse_other_functions(one.stats, functions, called)
        if known is not None:
            _refuse_turned(name, one, known)


def refuse_other_outputs_of(named: Mapping[str, Any], truth: Explanation) -> None:
    """Raise InputError for explanations of other outputs than the truth's, [N] or [K]."""
    for name, one in named.items():
        _refuse_turned(name, one, truth.output_names or ())
        if isinstance(one, Explanation) and len(one) == len(truth):
            one = one[:, :, 0] if one.values.shape[2:] == (1,) else one
            called = f"values: {name!r}", "the explainer's answer"
            refuse_other_outputs(one, truth, called, paired=True)


def _refuse_turned(name: str, given: Any, known: Sequence[str]) -> None:
    """Raise InputError where an explanation, of shap too, has these outputs in another order."""
    told = getattr(given, "output_names", None)
    if not isinstance(told, list | tuple) or len(told) != len(known):
        return
    told = list(map(str, told))
    if told != list(known) and sorted(told) == sorted(known):
        raise InputError(
            f"values: {name!r} has the outputs {_few(tuple(told))}, and the explainer has "
            f"{_few(tuple(known))}. Give them in the same order."
        )


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
