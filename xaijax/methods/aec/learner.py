"""Other learners for the slope of y on one column (property 4 of the paper).

Letters: M rows, F features, K' classes fitted against the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from xaijax.core import checks
from xaijax.core.errors import InputTypeError, ModelOutputError
from xaijax.methods.aec.first_pass import FirstPass
from xaijax.methods.aec.rows import InMemoryRows

Learner = Callable[[np.ndarray, np.ndarray, "np.ndarray | None"], float]


def learner_of(learner: Any, weighted: bool) -> Learner:
    """Reads `learner=` as a function (x [M], y [M], weights [M] or None) -> slope.

    weighted: rows have weights, or will have them in a bootstrap; a function is then always called
        with a third argument.

    Raises:
        InputTypeError: the learner is neither an estimator nor a callable, or takes no weights
            although weights are needed.
    """
    remedy = "Leave sample_weight and bootstrap out, or take a learner that accepts weights."
    if hasattr(learner, "fit") and not isinstance(learner, type):
        if weighted and not has_fit_parameter(learner, "sample_weight"):
            raise InputTypeError(f"learner {learner!r} takes no sample_weight. {remedy}")
        return lambda x, y, weights: _of_estimator(learner, x, y, weights)
    if not callable(learner) or isinstance(learner, type):
        kinds = "a scikit-learn estimator with a slope (coef_), or a function (x, y) -> slope"
        raise InputTypeError(f"learner must be {kinds}, got {learner!r}.")
    if weighted and not _takes_three(learner):
        raise InputTypeError(
            f"learner {learner!r} takes (x, y), but rows have weights: (x, y, sample_weight) is "
            f"needed. {remedy}"
        )

    def slope(x: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> float:
        if not weighted:
            return _checked(learner(x, y), learner)
        return _checked(learner(x, y, np.ones(len(x)) if weights is None else weights), learner)

    return slope


def fit(
    learner: Learner, table: InMemoryRows, facts: FirstPass, scales: Any = None, times: Any = None
) -> np.ndarray:
    """Slopes [K', F], or [1, F] for a regression; 0 for constant columns, equal for equal ones.

    scales: means and spreads [F] that standardise the columns.
    times: [M], how often each row is taken, for a bootstrap replicate.
    """
    table = table.by_column()
    encoded = facts.target.encode(table.y)
    classes = facts.target.positives
    targets = [(encoded == k).astype(np.intp) for k in classes] if classes else [encoded]
    weights = table.weights
    if times is not None:
        weights = times if weights is None else weights * times
    slopes = np.zeros((len(targets), facts.F))
    for j in map(int, np.flatnonzero(facts.fitted)):
        x = table.column(j)
        if scales is not None:
            x = (x - scales[0][j]) / scales[1][j]
        for at, y in enumerate(targets):
            slopes[at, j] = learner(x, y, weights)
    return slopes[:, facts.first]


def _of_estimator(learner: Any, x: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> float:
    model: Any = clone(learner)
    model.fit(x[:, None], y, **({} if weights is None else {"sample_weight": weights}))
    slope = getattr(model, "coef_", None)
    if slope is None:
        raise InputTypeError(
            f"learner {learner!r} has no coef_ after its fit. Take a linear model, or a function "
            "(x, y) -> slope."
        )
    return _checked(slope, learner)


def _checked(slope: Any, learner: Any) -> float:
    try:
        value = checks.real_numbers(slope, "slope")
    except (TypeError, ValueError):
        value = np.empty(0)
    if value.size != 1 or not np.isfinite(value).all():
        shown = checks.shown(slope)
        raise ModelOutputError(
            f"learner {learner!r} gave {shown} for one column; one finite slope is needed."
        )
    return float(value.reshape(()))


def _takes_three(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # nothing is known of a function written in C
        return True
    return True
