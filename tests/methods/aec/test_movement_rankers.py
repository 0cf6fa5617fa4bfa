"""What rankers of the movement rate may be, and what they may return."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from aec_data import collinear
from often import some_slow
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression

import xaijax as xj

E, T, M = xj.InputError, xj.InputTypeError, xj.ModelOutputError
X, Y = collinear(rows=120, columns=6)
X = X / X.std(axis=0) * [1, 2, 3, 4, 5, 6]
TABLE = pd.DataFrame(X, columns=list("fedcba"))


def linear(X):
    return LinearRegression().fit(X, Y)


def by_explainer(X, y):
    return xj.Explainer(xj.as_model(linear(X)), X[:20])(X[:10], progress=False)


def by_permutation(X, y):
    return permutation_importance(linear(X), X, y, n_repeats=3, random_state=0)


def by_shap(X, y):
    shap = pytest.importorskip("shap", reason="needs the extra [dev]")
    return shap.LinearExplainer(linear(X), X)(X)


@pytest.mark.parametrize("ranker", some_slow([by_permutation, by_explainer, by_shap], 3))
@pytest.mark.parametrize("kind", ["array", "pandas"])
def test_rankers_of_every_kind(ranker, kind):
    """What they return is read as importances; the same columns as numbers give the same rate."""

    def numbers(X, y):
        found = ranker(X, y)
        mean = getattr(found, "importances_mean", None)
        return np.abs(found.values).mean(axis=0) if mean is None else mean

    table = X if kind == "array" else pd.DataFrame(X, columns=list("fedcba"))
    rate = xj.normalized_movement_rate(ranker, table, Y)
    assert rate == xj.normalized_movement_rate(numbers, table, Y) and 0 <= rate <= 1


def test_values_with_several_outputs_count_all_of_them():
    class Returned:
        values = np.array(
            [[[1.0, -5.0], [2.0, 2.0], [0.0, 5.0]], [[1.0, 5.0], [2.0, -2.0], [0, 5]]]
        )

    ranker = lambda X, y: Returned if X.shape[1] == 3 else np.arange(X.shape[1])  # noqa: E731
    _, steps = xj.normalized_movement_rate(ranker, X[:, :3], Y, return_steps=True)
    assert steps.positions[0].tolist() == [1, 3, 2]  # sums 6, 4, 5


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_frame_stays_a_frame_with_its_columns_in_order(kind):
    names = list("fedcba")
    frame = pd.DataFrame(X, columns=names) if kind == "pandas" else pl.DataFrame(X, names)
    seen = []

    def ranker(part, y):
        seen.append(list(part.columns))
        assert type(part) is type(frame) and y is Y
        return np.arange(part.shape[1])

    _, steps = xj.normalized_movement_rate(ranker, frame, Y, return_steps=True)
    assert seen == [names[:m] for m in range(6, 1, -1)]
    assert steps.feature_names == tuple(names) and steps.removed.tolist() == [5, 4, 3, 2, 1]


def sorted_series(X, y):
    """The largest importance first, as people print it."""
    found = pd.Series(np.abs(linear(X).coef_), getattr(X, "columns", None))
    return found.sort_values(ascending=False)


def plain(X, y):
    return np.abs(linear(X).coef_)


@pytest.mark.parametrize("names", [list("fedcba"), list(range(6)), [5, 3, 0, 1, 4, 2], None])
@pytest.mark.parametrize("labelled", [True, False])
def test_a_series_is_read_by_its_labels(names, labelled):
    """Sorted or not; without labels by place, also beside columns that are numbers."""
    table = X if names is None else pd.DataFrame(X, columns=names)
    ranker = sorted_series if labelled else lambda X, y: pd.Series(plain(X, y))
    rate, steps = xj.normalized_movement_rate(ranker, table, Y, return_steps=True)
    expected, others = xj.normalized_movement_rate(plain, table, Y, return_steps=True)
    assert rate == expected > 0
    np.testing.assert_array_equal(steps.positions, others.positions)


def test_a_series_without_labels_that_was_sorted_is_read_by_place():
    def ranker(X, y):
        return pd.Series(plain(X, y)).sort_values()

    rate = xj.normalized_movement_rate(ranker, TABLE, Y)
    assert rate == xj.normalized_movement_rate(plain, TABLE, Y) > 0


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_missing_number_in_a_frame_is_refused_before_the_ranker_is_called(kind):
    called = []

    def ranker(X, y):
        called.append(1)
        return np.arange(X.shape[1])

    columns = {"a": X[:, 0], "b": X[:, 1].copy(), "c": ["x", None] * 60, "d": X[:, 2]}
    columns["b"][7] = np.nan
    frame = pd.DataFrame(columns) if kind == "pandas" else pl.DataFrame(columns)
    with pytest.raises(E, match="X, column 'b', contains NaN at row 7. Fill it or drop the rows"):
        xj.normalized_movement_rate(ranker, frame, Y)
    whole = frame.fillna({"b": np.inf}) if kind == "pandas" else frame.fill_nan(float("inf"))
    with pytest.raises(E, match="X, column 'b', contains inf at row 7"):
        xj.normalized_movement_rate(ranker, whole, Y)
    empty = frame[:0]
    with pytest.raises(E, match="X has 0 rows"):
        xj.normalized_movement_rate(ranker, empty, Y[:0])
    assert not called
    # A text that is missing is left to the ranker, which may take it as a value of its own.
    rest = frame[["a", "c", "d"]]
    assert xj.normalized_movement_rate(ranker, rest, Y) == 0 and called


def test_a_shap_explainer_is_no_ranker():
    shap = pytest.importorskip("shap", reason="needs the extra [dev]")
    for explainer in (shap.LinearExplainer(linear(X), X), shap.Explainer(linear(X).predict, X)):
        name = type(explainer).__name__
        with pytest.raises(T, match=f"ranker is of type shap.{name}, which holds one model"):
            xj.normalized_movement_rate(explainer, X, Y)


@pytest.mark.parametrize(
    ("returned", "match"),
    [
        (
            np.ones((10, 6)),
            r"the shape \(10, 6\) for 6 columns; .* shape \(6,\), is needed.*mean\(",
        ),
        (np.ones((6, 1)), r"the shape \(6, 1\) for 6 columns.*np.abs\(values\).mean\(axis=0\)"),
        (np.ones(5), r"the shape \(5,\) for 6 columns; .* shape \(6,\), is needed.$"),
        (pd.DataFrame({"importance": np.ones(6)}), r"a data frame of shape \(6, 1\).*a Series"),
        (pl.DataFrame({"importance": np.ones(6)}), r"a data frame of shape \(6, 1\)"),
        (pd.DataFrame(np.ones((6, 6))), r"a data frame of shape \(6, 6\)"),
        (dict.fromkeys("abcdef", 1.0), "no numbers, but a dict; one importance for each of the 6"),
        (
            pd.Series(np.ones(6), list("uvwxyz")),
            "labelled 'u', 'v', .*given, 'f', 'e', .*X.columns",
        ),
        (pd.Series(np.ones(6), [0, 1, 2, 3, 4, 4]), "labelled 0, 1, 2, 3, 4, 4, which are not"),
    ],
)
def test_what_is_no_list_of_importances_is_refused(returned, match):
    with pytest.raises(M, match=match):
        xj.normalized_movement_rate(lambda X, y: returned, TABLE, Y)


def test_labels_on_the_columns_of_an_array_are_refused():
    with pytest.raises(M, match=r"given, 0, 1, 2, 3, 4, 5. .*\.to_numpy\(\)"):
        ranker = lambda X, y: pd.Series(plain(X, y), list("fedcba"))  # noqa: E731
        xj.normalized_movement_rate(ranker, X, Y)
