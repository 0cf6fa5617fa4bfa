"""Observational measures, to compare with QII: `xaijax.observational`.

Each measures how membership in a group is associated with an outcome, both bool [N]. None of them
looks at what a model uses. The outcome is the true label, or the decision of a classifier
(`model.labels(X) == positive`). Table II of the QII paper compares such measures with the average
QII. Its MI, Jaccard and corr are those of the true labels, for men; its MI is divided by the root
of both entropies, which `mutual_information` is not; its disp is that of the decisions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.core.typing import ArrayLike


def _pair(members: Any, outcomes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both as bool [N], neither constant."""
    pair = []
    for name, values in (("members", members), ("outcomes", outcomes)):
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise InputTypeError(f"{name} must be True or False for each row; {error}.") from error
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
        pair.append(array)
    if len(pair[0]) != len(pair[1]):
        raise InputError(f"members has {len(pair[0])} rows, outcomes {len(pair[1])}.")
    return pair[0], pair[1]


@public
def mutual_information(members: ArrayLike, outcomes: ArrayLike) -> float:
    """Mutual information of membership and outcome, in nats.

    Args:
        members: bool [N], or zeros and ones: who is in the group. Some are and some are not.
        outcomes: bool [N], or zeros and ones: who has the positive outcome. Some have, some not.

    Returns:
        A float of at least 0: scikit-learn's `mutual_info_score`. 0 if the two are independent.

    Raises:
        InputError, InputTypeError: other shapes, lengths or types, or a constant argument.

    Example:
        >>> import xaijax as xj
        >>> members, outcomes = [True, True, False, False], [True, True, True, False]
        >>> round(xj.observational.mutual_information(members, outcomes), 4)
        0.2158

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE
        S&P 2016), Table II.
    """
    from sklearn.metrics import mutual_info_score  # noqa: PLC0415

    return float(mutual_info_score(*_pair(members, outcomes)))


@public
def jaccard(members: ArrayLike, outcomes: ArrayLike) -> float:
    """Jaccard index: the rows where both are true over the rows where at least one is true.

    Args:
        members: bool [N], or zeros and ones: who is in the group. Some are and some are not.
        outcomes: bool [N], or zeros and ones: who has the positive outcome. Some have, some not.

    Returns:
        A float from 0 to 1: scikit-learn's `jaccard_score`.

    Raises:
        InputError, InputTypeError: other shapes, lengths or types, or a constant argument.

    Example:
        >>> import xaijax as xj
        >>> members, outcomes = [True, True, False, False], [True, True, True, False]
        >>> round(xj.observational.jaccard(members, outcomes), 4)
        0.6667

    What Table II of the QII paper calls the Jaccard index is `matching`.
    """
    from sklearn.metrics import jaccard_score  # noqa: PLC0415

    return float(jaccard_score(*_pair(members, outcomes)))


@public
def matching(members: ArrayLike, outcomes: ArrayLike) -> float:
    """Simple matching: the share of rows where both are true or both are false.

    Args:
        members: bool [N], or zeros and ones: who is in the group. Some are and some are not.
        outcomes: bool [N], or zeros and ones: who has the positive outcome. Some have, some not.

    Returns:
        A float from 0 to 1: scikit-learn's `accuracy_score`.

    Raises:
        InputError, InputTypeError: other shapes, lengths or types, or a constant argument.

    Example:
        >>> import xaijax as xj
        >>> members, outcomes = [True, True, False, False], [True, True, True, False]
        >>> xj.observational.matching(members, outcomes)
        0.75

    Table II of the QII paper calls this the Jaccard index (0.50 for men in Adult): scikit-learn's
    former `jaccard_similarity_score` (removed in 0.23) computed simple matching for such labels.

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE
        S&P 2016), Table II.
    """
    from sklearn.metrics import accuracy_score  # noqa: PLC0415

    return float(accuracy_score(*_pair(members, outcomes)))


@public
def correlation(members: ArrayLike, outcomes: ArrayLike) -> float:
    """Pearson correlation of membership and outcome.

    Args:
        members: bool [N], or zeros and ones: who is in the group. Some are and some are not.
        outcomes: bool [N], or zeros and ones: who has the positive outcome. Some have, some not.

    Returns:
        A float from -1 to 1.

    Raises:
        InputError, InputTypeError: other shapes, lengths or types, or a constant argument.

    Example:
        >>> import xaijax as xj
        >>> members, outcomes = [True, True, False, False], [True, True, True, False]
        >>> round(xj.observational.correlation(members, outcomes), 4)
        0.5774

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE
        S&P 2016), Table II.
    """
    a, b = _pair(members, outcomes)
    return float(np.corrcoef(a, b)[0, 1])


@public
def disparate_impact(members: ArrayLike, outcomes: ArrayLike) -> float:
    """The group's rate of positive outcomes divided by the rate of the rest.

    The 80 % rule compares this number with 0.8.

    Args:
        members: bool [N], or zeros and ones: who is in the group. Some are and some are not.
        outcomes: bool [N], or zeros and ones: who has the positive outcome. Some have, some not.

    Returns:
        A float of at least 0.

    Raises:
        InputError, InputTypeError: other shapes, lengths or types, a constant argument, or nobody
            of the rest has a positive outcome.

    Example:
        >>> import xaijax as xj
        >>> members, outcomes = [True, True, False, False], [True, True, True, False]
        >>> xj.observational.disparate_impact(members, outcomes)
        2.0

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE
        S&P 2016), Table II.
    """
    a, b = _pair(members, outcomes)
    if not b[~a].any():
        raise InputError("outcomes: the rest has no positive outcome, so the ratio divides by 0.")
    return float(b[a].mean() / b[~a].mean())


@public
def measures(members: ArrayLike, outcomes: ArrayLike) -> dict[str, float]:
    """Returns all measures of this module, by name.

    Args:
        members: bool [N], or zeros and ones: who is in the group. Some are and some are not.
        outcomes: bool [N], or zeros and ones: who has the positive outcome. Some have, some not.

    Returns:
        {"mutual_information": float, "jaccard": ..., "matching": ..., "correlation": ...,
        "disparate_impact": ...}. disparate_impact is NaN if nobody of the rest has a positive
        outcome.

    Raises:
        InputError, InputTypeError: other shapes, lengths or types, or a constant argument.

    Example:
        >>> import xaijax as xj
        >>> members, outcomes = [True, True, False, False], [True, True, True, False]
        >>> found = xj.observational.measures(members, outcomes)
        >>> found["matching"], found["disparate_impact"]
        (0.75, 2.0)

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE
        S&P 2016), Table II.
    """
    a, b = _pair(members, outcomes)
    values = {f.__name__: f(a, b) for f in (mutual_information, jaccard, matching, correlation)}
    return values | {"disparate_impact": disparate_impact(a, b) if b[~a].any() else float("nan")}
