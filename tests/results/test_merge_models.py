"""Explanations of two models are not merged where models can be told apart."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from repository import CASES, ROOT, TESTS
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

import xaijax as xj
from xaijax.core.errors import InputError

RNG = np.random.default_rng(1)
D, X = RNG.random((12, 3)).astype(np.float32), RNG.random((4, 3)).astype(np.float32)
Y = (D.sum(axis=1) > 1.5) * 1
W = np.array([1.0, 2.0, 3.0], np.float32)
WIDE = RNG.normal(size=(3, 20)).astype(np.float32)


def fit():
    return LinearRegression().fit(D, Y)


def mark_of(found):
    return found.stats["model_fingerprint"]


def explained(model, rows=X, **options):
    return xj.Explainer(model, D, **options)(rows)


def refuse(*parts):
    with pytest.raises(InputError, match="explanation 1 is of another model than.*one model"):
        xj.merge(parts)


def linear(weights):
    return xj.as_model(lambda rows: jnp.tanh(rows @ weights))


@pytest.mark.slow
def test_traced_models_with_other_constants():
    one, other = explained(linear(W)), explained(linear(W + 1e-6))
    refuse(one, other)
    assert len(xj.merge([one, explained(linear(W.copy()))])) == 8  # made anew, the same model


@pytest.mark.slow
def test_large_constants_differ_in_one_number():
    """Which the text of the program does not show."""
    wide = RNG.normal(size=(3, 400)).astype(np.float32)
    changed = wide.copy()
    changed[1, 333] += 1e-3
    one, same, other = (
        explained(xj.as_model(lambda r, w=w: jnp.tanh(r @ w).sum(1)))
        for w in (wide, wide.copy(), changed)
    )
    refuse(one, other)
    assert mark_of(one) == mark_of(same)


def test_parameters_are_of_the_model_and_a_call_traces_no_more():
    traces = []

    def f(params, rows):
        traces.append(rows.shape)
        return jnp.tanh(rows @ params["w"]) + params["b"]

    model = xj.as_model(f, params={"w": W, "b": np.float32(0)})
    one = explained(model)
    known = len(traces)
    again = explained(model)
    other = explained(model.replace(params={"w": W, "b": np.float32(1e-3)}))
    assert len(traces) == known  # the model's identity is that of the run's own trace
    assert mark_of(one) == mark_of(again)
    refuse(one, other)


@pytest.mark.slow
def test_fits_of_estimators_in_jax_and_on_the_host():
    fits = [LogisticRegression(C=c).fit(D, Y) for c in (1.0, 10.0)]
    here, there, other = (
        explained(xj.as_model(fit, backend=b))
        for fit, b in zip((fits[0], fits[0], fits[1]), ("jax", "host", "host"), strict=True)
    )
    assert mark_of(here) == mark_of(there)
    refuse(here, other)
    refuse(explained(xj.as_model(fit())), explained(linear(W)))


def test_an_estimator_fitted_again_between_two_calls():
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(D, Y)
    explainer = xj.Explainer(xj.as_model(tree, backend="host"), D)
    one = explainer(X)
    assert mark_of(one) == mark_of(explainer(X[:1]))
    tree.fit(D, 1 - Y)
    refuse(one, explainer(X))


@pytest.mark.slow
def test_methods_beside_the_explainer():
    scores = [xj.as_model(lambda r, c=c: jax.nn.sigmoid(r @ W - c)) for c in (2.0, 2.5)]
    for explain in (
        lambda m: xj.QII(m, D, quantity="individual", outcome="score").explain(X),
        lambda m: xj.FederatedExplainer(m, D, {"guest": [2]}, reference="median")(X),
    ):
        one, same, other = explain(scores[0]), explain(scores[0]), explain(scores[1])
        assert len(xj.merge([one, same])) == 8
        with pytest.raises(InputError, match="another model|baselines differ"):
            xj.merge([one, other])
        assert mark_of(one) != mark_of(other)


def unreadable(function):
    """A model on the host with no Python code of its own."""
    return xj.as_model(functools.partial(function, axis=1), backend="host")


def test_a_model_that_cannot_be_read_is_not_compared():
    one, other = (explained(unreadable(function)) for function in (np.sum, np.prod))
    assert mark_of(one) is None
    assert len(xj.merge([one, other])) == 8


def test_functions_on_the_host_are_compared_by_what_they_read():
    """The broken version merged them, whatever they read."""
    one, same, other = (
        explained(xj.as_model(lambda r, c=c: c * r.sum(axis=1), backend="host")) for c in (1, 1, 2)
    )
    assert mark_of(one) == mark_of(same)
    assert len(xj.merge([one, same])) == 8
    refuse(one, other)
    traced = explained(xj.as_model(lambda r: r.sum(axis=1)))
    assert len(xj.merge([one, traced])) == 8  # JAX and the host may be asked of one function


def test_a_function_that_remembers_its_answers_is_one_model():
    known, log = {}, []

    def note(of, one):
        of.append(one)

    def f(rows):
        note(log, len(rows))
        return np.array([known.setdefault(row.tobytes(), row.sum()) for row in rows])

    parts = [explained(xj.as_model(f, backend="host")) for _ in range(3)]
    assert mark_of(parts[0]) is not None
    assert len(xj.merge(parts)) == 12


@pytest.mark.slow
def test_merged_parts_remember_their_models():
    known, unknown, other = (
        explained(linear(W)),
        explained(unreadable(np.sum)),
        explained(linear(W + 1)),
    )
    both = xj.merge([known, unknown])
    assert mark_of(both) == [mark_of(known), None]
    refuse(both, other)
    assert len(xj.merge([both, known])) == 12


def test_other_versions_tell_nothing():
    one = explained(linear(W))
    text = mark_of(one).replace("jax ", "jax 0.0.1-", 1)[:-1] + "-"
    stats = dict(one.stats) | {"model_fingerprint": text}
    older = xj.Explanation(**{**fields_of(one), "stats": stats})
    assert len(xj.merge([one, older])) == 8


def fields_of(one):
    names = ("values", "base_values", "data", "feature_names", "exact", "kind", "provenance")
    return {name: getattr(one, name) for name in names}


def hidden(rows):
    return jnp.tanh(jnp.where(rows > 0, rows, 0) @ WIDE).sum(1)


@pytest.mark.slow
def test_the_same_in_another_process():
    script = (
        "import test_merge_models as t\n"
        "for one in (t.hidden, t.fit()): print(t.mark_of(t.explained(t.xj.as_model(one))))\n"
    )
    path = f"{ROOT}:{ROOT / 'kernels'}:{CASES}:{TESTS / 'results'}"
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONHASHSEED": "77", "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
        check=True,
        capture_output=True,
        text=True,
    )
    marks = [mark_of(explained(xj.as_model(one))) for one in (hidden, fit())]
    assert run.stdout.split("\n")[:2] == marks
    assert [mark.partition(" ")[0] for mark in marks] == ["jax", "scikit-learn"]


def test_it_stays_out_of_pages(tmp_path):
    pytest.importorskip("matplotlib")
    found = explained(xj.as_model(fit()))
    digest = mark_of(found).rpartition(" ")[2]
    assert len(digest) == 32
    page = xj.report(found, tmp_path / "page.html").read_text("utf-8")
    for text in (page, repr(found), repr(found.provenance)):
        assert digest not in text and "fingerprint" not in text


@pytest.mark.parametrize("algorithm", ["kd_tree", "ball_tree"])
def test_a_search_tree_that_counts_its_visitors_is_one_model(algorithm):
    """Neighbours on the host, whose tree counts every search."""
    fitted = KNeighborsClassifier(3, algorithm=algorithm).fit(D, Y)
    host = xj.as_model(fitted, output=True, backend="host")
    one, other = explained(host), explained(host, X + 1)
    assert len(xj.merge([one, other])) == 8 and isinstance(mark_of(one), str)
    fitted._tree = KNeighborsClassifier(3, algorithm=algorithm).fit(D + 1, Y)._tree
    refuse(one, explained(host))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_where_a_shared_generator_stands_is_not_of_the_model():
    shared = np.random.RandomState(0)
    fitted = MLPClassifier((2,), max_iter=2, random_state=shared).fit(D, Y)
    host = xj.as_model(fitted, output=True, backend="host")
    one = explained(host)
    shared.rand(3)
    assert len(xj.merge([one, explained(host)])) == 8


def test_a_piece_that_leaves_jax_merges_with_one_that_stayed():
    """Numbers beyond float32 send the second piece to the estimator itself."""
    fitted = LinearRegression().fit(D, Y)
    explain = xj.Explainer(xj.as_model(fitted), D.astype(np.float64))
    rows = X.astype(np.float64)
    here, there = explain(rows), explain(np.where(rows > 0.5, 1e39, rows))
    assert [one.stats["backend"] for one in (here, there)] == ["jax", "host"]
    assert len(xj.merge([here, there])) == 8
