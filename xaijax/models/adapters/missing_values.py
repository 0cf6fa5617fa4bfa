"""Whether a fitted estimator takes rows with NaN, as far as it says so itself."""

from __future__ import annotations

from typing import Any

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
# Transformers that take NaN and make no NaN of it.
_FILL = ("SimpleImputer", "KNNImputer", "IterativeImputer", "MissingIndicator", "OneHotEncoder")


def takes_nan(estimator: Any) -> bool:
    """Whether NaN may stand in its rows: by scikit-learn's tags, step by step in a Pipeline, and of
    boosted trees of other libraries unless they were told otherwise.
    """
    return _reads(estimator)[0]


def _reads(estimator: Any) -> tuple[bool, bool]:
    """(whether it takes NaN, whether NaN may stand in what it makes of such rows)."""
    estimator = chosen(estimator)
    if estimator is None or isinstance(estimator, str):  # "passthrough" or "drop"
        return True, True
    if is_own(estimator, "FunctionTransformer") and estimator.func is None:  # passes rows on
        return not estimator.validate, True
    if is_own(estimator, "Pipeline"):
        for _, step in estimator.steps:
            takes, makes = _reads(step)
            if not takes or not makes:
                return takes, False
        return True, True
    if is_own(estimator, "ColumnTransformer", "FeatureUnion"):
        union = is_own(estimator, "FeatureUnion")
        parts = estimator.transformer_list if union else getattr(estimator, "transformers_", ())
        read = [_reads(step) for _, step, *_ in parts if step != "drop"]
        return all(takes for takes, _ in read), any(makes for _, makes in read)
    for attribute, names in _HANDED_ON.items():
        if is_own(estimator, *names) and hasattr(estimator, attribute):
            held = getattr(estimator, attribute)
            inner = list(held) if isinstance(held, (list, tuple)) else [held]
            if getattr(estimator, "passthrough", False):  # a stack whose last one sees the rows
                inner.append(estimator.final_estimator_)
            return all(_reads(one)[0] for one in inner), True
    boosted = library_of(estimator, BOOSTED)
    if boosted is not None:
        return _boosted_takes(estimator), True
    return _tagged(estimator), not is_own(estimator, *_FILL)


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
