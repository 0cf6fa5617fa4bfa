"""Boosted trees of XGBoost, LightGBM and CatBoost: margins, and boosters without scikit-learn."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from xaijax.models.identity.patched import chosen, is_own

Head = Callable[[Any], Any]
BOOSTED = ("xgboost", "lightgbm", "catboost")
# Losses of CatBoost's classifiers: of one class for each row, and of several labels.
_OF_CLASSES = ("Logloss", "CrossEntropy", "Focal", "MultiClass", "MultiClassOneVsAll")
_OF_LABELS = ("MultiLogloss", "MultiCrossEntropy")
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
    one where its loss is that of a classifier: its `predict` answers with margins.
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


def _catboost_heads(booster: Any) -> dict[str, Head] | None:
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
    return margins if loss in _OF_LABELS else None


def _matrix(booster: Any, rows: Any) -> Any:
    make = sys.modules["xgboost"].DMatrix
    if hasattr(rows, "columns"):
        return make(rows, enable_categorical=True)
    names, kinds = booster.feature_names, booster.feature_types
    return make(rows, feature_names=names, feature_types=kinds, enable_categorical=True)
