"""Whether a fitted estimator takes rows with NaN, as far as it says so itself.

Letters: F columns of the rows.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from xaijax.core.checks import NanColumns
from xaijax.models.adapters.boosted import BOOSTED, library_of
from xaijax.models.identity.patched import chosen, is_own

# Meta-estimators that hand rows on as they are, by the attribute that holds what they fitted.
_HANDED_ON = {
    "estimators_": (
        "VotingClassifier",
        "VotingRegressor",
        "StackingClassifier",
        "StackingRegressor",
        "BaggingClassifier",
        "BaggingRegressor",
        "MultiOutputClassifier",
        "MultiOutputRegressor",
        "OneVsRestClassifier",
        "OneVsOneClassifier",
        "OutputCodeClassifier",
    ),
    "calibrated_classifiers_": ("CalibratedClassifierCV",),
    "estimator_": (
        "TunedThresholdClassifierCV",
        "FixedThresholdClassifier",
        "SelfTrainingClassifier",
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
            takes = [_reads(one)[0] for one in inner]
            if getattr(estimator, "passthrough", False):  # a stack whose last one sees the rows
                takes.append(_reads(estimator.final_estimator_)[0].all(keepdims=True))
            if is_own(estimator, "BaseBagging"):  # each has columns of its own
                takes = [one.all(keepdims=True) for one in takes]
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
