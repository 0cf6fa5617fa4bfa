"""What rankers return, read as one importance per column.

Letters: m columns that were handed to the ranker, N instances, K outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import ModelOutputError
from xaijax.tables.rows import rows_of
from xaijax.tables.series import series_labels

_MEAN = " Return the mean of absolute values over the rows, np.abs(values).mean(axis=0)."


def importance_of(returned: Any, columns: Sequence[Any], named: bool) -> np.ndarray:
    """The importances float64 [m], in the order of `columns`, the labels that the ranker was given.

    `importances_mean`, of scikit-learn's permutation_importance, is taken as it is. `values` of an
    Explanation, ours or shap's, are [N, m] or [N, m, K]: the mean of |value| over N, summed over K.
    A pandas Series is read by its labels, since one that is sorted has another order.

    named: whether `columns` are labels of a frame, else places in an array.

    Raises:
        ModelOutputError: anything else than one finite number a column.
    """
    m = len(columns)
    needed = f"one importance for each of the {m} columns, shape ({m},), is needed."
    if rows_of(returned).is_frame:
        raise ModelOutputError(
            f"ranker returned a data frame of shape {returned.shape}; {needed} Return one of its "
            "columns, a Series labelled by the columns of X, say."
        )
    found = _numbers(returned)
    if found is None:
        raise ModelOutputError(
            f"ranker returned no numbers, but a {type(returned).__name__}; {needed}"
        )
    if found.shape != (m,):
        raise ModelOutputError(
            f"ranker returned the shape {found.shape} for {m} columns; {needed}"
            f"{_MEAN if found.ndim > 1 else ''}"
        )
    if not np.isfinite(found).all():
        raise ModelOutputError(
            f"ranker returned an importance that is not finite for {m} columns, "
            f"{found[~np.isfinite(found)][0]}."
        )
    labels = series_labels(returned)
    return found if labels is None else found[_places(labels, list(columns), named)]


def _numbers(returned: Any) -> np.ndarray | None:
    """As float64 of any shape, or None where it holds no numbers."""
    given = getattr(returned, "importances_mean", None)
    if given is None:
        values = getattr(returned, "values", None)
        if isinstance(values, np.ndarray) and values.ndim in (2, 3):
            size = np.abs(values).mean(axis=0)
            return size if size.ndim == 1 else size.sum(axis=1)
        given = returned
    if given is None:  # NumPy makes NaN of it
        return None
    try:
        return checks.real_numbers(given, "ranker")
    except (TypeError, ValueError):
        return None


def _places(labels: list[Any], columns: list[Any], named: bool) -> list[int]:
    """Where the importance of each column stands in a Series with these labels.

    They are columns of the frame, or places 0 to m - 1 where the Series was made without labels and
    has been sorted since.
    """
    for names in ([columns] if named else []) + [list(range(len(columns)))]:
        if set(labels) == set(names):
            place = {label: at for at, label in enumerate(labels)}
            return [place[name] for name in names]
    raise ModelOutputError(
        f"ranker returned a Series labelled {_shown(labels)}, which are not the columns that it "
        f"was given, {_shown(columns)}. Label it by X.columns, or return .to_numpy() in the order "
        "of the columns."
    )


def _shown(labels: list[Any]) -> str:
    more = f" and {len(labels) - 6:,} more" if len(labels) > 6 else ""
    return ", ".join(map(repr, labels[:6])) + more
