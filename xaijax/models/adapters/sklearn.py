"""scikit-learn estimators and Pipelines, and what looks like them, as the host runs them.

`translations/translated.py` makes the JAX model of those that have a translation.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.models.adapters.boosted import BOOSTED, booster_heads, library_of, margin_of
from xaijax.models.adapters.missing_values import takes_nan
from xaijax.models.base.outputs import check_raw
from xaijax.models.base.source import Source
from xaijax.models.identity.patched import chosen, is_own, of_sklearn
from xaijax.models.translations.translated import check_version

# What each word of `output=` asks, and methods that answer and have no word.
METHODS = {
    "proba": "predict_proba",
    "decision": "decision_function",
    "label": "predict",
    "value": "predict",
}
_OTHERS = ("score_samples", "transform", "predict_log_proba")
_ON_HOST = (*BOOSTED, "statsmodels")


def is_estimator(f: Any) -> bool:
    """Whether f is a scikit-learn estimator, or no callable but an object with `predict`."""
    base = sys.modules.get("sklearn.base")
    if base is not None and isinstance(f, base.BaseEstimator):
        return True
    return not callable(f) and callable(getattr(f, "predict", None))


def owner_of(method: Any) -> Any:
    """The estimator of which this is a bound method that answers; None: it is of none.

    Of an object that only looks like an estimator it is so where that has `fit`, or comes of a
    library whose models JAX cannot trace: a method of anything else may be a JAX function.
    """
    owner = getattr(method, "__self__", None)
    if not inspect.ismethod(method) or method.__name__ not in (*METHODS.values(), *_OTHERS):
        return None
    base = sys.modules.get("sklearn.base")
    if base is not None and isinstance(owner, base.BaseEstimator):
        return owner
    known = callable(getattr(owner, "fit", None)) or library_of(owner, _ON_HOST)
    return owner if known and is_estimator(owner) else None


def estimator_method(method: Any, owner: Any, params: Any, backend: str) -> Source:
    """A bound method of a fitted estimator: the estimator with that answer, in JAX where it has a
    translation; what `output=` has no word for is called on the host.
    """
    name = method.__name__
    if name in METHODS.values() and getattr(owner, name) == method:
        return estimator(owner, params, backend, name)
    told = f"{type(owner).__name__}.{name}"
    if params is not None:
        raise InputError(f"params= goes with JAX functions; {told} holds its own. Leave it out.")
    if backend == "jax":
        raise InputError(f"backend='jax' is not available for {told}. Leave backend= out.")
    _check_fitted(owner, type(owner).__name__)
    return Source(
        backend="host",
        reason="backend='host' was said" if backend == "host" else "a method of an estimator",
        name=told,
        heads={"value": method},
        default="value",
        columns="value",
        feature_names=_feature_names(owner),
        takes_nan=takes_nan(owner),
    )


def estimator(f: Any, params: Any, backend: str, method: str | None = None) -> Source:
    """A fitted estimator: its predict_proba, decision_function and predict by `output=`; method:
    that one alone.
    """
    name = type(f).__name__
    if params is not None:
        raise InputError(f"params= goes with JAX functions; {name} holds its own. Leave it out.")
    if is_own(f, "BaseSearchCV") and not f.refit:
        raise InputError(
            f"f= must be a search that keeps its best estimator, and {name} was made with "
            f"refit={f.refit!r}. Say refit=True, or fit an estimator with the search's "
            f"best_params_ and pass that."
        )
    if not callable(getattr(f, "predict", None)):
        raise InputTypeError(
            f"f= must have a predict method; {name} has none. Pass a classifier, a regressor or a "
            f"Pipeline that ends in one."
        )
    _check_fitted(f, name)
    classes = _classes(f, name)
    looks = classes is not None or callable(getattr(f, "predict_proba", None))
    classifier = _is_kind(f, "is_classifier", looks)
    boosters = booster_heads(f)
    heads = boosters or _heads(f, classifier, _is_kind(f, "is_regressor", not classifier))
    if method is not None:
        heads = {word: head for word, head in heads.items() if METHODS[word] == method}
    decided = f.predict if classifier else None
    heads = {word: _as_trained(f, head) for word, head in heads.items()}
    decided = decided and _as_trained(f, decided)
    if classes is not None:
        heads = {word: _of_classes(f, name, classes, head) for word, head in heads.items()}
        decided = decided and _of_classes(f, name, classes, decided)
    default = _default(heads, classifier, name)
    if method is not None or boosters is not None:
        default = next(iter(heads))
    reason = "backend='host' was said" if backend == "host" else ""
    if backend != "host" and classifier and default == "decision" and method is None:
        reason = "without predict_proba the decision is explained"
    columns = "proba" if "proba" in heads else default
    if columns == "decision" and classes is not None and len(classes) == 2:
        heads["columns"], columns = _both_classes(heads["decision"], name), "columns"
    return Source(
        backend="host",
        reason=reason,
        name=name,
        heads=heads,
        default=default,
        columns=columns,
        decide=decided,
        classes=classes,
        feature_names=_feature_names(f),
        takes_nan=takes_nan(f),
        estimator=f,
        method=method,
    )


def told(f: Any) -> str:
    """The estimator's name, with the last step of a Pipeline and what a search chose."""
    inner = f.steps[-1][1] if is_own(f, "Pipeline") else chosen(f)
    return type(f).__name__ if inner is f else f"{type(f).__name__} of {told(inner)}"


def _check_fitted(f: Any, name: str) -> None:
    # Only scikit-learn's own classes keep its naming rule for fitted attributes.
    if not of_sklearn(type(f)):
        return
    from sklearn.exceptions import NotFittedError  # noqa: PLC0415
    from sklearn.utils.validation import check_is_fitted  # noqa: PLC0415

    try:
        check_is_fitted(f)
    except NotFittedError as exc:
        raise InputError(
            f"f= must be fitted; {name} is not. Call its fit(X, y) before as_model."
        ) from exc
    check_version(f, name)


def _is_kind(f: Any, test: str, otherwise: bool) -> bool:
    """scikit-learn's is_classifier or is_regressor; `otherwise` for what only looks like one."""
    base = sys.modules.get("sklearn.base")
    if base is not None and isinstance(f, base.BaseEstimator):
        return bool(getattr(base, test)(f))
    return otherwise


def _classes(f: Any, name: str) -> tuple[Any, ...] | None:
    found = getattr(f, "classes_", None)
    if found is None:
        return None
    if isinstance(found, list) and any(isinstance(item, np.ndarray) for item in found):
        raise InputError(
            f"f= must predict one target; {name} predicts {len(found)}. Explain one at a time: "
            f"f.estimators_[i], or a function that returns its column, with backend='host'."
        )
    return tuple(np.asarray(found).tolist())


def _of_classes(
    f: Any, name: str, classes: tuple[Any, ...], head: Callable[..., Any]
) -> Callable[[Any], Any]:
    """One of f's methods, refused once f knows other classes: columns would be those of others."""

    def asked(rows: Any) -> Any:
        now = _classes(f, name)
        if repr(now) != repr(classes):  # by their text: a NaN among them equals itself
            raise InputError(
                f"{name} has changed since it was wrapped: its classes were {list(classes)}, and "
                f"are {None if now is None else list(now)} now. Wrap it again with as_model."
            )
        return head(rows)

    return asked


def _heads(f: Any, classifier: bool, regressor: bool) -> dict[str, Callable[..., Any]]:
    heads: dict[str, Callable[..., Any]] = {}
    # Which of the two exist may depend on the fit, so attributes are asked, not classes.
    for word, method in (("proba", "predict_proba"), ("decision", "decision_function")):
        if callable(getattr(f, method, None)):
            heads[word] = getattr(f, method)
    if classifier and "decision" not in heads and (margin := margin_of(f)) is not None:
        heads["decision"] = margin
    if not regressor:
        heads["label"] = f.predict
    if not classifier:
        heads["value"] = f.predict
    return heads


def _as_trained(f: Any, head: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a network of skorch, or of a Pipeline that ends in one, with floats as its module
    has them: PyTorch multiplies no other. They are copied, since it knows no read-only memory.
    """
    found = chosen(f)
    net = found.steps[-1][1] if is_own(found, "Pipeline") else found
    if library_of(net, ("skorch",)) is None:
        return head

    def asked(rows: Any) -> Any:
        if isinstance(rows, np.ndarray) and rows.dtype.kind == "f":
            own = next((str(one.dtype) for one in net.module_.parameters()), "float32")
            rows = rows.astype(own.removeprefix("torch."))
        return head(rows)

    return asked


def _default(heads: dict[str, Callable[..., Any]], classifier: bool, name: str) -> str:
    if not classifier:
        return "value"
    if "proba" not in heads and "decision" not in heads:
        return "label"
    return "proba" if "proba" in heads else "decision"


def _both_classes(decision: Callable[..., Any], name: str) -> Callable[[Any], np.ndarray]:
    """A binary decision [R], which is positive for the second class, as a column per class."""

    def columns(rows: Any) -> np.ndarray:
        values = check_raw(decision(rows), len(rows), name)
        return np.stack([-values, values], axis=1)

    return columns


def _feature_names(f: Any) -> tuple[str, ...] | None:
    names = getattr(f, "feature_names_in_", None)
    if not isinstance(names, (np.ndarray, list, tuple)):  # of other libraries it may be anything
        return None
    return tuple(str(name) for name in names)
