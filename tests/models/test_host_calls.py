"""Calling a host model: checked answers, read-only rows, notes, deadlines; and the probes."""

import threading
import time

import numpy as np
import pandas as pd
import pytest

import xaijax as xj
from xaijax.core.errors import ModelOutputError, NonDeterministicModelError
from xaijax.models import as_model
from xaijax.models.base.outputs import check_output
from xaijax.models.queries.host import call_host, call_host_raw
from xaijax.models.queries.probe import probe_determinism, probe_neighbours

X = np.random.default_rng(0).normal(size=(12, 3))


def host(f, **options):
    return as_model(f, backend="host", **options)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (np.zeros(11), "returned 11 rows.*12 rows"),
        (3.0, "single value"),
        (None, "None.*return missing"),
        (np.zeros((12, 3, 2)), r"shape \(12, 3, 2\)"),
        (np.zeros((12, 0)), "no outputs"),
        (["yes"] * 12, "output='label'"),
        (np.array(["yes"] * 12, dtype=object), "output='label'"),
        (np.zeros(12, dtype=complex), "complex128"),
        (np.zeros(12, dtype="datetime64[D]"), "datetime64"),
        ([[1.0], [1.0, 2.0]] * 6, "no array"),
        ({"a": 1}, "single value"),
        (np.ma.masked_less(X[:, 0], 0), "masked"),
        (pd.DataFrame({"a": [1.0] * 12, "b": ["x"] * 12}), "text or objects"),
    ],
)
def test_answers_are_checked(raw, message):
    with pytest.raises(ModelOutputError, match=message) as caught:
        call_host(host(lambda rows: raw), X, 40)
    assert "rows 40:52" in str(caught.value) or "rows 40:52" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    "raw",
    [
        X[:, 0],
        X[:, :1],
        X[:, 0].tolist(),
        pd.Series(X[:, 0]),
        X[:, 0].astype(object),
        X,
        X[:, 0] > 0,
        np.arange(12),
        X[:, 0].astype(np.float16),
    ],
)
def test_what_is_accepted_becomes_float64(raw):
    values = check_output(raw, 12)
    assert values.dtype == np.float64
    wanted = np.asarray(raw, dtype=np.float64)
    np.testing.assert_array_equal(values, wanted[:, 0] if wanted.shape == (12, 1) else wanted)


def test_dtypes_reach_the_model_and_come_back():
    seen = []
    model = host(lambda rows: seen.append(rows.dtype) or rows[:, 0])
    for dtype in (np.float32, np.int64, bool):
        model.predict(X.astype(dtype))
    assert seen == [np.float32, np.int64, bool]
    assert call_host_raw(model, X.astype(np.float32)).dtype == np.float32


def test_rows_are_cut_by_max_rows():
    sizes = []
    model = host(lambda rows: sizes.append(len(rows)) or rows[:, 0], max_rows=5)
    np.testing.assert_array_equal(model.predict(X), X[:, 0])
    assert sizes == [5, 5, 2]


def test_a_model_that_writes_into_its_rows_fails_loudly():
    def f(rows):
        rows[:, 0] = 0.0
        return rows[:, 0]

    before = X.copy()
    with pytest.raises(ValueError, match="read-only") as caught:
        host(f).predict(X)
    assert any("must not write" in note for note in caught.value.__notes__)
    np.testing.assert_array_equal(X, before)
    assert X.flags.writeable


@pytest.mark.parametrize("timeout", [None, 30.0])
def test_the_models_own_exception_keeps_its_type(timeout):
    class Mine(Exception):
        pass

    def f(rows):
        raise Mine("row 7 is bad")

    with pytest.raises(Mine, match="row 7") as caught:
        call_host(host(f, timeout=timeout), X, 24)
    assert "rows 24:36" in caught.value.__notes__[0]


def test_the_deadline():
    release = threading.Event()

    def slow(rows):
        release.wait(20)
        return rows[:, 0]

    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"rows 0:12, .*timeout=0.05.*abandoned"):
        host(slow, timeout=0.05).predict(X)
    assert time.monotonic() - began < 10
    release.set()


def test_a_timeout_of_the_models_own_is_not_ours():
    def f(rows):
        raise TimeoutError("the model's server")

    with pytest.raises(TimeoutError, match="the model's server"):
        host(f, timeout=30.0).predict(X)


def test_threads_only_with_a_deadline():
    threads = []
    for timeout in (None, 30.0):
        f = host(lambda rows: threads.append(threading.current_thread()) or rows[:, 0])
        f.replace(timeout=timeout).predict(X)
    assert threads[0] is threading.main_thread()
    assert threads[1] is not threading.main_thread() and threads[1].daemon


# Probes.


def test_determinism():
    rng = np.random.default_rng(0)
    with pytest.raises(NonDeterministicModelError, match="deterministic=False"):
        probe_determinism(lambda rows: rows[:, 0] + 1e-6 * rng.normal(size=len(rows)), X)
    np.testing.assert_array_equal(probe_determinism(lambda rows: rows, X), X)
    holes = np.where(X > 1, np.nan, X)
    assert np.isnan(holes).any()
    np.testing.assert_array_equal(probe_determinism(lambda rows: holes, X), holes)


def test_determinism_allows_sums_in_another_order():
    rng = np.random.default_rng(0)
    terms = rng.normal(size=(12, 4096)).astype(np.float32)
    answers = [terms.sum(axis=1), terms[:, rng.permutation(4096)].sum(axis=1)]
    assert (answers[0] != answers[1]).any()
    probe_determinism(lambda rows: answers[rng.integers(2)], X)


def test_determinism_sees_a_nan_that_comes_and_goes():
    answers = iter([np.zeros(3), np.array([0.0, np.nan, 0.0])])
    with pytest.raises(NonDeterministicModelError, match="row 1"):
        probe_determinism(lambda rows: next(answers), X[:3])


@pytest.mark.parametrize(
    "f",
    [
        lambda rows: (rows - rows.mean(axis=0)) / (rows.std(axis=0) + 1e-5),
        lambda rows: rows[:, 0] + np.arange(len(rows)),
        lambda rows: rows[:, 0] / rows[:, 0].sum(),
    ],
)
def test_neighbours(f):
    with pytest.raises(ModelOutputError, match="batch normalisation"):
        probe_neighbours(f, X)


def test_neighbours_of_a_sound_model():
    weights = np.random.default_rng(1).normal(size=(3, 64)).astype(np.float32)
    probe_neighbours(lambda rows: np.tanh(rows.astype(np.float32) @ weights).sum(axis=1), X)
    probe_neighbours(lambda rows: rows["a"].to_numpy(), pd.DataFrame({"a": [1.0, 2.0]}))
    probe_neighbours(lambda rows: rows[:, 0] * np.nan, X)


@pytest.mark.parametrize("most", [1, 4, 5])
def test_max_rows_is_the_most_rows_of_any_host_call(most):
    """Probes, labels and hybrids too; the answers are those of a model without a limit."""
    rows = np.random.default_rng(0).normal(size=(20, 3))
    calls = []

    def f(given):
        calls.append(len(given))
        return np.asarray(given)[:, 0] * 2 + np.asarray(given)[:, 1]

    def sign(given):
        return (f(given) > 0) * 1

    model = xj.as_model(f, backend="host", max_rows=most)
    labels = xj.as_model(sign, backend="host", output="label", max_rows=most)
    free = xj.as_model(f, backend="host")
    wanted = xj.Explainer(free, rows)(rows[:2]).values
    calls.clear()
    np.testing.assert_allclose(xj.Explainer(model, rows)(rows[:2]).values, wanted, atol=1e-12)
    model.predict(rows)
    labels.labels(rows)
    xj.QII(model, rows, quantity="rate", outcome="score", bounds=(-20, 20)).unary()
    xj.QII(labels, rows).unary(rows[:2])
    xj.AnchorExplainer(labels, rows).explain(rows[:1], search="kl-lucb", batch_size=10, max_size=1)
    assert max(calls) == most
    changed = xj.as_model(lambda X: np.asarray(X)[:, 0] - np.asarray(X)[:, 0].mean(),
                          backend="host", max_rows=4)  # fmt: skip
    with pytest.raises((xj.ModelOutputError, xj.NonDeterministicModelError)):
        xj.Explainer(changed, rows)(rows[:2])


@pytest.mark.parametrize("backend", ["host", "jax"])
def test_chances_are_no_class_labels(backend):
    """The message says threshold=, which makes labels of them; whole numbers stay labels."""
    rows = np.random.default_rng(0).normal(size=(20, 2))

    def chances(given):
        return 1 / (1 + 2.0 ** -given[:, 0])

    model = xj.as_model(chances, output="label", backend=backend)
    for ask in (
        lambda: model.labels(rows),
        lambda: xj.Explainer(model, rows)(rows[:2]),
        lambda: xj.AnchorExplainer(model, rows).explain(rows[:1]),
        lambda: xj.QII(model, rows).unary(rows[:2]),
    ):
        with pytest.raises(ModelOutputError, match=r"wants class labels.*threshold="):
            ask()
    decided = xj.as_model(chances, threshold=0.5, backend=backend)
    np.testing.assert_array_equal(decided.labels(rows), rows[:, 0] > 0)
    whole = xj.as_model(lambda given: (given[:, 0] > 0) * 1.0, output="label", backend=backend)
    np.testing.assert_array_equal(whole.labels(rows), rows[:, 0] > 0)
