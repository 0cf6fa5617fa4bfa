"""Proxies: inputs that carry a disparity without being the protected ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xaijax.core.errors import InputError
from xaijax.players.index import named
from xaijax.results.explanation import Explanation

# What a quantity is where both groups fare alike.
ALIKE = {"disparity": 0.0, "ratio": 1.0}


class Proxy(NamedTuple):
    """One input and its influence on the disparity."""

    name: str
    influence: float  # Q(nothing replaced) - Q(replaced), or the index's share of it
    std_error: float | None  # of the influence; None: exact
    reduction: float  # how much nearer to no gap the quantity is without that influence


def refuse_no_gap(quantity: str, difference: str, outcome: str) -> None:
    """Raise InputError for what does not say whether a gap shrinks."""
    if quantity not in ALIKE:
        raise InputError(f"quantity={quantity!r}: proxies are found by quantity='disparity'.")
    if outcome == "proba":
        raise InputError(
            "outcome='proba' has a gap for every class, so there is no one order of proxies. Say "
            "outcome='score' for the positive class, or outcome='label'."
        )
    if difference != "subtract":
        raise InputError(
            f"difference={difference!r} is a distance, which does not say whether a gap shrinks. "
            "Say difference='subtract' for proxies."
        )


def ranked(found: Explanation, left: np.ndarray) -> tuple[Proxy, ...]:
    """The players left [P] of a disparity's influences [1, P], the largest reduction first.

    The reduction of the absolute gap g = |Q - c|, c = 0 for a disparity and 1 for a ratio, is
    |Q - c| - |Q - influence - c|. Of an absolute disparity the influence is reported as the
    reduction: with an index or with sampling it may be larger than the gap, and then it is no
    amount by which the gap shrinks. A signed one below 0, and a ratio below 1, are reduced by
    influences below 0. Deegan-Packel's shares have no amount: they are ordered as they are.
    """
    facts = found.provenance
    values = found.values[0]
    errors = found.std_errors
    reduction = values
    if not named(found.kind).simple and (facts["signed"] or facts["quantity"] == "ratio"):
        gap = float(found.stats["quantity"][0]) - ALIKE[facts["quantity"]]
        reduction = abs(gap) - np.abs(gap - values)
    order = [i for i in np.argsort(-reduction, kind="stable") if left[i]]
    return tuple(
        Proxy(
            found.feature_names[i],
            float(values[i]),
            None if errors is None else float(errors[0, i]),
            float(reduction[i]),
        )
        for i in order
    )
