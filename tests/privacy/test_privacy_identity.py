"""Which models a ledger knows again: those that can be read whole, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from repository import ROOT
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import xaijax as xj
from xaijax.models.identity.identity import Unreadable, digest_of

D = np.random.default_rng(4).integers(0, 3, (12, 2)).astype(np.float32)
Y = (D[:, 0] > D[:, 1]) * 1


def identity(f, shape=(2,), **options):
    return xj.as_model(f, **options).identity(shape, np.float32, "cpu")


@pytest.mark.parametrize("jitted", [False, True])
def test_traced_models_are_told_apart_by_their_constants(jitted):
    """Also by those of a function within, and the same again when made anew."""
    first = np.random.default_rng(0).normal(size=(300, 60)).astype(np.float32)
    second = first.copy()
    second[217, 33] += 1e-3

    def of(weights, params=None):
        def f(X):
            return jnp.tanh(X @ weights)[:, 0]

        return identity(jax.jit(f) if jitted else f, (300,))

    assert of(first) == of(first.copy()) != of(second)

    def with_params(params):
        return identity(lambda p, X: jnp.tanh(X @ p)[:, 0], (300,), params=params)

    assert with_params(first) == with_params(first.copy()) != with_params(second)


def asks_back(column):
    def on_the_host(X):
        return (np.asarray(X)[:, column] > 0).astype(np.float32)

    def f(X):
        shape = jax.ShapeDtypeStruct((X.shape[0],), jnp.float32)
        return jax.pure_callback(on_the_host, shape, X)

    return f


def in_a_loop(X):
    step = asks_back(0)
    return jax.lax.scan(lambda c, _: (c + step(X), None), X[:, 0], None, length=2)[0]


def talks(X):
    jax.debug.print("rows")
    return X[:, 0]


def rule(X):
    return (X[:, 0] > 0) * 1


def twice(X):
    return 2 * X


class Clf:
    """A model of the user's own, whose work is in a helper."""

    def rule(self, X):
        return rule(X)

    def __call__(self, X):
        return self.rule(X)


class Own(LogisticRegression):
    """An estimator of the user's own."""


def on_the_host(f):
    return lambda: identity(f, backend="host", output="label", classes=[0, 1])


UNKNOWN = {
    "a callback": lambda: identity(asks_back(0)),
    "a callback in a loop": lambda: identity(in_a_loop),
    "a callback that prints": lambda: identity(talks),
    "a function": on_the_host(rule),
    "an object": on_the_host(Clf()),
    "a lambda": on_the_host(lambda X: rule(X)),
    "an estimator of one's own": lambda: identity(Own().fit(D, Y)),
    "a function in a Pipeline": lambda: identity(
        make_pipeline(FunctionTransformer(twice), LogisticRegression()).fit(D, Y)
    ),
    "an estimator with a method put in": lambda: identity(_patched()),
}


def _patched():
    model = LogisticRegression().fit(D, Y)
    model.predict = rule
    return model


@pytest.mark.parametrize("case", UNKNOWN)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_what_cannot_be_read_whole_has_no_identity(case):
    assert UNKNOWN[case]() is None


MADE = {
    "logistic": LogisticRegression,
    "forest": lambda: RandomForestClassifier(5, random_state=0),
    "neighbours": KNeighborsClassifier,
    "pipeline": lambda: make_pipeline(
        FunctionTransformer(np.log1p), StandardScaler(), LogisticRegression()
    ),
}


@pytest.mark.parametrize("made", MADE)
def test_estimators_are_told_apart_by_their_fitted_state(made):
    first, again, other = (MADE[made]().fit(D, y) for y in (Y, Y, 1 - Y))
    assert identity(first) == identity(again) != identity(other)
    assert identity(first) != identity(first, output="label")
    with pytest.raises(Unreadable):
        digest_of(rule)


SCRIPT = """
import numpy as np, xaijax as xj
from sklearn.linear_model import LogisticRegression
model = LogisticRegression().fit([[0, 0], [1, 1], [0, 1]], [0, 1, 1])
model.words = {"a", "b", "c", "d", "e"}
traced = xj.as_model(lambda X: X @ np.arange(2.0, dtype=np.float32))
print(xj.as_model(model).identity((2,), None, "cpu"), traced.identity((2,), np.float32, "cpu"))
"""


@pytest.mark.slow
def test_another_process_knows_the_model_again():
    """Whatever order sets have there."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"}
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**env, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1 and "None" not in found.pop()


@pytest.fixture
def ledger(tmp_path):
    pytest.importorskip("opendp", reason="needs the extra [privacy]")
    return xj.privacy.Ledger(tmp_path / "ledger", 1e9)


def asked(model, ledger, epsilon=1e6):
    """(what was charged, whether the released values are those of this model, the copy)."""
    explanation = xj.QII(model, D, quantity="average").explain()
    spent = ledger.spent
    private = xj.privacy.release(explanation, epsilon, ledger=ledger)
    right = np.allclose(private.values, explanation.values, atol=1e-3)
    return ledger.spent - spent, right, private


def changing_models():
    """Pairs that nothing but a look at all that they reach would tell apart."""
    steps = {"column": 0}

    def by_dict(X):
        return (X[:, steps["column"]] > 0) * 1

    class Helped:
        def rule(self, X):
            return (X[:, steps["column"]] > 0) * 1

        def __call__(self, X):
            return self.rule(X)

    for f in (by_dict, Helped()):
        for steps["column"] in (0, 1):
            yield xj.as_model(f, backend="host", output="label", classes=[0, 1])


def test_a_model_that_cannot_be_known_is_never_answered_from_the_ledger(ledger):
    for model in changing_models():
        for _ in range(2):
            charged, right, private = asked(model, ledger)
            assert charged == 1e6 and right
            assert private.mechanism["charged"] and not private.mechanism["free_again"]


@pytest.mark.slow
def test_a_model_that_is_known_is_answered_free_of_charge(ledger):
    models = [
        lambda: xj.as_model(LogisticRegression().fit(D, Y)),
        lambda: xj.as_model(LogisticRegression().fit(D, 1 - (D[:, 1] > 0))),
        lambda: xj.as_model(lambda X: (X[:, 0] > 0) * 1.0, output="label", classes=[0, 1]),
        lambda: xj.as_model(lambda X: (X[:, 1] > 0) * 1.0, output="label", classes=[0, 1]),
    ]
    for make in models:
        for cost in (1e6, 0):
            charged, right, private = asked(make(), ledger)
            assert charged == cost and right and private.mechanism["free_again"]


@pytest.mark.slow
def test_a_model_that_is_fitted_anew_is_asked_as_it_was_counted(ledger):
    """The sums are kept, so the question is that of the model that they were counted of."""
    fitted = LogisticRegression().fit(D, Y)
    explanation = xj.QII(xj.as_model(fitted), D, quantity="average").explain()
    first = xj.privacy.release(explanation, 1e6, ledger=ledger)
    fitted.fit(D, 1 - (D[:, 1] > 0))
    again = xj.privacy.release(explanation, 1e6, ledger=ledger)
    assert again.values.tolist() == first.values.tolist() and ledger.spent == 1e6
    charged, right, _ = asked(xj.as_model(fitted), ledger)
    assert charged == 1e6 and right


@pytest.mark.slow
def test_a_model_that_changes_as_it_is_counted_has_no_identity(ledger, monkeypatch):
    fitted = LogisticRegression().fit(D, Y)
    lock = threading.Lock()
    explanation = xj.QII(xj.as_model(fitted), D, quantity="average").explain()
    predict = LogisticRegression.predict

    def once_more(self, X):
        with lock:
            self.coef_ = self.coef_ * 1.0001
        return predict(self, X)

    monkeypatch.setattr(LogisticRegression, "predict", once_more)
    explanation = xj.QII(xj.as_model(fitted), D, quantity="average").explain()
    private = xj.privacy.release(explanation, 1.0, ledger=ledger)
    assert private.mechanism["charged"] and not private.mechanism["free_again"]
