"""What two explanations must have in common to be compared, and whether their instances do.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.core.checks import yes_or_no
from xaijax.core.errors import InputError, InputTypeError
from xaijax.results.explanation import Explanation
from xaijax.results.top import half_widths_together
from xaijax.tables.rows import rows_of


def refuse_others(a: Any, b: Any) -> None:
    """Raise InputError or InputTypeError for what is not two explanations of the same players."""
    for name, one in (("a", a), ("b", b)):
        if not isinstance(one, Explanation):
            raise InputTypeError(f"{name}: got {type(one).__name__}; pass an xaijax Explanation.")
        if len(one) < 2:
            raise InputError(f"{name}: it has {len(one)} instances; a spread needs at least 2.")
        if one.present is not None:
            raise InputError(
                f"{name}: its instances have players of their own, so that a mean over instances "
                "says nothing of a player. Explain both by players that all instances share."
            )
        if not np.isfinite(one.values).all():
            raise InputError(f"{name}: it has values that are not finite; leave such rows out.")
        if not one.exact and (one.std_errors is None or np.isnan(one.std_errors).any()):
            raise InputError(
                f"{name}: it has no standard errors for some values of kind {one.kind!r}, so that "
                "nobody knows what differs. Raise budget= of its Explainer, or give samples= to a "
                "GradientExplainer; of amortised values compare the explainer's own."
            )
    for what, field in (("players", "feature_names"), ("outputs", "output_names")):
        mine, other = getattr(a, field), getattr(b, field)
        if mine != other:
            raise InputError(f"a and b are of different {what}: {mine} and {other}.")
    if a.kind != b.kind:
        raise InputError(f"a holds {a.kind!r} values and b {b.kind!r} ones; ask one index of both.")


def paired(a: Explanation, b: Explanation, given: Any) -> bool:
    """Whether instance i of the one is instance i of the other.

    given: True, False, or None: found by the instances' names where both have them (of names that
    are a frame's index, by the data too), else by the data. Raises InputError where neither tells,
    or what cannot be paired is to be.
    """
    if given is not None:
        if yes_or_no(given, "paired") and len(a) != len(b):
            raise InputError(f"paired=True, but a has {len(a):,} instances and b {len(b):,}.")
        return given
    if len(a) != len(b):
        return False
    if a.instance_names is not None and b.instance_names is not None:
        if a.instance_names != b.instance_names:
            return False
        # Names that a person gave say who it is, whatever changed. Two frames may have one index
        # by chance: their rows tell.
        given = a.instance_index is None and b.instance_index is None
        return given or a.data is None or b.data is None or same_data(a, b)
    if a.data is None or b.data is None:
        raise InputError(
            "a and b have as many instances, and one has no data that would tell whether these are "
            "the same. Say paired=True or paired=False."
        )
    return same_data(a, b)


def same_data(a: Explanation, b: Explanation) -> bool:
    """Whether both hold the same rows in the same order; False where one holds none."""
    if a.data is None or b.data is None:
        return False
    mine, other = rows_of(a.data), rows_of(b.data)
    return mine.kind == other.kind and all(
        x == y for x, y in zip(mine.texts(), other.texts(), strict=True)
    )


def flat(values: np.ndarray) -> np.ndarray:
    """Mean values, then mean sizes, as statistics: [N, P] or [N, P, K] -> [N, 2 P K]."""
    rows = values.reshape(len(values), -1)
    return np.concatenate([rows, np.abs(rows)], axis=1)


def shared_error(one: Explanation, confidence: float) -> np.ndarray:
    """How far the mean of all instances' values may be off by their draws, [2 P K].

    Coalitions are shared by all instances, so errors of their values may all go one way: the mean
    of the standard errors bounds that of the mean. | |x + e| - |x| | is at most |e|. Errors with
    few degrees of freedom, or of draws that a rule ended, count as the normal errors whose
    intervals are as wide at this confidence, all values of an instance together.
    """
    if one.exact or one.std_errors is None:
        return np.zeros(2 * one.values[0].size)
    from scipy.special import ndtri  # noqa: PLC0415 - `import xaijax` does not load scipy

    half, _ = half_widths_together(one, confidence)
    normal = float(ndtri(1 - (1 - confidence) / max(1, one.values[0].size) / 2))
    wide = np.where(np.isfinite(half), half / normal, 0.0)
    error = np.maximum(one.std_errors, wide).mean(axis=0).reshape(-1)
    return np.concatenate([error, error])


def rounding(one: Explanation) -> float:
    """How far rounding alone may take a mean value, where the run tells."""
    bound = one.stats.get("efficiency_bound")
    return float(np.mean(bound)) if isinstance(bound, np.ndarray) else 0.0


def same_draws(a: Explanation, b: Explanation) -> bool:
    """Whether the errors of two sampled explanations may go together."""
    seeds = [one.stats.get("seed") for one in (a, b)]
    return not (a.exact or b.exact) and (None in seeds or seeds[0] == seeds[1])
