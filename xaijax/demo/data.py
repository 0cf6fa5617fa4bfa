"""The demo's data: Adult census income, or what scikit-learn brings where Adult is not there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_breast_cancer

from xaijax import datasets
from xaijax.datasets.adult import SHAP_COLUMNS
from xaijax.tables.rows import rows_of

if TYPE_CHECKING:
    from pandas import DataFrame

TEST_SHARE = 0.25  # of the bundled data; Adult has a test part of its own


@dataclass(frozen=True)
class DemoData:
    """A two-class problem with a held-out part. F features, all numbers."""

    name: str
    explained: str  # what the model's output is the probability of
    X_train: DataFrame  # [M, F]
    y_train: np.ndarray  # bool [M]
    X_test: DataFrame  # [T, F], not seen in training
    y_test: np.ndarray  # bool [T]
    shown: DataFrame  # [T, F], the test rows as people read them: texts where X_test has codes
    steps: int  # of training; more would only fit the noise
    instead: str | None = None  # why this is not Adult; None: it is


def demo_data(seed: int) -> DemoData:
    """Adult; the bundled data only where Adult is not found: other errors come through.

    Raises:
        DataHashError: a file of Adult is there with other bytes.
        MissingExtraError: pandas or pooch is not installed.
    """
    try:
        return _adult()
    except datasets.DataNotFoundError as error:
        return _bundled(seed, str(error))


def _adult() -> DemoData:
    X_train, y_train = datasets.adult("shap")
    X_test, y_test = datasets.adult("shap", part="test")
    texts, _ = datasets.adult("raw", part="test")
    return DemoData(
        name="Adult census income (UCI)",
        explained="an income above 50,000 dollars",
        X_train=X_train,
        y_train=y_train.to_numpy(),
        X_test=X_test,
        y_test=y_test.to_numpy(),
        shown=texts.rename(columns=SHAP_COLUMNS)[list(X_test.columns)],
        steps=2000,
    )


def _bundled(seed: int, why: str) -> DemoData:
    """The ten "mean" columns of 569 tumours: few enough players for exact values."""
    data: Any = load_breast_cancer(as_frame=True)
    X = data.frame[[name for name in data.feature_names if name.startswith("mean ")]]
    y = data.target.to_numpy() == list(data.target_names).index("malignant")
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = np.split(order, [round(TEST_SHARE * len(X))])
    return DemoData(
        name="Breast cancer Wisconsin (bundled with scikit-learn)",
        explained="a malignant tumour",
        X_train=rows_of(X).take(train),
        y_train=y[train],
        X_test=rows_of(X).take(test),
        y_test=y[test],
        shown=rows_of(X).take(test),
        steps=200,
        instead=why,
    )
