"""`normalized_movement_rate`: how much a ranking of columns changes when its top is removed.

Letters: M rows, n columns, m columns that remain, N instances, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError, ModelOutputError
from xaijax.core.public import public, public_class
from xaijax.core.typing import ArrayLike, Rows
from xaijax.methods.aec.rows import FILL, finite_matrix
from xaijax.tables.frames import frame_labels, series_labels
from xaijax.tables.rows import rows_of
from xaijax_kernels.collinearity.effects import ranking


@public_class
@dataclass(frozen=True, eq=False)
class MovementSteps:
    """The rankings that `normalized_movement_rate` made, one after each removal.

    Attributes:
        removed: int [n - 1], the column at the top of each ranking. The next ranking is made
            without it.
        positions: int [n - 1, n], the position of each column in each ranking, 1 for the very top.
            Removed columns are counted, so a column that does not move keeps its position. A column
            that is already removed has 0.
        rates: float64 [n - 2], for each ranking but the first: the movement since the previous
            ranking, divided by the largest possible movement.
        feature_names: [n], the names of the columns.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> def ranker(X, y):
        ...     return np.abs(X.T @ y)
        >>> X = np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]])
        >>> _, steps = xj.normalized_movement_rate(ranker, X, np.ones(2), return_steps=True)
        >>> steps.removed, steps.rates
        (array([2, 1]), array([0.]))
        >>> steps.positions
        array([[3, 2, 1],
               [3, 2, 0]])
    """

    removed: np.ndarray  # [n - 1], the column at the top of each list; the next list omits it
    positions: np.ndarray  # [n - 1, n], 1 for the very top; 0 if a column is already removed
    rates: np.ndarray  # [n - 2], movement from list k - 1 to list k over the largest possible
    feature_names: tuple[str, ...]  # [n]


@overload
def normalized_movement_rate(
    ranker: Any, X: Rows, y: ArrayLike, return_steps: Literal[False] = False
) -> float: ...
@overload
def normalized_movement_rate(
    ranker: Any, X: Rows, y: ArrayLike, return_steps: Literal[True]
) -> tuple[float, MovementSteps]: ...
@public
def normalized_movement_rate(
    ranker: Any, X: Rows, y: ArrayLike, return_steps: bool = False
) -> float | tuple[float, MovementSteps]:
    """Computes how much a ranking of columns changes as its top columns are removed: the NMR.

    The columns are ranked and the top one is removed. The ranker is run anew on the columns that
    remain, and so on until one is left. The position of a column is its rank plus the number of
    columns removed: a column keeps its position if nothing but the top goes. The rate of a step
    with m columns left is

        (sum of |change of position|) / floor(m^2 / 2),

    where the divisor is the largest possible sum. The normalized movement rate (NMR) is the mean of
    the n - 2 rates. It says how stable a ranking is, not whether it is right.

    Args:
        ranker: a function (X, y) -> importance of each column of X. Importances are ranked by
            absolute value, largest first, ties in column order. The function is called n - 1
            times, each time with fewer columns. It may return an array [m]; a pandas Series, read
            by its labels, the columns of X; an `Explanation` or a shap.Explanation, whose |value|
            is averaged over the instances and summed over outputs; or what scikit-learn's
            permutation_importance returns. An explainer of one fitted model is not accepted: fit
            inside, `lambda X, y: Explainer(as_model(fit(X, y)), X)(X)`. It may also be an
            `xaijax.AEC`, fitted or not: it is fitted once, since its slopes belong to single
            columns and do not change when others are removed.
        X: [M, n], an array or a frame, without NaN and infinity. The ranker gets columns of the
            same kind, in their order.
        y: [M], passed to the ranker unchanged.
        return_steps: bool. True: also return `MovementSteps`.

    Returns:
        The NMR, from 0 (the order never changes) to 1 (it is reversed each time). It is NaN, with a
        warning, for fewer than 3 columns, which have no rate. With return_steps the result is the
        tuple (NMR, steps).

    Raises:
        InputError, InputTypeError: an argument is not accepted; raised before the ranker is called.
        ModelOutputError: the ranker did not return one finite number per column.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0], [2.0, 1.0, 1.0]])
        >>> xj.normalized_movement_rate(lambda X, y: np.abs(X.T @ y), X, np.ones(3))
        0.0

        This ranker looks at each column alone, so nothing moves when another column is removed.

    References:
        Salih, Boscolo Galazzo, Cruciani, Brusini and Radeva, "Investigating explainable artificial
        intelligence for MRI-based classification of dementia: a new stability criterion for
        explainable methods" (ICIP 2022). Salih, "Explainable artificial intelligence for dependent
        features: additive effects of collinearity" (2024), Table 3.
    """
    checks.yes_or_no(return_steps, "return_steps")
    closed_form = getattr(ranker, "_remaining", None)
    if isinstance(ranker, type) or not closed_form:
        _check_ranker(ranker)
    names = _names(X, y)
    importance = closed_form(X, y) if closed_form else _refitted(ranker, X, y)
    steps = _steps(importance, names)
    if len(names) < 3:
        checks.warn(
            f"X has {checks.count(len(names), 'column')}: with fewer than 3 no list can change, "
            "and the movement rate is NaN."
        )
        rate = float("nan")
    else:
        rate = float(steps.rates.mean())
    return (rate, steps) if return_steps else rate


def _check_ranker(ranker: Any) -> None:
    """Raises for what is not a function, and for explainers, which hold a model of all columns."""
    library = type(ranker).__module__.partition(".")[0]
    if library in ("xaijax", "shap", "shapiq"):
        raise InputTypeError(
            f"ranker is of type {library}.{type(ranker).__name__}, which holds one model of all "
            "columns. Pass a function that fits a model on the columns it is given: lambda X, y: "
            "xaijax.Explainer(xaijax.as_model(LinearRegression().fit(X, y)), X)(X), say."
        )
    if isinstance(ranker, type) or not callable(ranker):
        raise InputTypeError(
            "ranker must be a function (X, y) -> importance per column, or an xaijax.AEC, got "
            f"{ranker!r}. For a model that fits: lambda X, y: model.fit(X, y).coef_."
        )


def _steps(importance: Callable[[np.ndarray], np.ndarray], names: tuple[str, ...]) -> MovementSteps:
    n = len(names)
    removed, positions = np.zeros(max(n - 1, 0), np.intp), np.zeros((max(n - 1, 0), n), np.intp)
    rates = np.zeros(max(n - 2, 0))
    alive = np.arange(n)
    for k in range(n - 1):
        order = ranking(importance(alive))
        positions[k, alive[order]] = np.arange(1, len(alive) + 1) + k
        if k:
            moved = np.abs(positions[k, alive] - positions[k - 1, alive]).sum()
            rates[k - 1] = moved / (len(alive) ** 2 // 2)
        removed[k] = alive[order[0]]
        alive = np.delete(alive, order[0])
    return MovementSteps(removed, positions, rates, names)


def _names(X: Any, y: Any) -> tuple[str, ...]:
    """Column names; checks that no number is missing, and that X and y have the same number of
    rows.
    """
    table = rows_of(X)
    if not table.is_frame:
        _, names = finite_matrix(X, "X")
    else:
        names = frame_labels(X, "X")
        if len(X) == 0:
            raise InputError("X has 0 rows; at least 1 is needed.")
        for j, name in enumerate(names):  # a missing text is left to the ranker
            checks.finite(table.column(j), f"X, column {name!r},", False, remedy=FILL)
    rows = len(X)
    sized = hasattr(y, "__len__") and getattr(y, "ndim", 1) > 0
    if not sized or len(y) != rows:
        held = len(y) if sized else type(y).__name__
        raise InputError(f"y has {held} entries, but X has {rows:,} rows: give [{rows}].")
    return names


def _refitted(ranker: Callable[..., Any], X: Any, y: Any) -> Callable[[np.ndarray], np.ndarray]:
    """A function alive -> the importance of each of these columns, by the ranker on them only."""
    framed = rows_of(X).is_frame
    whole = rows_of(X if framed else np.asarray(X))

    def importance(alive: np.ndarray) -> np.ndarray:
        part = whole.columns_at(alive)
        columns = rows_of(part).labels if framed else list(range(len(alive)))
        return importance_of(ranker(part, y), columns, framed)

    return importance


_MEAN = " Return the mean of absolute values over the rows, np.abs(values).mean(axis=0)."


def importance_of(returned: Any, columns: Sequence[Any], named: bool) -> np.ndarray:
    """The importances float64 [m], in the order of `columns`, the labels that the ranker received.

    `importances_mean`, of scikit-learn's permutation_importance, is used as it is. `values` of an
    Explanation, ours or shap's, are [N, m] or [N, m, K]: the mean of |value| over N is summed over
    K. A pandas Series is read by its labels, since a sorted one has another order.

    named: whether `columns` are labels of a frame rather than positions in an array.

    Raises:
        ModelOutputError: there is not one finite number per column.
    """
    m = len(columns)
    needed = f"one importance for each of the {m} columns, shape ({m},), is needed."
    if rows_of(returned).is_frame:
        raise ModelOutputError(
            f"ranker returned a data frame of shape {returned.shape}; {needed} Return a Series."
        )
    values = _numbers(returned)
    if values is None:
        name = type(returned).__name__
        raise ModelOutputError(f"ranker returned no numbers, but a {name}; {needed}")
    if values.shape != (m,):
        mean = _MEAN if values.ndim > 1 else ""
        shape = f"the shape {values.shape} for {m} columns"
        raise ModelOutputError(f"ranker returned {shape}; {needed}{mean}")
    if not np.isfinite(values).all():
        bad = values[~np.isfinite(values)][0]
        raise ModelOutputError(f"ranker returned an importance that is not finite, {bad}; {needed}")
    labels = series_labels(returned)
    return values if labels is None else values[_places(labels, list(columns), named)]


def _numbers(returned: Any) -> np.ndarray | None:
    """The numbers as float64 of any shape, or None if there are none."""
    answer = getattr(returned, "importances_mean", None)
    if answer is None:
        values = getattr(returned, "values", None)
        if isinstance(values, np.ndarray) and values.ndim in (2, 3):
            size = np.abs(values).mean(axis=0)
            return size if size.ndim == 1 else size.sum(axis=1)
        answer = returned
    if answer is None:  # NumPy converts it to NaN
        return None
    try:
        return checks.real_numbers(answer, "ranker")
    except (TypeError, ValueError):
        return None


def _places(labels: list[Any], columns: list[Any], named: bool) -> list[int]:
    """Returns the position of each column's importance in a Series with these labels.

    The labels are columns of the frame, or positions 0 to m - 1 if the Series was made without
    labels and sorted later.
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
