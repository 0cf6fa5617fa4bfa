"""`thread_safe=True`: calls beside each other, with bits, order and errors as one by one."""

import os
import threading
import time

import numpy as np
import pytest
from small_case import B, X, f64

import xaijax as xj
from xaijax.core import process

ROWS = np.random.default_rng(4).normal(size=(40, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(4), raising=False)


class Together:
    """f; counts the calls that run at once, and lets the first of them wait for others."""

    def __init__(self, probes=4):
        self.lock, self.running, self.most, self.left = threading.Lock(), 0, 0, probes

    def __call__(self, rows):
        with self.lock:
            self.left -= 1
            self.running += 1
            self.most = max(self.most, self.running)
        if -3 < self.left < 0:  # of one thread, there is nobody to wait for
            for _ in range(100):
                if self.most > 1:
                    break
                time.sleep(0.02)
        with self.lock:
            self.running -= 1
        return f64(rows)


ASKED = {
    "calls": (lambda model: xj.Explainer(model, B, tile=256)(ROWS).values, {}),
    "max_rows": (lambda model: xj.Explainer(model, B)(X).values, {"max_rows": 64}),
    "shared": (lambda model: xj.Explainer(model, xj.Baseline(B[0]))(X).values, {"max_rows": 16}),
    "sampled": (
        lambda model: (
            xj.Explainer(model, B, estimator="permutation", budget=8, tile=256, link=np.arctan)(
                ROWS
            ).values
        ),
        {},
    ),
    "predict": (lambda model: model.predict(ROWS), {"max_rows": 4}),
    "labels": (lambda model: model.labels(ROWS), {"max_rows": 4, "threshold": 1.0}),
    "rules": (
        lambda model: (
            xj.AnchorExplainer(model, ROWS, tolerance=1.0)
            .explain(X, search="kl-lucb")
            .to_dataframe()
            .to_numpy(str)
        ),
        {"max_rows": 64},
    ),
}


@pytest.mark.parametrize("what", ASKED)
def test_calls_run_beside_each_other_with_the_same_bits(what):
    ask, options = ASKED[what]
    function = Together(0 if what in ("predict", "labels") else 4)
    found = ask(xj.as_model(function, backend="host", thread_safe=True, **options))
    wanted = ask(xj.as_model(f64, backend="host", **options))
    np.testing.assert_array_equal(found, wanted)
    assert 2 <= function.most <= 4


def test_one_thread_unless_said():
    seen = set()

    def function(rows):
        seen.add(threading.current_thread())
        return f64(rows)

    xj.Explainer(xj.as_model(function, backend="host"), B, tile=256)(ROWS)
    assert seen == {threading.main_thread()}


@pytest.mark.parametrize("timeout", [None, 30.0])
def test_the_first_error_of_the_stream_comes_out(timeout):
    """Later calls may fail before it."""

    def function(rows):
        if (rows == ROWS[9]).all(axis=1).any():
            time.sleep(0.2)
            raise KeyError("the first")
        if (rows == ROWS[30]).all(axis=1).any():
            raise KeyError("a later one")
        return f64(rows)

    model = xj.as_model(function, backend="host", thread_safe=True, max_rows=1, timeout=timeout)
    with pytest.raises(KeyError, match="the first") as caught:
        model.predict(ROWS)
    assert "on rows 9:10" in caught.value.__notes__[0]


def test_the_deadline_holds_in_threads():
    release = threading.Event()

    def hanging(rows):
        if (rows == ROWS[2]).all(axis=1).any():
            release.wait(30)
        return f64(rows)

    model = xj.as_model(hanging, backend="host", thread_safe=True, max_rows=1, timeout=1.0)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"rows 2:3, .*timeout=1 "):
        model.predict(ROWS)
    release.set()
    assert time.monotonic() - began < 15


def test_no_more_calls_than_threads_are_begun_ahead():
    begun = []
    found = process.in_order(lambda i: begun.append(i) or i, range(100), 4)
    assert next(found) == 0 and len(begun) <= 4
    found.close()
    time.sleep(0.05)
    assert len(begun) <= 4


@pytest.mark.parametrize("make", ["Explainer", "QII", "AnchorExplainer", "as_model"])
def test_a_tile_is_never_tuned(make):
    """Times of a run would decide about bits: tile= is the way."""
    given = (f64,) if make == "as_model" else (xj.as_model(f64, backend="host"), B)
    with pytest.raises(xj.InputTypeError, match="no keyword 'tune'"):
        getattr(xj, make)(*given, tune=True)
