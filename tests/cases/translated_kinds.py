"""One fitted estimator of every kind that has a translation: the table that tests go through.

Made-up data: 90 rows with ties, two columns of few values, a constant one.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn import (
    ensemble,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    semi_supervised,
    svm,
    tree,
)
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

import xaijax as xj

RNG = np.random.default_rng(5)
N = 90
X = np.round(RNG.normal(size=(N, 6)), 1)
X[:, 3], X[:, 4], X[:, 5] = RNG.integers(0, 3, N), RNG.integers(0, 2, N), 1.0
VALUE = X[:, 0] * X[:, 1] + X[:, 2] - X[:, 3] + 1.0
TWO = np.where(VALUE > 0, "yes", "no")
THREE = np.array(["low", "mid", "top"])[np.digitize(VALUE, [-0.7, 0.9])]
TARGETS = np.stack([VALUE, -(VALUE**2)], axis=1)
COUNTS = np.abs(np.round(2 * X))
GAPS = np.where(RNG.random(X.shape) < 0.15, np.nan, X)

FRAME = pd.DataFrame(
    {
        "age": GAPS[:, 0],
        "job": pd.Categorical(RNG.choice(["clerk", "cook", "judge"], N)),
        "hours": X[:, 1],
        "city": RNG.choice(["Oslo", "Rome", None], N),
        "rooms": X[:, 3].astype(int),
    }
)


@dataclass(frozen=True)
class Kind:
    """What is fitted on what, and where it is to run."""

    estimator: Any
    y: Any
    rows: Any = field(default_factory=lambda: X)
    backend: str = "jax"
    reason: str = ""  # part of the reason for the host
    options: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def fitted(self) -> Any:
        """The estimator, fitted once."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self.estimator.fit(self.rows, self.y)


def _columns(*more: Any, remainder: str = "drop") -> ColumnTransformer:
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    parts = [("n", numbers, ["age", "hours"]), *more]
    return ColumnTransformer(parts, remainder=remainder)


ONE_HOT = ("c", OneHotEncoder(handle_unknown="ignore"), ["job", "city"])
ORDINAL = (
    "o",
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2),
    ["job", "city", "rooms"],
)
FILLED = (
    "f",
    make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(drop="first")),
    ["job", "city"],
)

CLASSIFIERS = {
    "logistic": linear_model.LogisticRegression,
    "LinearSVC": svm.LinearSVC,
    "ridge classifier": linear_model.RidgeClassifier,
    "SGD": functools.partial(linear_model.SGDClassifier, random_state=0),
    "SGD log loss": functools.partial(linear_model.SGDClassifier, loss="log_loss", random_state=0),
    "perceptron": linear_model.Perceptron,
    "SVC": svm.SVC,
    "SVC linear": functools.partial(svm.SVC, kernel="linear"),
    "SVC polynomial": functools.partial(svm.SVC, kernel="poly", coef0=0.5),
    "SVC sigmoid": functools.partial(svm.SVC, kernel="sigmoid"),
    "SVC pairs": functools.partial(svm.SVC, decision_function_shape="ovo"),
    "SVC broken ties": functools.partial(svm.SVC, break_ties=True),
    "NuSVC": functools.partial(svm.NuSVC, nu=0.2),
    **{
        f"MLP {name}": functools.partial(
            neural_network.MLPClassifier, (5, 4), activation=name, max_iter=40, random_state=0
        )
        for name in ("relu", "tanh", "logistic", "identity")
    },
    "tree": functools.partial(tree.DecisionTreeClassifier, random_state=0),
    "extra tree": functools.partial(tree.ExtraTreeClassifier, random_state=0),
    "random forest": functools.partial(ensemble.RandomForestClassifier, 7, random_state=0),
    "extra trees": functools.partial(ensemble.ExtraTreesClassifier, 7, random_state=0),
    "gradient boosting": functools.partial(
        ensemble.GradientBoostingClassifier, n_estimators=6, random_state=0
    ),
    "histogram boosting": functools.partial(
        ensemble.HistGradientBoostingClassifier, max_iter=6, min_samples_leaf=5
    ),
    "Gaussian naive Bayes": naive_bayes.GaussianNB,
    "Bernoulli naive Bayes": functools.partial(naive_bayes.BernoulliNB, binarize=0.3),
}
CLASSIFIERS_OF_COUNTS = {
    "multinomial naive Bayes": naive_bayes.MultinomialNB,
    "complement naive Bayes": naive_bayes.ComplementNB,
    "categorical naive Bayes": functools.partial(naive_bayes.CategoricalNB, min_categories=9),
}
REGRESSORS = {
    "least squares": linear_model.LinearRegression,
    "ridge": linear_model.Ridge,
    "lasso": functools.partial(linear_model.Lasso, alpha=0.01),
    "elastic net": functools.partial(linear_model.ElasticNet, alpha=0.01),
    "Huber": functools.partial(linear_model.HuberRegressor, max_iter=1000),
    "SVR": svm.SVR,
    "SVR linear": functools.partial(svm.SVR, kernel="linear"),
    "NuSVR polynomial": functools.partial(svm.NuSVR, kernel="poly"),
    "LinearSVR": svm.LinearSVR,
    "Gaussian process": functools.partial(
        GaussianProcessRegressor,
        2.0 * RBF([1.0, 2.0, 3.0, 1.0, 2.0, 4.0]) + 0.5 + WhiteKernel(0.3),
        optimizer=None,
        normalize_y=True,
    ),
    "MLP regressor": functools.partial(
        neural_network.MLPRegressor, hidden_layer_sizes=(6,), max_iter=30, random_state=0
    ),
    "regression tree": tree.DecisionTreeRegressor,
    "forest regressor": functools.partial(ensemble.RandomForestRegressor, 6, random_state=0),
    "extra trees regressor": functools.partial(ensemble.ExtraTreesRegressor, 6, random_state=0),
    "boosting regressor": functools.partial(
        ensemble.GradientBoostingRegressor, n_estimators=7, random_state=0
    ),
    "histogram regressor": functools.partial(
        ensemble.HistGradientBoostingRegressor, max_iter=7, min_samples_leaf=5
    ),
}
SEVERAL = ("least squares", "ridge", "MLP regressor", "regression tree", "forest regressor")
# Rows at random places: equally near neighbours are for tests of their own.
APART = np.random.default_rng(6).normal(size=(N, 3))
NEIGHBOURS = {
    "neighbours": {},
    "neighbours by distance": {"weights": "distance"},
    "neighbours by blocks": {"p": 1},
    "neighbours, p = 3": {"p": 3},
    "neighbours, brute": {"algorithm": "brute", "n_neighbors": 4},
    "neighbours, chebyshev": {"metric": "chebyshev", "n_neighbors": 2},
}

KINDS: dict[str, Kind] = {}
for _name, _make in CLASSIFIERS.items():
    KINDS[f"{_name}, 2"] = Kind(_make(), TWO)
    KINDS[f"{_name}, 3"] = Kind(_make(), THREE)
for _name, _make in CLASSIFIERS_OF_COUNTS.items():
    KINDS[f"{_name}, 2"] = Kind(_make(), TWO, COUNTS)
    KINDS[f"{_name}, 3"] = Kind(_make(), THREE, COUNTS)
for _name, _make in REGRESSORS.items():
    KINDS[_name] = Kind(_make(), VALUE)
for _name in SEVERAL:
    KINDS[f"{_name}, 2 targets"] = Kind(REGRESSORS[_name](), TARGETS)
for _name, _options in NEIGHBOURS.items():
    KINDS[_name] = Kind(neighbors.KNeighborsClassifier(**_options), THREE, APART)
KINDS |= {
    "one-class machine": Kind(svm.OneClassSVM(nu=0.2), VALUE),
    "kernel density": Kind(neighbors.KernelDensity(bandwidth="scott"), VALUE),
    "kernel density, blocks": Kind(
        neighbors.KernelDensity(kernel="tophat"), VALUE, backend="host", reason="tophat"
    ),
    "neighbours regressor": Kind(neighbors.KNeighborsRegressor(), VALUE, APART),
    "neighbours, 2 targets": Kind(neighbors.KNeighborsRegressor(), TARGETS, APART),
    "Poisson": Kind(linear_model.PoissonRegressor(), np.abs(VALUE)),
    "exponential boosting": Kind(
        ensemble.GradientBoostingClassifier(loss="exponential", n_estimators=5), TWO
    ),
    "boosting from zero": Kind(
        ensemble.GradientBoostingRegressor(init="zero", n_estimators=5), VALUE
    ),
    "histogram Poisson": Kind(
        ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=5), np.abs(VALUE)
    ),
    "tree, gaps": Kind(tree.DecisionTreeClassifier(random_state=0), THREE, GAPS),
    "forest, gaps": Kind(ensemble.RandomForestRegressor(5, random_state=0), VALUE, GAPS),
    "histogram, gaps": Kind(
        ensemble.HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=4), THREE, GAPS
    ),
    "histogram, categories": Kind(
        ensemble.HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=4),
        TWO,
        FRAME.assign(city=FRAME["city"].astype("category")),
    ),
    "histogram, categorical numbers": Kind(
        ensemble.HistGradientBoostingRegressor(
            max_iter=6, min_samples_leaf=4, categorical_features=[3, 4]
        ),
        VALUE,
        GAPS,
    ),
    "scaled logistic": Kind(make_pipeline(StandardScaler(), svm.LinearSVC()), TWO),
    "scaled SVC": Kind(make_pipeline(MinMaxScaler(clip=True), svm.SVC()), THREE),
    "imputed forest": Kind(
        make_pipeline(
            SimpleImputer(), StandardScaler(), ensemble.RandomForestClassifier(5, random_state=0)
        ),
        THREE,
        GAPS,
    ),
    "search": Kind(
        GridSearchCV(
            make_pipeline(StandardScaler(), linear_model.LogisticRegression()),
            {"logisticregression__C": [0.1, 1.0]},
            cv=2,
        ),
        TWO,
    ),
    "search for trees behind a scaler": Kind(
        make_pipeline(
            StandardScaler(),
            GridSearchCV(tree.DecisionTreeClassifier(random_state=0), {"max_depth": [2, 4]}, cv=2),
        ),
        THREE,
    ),
    "one-hot logistic": Kind(
        make_pipeline(_columns(ONE_HOT), linear_model.LogisticRegression()), TWO, FRAME
    ),
    "one-hot SVC": Kind(make_pipeline(_columns(ONE_HOT), svm.SVC()), THREE, FRAME),
    "ordinal forest": Kind(
        make_pipeline(_columns(ORDINAL), ensemble.ExtraTreesClassifier(5, random_state=0)),
        THREE,
        FRAME,
    ),
    "imputed text": Kind(
        make_pipeline(_columns(FILLED, remainder="passthrough"), linear_model.Ridge()),
        VALUE,
        FRAME.assign(city=FRAME["city"].fillna(np.nan)),
    ),
    "rare categories": Kind(
        make_pipeline(
            ColumnTransformer(
                [
                    (
                        "c",
                        OneHotEncoder(min_frequency=30, handle_unknown="infrequent_if_exist"),
                        ["job", "city"],
                    )
                ],
                remainder="passthrough",
            ),
            ensemble.HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5),
        ),
        VALUE,
        FRAME,
    ),
    # On the host, with the reason.
    "neighbours, ties": Kind(
        neighbors.KNeighborsClassifier(), THREE, X, "host", "equally near neighbours"
    ),
    "process of another kernel": Kind(
        GaussianProcessRegressor(Matern()), VALUE, X, "host", "has no translation"
    ),
    "SVC of a kernel": Kind(svm.SVC(kernel="precomputed"), TWO, X @ X.T, "host", "precomputed"),
    "own function of distance": Kind(
        neighbors.KNeighborsRegressor(weights=lambda d: 1 / (1 + d)), VALUE, APART, "host",
        "its weights are a function",
    ),
    "boosting after a model": Kind(
        ensemble.GradientBoostingRegressor(init=linear_model.Ridge(), n_estimators=3), VALUE, X,
        "host", "its first guess",
    ),
    "spread labels": Kind(
        semi_supervised.LabelSpreading(), TWO == "yes", X, "host",
        "no JAX translation registered for LabelSpreading",
    ),
    "spread labels behind a scaler": Kind(
        make_pipeline(StandardScaler(), semi_supervised.LabelSpreading()), TWO == "yes", X,
        "host", "no JAX translation registered for LabelSpreading",
    ),
    "gaps that are refused": Kind(
        make_pipeline(
            ColumnTransformer([("f", SimpleImputer(), [0])], remainder="passthrough"),
            linear_model.Ridge(),
        ),
        VALUE, np.where(np.arange(6) == 0, GAPS, X), "host", "is missing",
    ),
}  # fmt: skip


@functools.cache
def asked(name: str) -> tuple[Any, np.ndarray]:
    """(the model of a kind as `as_model` makes it, its answers to the kind's own rows)."""
    kind = KINDS[name]
    model = xj.as_model(kind.fitted, allow_nan=True)
    return model, model.predict(kind.rows)
