"""Loads the demo's data: Adult census income, or data bundled with scikit-learn if Adult is
missing.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_breast_cancer

from xaijax import datasets
from xaijax.commands.demo.network import HIDDEN
from xaijax.datasets.tables import SHAP_COLUMNS
from xaijax.results.explanation import Explanation
from xaijax.results.summary import mean_abs, ranking
from xaijax.tables.rows import rows_of

if TYPE_CHECKING:
    from pandas import DataFrame

TEST_SHARE = 0.25  # of the bundled data; Adult has a test part of its own


@dataclass(frozen=True)
class DemoData:
    """A two-class problem with a held-out part. F features, all numbers."""

    name: str
    explained: str  # the event whose probability the model returns
    X_train: DataFrame  # [M, F]
    y_train: np.ndarray  # bool [M]
    X_test: DataFrame  # [T, F], not seen in training
    y_test: np.ndarray  # bool [T]
    shown: DataFrame  # [T, F], the test rows in readable form: texts where X_test has codes
    steps: int  # training steps; more would only fit the noise
    instead: str | None = None  # why the data are not Adult; None: they are


def demo_data(seed: int) -> DemoData:
    """Loads Adult, or the bundled data if Adult is not found; other errors pass through.

    Raises:
        DataHashError: the bytes of a file of Adult differ from the expected ones.
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
    """Loads the ten "mean" columns of 569 tumours: few enough players for exact values."""
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


WIDTH = 88


@dataclass(frozen=True)
class Figures:
    """The figures that the explanation does not contain."""

    train_seconds: float  # including compilation
    accuracy: float  # on all test rows
    majority: float  # share of the larger class among the test rows
    rows_wanted: int


def what_runs(data: DemoData) -> str:
    """Lines printed before the work: the data, and the reason if they are not Adult."""
    lines = []
    if data.instead is not None:
        lines += [
            "NOTE: the Adult census table was not found, so this demo runs on data that is",
            "bundled with scikit-learn. The figures below are not those of the README.",
            *textwrap.wrap(
                f"Why: {data.instead}",
                WIDTH,
                subsequent_indent="     ",
                break_long_words=False,  # a path or an address must not be broken
                break_on_hyphens=False,
            ),
            "",
        ]
    lines += [
        f"Data         {data.name}",
        f"             {len(data.X_train):,} training rows, {len(data.X_test):,} test rows, "
        f"{data.X_train.shape[1]} columns",
    ]
    return "\n".join(lines)


def model_name(data: DemoData) -> str:
    """Name of the network with its layer widths."""
    return "JAX MLP " + "-".join(map(str, (data.X_train.shape[1], *HIDDEN, 1)))


def results(explanation: Explanation, data: DemoData, figures: Figures) -> str:
    """Text printed after the work."""
    stats, provenance = explanation.stats, explanation.provenance
    N, P = explanation.shape
    B = provenance["background_rows"]
    residual = stats["efficiency_residual"]
    worst = int(np.argmax(residual))
    fewer = "" if figures.rows_wanted <= N else f" (all there are; {figures.rows_wanted:,} wanted)"
    share = stats["model_rows"] / stats["naive_rows"]
    lines = [
        f"Model        {model_name(data)}, {data.steps:,} steps of Adam in "
        f"{figures.train_seconds:.1f} s",
        f"Accuracy     {figures.accuracy:.1%} of the test rows (majority class "
        f"{figures.majority:.1%})",
        f"Explained    the probability of {data.explained}",
        f"             {N:,} test rows{fewer} against {B:,} training rows, {P} players",
        f"             exact Shapley values: 2^{P} = {2**P:,} coalitions a row",
        f"Seconds      {stats['seconds']:.2f}, and {stats['compile_seconds']:.2f} of compilation",
        f"Model rows   {stats['model_rows']:,} requested, of N*B*2^P = {stats['naive_rows']:,} "
        f"({share:.1%})",
        f"Efficiency   largest |base + sum of values - f(x)| = {residual[worst]:.1e} "
        f"(bound {stats['efficiency_bound'][worst]:.1e})",
        "",
        "Players by mean |value|",
    ]
    size = mean_abs(explanation)
    width = max(map(len, explanation.feature_names))
    for place, j in enumerate(ranking(size), start=1):
        lines.append(f"  {place:2d}  {explanation.feature_names[j]:{width}}  {size[j]:.4f}")
    return "\n".join(lines)
