"""Simulated tables of the AEC paper's shapes: how much do its rates hang on the seed?

The paper tells no seed. A tenth of its rows: 10,000 of a classification, 15,000 of a regression;
16 columns each.

    python docs/reproduction/aec_simulated.py [seeds]      # 20 seeds: one minute
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
from qii_table_2 import spread
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils import resample

import xaijax as xj

NAMES = [f"F{j + 1}" for j in range(16)]
TASKS: dict[str, tuple[Any, Any]] = {  # the notebook's: seed -> rows and target; the model
    "classification": (
        lambda seed: make_classification(
            10_000, 16, n_informative=9, n_redundant=5, random_state=seed
        ),
        LogisticRegression(),
    ),
    "regression": (
        lambda seed: make_regression(
            15_000, 16, n_informative=7, effective_rank=7, random_state=seed
        ),
        LinearRegression(),
    ),
    "regression, uncorrelated columns": (
        lambda seed: make_regression(15_000, 16, n_informative=7, random_state=seed),
        LinearRegression(),
    ),
}


def shapley(model: Any) -> Any:
    """A ranker: mean |Shapley value| of a linear model, coef (x - mean of 100 background rows)."""

    def ranker(X: pd.DataFrame, y: np.ndarray) -> np.ndarray:
        coef = np.ravel(model.fit(X, y).coef_)
        background = np.asarray(resample(X, n_samples=100, replace=False, random_state=0))
        return np.abs(coef * (X - background.mean(axis=0))).mean(axis=0)

    return ranker


if __name__ == "__main__":
    warnings.simplefilter("ignore", xj.XaiWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for task, (make, model) in TASKS.items():
        aec, shap, largest = [], [], []
        for seed in range(seeds):
            rows, target = make(seed)
            X = pd.DataFrame(rows, columns=NAMES)
            aec.append(xj.normalized_movement_rate(xj.AEC(), X, target))
            shap.append(xj.normalized_movement_rate(shapley(model), X, target))
            largest.append(np.triu(np.abs(np.corrcoef(rows.T)), 1).max())
        below = sum(a < b for a, b in zip(aec, shap, strict=True))
        print(
            f"{task}, {seeds} seeds: NMR of AEC {spread(aec)}, of Shapley values {spread(shap)}; "
            f"AEC's is smaller for {below}; largest |r| {spread(largest)}",
            flush=True,
        )
