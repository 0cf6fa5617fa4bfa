"""`normalized_movement_rate`: how much a list of columns changes when its top is taken away.

Letters: M rows, n columns, m columns that remain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from xaijax import _checks
from xaijax._errors import InputError, InputTypeError, ModelOutputError
from xaijax._frames import frame_kind, frame_labels
from xaijax._public import public, public_class
from xaijax.methods._importance import importance_of
from xaijax_kernels.collinearity import ranking


@public_class
@dataclass(frozen=True, eq=False)
class MovementSteps:
    """What `normalized_movement_rate` saw on its way."""

    removed: np.ndarray  # [n - 1], the column at the top of each list; the next list is without it
    positions: np.ndarray  # [n - 1, n], 1 for the top of all; 0 where a column is removed already
    rates: np.ndarray  # [n - 2], movement from list k - 1 to list k over the largest possible
    feature_names: tuple[str, ...]  # [n]


@overload
def normalized_movement_rate(
    ranker: Any, X: Any, y: Any, return_steps: Literal[False] = False
) -> float: ...
@overload
def normalized_movement_rate(
    ranker: Any, X: Any, y: Any, return_steps: Literal[True]
) -> tuple[float, MovementSteps]: ...
@public
def normalized_movement_rate(
    ranker: Any, X: Any, y: Any, return_steps: bool = False
) -> float | tuple[float, MovementSteps]:
    """The normalized movement rate (NMR) of a ranker, as in Salih and others (2022, 2024).

    The columns are ranked, the top one is removed, the ranker is run anew on the columns that
    remain, and so on until one is left. Where nothing but the top goes, every other column keeps
    its position: rank k + (columns removed). The rate of a step is the sum of |change of position|
    over its largest possible value for m columns, floor(m^2 / 2) (Spearman's footrule turned
    round); the NMR is the mean of the n - 2 rates. 0: the order never changes; 1: it is turned
    round each time. It says how stable a list is, not whether it is right.

    Args:
        ranker: a function (X, y) -> importance of each column of X, taken by absolute value,
            largest first, ties in column order; called n - 1 times, with fewer columns each time.
            It may return an array [m], an `Explanation` or a shap.Explanation (the mean of |value|
            over the instances, summed over outputs), or what permutation_importance returns.
            Or an `xaijax.AEC`, fitted or not: it is fitted once, since its slopes are of single
            columns and do not change when others go.
        X: [M, n], an array or a frame; the ranker gets columns of the same kind, in their order.
        y: [M], handed to the ranker as it is.
        return_steps: also return `MovementSteps`.

    Returns:
        The NMR, within 0 and 1; NaN with a warning for fewer than 3 columns, which have no rate.
        With return_steps a pair.

    Raises:
        InputError, InputTypeError: arguments that are not accepted, before the ranker is called.
        ModelOutputError: the ranker returned something else than one finite number a column.
    """
    if not isinstance(return_steps, bool):
        raise InputTypeError(f"return_steps must be True or False, got {return_steps!r}.")
    closed_form = getattr(ranker, "_remaining", None)
    if isinstance(ranker, type) or not (callable(ranker) or closed_form):
        raise InputTypeError(
            f"ranker must be a function (X, y) -> importance per column, or an xaijax.AEC, got "
            f"{ranker!r}."
        )
    names = _names(X, y)
    importance = closed_form(X, y) if closed_form else _refitted(ranker, X, y)
    steps = _steps(importance, names)
    if len(names) < 3:
        _checks.warn(
            f"X has {len(names)} columns: with fewer than 3 no list can change, and the movement "
            "rate is NaN."
        )
        rate = float("nan")
    else:
        rate = float(steps.rates.mean())
    return (rate, steps) if return_steps else rate


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
    """Column names; X and y must have as many rows."""
    if frame_kind(X) is None:
        array = _checks.rows_of(_checks.as_array(X, "X"), "X", None)
        names = tuple(f"x{j}" for j in range(array.shape[1]))
        _checks.finite(array, "X", False, remedy="Fill it or drop the rows first.")
    else:
        names = frame_labels(X, "X")
    rows = len(X)
    if not hasattr(y, "__len__") or len(y) != rows:
        given = len(y) if hasattr(y, "__len__") else type(y).__name__
        raise InputError(f"y has {given} entries, but X has {rows:,} rows: give [{rows}].")
    return names


def _refitted(ranker: Callable[..., Any], X: Any, y: Any) -> Callable[[np.ndarray], np.ndarray]:
    """alive -> the importance of each of these columns, by the ranker on these columns only."""
    kind = frame_kind(X)
    whole: Any = np.asarray(X) if kind is None else X

    def importance(alive: np.ndarray) -> np.ndarray:
        if kind is None:
            part = whole[:, alive]
        elif kind == "pandas":
            part = whole.iloc[:, alive]
        else:
            part = whole[:, alive.tolist()]
        found = importance_of(ranker(part, y))
        if found is None or found.shape != (len(alive),):
            shape = None if found is None else found.shape
            raise ModelOutputError(
                f"ranker returned {'no numbers' if shape is None else f'the shape {shape}'} for "
                f"{len(alive)} columns; one importance for each column, [{len(alive)}], is needed."
            )
        if not np.isfinite(found).all():
            raise ModelOutputError(
                f"ranker returned an importance that is not finite for {len(alive)} columns, "
                f"{found[~np.isfinite(found)][0]}."
            )
        return found

    return importance
