"""T6: scikit-learn Pipelines on the host, on a frame of mixed types."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import xaijax
from bench.frame import (
    LEAST,
    Agreement,
    Case,
    Contender,
    Duel,
    Figure,
    Results,
    Several,
    Size,
    Timings,
    ratio,
)
from bench.models import adult_table
from bench.peers import shap_exact

if TYPE_CHECKING:
    from pandas import DataFrame

OURS = "xaijax"


def setup(size: Size) -> Several:
    """Measures Pipelines of scikit-learn on the host, a logistic model and a forest, on Adult's 13
    raw columns with 100 background rows, against shap's ExactExplainer, and the share of time
    outside the model.

    Fit both models on Adult's raw columns and set up their duels.
    """
    instances, background, trained = (2, 3, 500) if size == "smoke" else (50, 100, 10_000)
    X, y = adult_table("qii")
    if size == "smoke":
        X = X.iloc[:, [0, 1, 3, 7, 8, 9]]
    forest = RandomForestClassifier(n_estimators=50, max_depth=10, random_state=0)
    heads = {"logistic": LogisticRegression(max_iter=1_000), "forest": forest}
    duels = {}
    for name, head in heads.items():
        model = _pipeline(X, head).fit(X.iloc[:trained], y.iloc[:trained].astype(int))
        held = X.iloc[trained : trained + instances].reset_index(drop=True)
        duels[name] = _duel(model, held, X.iloc[:background].reset_index(drop=True), size)
    return Several(duels)


def _pipeline(X: DataFrame, head: Any) -> Pipeline:
    texts = X.select_dtypes(exclude="number").columns.tolist()
    numbers = X.select_dtypes(include="number").columns.tolist()
    columns = ColumnTransformer(
        [
            ("texts", OneHotEncoder(handle_unknown="ignore"), texts),
            ("numbers", StandardScaler(), numbers),
        ]
    )
    return make_pipeline(columns, head)


def _duel(model: Pipeline, X: DataFrame, background: DataFrame, size: Size) -> Duel:
    watch = Stopwatch(model)
    wrapped = xaijax.as_model(model, backend="host", output=1)
    explainer = xaijax.Explainer(wrapped, background, estimator="exact")
    outputs = model.predict_proba(X)[:, 1]

    def check(results: Results) -> list[Agreement]:
        ours, theirs = results[OURS], results[shap_exact.NAME]
        total = ours.base_values + ours.values.sum(axis=1)
        pairs = {
            "base + values and f(x)": (total, outputs),
            f"values and {shap_exact.NAME}'s": (ours.values[: len(theirs)], theirs),
        }
        reason = "probabilities and sums in float64 on both sides"
        return [
            Agreement(between, float(np.abs(left - right).max()), 1e-9, reason)
            for between, (left, right) in pairs.items()
        ]

    def figures(timings: Timings, results: Results) -> list[Figure]:
        del results
        outside = 100 * min(watch.shares[1:])  # the first call compiles
        won = ratio(timings, shap_exact.NAME, OURS)
        return [
            Figure("shap Exact / ours", won, 8, 20, better="more", unit="x"),
            Figure("share of time outside the model", outside, 20, 5, unit=" %"),
        ]

    def ours(count: int) -> Any:
        return explainer(X.iloc[:count], progress=False)

    units = len(X)
    return Duel(
        contenders=[
            Contender(OURS, watch.around(ours), units),
            Contender(shap_exact.NAME, _shap(model, X, background), units, LEAST[size]),
        ],
        check=check,
        figures=figures,
        rounds=3 if size == "full" else 1,
    )


class Stopwatch:
    """Stands between the library and a fitted model, and adds up the time inside it."""

    def __init__(self, model: Any) -> None:
        self._predict_proba, self.spent = model.predict_proba, 0.0
        self.shares: list[float] = []  # of each whole run, the share of time outside the model
        model.predict_proba = self.predict_proba

    def predict_proba(self, rows: DataFrame) -> np.ndarray:
        """The model's own, timed."""
        started = time.perf_counter()
        answer = self._predict_proba(rows)
        self.spent += time.perf_counter() - started
        return answer

    def around(self, run: Callable[[int], Any]) -> Callable[[int], Any]:
        """The same run; its share is noted."""

        def timed(count: int) -> Any:
            self.spent, started = 0.0, time.perf_counter()
            result = run(count)
            self.shares.append(1 - self.spent / (time.perf_counter() - started))
            return result

        return timed


def _shap(model: Pipeline, X: DataFrame, background: DataFrame) -> Callable[[int], np.ndarray]:
    """shap on codes [N, P] of the texts and the numbers as they are, decoded for the model."""
    both = {name: np.concatenate([X[name], background[name]]) for name in X.columns}
    texts = X.select_dtypes(exclude="number").columns
    known = {name: np.unique(both[name]) for name in texts}

    def encode(frame: DataFrame) -> np.ndarray:
        columns = [
            np.searchsorted(known[name], frame[name]) if name in known else frame[name]
            for name in frame.columns
        ]
        return np.stack(columns, axis=1).astype(float)

    dtypes = X.dtypes.to_dict()

    def positive(rows: np.ndarray) -> np.ndarray:
        columns = {
            name: known[name][rows[:, at].astype(int)] if name in known else rows[:, at]
            for at, name in enumerate(X.columns)
        }
        return model.predict_proba(type(X)(columns).astype(dtypes))[:, 1]

    explain = shap_exact.explainer(positive, encode(background), X.shape[1])
    codes = encode(X)
    return lambda count: explain(codes[:count])


CASES = (Case("T6", setup),)
