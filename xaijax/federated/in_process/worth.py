"""What guests' columns are worth; `FederatedExplainer.worth`.

Letters: N instances, F columns, P players, m guests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.federated.in_process.parties import HOST, Parties, without
from xaijax.models import model_of
from xaijax.results.guest_worth import GuestWorth
from xaijax.tables.rows import rows_of

if TYPE_CHECKING:
    from xaijax.federated.in_process.explainer import FederatedExplainer

Score = Callable[[Any, Any], float]  # (model, rows) -> one number


def guest_worth(
    asked: FederatedExplainer, X: Any, y: Any, metric: Any, refitted: Any, progress: bool | None
) -> GuestWorth:
    """As `FederatedExplainer.worth` says."""
    model, parties, reference = asked.model, asked.parties, asked.reference_
    checks.instance(refitted, "refitted", Mapping | None, 'a dict {"guest": model} or None')
    given = dict(refitted or {})
    _refuse(given, parties, asked._reference_kind == "rows")
    given = {name: model_of(one, f"refitted[{name!r}]") for name, one in given.items()}
    X = X if rows_of(X).is_frame else checks.as_array(X, "X")
    try:
        truth = np.asarray(y)
    except ValueError as error:
        raise InputTypeError(f"y must be an array with one entry per row of X; {error}.") from error
    if truth.ndim != 1 or truth.shape != X.shape[:1]:
        raise InputError(
            f"y must have shape {X.shape[:1]}, one entry per row of X; got {truth.shape}."
        )
    score = _score_of(metric, truth)
    if model.predict(X[:1]).ndim == 2:
        raise InputError(
            "worth needs a model with one output; say as_model(..., output=) or output a class."
        )
    # The model's scores first: what they refuse, they refuse before all coalitions are asked.
    whole = score(model, X)
    blinded = [score(model, _off(X, own, reference)) for own in parties.guests.values()]
    others = [
        score(given[name], without(X, own)) if name in given else np.nan
        for name, own in parties.guests.items()
    ]
    values, h = asked._explained(X, progress).values, len(parties.host)
    each = np.concatenate([values[:, :h].sum(axis=1, keepdims=True), values[:, h:]], axis=1)
    size = np.abs(each)
    return GuestWorth(
        parties=(HOST, *parties.guests),
        mean_absolute=size.mean(axis=0),
        mean_value=each.mean(axis=0),
        standard_errors=_spread(size),
        metric=metric if isinstance(metric, str) else getattr(metric, "__name__", "score"),
        score=whole,
        score_without=np.array(blinded),
        score_refitted=np.array(others),
        instances=len(X),
    )


def _refuse(given: Mapping[str, Any], parties: Parties, several: bool) -> None:
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


def _spread(size: np.ndarray) -> np.ndarray:
    """Standard errors of the means over rows; NaN for one row."""
    N = len(size)
    return size.std(axis=0, ddof=1) / np.sqrt(N) if N > 1 else np.full(size.shape[1], np.nan)


def _score_of(metric: Any, y: np.ndarray) -> Score:
    if isinstance(metric, str):
        checks.one_of(metric, "metric", ("accuracy",))
        if y.dtype.kind == "f":
            checks.finite(y, "y", False)
        return lambda model, rows: _accuracy(y, model.labels(rows))
    if not callable(metric):
        raise InputTypeError(f"metric must be 'accuracy' or callable(y, answers), got {metric!r}.")
    own: Callable[[Any, Any], Any] = metric

    def score(model: Any, rows: Any) -> float:
        found = np.asarray(own(y, model.predict(rows)))
        if found.ndim or found.dtype.kind not in "biuf":
            raise InputTypeError(f"metric must return one number, got {found!r}.")
        return float(found)

    return score


def _accuracy(y: np.ndarray, labels: np.ndarray) -> float:
    kinds = {"number" if a.dtype.kind in "biuf" else "text" for a in (y, np.asarray(labels))}
    if len(kinds) > 1:
        raise InputError(
            f"y holds {_some(y)}, but the model's labels are {_some(labels)}; accuracy compares "
            "them. Give y as the model's labels."
        )
    return float(np.mean(labels == y))


def _some(values: Sequence[Any] | np.ndarray) -> str:
    return ", ".join(sorted(map(repr, set(np.asarray(values).tolist())))[:3])


def _off(X: Any, columns: tuple[int, ...], reference: Any) -> Any:
    """X with these columns at the reference."""
    if not columns:
        return X
    rows, row = rows_of(X), rows_of(reference)
    if row.is_frame and row.kind != rows.kind:
        reference = row.matrix()[0]
    return rows.with_row(columns, reference)
