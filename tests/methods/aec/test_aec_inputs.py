"""What AEC refuses, what it defines, and scikit-learn's own checks of an estimator."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from aec_data import collinear, fitted
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import xaijax as xj

E, T = xj.InputError, xj.InputTypeError
X, Y = collinear(rows=30, columns=3)
X = X / X.std(axis=0)  # of one scale, so that nothing is told of scales
LABELS = np.where(Y > 0.3, "yes", "no")
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])

# The checks that do not apply, by name, with the reason.
NOT_APPLICABLE = {
    "check_complex_data": "a complex array is of a wrong type here: InputTypeError, a TypeError, "
    "where the check wants a ValueError",
    "check_dtype_object": "arrays of objects are refused, as everywhere in this library: the check "
    "wants them converted",
    "check_estimators_empty_data_messages": "no columns are refused by an InputError in the words "
    "of this library: the check wants scikit-learn's sentence",
}


@parametrize_with_checks(
    [
        xj.AEC(),
        xj.AEC(solver="newton", standardize=True),
        xj.AEC(task="regression", learner=LinearRegression(), bootstrap=2),
    ],
    expected_failed_checks=lambda estimator: NOT_APPLICABLE,
    xfail_strict=True,  # a check that comes to pass must leave the list
)
@pytest.mark.filterwarnings("ignore:X has co", "ignore:In 1 of 2 replicates")
def test_check_estimator(estimator, check):
    check(estimator)


def put(array, place, value):
    array = np.array(array)
    array[place] = value
    return array


# fmt: off
@pytest.mark.parametrize(
    ("given", "y", "error", "match"),
    [
        (put(X, (4, 1), np.nan), Y, E, r"X contains NaN at row 4, column 1\. Fill it or drop"),
        (put(X, (4, 1), np.inf), Y, E, "X contains inf at row 4, column 1"),
        (FRAME.assign(b=np.nan), Y, E, "X, column 'b', contains NaN at row 0"),
        (X[0], Y, E, r"X has shape \(3,\), but .* Say X\[:, None\] for a single column"),
        (X[:, :, None], Y, E, r"X has shape \(30, 3, 1\), but \[rows, columns\]"),
        (X[:0], Y[:0], E, "X has 0 rows"),
        (X[:, :0], Y, E, "X has 0 columns"),
        (X[:1], Y[:1], E, "X has 1 row .*at least 2"),
        (X, Y[:-1], E, "y has 29 entries, but X has 30 rows"),
        (X, np.stack([Y, Y], 1), E, r"y has shape \(30, 2\).*y.ravel"),
        (X, Y[:, None], E, r"y has shape \(30, 1\)"),
        (X, put(Y, 3, np.nan), E, "y contains NaN at row 3"),
        (X, put(Y, 3, -np.inf), E, "y contains -inf at row 3"),
        (X, put(LABELS.astype(object), 2, None), E, "y contains None at row 2"),
        (X, pd.Series(Y).mask(Y > 1), E, "y contains NaN"),
        (X, None, E, "requires y to be passed"),
        (X, np.full(30, "yes"), E, "y has a single class, 'yes'"),
        (X, np.ones(30, bool), E, r"y has a single class, True \(1 class\)"),
        (X, np.full(30, 2.5), E, r"y has a single class, 2.5 \(1 class\).*task='regression'"),
        (X, Y * 1j, T, "y is complex"),
        (X, np.full(30, "2020-01-01", "M8[D]"), T, "y holds dates"),
        (X, np.array(["a", 1] * 15, object), T, "y holds labels of several types"),
        (X.astype(str), Y, T, r"X has dtype <U32; .*\(OrdinalEncoder or OneHotEncoder\)\.$"),
        (X.astype(object), Y, T, "X has dtype object"),
        (X * 1j, Y, T, "X is complex"),
        (scipy.sparse.csr_array(X), Y, T, r"X is a sparse matrix.*X.toarray"),
        ([[1.0], [1.0, 2.0]], Y, T, "X must be .*rows of one length"),
        (FRAME.set_axis(["a", "b", "a"], axis=1), Y, E, r"X: column names occur more than once: "
            r"\['a'\]"),
        (FRAME.assign(b="x"), Y, T, "column 'b' has dtype .*; AEC takes numbers"),
        (FRAME.assign(b=pd.Series(["x"] * 30, dtype="category")), Y, T, "column 'b' has dtype cat"),
        (X * 1e200, Y, E, "spread of 'x0', 'x1', 'x2' squared leaves the range"),
        (X * [1e-150, 1e150, 1], Y * 1e150, E, "effects leave the range of float64"),
    ],
)
# fmt: on
def test_refused(given, y, error, match):
    with pytest.raises(error, match=match) as caught:
        fitted(given, y)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("options", "y", "error", "match"),
    [
        ({"task": "clasification"}, Y, E, "task must be one of"),
        ({"task": None}, Y, T, "task must be one of"),
        ({"task": "regression"}, LABELS, T, "y holds labels .*task='classification'"),
        ({"task": "classification"}, Y, E, "30 distinct values that are not whole"),
        ({"standardize": 1}, Y, T, "standardize must be True or False"),
        ({"standardize": np.float64(1)}, Y, T, r"standardize must be .*, got 1\.0\."),
        ({"bootstrap": np.int64(1)}, Y, E, r"bootstrap must be at least 2, got 1\.$"),
        ({"bootstrap": np.float64(9)}, Y, T, r"bootstrap must be .*, got 9\.0 \("),
        ({"decimals": -1}, Y, E, "decimals must be at least 0"),
        ({"decimals": 4.0}, Y, T, "decimals must be a whole number"),
        ({"solver": "lbfgs"}, Y, E, "solver must be one of"),
        ({"bootstrap": 1}, Y, E, "bootstrap must be at least 2"),
        ({"bootstrap": True}, Y, T, "bootstrap must be a whole number"),
        ({"seed": -1}, Y, E, "seed must be at least 0"),
        ({"learner": "ridge"}, Y, T, "learner must be a scikit-learn estimator"),
        ({"learner": LinearRegression}, Y, T, "learner must be a scikit-learn estimator"),
        ({"learner": LinearRegression(), "solver": "newton"}, Y, E, "leave one out"),
        ({"learner": KNeighborsRegressor(), "bootstrap": 3}, Y, T, "takes no sample_weight"),
        ({"learner": lambda x, y: 1.0, "bootstrap": 3}, Y, T, r"\(x, y, sample_weight\)"),
        ({"learner": DecisionTreeRegressor()}, Y, T, "has no coef_ after its fit"),
        ({"learner": lambda x, y: x}, Y, xj.ModelOutputError, "one finite slope is needed"),
        ({"learner": lambda x, y: np.float64("nan")}, Y, xj.ModelOutputError, "> gave nan for one"),
        ({"learner": lambda x, y: np.nan}, Y, xj.ModelOutputError, "one finite slope is needed"),
        ({"learner": lambda x, y: "much"}, Y, xj.ModelOutputError, "one finite slope is needed"),
    ],
)
def test_refused_parameters(options, y, error, match):
    aec = xj.AEC(**options)  # parameters are looked at in fit, as scikit-learn wants it
    with pytest.raises(error, match=match) as caught:
        aec.fit(X, y)
    assert type(caught.value) is error and not hasattr(aec, "effects_")


def test_bad_parameters_are_refused_before_the_data_are_read():
    for options in ({"task": "x"}, {"bootstrap": 0}, {"learner": 3}, {"decimals": -1}):
        with pytest.raises((E, T), match=next(iter(options))):
            xj.AEC(**options).fit(object(), object())


@pytest.mark.parametrize(
    ("weights", "error", "match"),
    [
        (np.ones(29), E, r"sample_weight has shape \(29,\)"),
        (np.ones((30, 1)), E, r"sample_weight has shape \(30, 1\)"),
        (-np.ones(30), E, "sample_weight contains -1.0"),
        (np.zeros(30), E, "sample_weight is zero for all rows"),
        (put(np.zeros(30), 0, 1.0), E, "1 row with a positive weight"),
        (put(np.ones(30), 1, np.nan), E, "sample_weight contains NaN at row 1"),
        (np.full(30, "a"), T, "sample_weight has dtype <U1; .* Give one number for each row.$"),
        (np.full(30, 1e300), E, r"sample_weight contains 1e\+300; .*Divide them by their mean"),
        (put(np.ones(30), 4, 1e-200), E, "sample_weight contains 1e-200; .*between 1e-100 and 1e"),
    ],
)
def test_refused_weights(weights, error, match):
    with pytest.raises(error, match=match):
        fitted(X, Y, weights)


def test_the_largest_and_the_smallest_weights_keep_every_digit():
    """Of a regression; a power of two, so that nothing is rounded."""
    for weight in (2.0**332, 2.0**-332):
        found = fitted(X, Y, np.full(30, weight)).effects_
        np.testing.assert_array_equal(found, fitted(X, Y, np.ones(30)).effects_)


def test_a_learner_without_weights_is_refused_where_rows_have_some():
    with pytest.raises(T, match="takes no sample_weight"):
        fitted(X, Y, np.ones(30), learner=KNeighborsRegressor())
    with pytest.raises(T, match=r"\(x, y, sample_weight\)"):
        fitted(X, Y, np.ones(30), learner=lambda x, y: 1.0)


@pytest.mark.parametrize(
    ("chunks", "options", "error", "match"),
    [
        (3, {}, T, "chunks must give tuples"),
        (iter([(X, Y)]), {}, T, "can be read once"),
        (((X, Y) for _ in range(2)), {}, T, "chunks is a generator, which can be read once"),
        ([], {}, E, "chunks has no items"),
        ([X], {}, T, "item 0 is a ndarray"),
        ([(X, Y), (X,)], {}, T, "item 1 is a tuple"),
        ([(X, Y), (X[:, :2], Y)], {}, E, "X of chunk 1 has 2 columns, but the first chunk has 3"),
        ([(X, Y), (X[:, :1], Y)], {}, E, "X of chunk 1 has 1 column, but the first chunk has 3"),
        ([(FRAME, Y), (X, Y)], {}, E, "chunk 1 is an array, but .* a frame with texts as column"),
        ([(X, Y), (FRAME, Y)], {}, E, "X of chunk 1 is a frame with texts .* chunk is an array"),
        ([(FRAME, Y), (pd.DataFrame(X), Y)], {}, E, "chunk 1 is a frame without texts as column"),
        ([(FRAME, Y), (FRAME[["b", "a", "c"]], Y)], {}, E, "X of chunk 1 has the columns of the "),
        ([(X, Y), (X, Y[:3])], {}, E, "y of chunk 1 has 3 entries, but X of chunk 1 has 30"),
        ([(X, Y), (put(X, (2, 0), np.nan), Y)], {}, E, "X of chunk 1 contains NaN at row 2"),
        ([(X, Y, -np.ones(30))], {}, E, "sample_weight of chunk 0 contains -1.0"),
        ([(X, Y, np.zeros(30))], {}, E, "no rows of positive weight"),
        ([(X[:1], Y[:1])], {}, E, "1 row with a positive weight"),
        ([(X, LABELS)], {}, E, "solver='sklearn' needs all rows .*solver='newton'"),
        ([(X, np.full(30, "a"))], {"solver": "newton"}, E, "y has a single class"),
        ([(X, Y)], {"learner": LinearRegression()}, E, "learner= needs all rows at once"),
    ],
)
def test_refused_chunks(chunks, options, error, match):
    with pytest.raises(error, match=match):
        xj.AEC(**options).fit_chunks(chunks)


def test_chunks_that_change_between_passes_are_refused():
    asked = []

    def chunks():
        asked.append(1)
        size = 30 if len(asked) < 3 else 20
        return iter([(X[:size], LABELS[:size])])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XaiWarning)
        with pytest.raises(E, match="30 rows in the first pass and 20 rows in a later one|30 rows"):
            xj.AEC(solver="newton").fit_chunks(chunks)


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (Y > 0, "classification"),
        (LABELS, "classification"),
        (LABELS.tolist(), "classification"),
        (np.where(Y > 0, 3.5, -1.5), "classification"),
        (np.where(Y > 0, 7, 2), "classification"),
        (np.digitize(Y, [0, 1]), "regression"),
        (np.digitize(Y, [0, 1]).astype(str), "classification"),
        (pd.Series(np.digitize(Y, [0, 1]), dtype="category"), "classification"),
        (pl.Series(LABELS, dtype=pl.Categorical), "classification"),
        (pd.Series(Y > 0, dtype="boolean"), "classification"),
        (pd.Series(np.arange(30), dtype="Int64"), "regression"),
        (pd.DataFrame({"y": Y}), "regression"),
        (Y.astype(object), "regression"),
        (Y.tolist(), "regression"),
    ],
)
def test_the_task_is_read_off_the_target(y, task):
    aec = fitted(X, y)
    assert aec.explanation_.provenance["task"] == task
    assert (aec.classes_ is None) == (task == "regression")


def test_a_task_that_is_said_is_taken():
    two = np.where(Y > 0, 7.0, 2.0)
    assert fitted(X, two, task="regression").classes_ is None
    three = np.digitize(Y, [0, 1])
    assert fitted(X, three, task="classification").effects_.shape == (3, 3)
    np.testing.assert_array_equal(fitted(X, np.full(30, 2.5), task="regression").effects_, 0.0)
    flags = fitted(X, Y > 0, task="regression").effects_
    np.testing.assert_array_equal(flags, fitted(X, (Y > 0) * 1.0, task="regression").effects_)


@pytest.mark.parametrize("kind", ["list", "float32", "fortran", "strided", "pandas", "polars"])
def test_kinds_of_tables(kind):
    table = {
        "list": X.tolist(),
        "float32": X.astype(np.float32),
        "fortran": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::-2][::-1],
        "pandas": FRAME,
        "polars": pl.DataFrame(X, list("abc")),
    }[kind]
    found = fitted(table, Y)
    # float32 rounds the data themselves, by 1e-7 of their level, which is some spreads here.
    rtol = 1e-4 if kind == "float32" else 0
    np.testing.assert_allclose(found.effects_, fitted(X, Y).effects_, rtol=rtol)
    assert hasattr(found, "feature_names_in_") == (kind in ("pandas", "polars"))
    if kind in ("pandas", "polars"):
        assert found.feature_names_in_.tolist() == ["a", "b", "c"]
        assert found.explanation_.feature_names == ("a", "b", "c")


def test_chunks_of_frames_keep_their_names():
    aec = xj.AEC().fit_chunks([(FRAME[:10], Y[:10]), (FRAME[10:], Y[10:])])
    assert aec.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(aec.effects_, fitted(FRAME, Y).effects_, rtol=1e-12)
    assert not hasattr(aec.fit_chunks([(X, Y)]), "feature_names_in_")
    numbered = pd.DataFrame(X)
    chunked = xj.AEC().fit_chunks([(numbered[:10], Y[:10]), (numbered[10:], Y[10:])])
    for found in (chunked, fitted(numbered, Y)):  # as scikit-learn has it: texts only
        assert not hasattr(found, "feature_names_in_")
        assert found.explanation_.feature_names == ("0", "1", "2")


def test_frames_of_whole_numbers_flags_and_nullable_columns():
    frame = pd.DataFrame({"a": np.arange(30), "b": Y > 0, "c": pd.array(range(30), "Int64") % 7})
    expected = fitted(frame.to_numpy(dtype=float), Y).effects_
    np.testing.assert_array_equal(fitted(frame, Y).effects_, expected)
    with pytest.raises(E, match="X, column 'c', contains NaN at row 3"):
        fitted(frame.assign(c=frame.c.mask(frame.c == 3)), Y)


def test_it_is_an_estimator():
    aec = xj.AEC(decimals=4, bootstrap=5)
    assert isinstance(aec, BaseEstimator)
    assert clone(aec).get_params() == aec.get_params() == {
        "task": "auto", "standardize": False, "decimals": 4, "solver": "sklearn", "learner": None,
        "bootstrap": 5, "seed": 0,
    }  # fmt: skip
    found = fitted(FRAME, Y)
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        np.testing.assert_array_equal(other.effects_, found.effects_)
        np.testing.assert_array_equal(other.explanation_.values, found.explanation_.values)
    found.fit(X, Y)
    assert not hasattr(found, "feature_names_in_")  # of the frame before


def test_what_is_given_stays_as_it_was():
    table, target, weights = X.copy(), Y.copy(), np.arange(30.0)
    fitted(table, target, weights, bootstrap=3)
    np.testing.assert_array_equal(table, X)
    np.testing.assert_array_equal(target, Y)
    np.testing.assert_array_equal(weights, np.arange(30.0))


def test_scales_far_apart_are_told_of_once():
    with pytest.warns(xj.XaiWarning, match=r"differ \S+ times.*standardize=True") as caught:
        xj.AEC().fit(X / X.std(axis=0) * [1, 1, 101], Y)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xj.AEC().fit(X / X.std(axis=0) * [1, 1, 99], Y)
        xj.AEC(standardize=True).fit(X / X.std(axis=0) * [1, 1, 1e5], Y)
