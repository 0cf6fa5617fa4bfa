"""Categories in another order than the background's: never recoded in silence."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import xaijax as xj

ABC = ["a", "b", "c"]


def frame(values, categories=ABC, ordered=False):
    column = pd.Categorical(list(values), categories=categories, ordered=ordered)
    return pd.DataFrame({"size": np.arange(len(values)) * 0.5, "kind": column})


B = frame("abca")


def by_code(rows):
    return rows["kind"].cat.codes.to_numpy() * 2.0 + rows["size"].to_numpy()


def counted(calls, score=by_code):
    return xj.as_model(lambda rows: calls.append(len(rows)) or score(rows), backend="host")


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("categories", [["c", "b", "a"], ["a", "c", "b"], ["b", "d", "a"]])
def test_another_order_is_refused_with_both_orders(categories, ordered):
    """Also of unordered categories, whose dtypes pandas calls equal."""
    X, calls = frame("ab", categories, ordered), []
    found = r"X\['kind'\] has its categories in another order than the background: "
    both = found + rf"\['{categories[0]}', .*not \['a', 'b', 'c'\].*X\['kind'\].cat.set_categories"
    with pytest.raises(xj.InputError, match=both):
        xj.Explainer(counted(calls), B.assign(kind=frame("abca", ABC, ordered)["kind"]))(X)
    assert not calls


def test_the_way_out_gives_the_models_own_answers():
    X = frame("cab", ["c", "b", "a"])
    X["kind"] = X["kind"].cat.set_categories(B["kind"].cat.categories)
    found = xj.Explainer(counted([]), B)(X)
    # 16 products of numbers below 8, in float64
    own = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(own, by_code(X), rtol=0, atol=1e-13)


@pytest.mark.parametrize("categories", [["b", "c"], ["a", "z", "b", "c"]])
def test_codes_that_move_are_told(categories):
    X = frame("bc", categories)
    with pytest.warns(xj.XaiWarning, match=r"column 'kind' has the categories \['.*background has"):
        xj.Explainer(counted([]), B)(X)


@pytest.mark.parametrize("categories", [["a", "b"], ["a", "b", "c", "z"], ABC])
def test_codes_that_stay_are_taken_without_a_word(categories):
    X = frame("ab", categories)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = xj.Explainer(counted([]), B)(X)
    own = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(own, by_code(X), rtol=0, atol=1e-13)


def test_other_methods_and_translated_estimators_refuse_it_too():
    other = frame("cb", ["c", "b", "a"])
    with pytest.raises(xj.InputError, match="X.*categories in another order"):
        xj.QII(counted([]), B, quantity="individual", outcome="score").explain(other)
    with pytest.raises(xj.InputError, match="pool.*categories in another order"):
        xj.QII(counted([]), B, pool=other, quantity="individual", outcome="score").explain(B[:1])
    encoder = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    fitted = make_pipeline(encoder, LinearRegression()).fit(B, by_code(B))
    for backend in ("jax", "host"):
        with pytest.raises(xj.InputError, match="X.*categories in another order"):
            xj.Explainer(xj.as_model(fitted, backend=backend), B)(other)


def test_polars_enums_of_another_order():
    def rows(values, categories):
        return pl.DataFrame({"kind": pl.Series(list(values), dtype=pl.Enum(categories))})

    model = counted([], lambda rows: rows["kind"].to_physical().to_numpy() * 2.0)
    with pytest.raises(xj.InputTypeError, match=r"\['c', 'b', 'a'\].*\['a', 'b', 'c'\]"):
        xj.Explainer(model, rows("abc", ABC))(rows("ab", ["c", "b", "a"]))


def test_polars_categoricals_share_their_codes():
    first = pl.DataFrame({"kind": pl.Series(["p", "q", "r"], dtype=pl.Categorical)})
    other = pl.DataFrame({"kind": pl.Series(["r", "q"], dtype=pl.Categorical)})
    score = lambda rows: rows["kind"].to_physical().to_numpy() * 2.0  # noqa: E731
    found = xj.Explainer(counted([], score), first)(other)
    own = found.base_values + found.values.sum(axis=1)
    # Float64 sums of a few numbers below 8: some hundred roundings are 1e-13.
    np.testing.assert_allclose(own, score(other), rtol=0, atol=1e-13)
