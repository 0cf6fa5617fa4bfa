"""Interactions of the host's columns and of the guests, each guest as one player.

Letters: N instances, P players with those who own nothing, M sets of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.results.interactions import Interactions
from xaijax.results.set_keys import all_of


def refuse_regression(estimator: str) -> None:
    """Raise InputError for the authors' least squares, which have values of players alone."""
    if estimator == "wls":
        raise InputError(
            "estimator='wls' is a regression on single players, and has no interactions. Say "
            "estimator='auto' or 'exact'."
        )


def refuse_order(order: int, busy: int, idle: Mapping[int, str]) -> None:
    """Raise InputError for sets that are larger than all players who own a column."""
    if idle and order > busy:
        raise InputError(
            f"order={order}: only {busy} players own columns; {', '.join(idle.values())} own none, "
            "and take part in no interaction. Lower order=."
        )


def with_idle(found: Interactions, idle: Mapping[int, str]) -> Interactions:
    """The interactions of all players, given those of the players who own columns.

    Who owns nothing is null: its sets are 0, and those of the others are what they are without it,
    by every index.
    """
    if not idle:
        return found
    names = list(found.feature_names)
    for place in sorted(idle):
        names.insert(place, idle[place])
    busy = [p for p in range(len(names)) if p not in idle]
    sets = all_of(len(names), found.order or 1)
    place = {S: m for m, S in enumerate(sets)}
    at = [place[tuple(busy[p] for p in S)] for S in found.sets]

    def filled(values: np.ndarray | None) -> Any:
        if values is None:
            return None
        out = np.zeros((len(values), len(sets), *values.shape[2:]))
        out[:, at] = values
        return out

    return replace(
        found,
        values=filled(found.values),
        std_errors=filled(found.std_errors),
        sets=sets,
        feature_names=tuple(names),
    )
