"""Observational measures beside QII: associations that do not ask what a model uses.

Between membership in a group and an outcome, each bool [N]: the true labels, or the decisions of a
classifier (`model.labels(X) == positive`). The paper's Table II sets them beside the average QII;
its measures are those of the true labels (spec 2.8). `xaijax.observational`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax._errors import InputError, InputTypeError
from xaijax._public import public


def _pair(members: Any, outcomes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both as bool [N], neither constant."""
    found = []
    for name, given in (("members", members), ("outcomes", outcomes)):
        array = np.asarray(given)
        if array.dtype.kind in "iuf" and np.isin(array, (0, 1)).all():
            array = array.astype(bool)
        if array.dtype.kind != "b":
            raise InputTypeError(
                f"{name} must be True or False for each row, got {array.dtype}. Compare first, as "
                f"in {name} == value."
            )
        if array.ndim != 1 or len(array) == 0:
            raise InputError(f"{name} must be [N] with N at least 1, got shape {array.shape}.")
        if array.all() or not array.any():
            raise InputError(f"{name} is the same for all rows, so there is nothing to compare.")
        found.append(array)
    if len(found[0]) != len(found[1]):
        raise InputError(f"members has {len(found[0])} rows, outcomes {len(found[1])}.")
    return found[0], found[1]


@public
def mutual_information(members: Any, outcomes: Any) -> float:
    """Mutual information in nats, by scikit-learn."""
    from sklearn.metrics import mutual_info_score  # noqa: PLC0415

    return float(mutual_info_score(*_pair(members, outcomes)))


@public
def jaccard(members: Any, outcomes: Any) -> float:
    """Jaccard index, |both| / |either|, by scikit-learn."""
    from sklearn.metrics import jaccard_score  # noqa: PLC0415

    return float(jaccard_score(*_pair(members, outcomes)))


@public
def matching(members: Any, outcomes: Any) -> float:
    """Simple matching: the share of rows where both are true or both are false.

    What the paper's Table II calls Jaccard index (its 0.50 for Adult): scikit-learn's function of
    that name computed this until version 0.23.
    """
    from sklearn.metrics import accuracy_score  # noqa: PLC0415

    return float(accuracy_score(*_pair(members, outcomes)))


@public
def correlation(members: Any, outcomes: Any) -> float:
    """Pearson correlation."""
    a, b = _pair(members, outcomes)
    return float(np.corrcoef(a, b)[0, 1])


@public
def disparate_impact(members: Any, outcomes: Any) -> float:
    """The group's rate of outcomes over that of the rest (the 80 % rule compares it with 0.8).

    Raises InputError where the rest has no positive outcome.
    """
    a, b = _pair(members, outcomes)
    if not b[~a].any():
        raise InputError("outcomes: the rest has no positive outcome, so the ratio divides by 0.")
    return float(b[a].mean() / b[~a].mean())


@public
def measures(members: Any, outcomes: Any) -> dict[str, float]:
    """All of them by name; disparate_impact is NaN where it divides by 0."""
    a, b = _pair(members, outcomes)
    found = {
        one.__name__: one(a, b) for one in (mutual_information, jaccard, matching, correlation)
    }
    return found | {"disparate_impact": disparate_impact(a, b) if b[~a].any() else float("nan")}
