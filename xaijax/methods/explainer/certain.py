"""`top=` of a call: read, and told in the result.

Letters: N instances, P players.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.intervals import checked_level
from xaijax.estimators.driver import METHODS
from xaijax.estimators.stopping import Top
from xaijax.results.explanation import Explanation

CONFIDENCE = 0.95


class Asking(Protocol):
    """What asks: an `Explainer`."""

    @property
    def model(self) -> Any: ...
    @property
    def estimator(self) -> str: ...
    @property
    def tolerance(self) -> float | None: ...


def top_rule(asking: Asking, P: int, top: Any, confidence: Any, bounds: Any) -> Top | None:
    """The rule of top=, confidence= and bounds=; None: there is none.

    Raises InputError or InputTypeError for what does not go together, before any work.
    """
    if top is None:
        for name, value in (("confidence", confidence), ("bounds", bounds)):
            if value is not None:
                raise InputError(
                    f"{name}={value!r} is of top=, which is not given. Say top=3, say."
                )
        return None
    k = checks.whole_number(top, "top")
    if k > P:
        raise InputError(f"top={k:,}, but there are {P:,} players. Pass a number from 1 to {P:,}.")
    level = CONFIDENCE if confidence is None else checked_level(confidence, "confidence")
    pair = None if bounds is None else _pair(bounds)
    if asking.tolerance is not None:
        raise InputError(
            f"top={k} and tolerance={asking.tolerance:g} are two rules of when to stop. Make an "
            "explainer without tolerance=, or call this one without top=."
        )
    if asking.estimator in METHODS and not METHODS[asking.estimator].independent:
        raise InputError(
            f"top={k} needs independent pairs, and estimator={asking.estimator!r} draws without "
            "replacement and fits all draws together. Say estimator='permutation' or 'auto'."
        )
    if not asking.model.deterministic:
        raise InputError(
            f"top={k} is of a deterministic model: the pairs of a random one share the noise of "
            "v(nothing kept) and v(all kept), and are not independent. Leave top= out; "
            "explanation.top() tells what the standard errors do."
        )
    return Top(k, level, pair)


def _pair(bounds: Any) -> tuple[float, float]:
    """(low, high) of bounds=; raises InputError or InputTypeError for anything else."""
    wanted = "pass two numbers, (0, 1) for probabilities: v(S) is never outside."
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise InputTypeError(f"bounds: got {checks.shown(bounds)}; {wanted}")
    for one in bounds:
        if isinstance(one, bool) or not isinstance(one, int | float | np.integer | np.floating):
            raise InputTypeError(f"bounds: got {checks.shown(bounds)}; {wanted}")
    low, high = map(float, bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"bounds: got ({low:g}, {high:g}); {wanted}")
    return low, high


def told_top(found: Explanation, rule: Top | None) -> Explanation:
    """The same, with what was asked for and which instances came so far.

    Exact values are judged by their rounding; of others the run has said what it found.
    """
    if rule is None:
        return found
    sure = found.top(rule.k, rule.confidence).certain.reshape(len(found), -1).all(axis=1)
    stats = dict(found.stats)
    if "certain" in stats:
        sure = np.where(stats["exact_rows"], sure, stats["certain"])
    told = {"top": rule.k, "confidence": rule.confidence, "certain": sure}
    return replace(found, stats={"bound": "rounding", **stats, **told})
