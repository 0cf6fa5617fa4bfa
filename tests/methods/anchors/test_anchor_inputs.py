"""Bad inputs of Anchors: each names the argument, what came and what to do; no model is called."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from anchor_cases import CATEGORIES, CUTS, DATA, X, explainer, host_model, jax_model

import xaijax as xj

E, T = xj.InputError, xj.InputTypeError


def put(array, place, value):
    copy = array.copy()
    copy[place] = value
    return copy


MADE = [
    ({"bins": {2: [0.5, -0.5]}}, E, r"bins: cuts of 2 must increase, got \[0.5, -0.5\]"),
    ({"bins": {2: [0.5, 0.5]}}, E, "bins: cuts of 2 must increase"),
    ({"bins": {2: []}}, E, "bins: cuts of 2 must be finite numbers"),
    ({"bins": {2: ["a"]}}, T, "bins: cuts of 2 must be numbers"),
    ({"bins": {9: [0.0]}}, E, "bins: there is no column 9; there are 4"),
    ({"bins": {"z": [0.0]}}, E, "bins: there is no column 'z'"),
    ({"bins": {0: [0.5]}}, T, "bins: column 'x0' is categorical"),
    ({"bins": "tercile"}, E, r"bins must be one of \['quartile', 'decile'\]"),
    ({"bins": 4}, T, "bins must be one of"),
    ({"categories": "x0"}, T, "categories must be None, a list of columns"),
    ({"categories": [7]}, E, "categories: there is no column 7"),
    ({"perturbation": "rows"}, E, "perturbation must be one of"),
    ({"perturbation": 3}, T, "perturbation must be 'row', .* or a sampler"),
    ({"flip_probability": 0.0}, E, r"flip_probability must be a number in \(0, 1\]"),
    ({"tolerance": -1}, E, "tolerance must be a number of at least 0"),
    ({"tolerance": "1"}, T, "tolerance must be a number of at least 0"),
    ({"seed": 1.5}, T, "seed must be a whole number"),
    ({"weights": np.zeros(24)}, E, "weights are all zero"),
    ({"weights": "equal"}, E, r"weights must be one of \['balanced'\]"),
    ({"table_rows": 0}, E, "table_rows must be at least 1"),
    ({"players": {"a": [0, 1]}}, E, "players= groups columns for a sampler"),
    ({"tau": 0.9}, T, "AnchorExplainer has no keyword 'tau'"),
    ({"feature_names": ["a"]}, E, "feature_names has 1 names, but the data has 4"),
    ({"feature_names": list("aabc")}, E, "feature_names occur more than once"),
]
ASKED = [
    ({"threshold": 0.0}, E, r"threshold must be a number in \(0, 1\], got 0.0"),
    ({"threshold": 1.01}, E, r"threshold must be a number in \(0, 1\], got 1.01"),
    ({"threshold": np.nan}, E, r"threshold must be a number in \(0, 1\]"),
    ({"threshold": "0.9"}, T, "threshold must be a number"),
    ({"search": "kl-lucb", "delta": 0.0}, E, r"delta must be a number in \(0, 1\), got 0.0"),
    ({"search": "kl-lucb", "delta": 1.0}, E, r"delta must be a number in \(0, 1\), got 1.0"),
    ({"search": "kl-lucb", "epsilon": 0}, E, r"epsilon must be a number in \(0, 1\)"),
    ({"search": "kl-lucb", "stop_epsilon": 0}, E, r"stop_epsilon must be a number in \(0, 1\)"),
    ({"search": "exact", "delta": 0.1}, E, "delta=0.1 is not used by search='exact'.*confirm="),
    ({"search": "exact", "epsilon": 0.1}, E, "epsilon=0.1 is not used by search='exact'"),
    ({"search": "exact", "stop_epsilon": 0.1}, E, "stop_epsilon=0.1 is not used"),
    ({"delta": 0.1}, E, "delta=0.1 is not used by search='auto', which is 'exact' here"),
    ({"search": "sar", "epsilon": 0.1}, E, "epsilon=0.1 is not used.*fixed budget"),
    ({"search": "kl-lucb", "confirm": 0.5}, E, "confirm=0.5 holds out data"),
    ({"confirm": 1.0}, E, r"confirm must be a number in \(0, 1\)"),
    ({"search": "table"}, xj.EnumerationLimitError, "search='table' is for"),
    ({"search": "best"}, E, "search must be one of"),
    ({"search": "kl-lucb", "beam_size": None}, E, "beam_size=None is the optimum"),
    ({"beam_size": 0}, E, "beam_size must be at least 1"),
    ({"beam_size": 1.5}, T, "beam_size must be a whole number"),
    ({"max_size": -1}, E, "max_size must be at least 0"),
    ({"batch_size": 0}, E, "batch_size must be at least 1"),
    ({"coverage_samples": 0}, E, "coverage_samples must be at least 1"),
    ({"tau": 0.9}, T, "explain has no keyword 'tau'. For tau, say threshold="),
    ({"nsamples": 9}, T, "explain has no keyword 'nsamples'"),
]
ROWS = [
    (X[0], E, r"X has shape \(4,\): one row"),
    (X[:0], E, "X has 0 rows"),
    (X[:, :3], E, "X has rows of shape"),
    (put(X, (1, 2), np.nan), E, "X contains NaN at row 1, column 2"),
    (put(X, (2, 1), 7.0), E, "X row 2, column 'x1': the category '7' is not in the data"),
]


class Silent:
    """A model that must not be asked."""

    def __call__(self, rows):
        raise AssertionError("the model was called")


def silent():
    return xj.as_model(Silent(), backend="host", output="decision", classes=["a", "b", "c"])


@pytest.mark.parametrize(("options", "error", "text"), MADE)
def test_arguments_of_the_explainer(options, error, text):
    with pytest.raises(error, match=text):
        explainer(silent(), **options)


@pytest.mark.parametrize(("options", "error", "text"), ASKED)
def test_arguments_of_explain(options, error, text):
    anchors = explainer(silent(), perturbation="row")
    assert "search='exact'" in repr(anchors)
    with pytest.raises(error, match=text):
        anchors.explain(X, **options)


@pytest.mark.parametrize(("rows", "error", "text"), ROWS)
def test_rows(rows, error, text):
    with pytest.raises(error, match=text):
        explainer(silent(), perturbation="row").explain(rows)


def test_models():
    with pytest.raises(T, match="model must be a Model of xaijax.as_model, a function"):
        xj.AnchorExplainer(3, DATA)
    random = xj.as_model(lambda r: r[:, 0], output="label", deterministic=False)
    with pytest.raises(E, match="declared deterministic=False"):
        xj.AnchorExplainer(random, DATA)
    value = xj.as_model(lambda r: r[:, 0])
    with pytest.raises(E, match="threshold= or classes="):
        xj.AnchorExplainer(value, DATA).explain(X)
    two = xj.as_model(lambda r: r[:, :2])
    with pytest.raises(E, match="tolerance=1 compares one number a row"):
        xj.AnchorExplainer(two, DATA, tolerance=1).explain(X)


def test_a_category_that_the_data_lack_in_a_frame():
    frame = pd.DataFrame({"a": ["u", "v"] * 5, "b": np.arange(10.0)})
    model = xj.as_model(lambda r: (r["a"] == "u").to_numpy(), backend="host", output="label")
    anchors = xj.AnchorExplainer(model, frame)
    with pytest.raises(E, match="X row 1, column 'a': the category 'w' is not in the data"):
        anchors.explain(pd.DataFrame({"a": ["u", "w"], "b": [1.0, 2.0]}))


@pytest.mark.slow
@pytest.mark.parametrize("space", ["row_bin", "flip", "joint", "conditional"])
def test_a_rule_that_no_row_satisfies_is_named(space):
    anchors = xj.AnchorExplainer(
        jax_model(), DATA, categories=CATEGORIES, bins={**CUTS, 3: [0.0, 50.0]}, perturbation=space
    )
    far = put(X[:1], (0, 3), 60.0)
    with pytest.raises(E, match="predicates: no data row satisfies x3 > 50"):
        anchors.evaluate([3], far[0])
    # explain goes on with the other columns, and never waits for a row that does not come.
    assert 3 not in anchors.explain(far, threshold=1.0)[0].features


def test_an_instance_without_any_supported_predicate_is_named():
    model = xj.as_model(lambda r: (r[:, 0] > 5) * 1, output="label")
    data = np.arange(4, dtype=np.float32)[:, None]
    anchors = xj.AnchorExplainer(model, data, bins={0: [3.5]})
    with pytest.raises(E, match="X row 1: no data row satisfies any .* such as 'x0 > 3.5'"):
        anchors.explain(np.array([[1.0], [9.0]], np.float32))


PREDICATES = [
    ("x0", T, "predicates must be a list"),
    ([(2, 1.0, 0.0)], E, "'x2' needs low < high"),
    ([(2, "a", 1.0)], T, "low and high of 'x2' must be numbers"),
    ([(0, 0.0, 1.0)], E, "'x0' goes by categories"),
    ([(0, (9,))], E, "9 is no category of 'x0'"),
    ([0, 0], E, "name the column 'x0' twice"),
    ([11], E, "predicates: there is no column 11"),
    ([(2, 50.0, 60.0)], E, r"x does not satisfy '50 < x2 <= 60'"),
    ([()], E, r"predicates hold \(\)"),
]


@pytest.mark.parametrize(("predicates", "error", "text"), PREDICATES)
def test_predicates(predicates, error, text):
    with pytest.raises(error, match=text):
        explainer(silent(), perturbation="row").evaluate(predicates, X[0])


def test_samplers_that_break_their_promise():
    def breaks(X, kept, u):
        return X + 5

    def short(X, kept, u):
        return X[1:]

    for sampler, text in ((breaks, "the sampler changed 'x2' of X row 0"), (short, "and made")):
        anchors = explainer(perturbation=sampler)
        with pytest.raises(E, match=text):
            anchors.evaluate([2], X[0], samples=50)
    with pytest.raises(E, match="by a sampler cannot be listed"):
        explainer(silent(), perturbation=breaks).explain(X, search="exact")


def test_bad_answers_name_the_instance():
    def f(rows):
        rows = np.asarray(rows)
        out = np.stack([rows[:, 2], -rows[:, 2]], axis=1).astype(float)
        # Only hybrids have such a pair of values, no row of the data.
        out[(rows[:, 2] == DATA[0, 2]) & (rows[:, 3] != DATA[0, 3])] = np.nan
        return out

    model = xj.as_model(f, backend="host", output="decision", classes=["a", "b"])
    with pytest.raises(xj.ModelOutputError, match="drawn around X row 0"):
        explainer(model, perturbation="row").explain(X[:1], threshold=1.0)


def test_limits():
    wide = np.zeros((3, 30), np.float32)
    model = xj.as_model(lambda r: r[:, 0], output="label")
    flips = xj.AnchorExplainer(model, wide, bins=None, perturbation="flip")
    with pytest.raises(xj.EnumerationLimitError, match="averages over .* rows a rule"):
        flips.explain(wide, search="exact")
    with pytest.raises(xj.EnumerationLimitError, match="draws kept columns from their bins"):
        explainer().explain(X, search="exact")


@pytest.mark.slow
def test_no_warning_on_the_way():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explainer(host_model()).explain(X, search="kl-lucb")
