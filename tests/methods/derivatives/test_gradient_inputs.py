"""What `GradientExplainer` refuses, before any work."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import xaijax as xj

RNG = np.random.default_rng(0)
X, DONORS = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3))
ASKED = []


def f(rows):
    ASKED.append(len(rows))
    return jnp.tanh(rows).sum(axis=1)


MODEL = xj.as_model(f)
HOST = xj.as_model(lambda rows: np.tanh(rows).sum(axis=1), backend="host")
LABELS = xj.as_model(lambda rows: jnp.argmax(rows, axis=1), output="label", classes=[0, 1, 2])
IDS = np.array([[1, 2, 3]])

WRONG = {
    "host": (xj.InputError, "runs on the host.*as_jax", {"model": HOST}),
    "labels": (xj.InputError, "labels, which have no gradient", {"model": LABELS}),
    "no model": (xj.InputTypeError, "model must be a Model of xaijax.as_model", {"model": 3}),
    "path": (xj.InputError, "path must be one of", {"path": "direct"}),
    "several baselines": (
        xj.InputError,
        "one baseline, but background has 5",
        {"path": "integrated"},
    ),
    "steps 0": (xj.InputError, "steps must be at least 1", {"steps": 0}),
    "steps 2.5": (xj.InputTypeError, "steps must be a whole", {"steps": 2.5}),
    "steps many": (xj.InputError, "at most 1,000", {"steps": 1001}),
    "samples of a line": (
        xj.InputError,
        "samples= needs path='expected'",
        {"path": "integrated", "background": DONORS[:1], "samples": 10},
    ),
    "samples odd": (xj.InputError, "samples must be even.*Say 12", {"samples": 11}),
    "samples 0": (xj.InputError, "samples must be at least 2", {"samples": 0}),
    "steps and samples": (xj.InputError, "Give one of them", {"samples": 10, "steps": 7}),
    "seed": (xj.InputError, "seed must be at least 0", {"seed": -1}),
    "too many": (
        xj.EnumerationLimitError,
        "30,000 background rows with 50 steps each are 1,500,000.*samples=",
        {"background": np.zeros((30_000, 3))},
    ),
    "NaN": (xj.InputError, "background contains NaN", {"background": np.full((2, 3), np.nan)}),
    "one row": (xj.InputError, "one row, not a batch", {"background": DONORS[0]}),
    "weights": (xj.InputError, r"weights has shape", {"weights": [1.0]}),
    "players": (xj.InputError, "named twice", {"players": [[0, 1], [1]]}),
    "nsamples": (xj.InputTypeError, "say samples=", {"nsamples": 10}),
    "memory": (xj.InputError, "max_memory must be at least 1", {"max_memory": 0}),
    "tile": (xj.InputError, "tile must be a power of two", {"tile": 300}),
    "whole leaves": (
        xj.InputError,
        "the leaf 'ids' is int32.*embed, head",
        {"background": {"ids": IDS, "x": np.ones((1, 2))}},
    ),
    "three": (xj.InputError, r"pair \(embed, head\)", {"model": (f, MODEL, MODEL)}),
    "embed a model": (xj.InputTypeError, "embed of", {"model": (MODEL, MODEL)}),
    "head no model": (xj.InputTypeError, r"model: head of \(embed, head\)", {"model": (f, 3)}),
    "head on the host": (xj.InputError, "on the host", {"model": (f, HOST)}),
    "embed of another shape": (
        xj.InputError,
        "axes of its leaf",
        {"model": (lambda ids: jnp.ones((len(ids), 2, 4)), MODEL), "background": IDS},
    ),
    "embed that keeps numbers": (
        xj.InputError,
        "embed leaves 'X' as int32",
        {"model": (lambda ids: ids, MODEL), "background": IDS},
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_arguments_that_are_refused(case):
    error, words, given = WRONG[case]
    given = {"model": MODEL, "background": DONORS, **given}
    ASKED.clear()
    with pytest.raises(error, match=words):
        xj.GradientExplainer(given.pop("model"), given.pop("background"), **given)
    assert not ASKED


ROWS = {
    "NaN": (
        xj.InputError,
        "X contains NaN at row 1",
        np.array([[0.0] * 3, [np.nan] * 3]),
    ),
    "infinite": (xj.InputError, "X contains inf", np.full((1, 3), np.inf)),
    "other columns": (xj.InputError, r"rows of shape \(4,\)", np.ones((2, 4))),
    "no rows": (xj.InputError, "0 rows", np.ones((0, 3))),
    "one row": (xj.InputError, r"Pass x\[None\]", np.ones(3)),
    "text": (xj.InputTypeError, "numbers are needed", np.array([["a", "b", "c"]])),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_that_are_refused(case):
    error, words, rows = ROWS[case]
    explainer = xj.GradientExplainer(MODEL, DONORS)
    ASKED.clear()
    for ask in (explainer, explainer.check, explainer.plan):
        with pytest.raises(error, match=words):
            ask(rows)
    assert not ASKED


def test_outputs_that_are_refused():
    several = xj.as_model(lambda rows: jnp.tanh(rows))
    explainer = xj.GradientExplainer(several, DONORS)
    for outputs, words in (
        ([0, 1, 2, 3], "column 3"),
        ("largest", "must be 'predicted'"),
        ([0], "one"),
    ):
        with pytest.raises(xj.InputError, match=words):
            explainer(X, outputs=outputs)
    with pytest.raises(xj.InputError, match="one number a row"):
        xj.GradientExplainer(MODEL, DONORS)(X, outputs="predicted")
    with pytest.raises(xj.InputTypeError, match="no keyword 'top'"):
        explainer(X, top=3)


def test_rows_that_allow_nan_have_no_line_to_it():
    model = xj.as_model(lambda rows: jnp.nansum(rows, axis=1), allow_nan=True)
    with pytest.raises(xj.InputError, match="background contains NaN at row 1, column 0"):
        xj.GradientExplainer(model, [[1.0, 2.0], [np.nan, 1.0]])
    with pytest.raises(xj.InputError, match="X contains NaN at row 0, column 1"):
        xj.GradientExplainer(model, np.ones((1, 2)))([[1.0, np.nan]])


@pytest.mark.slow
def test_models_without_slopes():
    back = xj.as_model(
        lambda rows: jax.pure_callback(
            lambda r: np.tanh(r).sum(axis=1),
            jax.ShapeDtypeStruct(rows.shape[:1], rows.dtype),
            rows,
            vmap_method="expand_dims",
        )
    )
    with pytest.raises(xj.InputError, match="calls back to Python.*as_jax"):
        xj.GradientExplainer(back, DONORS)(X)
    counts = xj.as_model(lambda rows: (rows > 0).sum(axis=1))
    with pytest.raises(xj.InputError, match="int32, labels or counts"):
        xj.GradientExplainer(counts, DONORS)(X)
    steps = xj.as_model(lambda rows: jnp.round(rows).sum(axis=1))
    with pytest.warns(xj.XaiWarning, match="all gradients are 0"):
        found = xj.GradientExplainer(steps, DONORS)(X)
    assert np.abs(found.stats["completeness"]).max() > 0.1
    logs = xj.as_model(lambda rows: jnp.log(rows).sum(axis=1))
    with pytest.raises(xj.ModelOutputError, match="returned -inf for X row 1"):
        xj.GradientExplainer(logs, np.ones((1, 3)))(np.array([[1.0, 1, 1], [1, 0, 1]]))
    roots = xj.as_model(lambda rows: jnp.sqrt(rows).sum(axis=1) * 1.0)
    with pytest.raises(xj.ModelOutputError, match="gradients of X row 1 are not finite"):
        xj.GradientExplainer(roots, np.zeros((1, 3)))(np.array([[1.0, 1, 1], [1, 0, 1]]))


@pytest.mark.slow
def test_trees_are_refused():
    fitted = DecisionTreeRegressor(max_depth=2).fit(X, X[:, 0])
    explainer = xj.GradientExplainer(xj.as_model(fitted), X[:2])
    with pytest.raises(xj.InputError, match="holds trees.*Use Explainer"):
        explainer(X)


def test_too_little_memory():
    wide = xj.as_model(lambda rows: jnp.tanh(rows @ jnp.ones((3, 4096))).sum(axis=1))
    with pytest.raises(xj.MemoryPlanError, match="max_memory=10,000"):
        xj.GradientExplainer(wide, DONORS, max_memory=10_000)(X)


def test_a_long_run_is_told_of():
    square = np.ones((400, 400), np.float32) / 400
    wide = xj.as_model(lambda W, rows: (jnp.tanh(rows @ W) @ W).sum(axis=1), square)
    explainer = xj.GradientExplainer(wide, np.zeros((20_000, 400), np.float32))
    run = explainer._run(explainer._read(np.ones((1, 400), np.float32), None)[1])[0]
    with pytest.warns(xj.LongRunWarning, match="20,000,000 derivatives are coming"):
        explainer._warn_long(run, 20)


def test_a_sum_that_is_far_off_is_told():
    """A step beside a slope: the quadrature finds the slope alone."""
    model = xj.as_model(lambda X: X[:, 0] + 10 * (X[:, 1] > 0))
    rows = np.array([[1.0, 1.0], [1.0, -1.0]])
    with pytest.warns(xj.XaiWarning, match="values of 1 instance are off by more than 5 %"):
        found = xj.GradientExplainer(model, -np.ones((1, 2)), path="integrated")(rows)
    np.testing.assert_allclose(found.stats["completeness"], [10, 0], atol=1e-5)


def test_the_mean_of_ids_is_refused():
    embed = np.ones((9, 2), np.float32)
    pair = (lambda ids: jnp.asarray(embed)[ids], xj.as_model(lambda e: e.sum(axis=(1, 2))))
    with pytest.raises(xj.InputError, match="the mean of rows of whole numbers"):
        xj.GradientExplainer(pair, xj.Baseline("mean", np.ones((3, 4), int)), path="integrated")
