"""Registers translations of fitted estimators to JAX functions.

Letters : R rows, F input columns, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public, public_class
from xaijax.models.base.options import check_flag
from xaijax.models.identity.fit_fingerprint import FitFingerprint, once_a_fit
from xaijax.models.identity.patched import ROOT, of_library, of_sklearn
from xaijax.models.translations.columns import Centre, Columns, ColumnSource
from xaijax.tables.table import Untranslatable

Head = Callable[[Any, Any], Any]  # (params, rows [R, F]) -> [R] or [R, K]


@public_class
@dataclass(frozen=True)
class Translation:
    """A fitted estimator written in JAX, returned by a function of `register_translation`.

    Args:
        params: pytree of arrays: an argument of the compiled function, never constants in it.
        heads: {name: function (params, rows [R, F]) in jax.numpy}, one for each method of the
            estimator that JAX can compute. "proba" returns [R, K]; "decision" and "value" return
            [R] or [R, K]. "label", for classifiers, returns [R], the position in `classes_` of the
            class that `predict` decides. A transformer has only "transform". A method that is left
            out stays with the estimator, on the host.
        kind: str. The kind of model ("linear", "trees", "kernel", ...); "function" by default.
        takes_nan: True: rows may hold NaN.
        outputs: for transformers only, else None: the result of `columns.changed()` (one new column
            for each) or of `columns.made(n)`.
        undecided: function of rows [M, F] in JAX's numbers, as NumPy arrays, that returns bool [M],
            or None. True marks rows whose output depends on rounding because of a tie. They are not
            compared with backend="jax"; with backend="auto" the estimator then runs itself.
        tree_scores: for this library. It joins the trees of an ensemble.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> params = {"weights": np.array([1.0, 2.0])}
        >>> found = xj.Translation(params, {"value": lambda p, rows: rows @ p["weights"]})
        >>> found.heads["value"](found.params, np.array([[3.0, 4.0]]))
        array([11.])
    """

    params: Any
    heads: Mapping[str, Head]
    kind: str = "function"
    takes_nan: bool = False
    outputs: Columns | None = field(default=None, repr=False)
    undecided: Callable[[np.ndarray], np.ndarray] | None = None
    tree_scores: Any = field(default=None, repr=False)


Translate = Callable[[Any, Columns], Translation]


@dataclass(frozen=True)
class _Entry:
    translate: Translate
    mixed: bool
    thresholds: bool = False


# Classes of libraries by (library, name), since `import xaijax` must not load them; a user's by
# type.
_BUILT_IN: dict[tuple[str, str], _Entry] = {}
_REGISTERED: dict[type, _Entry] = {}


def translates(
    *names: str, mixed: bool = False, thresholds: bool = False, library: str = ROOT
) -> Callable[[Translate], Translate]:
    """Registers the translation of a library's classes of these names; for this library.

    thresholds: the function takes columns with `maps`, because it only tests x <= t.
    """

    def register(function: Translate) -> Translate:
        for name in names:
            assert (library, name) not in _BUILT_IN, name
            _BUILT_IN[library, name] = _Entry(function, mixed, thresholds)
        return function

    return register


@public
def register_translation(
    estimator_type: type, override: bool = False, mixed: bool = False
) -> Callable[[Translate], Translate]:
    """Registers the JAX translation of a class of fitted estimators; a decorator.

    `as_model` of an estimator of the class then runs in JAX, on the devices. It compares the
    translation with the estimator on all rows that are explained. If they differ, the estimator
    itself runs, or with backend="jax" an error is raised. The translation is used for this class
    only, not for subclasses.

    The decorated function takes (estimator, columns) and returns a `Translation`. `columns` are the
    inputs: len(columns) is their number, columns.dtype is the dtype of numbers in JAX, and
    columns.number(x) turns fitted numbers into that dtype.

    Args:
        estimator_type: the class.
        override: True: replace a translation that is already registered.
        mixed: False (the default): all columns are numbers. True: columns may hold text or
            categories. The function must then pass `columns` on to the translation of an inner
            encoder, and not compute with them.

    Returns:
        A decorator, which returns the function unchanged.

    Raises:
        InputError: the class has a translation already, and `override` is False.
        InputTypeError: `estimator_type` is not a class, a flag is neither True nor False, or the
            decorated object is not a function.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> class Scores:  # an estimator: it has n_features_in_ and predict
        ...     n_features_in_ = 2
        ...     coef_ = np.array([1.0, 2.0])
        ...     def predict(self, X):
        ...         return np.asarray(X) @ self.coef_
        >>> @xj.register_translation(Scores)
        ... def scores_in_jax(estimator, columns):
        ...     params = {"weights": columns.number(estimator.coef_)}
        ...     return xj.Translation(params, {"value": lambda p, rows: rows @ p["weights"]})
        >>> model = xj.as_model(Scores())
        >>> model.predict(np.array([[3.0, 4.0]])), model.backend
        (array([11.]), 'jax')
    """
    if not isinstance(estimator_type, type):
        raise InputTypeError(
            f"estimator_type must be a class; got {type(estimator_type).__name__}. Pass type(it)."
        )
    replaces = check_flag("override", override)
    if _entry(estimator_type) is not None and not replaces:
        raise InputError(
            f"estimator_type: {estimator_type.__name__} has a translation already. Say "
            "override=True."
        )
    check_flag("mixed", mixed)

    def register(function: Translate) -> Translate:
        if not callable(function):
            raise InputTypeError(
                f"register_translation takes a function (estimator, columns), got {function!r}."
            )
        _REGISTERED[estimator_type] = _Entry(function, mixed)
        return function

    return register


def _entry(kind: type) -> _Entry | None:
    entry = _REGISTERED.get(kind)
    if entry is None and (library := of_library(kind)) is not None:
        return _BUILT_IN.get((library, kind.__name__))
    return entry


def asks_thresholds(estimator: Any) -> bool:
    """Whether its translation only compares its columns with thresholds."""
    entry = _entry(type(estimator))
    return entry is not None and entry.thresholds


def translation(estimator: Any, columns: Columns) -> Translation:
    """The translation of a fitted estimator, or of one of its steps.

    Raises Untranslatable, with the reason.
    """
    name = type(estimator).__name__
    entry = _entry(type(estimator))
    if entry is None:
        kind = type(estimator)
        if kind.__module__.startswith("sklearn.") and not of_sklearn(kind):
            raise Untranslatable(f"{name} is not the class that scikit-learn has by this name")
        raise Untranslatable(f"no JAX translation registered for {name}")
    if not entry.mixed:
        columns.as_values()
        columns.as_they_are()
    try:
        translated = entry.translate(estimator, columns)
    except AttributeError as error:  # another version of scikit-learn has another name for it
        raise Untranslatable(f"{name} lacks what its translation reads ({error})") from error
    if not isinstance(translated, Translation):
        raise InputTypeError(
            f"the translation of {name} must return a xaijax.Translation, got "
            f"{type(translated).__name__}."
        )
    if not translated.takes_nan:
        columns.must_be_filled()
    return translated


def _width(estimator: Any) -> Any:
    """The number of columns that it was fitted on; None: unknown."""
    count = getattr(estimator, "n_features_in_", None)
    for name in ("num_features", "num_feature"):  # of a booster of XGBoost, of LightGBM
        method = getattr(estimator, name, None)
        if count is None and of_library(type(estimator)) is not None and callable(method):
            count = method()
    return count


def translated(
    estimator: Any,
    fit: FitFingerprint,
    names: tuple[str, ...] | None,
    dtype: Any,
    centre: Centre | None = None,
) -> tuple[Translation, tuple[ColumnSource, ...]]:
    """(the translation of a whole model, the sources of its columns); raises Untranslatable.

    fit: the state in which it is translated, once.
    """
    # A user's translation of a class of scikit-learn may hold the estimator, or read other things.
    if centre is None and not any(map(of_sklearn, _REGISTERED)):
        use = "translated", names, np.dtype(dtype)
        return once_a_fit(estimator, fit, use, lambda: _translated(estimator, names, dtype, None))
    return _translated(estimator, names, dtype, centre)


def _translated(
    estimator: Any, names: tuple[str, ...] | None, dtype: Any, centre: Centre | None
) -> tuple[Translation, tuple[ColumnSource, ...]]:
    count = _width(estimator)
    if not isinstance(count, (int, np.integer)):
        raise Untranslatable("it does not say how many columns it was fitted on")
    names = names if names is not None and len(names) == count else None
    sources = tuple(
        ColumnSource(j, repr(names[j]) if names is not None else str(j)) for j in range(int(count))
    )
    return translation(estimator, Columns(sources, np.dtype(dtype), centre=centre)), sources


def two(positive: Any) -> Any:
    """The probability of the second class, [R], as a column per class."""
    return jnp.stack([1 - positive, positive], axis=1)


def only(scores: Any) -> Any:
    """The only column [R] of scores [R, 1]; scores [R, K] are returned as they are."""
    return scores[:, 0] if scores.shape[1] == 1 else scores


def logistic(scores: Any) -> Any:
    """Probabilities [R, K] of a binary score [R] by a sigmoid, of several scores [R, K] by a
    softmax."""
    return two(jax.nn.sigmoid(scores)) if scores.ndim == 1 else jax.nn.softmax(scores, axis=1)


def place(scores: Any) -> Any:
    """The decided class: the largest column (ties: the lowest), or whether one score is above 0."""
    return (scores > 0).astype("int32") if scores.ndim == 1 else scores.argmax(axis=1)


def then(head: Head, function: Callable[[Any], Any]) -> Head:
    """A head that returns `function` of another head's outputs."""
    return lambda params, rows: function(head(params, rows))
