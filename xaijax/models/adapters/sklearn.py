"""scikit-learn estimators and Pipelines, what looks like them, and boosters without scikit-learn,
as the host runs them.

`translations/in_jax.py` makes the JAX model of those that have a translation.

Letters: F columns of the rows.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import numpy as np

from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError, InputTypeError
from xaijax.models.base.outputs import check_raw
from xaijax.models.base.source import DECIDED, ModelSource
from xaijax.models.identity.patched import check_version, chosen, is_own, of_sklearn

# What each word of `output=` asks, and methods that answer and have no word.
METHODS = {
    "proba": "predict_proba",
    "decision": "decision_function",
    "label": "predict",
    "value": "predict",
}
_OTHERS = ("score_samples", "transform", "predict_log_proba")
BOOSTED = ("xgboost", "lightgbm", "catboost")
_ON_HOST = (*BOOSTED, "statsmodels")
# The kinds of scikit-learn whose predict answers with codes: of clusters, or of in and out.
CODES = ("clusterer", "outlier_detector", "density_estimator")


def _is_sklearn(f: Any) -> bool:
    base = sys.modules.get("sklearn.base")
    return base is not None and isinstance(f, base.BaseEstimator)


def is_estimator(f: Any) -> bool:
    """Whether f is a scikit-learn estimator, or no callable but an object with `predict`."""
    looks = not callable(f) and callable(getattr(f, "predict", None))
    return looks or _is_sklearn(f)


def owner_of(method: Any) -> Any:
    """The estimator that answers by this bound method; None: it is a method of none.

    An object that only looks like an estimator counts if it has `fit`, or comes from a library
    whose models JAX cannot trace: a method of anything else may be a JAX function.
    """
    owner = getattr(method, "__self__", None)
    if not inspect.ismethod(method) or method.__name__ not in (*METHODS.values(), *_OTHERS):
        return None
    if _is_sklearn(owner):
        return owner
    known = callable(getattr(owner, "fit", None)) or library_of(owner, _ON_HOST)
    return owner if known and is_estimator(owner) else None


def estimator_method(method: Any, owner: Any, params: Any, backend: str) -> ModelSource:
    """A bound method of a fitted estimator: the estimator with that answer, in JAX where it has a
    translation; what `output=` has no word for is called on the host.
    """
    name = method.__name__
    if name in METHODS.values() and getattr(owner, name) == method:
        return estimator(owner, params, backend, name)
    shown = f"{type(owner).__name__}.{name}"
    if params is not None:
        raise InputError(f"params= goes with JAX functions; {shown} holds its own. Leave it out.")
    if backend == "jax":
        raise InputError(f"backend='jax' is not available for {shown}. Leave backend= out.")
    _check_fitted(owner, type(owner).__name__)
    reason = "backend='host' was said" if backend == "host" else "a method of an estimator"
    facts: dict[str, Any] = {"feature_names": _feature_names(owner), "takes_nan": takes_nan(owner)}
    return ModelSource("host", reason, shown, {"value": method}, "value", "value", **facts)


def estimator(f: Any, params: Any, backend: str, method: str | None = None) -> ModelSource:
    """A fitted estimator: its predict_proba, decision_function and predict by `output=`; method:
    that one alone.
    """
    name = type(f).__name__
    if params is not None:
        raise InputError(f"params= goes with JAX functions; {name} holds its own. Leave it out.")
    if is_own(f, "BaseSearchCV") and not f.refit:
        raise InputError(
            f"f= must be a search that keeps its best estimator; {name} has refit={f.refit!r}. Say "
            "refit=True, or fit an estimator with the search's best_params_ and pass that."
        )
    predicts = callable(getattr(f, "predict", None))
    # A density scores rows, and neither predicts nor transforms.
    density = callable(getattr(f, "score_samples", None)) and not hasattr(f, "transform")
    if not predicts and not density:
        raise InputTypeError(
            f"f= must have a predict method; {name} has none. Pass a classifier or a regressor."
        )
    _check_fitted(f, name)
    kind = _kind(f)
    classes = _classes(f, kind)
    boosters = booster_heads(f)
    if boosters is not None and (method is not None or "proba" not in boosters):
        classes = None  # its predict answers with margins, or with codes
        boosters = {word: head for word, head in boosters.items() if word != "proba"}
        if "value" in boosters:
            boosters.pop("label", None)
    heads = boosters or _heads(f, kind)
    looks = kind is None and (classes is not None or "proba" in heads)
    decides = predicts and (looks or kind in ("classifier", *CODES))
    decided = heads.get("label", f.predict) if decides else None
    if decided is not None and (not looks or method is not None):
        del heads["value"]  # a class, or the number of a cluster, is no amount
    several = _targets_of(f, kind) is not None or _is_multilabel(f)
    if several:
        del heads["label"]
    if method is not None:
        heads = {word: head for word, head in heads.items() if METHODS.get(word) == method}
        if not heads:
            _refused(name)()
    heads = {word: _as_trained(f, head) for word, head in heads.items()}
    decided = decided and _as_trained(f, decided)
    if classes is not None:
        heads = {word: _of_classes(f, name, classes, head) for word, head in heads.items()}
        decided = decided and _of_classes(f, name, classes, decided)
    default = _default(heads, kind, decided is not None)
    if method is not None or boosters is not None:
        default = next(iter(heads))
    reason = "backend='host' was said" if backend == "host" else ""
    if backend != "host" and kind == "classifier" and default == "decision" and method is None:
        reason = "without predict_proba the decision is explained"
    scored = "decision" in heads and kind in (None, "classifier", *CODES)
    columns = "proba" if "proba" in heads else "decision" if scored else "value"
    if decided is not None and columns == "value":
        columns = DECIDED
    if several and decided is not None:
        if columns == DECIDED:
            heads[DECIDED] = _of_targets(f, decided)
        decided = _refused(name)
    if columns == "decision" and classes is not None and len(classes) == 2 and not several:
        heads["columns"], columns = _both_classes(heads["decision"], name), "columns"
    return ModelSource(
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
        several=several,
        method=method,
    )


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


def _kind(f: Any) -> str | None:
    """Kind of estimator by scikit-learn's tags, such as "classifier"; None: unknown."""
    if _is_sklearn(f):
        from sklearn.utils import get_tags  # noqa: PLC0415

        return get_tags(f).estimator_type
    kind = getattr(f, "_estimator_type", None)
    return kind if isinstance(kind, str) else None


def _last(f: Any) -> Any:
    """The last step of scikit-learn's Pipeline; anything else as it is."""
    while is_own(f, "Pipeline"):
        f = f.steps[-1][1]
    return f


def _classes(f: Any, kind: str | None) -> tuple[Any, ...] | None:
    """The labels that predict returns, in the order of the columns; None: they are not known.

    With several targets each column has a text "target: class".
    """
    if kind == "outlier_detector":
        return -1, 1
    if kind == "clusterer":
        return _clusters(_last(f))
    targets = _targets_of(f, kind)
    if targets is not None:
        return tuple(f"{t}: {label}" for t, labels in enumerate(targets) for label in labels)
    classes = _found_classes(f, kind)
    plain = isinstance(classes, list | tuple) and not any(np.ndim(item) for item in classes)
    flat = plain or getattr(classes, "ndim", 0) == 1
    return tuple(np.asarray(classes).tolist()) or None if flat else None


def _found_classes(f: Any, kind: str | None) -> Any:
    # CatBoost's regressors have classes_ too, an empty array.
    return getattr(f, "classes_", None) if kind in (None, "classifier") else None


def _clusters(f: Any) -> tuple[Any, ...] | None:
    labels = getattr(f, "labels_", None)
    if labels is None:
        return None
    # MiniBatchKMeans may have empty clusters.
    centres = np.arange(len(getattr(f, "cluster_centers_", ())))
    return tuple(np.union1d(centres, np.asarray(labels)).tolist())


def _targets_of(f: Any, kind: str | None) -> list[list[Any]] | None:
    """The labels of each of several targets that have a column; None: there is one target."""
    classes = _found_classes(f, kind)
    if not isinstance(classes, list) or not any(isinstance(item, np.ndarray) for item in classes):
        return None
    targets = [np.asarray(labels).tolist() for labels in classes]
    order = getattr(_last(f), "order_", None)
    if order is None:
        return targets
    # ClassifierChain: in the order of the chain, and the columns are of the second class each.
    return [targets[list(order).index(t)][1:2] for t in range(len(targets))]


def _is_multilabel(f: Any) -> bool:
    """Whether predict says of each label by itself whether it is on, [R, K]."""
    last = _last(f)
    read = getattr(getattr(last, "_label_binarizer", None), "y_type_", "")
    return bool(getattr(last, "multilabel_", False)) or str(read).startswith("multilabel")


def _of_targets(f: Any, decided: Callable[..., Any]) -> Callable[[Any], np.ndarray]:
    """1 where the class of a target is predicted, else 0, a column for each."""

    def columns(rows: Any) -> np.ndarray:
        answer = np.asarray(decided(rows))
        targets = _targets_of(f, _kind(f))
        assert targets is not None  # a multilabel estimator has a score
        made = [answer[:, t] == label for t, labels in enumerate(targets) for label in labels]
        return np.stack(made, axis=1).astype(np.float64)

    return columns


def _side_by_side(head: Callable[..., Any]) -> Callable[[Any], Any]:
    """The answers for several targets, which scikit-learn gives as a list, in one array."""

    def joined(rows: Any) -> Any:
        answer = head(rows)
        return np.concatenate(answer, axis=1) if isinstance(answer, list) else answer

    return joined


def _refused(name: str) -> Callable[..., Any]:
    """Returns a stand-in for `predict` of several targets that raises if one class a row is
    wanted.
    """

    def decide(*_: Any) -> Any:
        raise InputError(
            f"{name} predicts several targets, and one class for each row is needed. Take one: "
            f"as_model(lambda X: f.predict(X)[:, 0], backend='host', output='label')."
        )

    return decide


def _of_classes(
    f: Any, name: str, classes: tuple[Any, ...], head: Callable[..., Any]
) -> Callable[[Any], Any]:
    """One of f's methods, refused once f knows other classes: columns would be those of others."""

    def checked(rows: Any) -> Any:
        now = _classes(f, _kind(f))
        if repr(now) != repr(classes):  # by their text: a NaN among them equals itself
            raise InputError(
                f"{name} has changed since it was wrapped: its classes were {list(classes)}, and "
                f"are {None if now is None else list(now)} now. Wrap it again with as_model."
            )
        return head(rows)

    return checked


def _heads(f: Any, kind: str | None) -> dict[str, Callable[..., Any]]:
    heads: dict[str, Callable[..., Any]] = {}
    several = _targets_of(f, kind) is not None
    # Which of them exist may depend on the fit, so attributes are asked, not classes.
    for word, method in (
        ("proba", "predict_proba"),
        ("decision", "decision_function"),
        ("decision", "score_samples"),
    ):
        answer = getattr(f, method, None)
        fits = method != "score_samples" or kind in (None, *CODES)
        if word not in heads and callable(answer) and fits:
            heads[word] = _side_by_side(answer) if several else answer
    if "decision" not in heads and (margin := margin_of(f)) is not None:
        heads["decision"] = margin
    if is_own(_last(f), "IsolationForest"):
        heads["path-length"] = _path_lengths(f)
    if is_own(_last(f), "KernelDensity"):
        heads["density"] = lambda rows: np.exp(f.score_samples(rows))
    if callable(getattr(f, "predict", None)):
        heads["value"] = f.predict
        if kind in (None, "classifier", *CODES):
            heads["label"] = f.predict
    return heads


def _path_lengths(f: Any) -> Callable[..., Any]:
    """The mean over trees of a row's path, with what a leaf of several rows stands for."""
    n = int(_last(f).max_samples_)
    if n < 2:
        return _refused_lengths
    whole = 1.0 if n == 2 else 2 * (np.log(n - 1) + np.euler_gamma) - 2 * (n - 1) / n
    return lambda rows: -np.log2(-f.score_samples(rows)) * whole


def _refused_lengths(_: Any) -> Any:
    raise InputError("output='path-length' needs trees of two rows or more; set max_samples=.")


def _as_trained(f: Any, head: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a network of skorch, or of a Pipeline that ends in one, with floats as its module
    has them: PyTorch multiplies no other. They are copied, since it knows no read-only memory.
    """
    estimator = chosen(f)
    net = estimator.steps[-1][1] if is_own(estimator, "Pipeline") else estimator
    if library_of(net, ("skorch",)) is None:
        return head

    def as_trained(rows: Any) -> Any:
        if isinstance(rows, np.ndarray) and rows.dtype.kind == "f":
            dtype = next((str(weight.dtype) for weight in net.module_.parameters()), "float32")
            rows = rows.astype(dtype.removeprefix("torch."))
        return head(rows)

    return as_trained


def _default(heads: dict[str, Callable[..., Any]], kind: str | None, decides: bool) -> str | None:
    """The word of output=None; None: one must be said."""
    if kind not in (None, "classifier", *CODES):
        return "value"
    for word in ("proba", "decision"):
        if word in heads:
            return word
    if not decides:
        return "value"
    return "label" if "label" in heads and kind not in CODES else None


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


# Meta-estimators that hand rows on as they are, by the attribute that holds what they fitted.
_HANDED_ON = {
    "estimators_": (
        *("VotingClassifier", "VotingRegressor", "StackingClassifier", "StackingRegressor"),
        *("BaggingClassifier", "BaggingRegressor", "MultiOutputClassifier", "MultiOutputRegressor"),
        *("OneVsRestClassifier", "OneVsOneClassifier", "OutputCodeClassifier"),
    ),
    "calibrated_classifiers_": ("CalibratedClassifierCV",),
    "estimator_": (
        *("TunedThresholdClassifierCV", "FixedThresholdClassifier", "SelfTrainingClassifier"),
    ),
    "estimator": ("FrozenEstimator", "_CalibratedClassifier"),
    "regressor_": ("TransformedTargetRegressor",),
}
_YES = np.ones(1, bool)
# Transformers that take NaN and make no NaN of it.
_FILL = ("SimpleImputer", "KNNImputer", "IterativeImputer", "MissingIndicator", "OneHotEncoder")


def takes_nan(estimator: Any) -> bool | NanColumns:
    """Whether NaN may be in its rows, or in which columns of them: by scikit-learn's tags, step by
    step in a Pipeline and transformer by transformer in a ColumnTransformer, and for boosted trees
    of other libraries by their settings.
    """
    takes = _reads(estimator)[0]
    if takes.all() or not takes.any():
        return bool(takes.all())
    return NanColumns(tuple(takes.tolist()))


def _reads(estimator: Any) -> tuple[np.ndarray, np.ndarray]:
    """(whether it takes NaN, whether NaN may be in what it makes of such rows), each bool [F] by
    column of its rows, or [1] for all of them.
    """
    estimator = chosen(estimator)
    if estimator is None or isinstance(estimator, str):  # "passthrough" or "drop"
        return _YES, np.array([estimator != "drop"])
    if is_own(estimator, "FunctionTransformer") and estimator.func is None:  # passes rows on
        return np.array([not estimator.validate]), _YES
    if is_own(estimator, "Pipeline"):
        takes, makes = _YES, _YES
        for place, (_, step) in enumerate(estimator.steps):
            first, left = _reads(step)
            if place:  # its columns are not those of the rows
                first, left = first.all(keepdims=True), left.any(keepdims=True)
            takes, makes = takes & (first | ~makes), makes & left
        return takes, makes
    if is_own(estimator, "ColumnTransformer") and hasattr(estimator, "transformers_"):
        return _by_column(estimator)
    if is_own(estimator, "FeatureUnion"):
        read = [_reads(step) for _, step in estimator.transformer_list if step != "drop"]
        takes = reduce(np.logical_and, [first for first, _ in read], _YES)
        return takes, reduce(np.logical_or, [left for _, left in read], ~_YES)
    for attribute, names in _HANDED_ON.items():
        if is_own(estimator, *names) and hasattr(estimator, attribute):
            held = getattr(estimator, attribute)
            inner = list(held) if isinstance(held, (list, tuple)) else [held]
            takes = [_reads(part)[0] for part in inner]
            if getattr(estimator, "passthrough", False):  # a stack whose last one sees the rows
                takes.append(_reads(estimator.final_estimator_)[0].all(keepdims=True))
            if is_own(estimator, "BaseBagging"):  # each has columns of its own
                takes = [by_column.all(keepdims=True) for by_column in takes]
            return reduce(np.logical_and, takes, _YES), _YES
    boosted = library_of(estimator, BOOSTED)
    if boosted is not None:
        return np.array([_boosted_takes(estimator)]), _YES
    return np.array([_tagged(estimator)]), np.array([not is_own(estimator, *_FILL)])


def _by_column(estimator: Any) -> tuple[np.ndarray, np.ndarray]:
    """The same for a fitted ColumnTransformer. Columns that none of its transformers reads may hold
    NaN, and make none.
    """
    takes, makes = np.ones(estimator.n_features_in_, bool), np.zeros(estimator.n_features_in_, bool)
    for name, step, _ in estimator.transformers_:
        columns = estimator._transformer_to_input_indices[name]
        first, left = _reads(step)
        np.logical_and.at(takes, columns, first)
        np.logical_or.at(makes, columns, left)
    return takes, makes


def _tagged(estimator: Any) -> bool:
    try:
        return bool(estimator.__sklearn_tags__().input_tags.allow_nan)
    except Exception:  # without tags, or with some of its own, nothing is said of NaN
        return False


def _boosted_takes(estimator: Any) -> bool:
    """NaN is a missing value there, unless another number is, or NaN was forbidden."""
    other = getattr(estimator, "missing", None)
    if isinstance(other, (int, float)) and other == other:
        return False
    if not hasattr(estimator, "get_params"):
        return True
    settings: dict[str, Any] = estimator.get_params()
    return settings.get("nan_mode") != "Forbidden"


# Boosted trees of XGBoost, LightGBM and CatBoost: margins, and boosters without scikit-learn.

Head = Callable[[Any], Any]
# Losses of CatBoost's classifiers: of one class for each row, and of several labels.
_OF_CLASSES = ("Logloss", "CrossEntropy", "Focal", "MultiClass", "MultiClassOneVsAll")
# Keywords that make the `predict` of a library answer with margins, before any link.
_MARGIN: dict[str, dict[str, Any]] = {
    "xgboost": {"output_margin": True},
    "lightgbm": {"raw_score": True},
    "catboost": {"prediction_type": "RawFormulaVal"},
}


def library_of(thing: Any, libraries: Iterable[str]) -> str | None:
    """The first of these libraries that a class of the object comes from; None: none of them."""
    roots = [base.__module__.partition(".")[0] for base in type(thing).__mro__]
    return next((root for root in roots if root in libraries), None)


def margin_of(classifier: Any) -> Head | None:
    """rows -> margins of a boosted classifier, or of a Pipeline that ends in one, or of a search
    for either; None: it has none.
    """
    estimator = chosen(classifier)
    last = estimator.steps[-1][1] if is_own(estimator, "Pipeline") else estimator
    library = library_of(last, BOOSTED)
    if library is None:
        return None
    return lambda rows: chosen(classifier).predict(rows, **_MARGIN[library])


def booster_heads(booster: Any) -> dict[str, Head] | None:
    """The answers of a booster by the words of `output=`, the default first; None: f is none.

    Those of XGBoost take no arrays but what is made of them here. The class `CatBoost` itself is
    one: its `predict` answers with margins, whatever its loss.
    """
    if library_of(booster, ("catboost",)) is not None and type(booster).__name__ == "CatBoost":
        return _catboost_heads(booster)
    library = library_of(booster, ("xgboost", "lightgbm"))
    if library is None or type(booster).__name__ != "Booster":
        return None

    def predict(rows: Any, **options: Any) -> Any:
        matrix = rows if library == "lightgbm" else _matrix(booster, rows)
        return booster.predict(matrix, **options)

    def decision(rows: Any) -> Any:
        return predict(rows, **_MARGIN[library])

    if library == "xgboost":
        learner = json.loads(booster.save_config())["learner"]
        if learner["learner_train_param"]["objective"] == "multi:softmax":  # answers with codes
            return {"decision": decision, "label": predict}
    return {"value": predict, "decision": decision}


def _catboost_heads(booster: Any) -> dict[str, Head]:
    settings = booster.get_params() if hasattr(booster, "get_params") else {}
    if hasattr(booster, "get_all_params"):  # those of a model that was read from a file, too
        settings = {**settings, **booster.get_all_params()}
    loss = str(settings.get("loss_function", "")).partition(":")[0]

    def head(kind: str) -> Head:
        return lambda rows: booster.predict(rows, prediction_type=kind)

    margins = {"value": booster.predict, "decision": head("RawFormulaVal")}
    if loss in _OF_CLASSES:
        labels = head("Class")
        of_classes = {"label": lambda rows: np.ravel(labels(rows))}
        return {"proba": head("Probability")} | margins | of_classes
    return margins


def _matrix(booster: Any, rows: Any) -> Any:
    make = sys.modules["xgboost"].DMatrix
    if hasattr(rows, "columns"):
        return make(rows, enable_categorical=True)
    names, kinds = booster.feature_names, booster.feature_types
    return make(rows, feature_names=names, feature_types=kinds, enable_categorical=True)
