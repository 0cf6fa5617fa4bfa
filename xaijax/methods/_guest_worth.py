"""What guests' columns are worth; `FederatedExplainer.worth`.

Letters: N instances, F columns, P players, m guests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xaijax import _checks
from xaijax._errors import InputError, InputTypeError
from xaijax._frames import frame_kind
from xaijax._worth import GuestWorth
from xaijax.methods._parties import Parties, without


def guest_worth(
    explainer: Any,
    X: Any,
    y: Any,
    metric: Any,
    refitted: Mapping[str, Any] | None,
    progress: bool | None,
    *,
    several: bool,
) -> GuestWorth:
    """As `FederatedExplainer.worth` says; several: whether the reference has more than one row."""
    parties: Parties = explainer.parties
    given = dict(refitted or {})
    unknown = [name for name in given if name not in parties.guests]
    if unknown:
        raise InputError(
            f"refitted: there is no guest {unknown[0]!r}; guests are {list(parties.guests)}."
        )
    if several:
        raise InputError(
            "worth switches a guest off by one reference row, but reference= has several. Say "
            "reference='median' or a row."
        )
    truth = np.asarray(y)
    N = _checks.rows_given(X)
    if truth.shape != (N,):
        raise InputError(f"y must have shape ({N},), one entry per row of X; got {truth.shape}.")
    score = _score_of(metric, truth)
    reference = _as_row(explainer.reference_)
    for name, other in given.items():
        if not hasattr(other, "probe"):
            raise InputTypeError(
                f"refitted[{name!r}] must come from xaijax.as_model, got {type(other).__name__}."
            )
    found = explainer(X, progress)
    if found.values.ndim == 3:
        raise InputError(
            "worth needs a model with one output; say as_model(..., output=) or output a class."
        )
    h = len(parties.host)
    each = np.concatenate([found.values[:, :h].sum(axis=1, keepdims=True), found.values[:, h:]], 1)
    size = np.abs(each)
    return GuestWorth(
        parties=("host", *parties.guests),
        mean_absolute=size.mean(axis=0),
        mean_value=each.mean(axis=0),
        standard_errors=_spread(size),
        metric=metric if isinstance(metric, str) else getattr(metric, "__name__", "score"),
        score=score(explainer.model, X),
        score_without=np.array(
            [score(explainer.model, _off(X, own, reference)) for own in parties.guests.values()]
        ),
        score_refitted=np.array(
            [
                score(given[name], without(X, own)) if name in given else np.nan
                for name, own in parties.guests.items()
            ]
        ),
        instances=N,
    )


def _spread(size: np.ndarray) -> np.ndarray:
    """Standard errors of the means over rows; NaN of one row."""
    N = len(size)
    return size.std(axis=0, ddof=1) / np.sqrt(N) if N > 1 else np.full(size.shape[1], np.nan)


def _score_of(metric: Any, y: np.ndarray) -> Any:
    """(model, rows) -> one number."""
    if isinstance(metric, str):
        _checks.one_of(metric, "metric", ("accuracy",))
        return lambda model, rows: float(np.mean(model.labels(rows) == y))
    if not callable(metric):
        raise InputTypeError(f"metric must be 'accuracy' or callable(y, answers), got {metric!r}.")
    own: Callable[[Any, Any], Any] = metric
    return lambda model, rows: float(own(y, model.predict(rows)))


def _as_row(reference: Any) -> Any:
    return reference if frame_kind(reference) else np.asarray(reference).reshape(-1)


def _off(X: Any, columns: tuple[int, ...], reference: Any) -> Any:
    """X with these columns at the reference."""
    kind = frame_kind(X)
    if kind == "pandas":
        out = X.copy()
        for c in columns:
            value = reference.iloc[[0] * len(X), c]
            out.isetitem(c, value.set_axis(X.index))
        return out
    if kind == "polars":
        names = [X.columns[c] for c in columns]
        repeated = reference.select(names)[[0] * len(X)]
        return X.with_columns(*repeated.get_columns())
    dtype = np.result_type(np.asarray(X).dtype, reference.dtype)
    out = np.array(X, dtype)
    out[:, list(columns)] = reference[list(columns)]
    return out
