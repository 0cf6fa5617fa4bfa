"""A fingerprint of an estimator tells every two states apart, and no state from itself."""

from __future__ import annotations

import array
import collections
import decimal
import functools
import gc
import operator
import re
import sys
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import xaijax as xj
from xaijax.models.identity.fit_fingerprint import FitFingerprint, once_a_fit
from xaijax.models.identity.identity import digest_of, kept_digest


def test_minus_one_and_minus_two_are_two_states():
    """Python's hash takes them for one number."""
    estimator = LinearRegression()
    estimator.kept = -1
    before = FitFingerprint(estimator)
    estimator.kept = -2
    assert FitFingerprint(estimator) != before


def test_values_that_python_takes_for_equal_are_told_apart():
    """And those that are written alike, or stand in things of another kind."""
    values = [True, 1, 1.0, np.float64(1), "1", b"1", None, 0, False, 0.0, -0.0, "", b"", ()]
    values += [[], {}, ("1",), ["1"], {"1"}, {"1": None}, {b"1": None}, {1: None}, {"1": "None"}]
    values += [{"a": "1", "b": None}, {"a": "1"}, {"a": {"1": None}, "b": None}]
    fingerprints = [FitFingerprint({"kept": value, "more": None}) for value in values]
    for i, one in enumerate(fingerprints):
        assert [j for j, other in enumerate(fingerprints) if one == other] == [i], values[i]
    assert FitFingerprint({"kept": float("nan")}) == FitFingerprint({"kept": float("nan")})


def test_what_lies_between_the_fields_of_a_record_is_no_state():
    """A tree's nodes are such records; a number within one of them is its state."""
    kind = np.dtype({"names": ["a", "b"], "formats": ["i1", "(2,)f8"], "offsets": [0, 8]})
    one, other = np.zeros(3, kind), np.frombuffer(bytearray(b"\xff" * 3 * kind.itemsize), kind)
    for name in kind.names:
        other[name] = one[name]
    assert one.tobytes() != other.tobytes()
    assert FitFingerprint([one]) == FitFingerprint([other])
    other["b"][2, 1] = 5e-324
    assert FitFingerprint([one]) != FitFingerprint([other])


class Slotted:
    """What it holds stands beside its `__dict__`."""

    __slots__ = ("__dict__", "weight")

    def __init__(self, weight: float) -> None:
        self.weight = weight


class Noted(dict):
    """A dict with an attribute."""

    def __init__(self, note: str) -> None:
        self.note = note


@pytest.mark.parametrize(
    "made",
    [
        lambda n: collections.deque([n]),
        lambda n: array.array("d", [n]),
        lambda n: operator.itemgetter(n),
        lambda n: re.compile("ab"[n]),
        lambda n: functools.partial(max, n),
        lambda n: functools.partial(max, key=n),
        lambda n: Slotted(float(n)),
        lambda n: Noted("ab"[n]),
        lambda n: decimal.Decimal(n),
        lambda n: np.zeros(2, [(name, "f8") for name in ("ab", "ba")[n]]),
    ],
)
def test_what_no_dict_of_an_object_shows_is_told_apart(made: Callable[[int], Any]) -> None:
    """Classes written in C, whose objects may have a `__dict__` besides, slots, names of fields."""
    assert FitFingerprint({"kept": made(0)}) != FitFingerprint({"kept": made(1)})
    kept = {"kept": made(0)}
    assert FitFingerprint(kept) == FitFingerprint(kept)


def test_objects_of_python_are_read_by_their_dict_alone() -> None:
    """The others are asked for what they would pickle, which takes longer."""
    fingerprint = FitFingerprint([LinearRegression(), Slotted(0.0), functools.partial(max)])
    found = {kind.__name__: bare for kind, (_, bare) in fingerprint._kinds.items()}
    assert found == {"LinearRegression": True, "Slotted": False, "partial": False}


class Formula:
    """A fitted model with a module, its user's variables, and many objects within objects."""

    def __init__(self, many: int = 0) -> None:
        self.module, self.variables, self.frame = np, globals(), sys._getframe()
        self.many = [[object(), {"n": n}] for n in range(many)]
        self.weights = np.ones(3)


def test_modules_and_the_variables_of_a_caller_are_not_enumerated(monkeypatch):
    """The broken version walked through NumPy at every call, for seconds."""
    estimator = Formula()
    before = FitFingerprint(estimator)
    assert len(before._seen) == 1
    monkeypatch.setitem(globals(), "unrelated", 1)
    assert FitFingerprint(estimator) == before
    estimator.weights[1] = 2.0
    assert FitFingerprint(estimator) != before


def test_no_more_of_a_foreign_object_is_read_than_a_bound(monkeypatch):
    """What is read stays told apart, however much follows."""
    monkeypatch.setattr("xaijax.models.identity.fit_fingerprint.MOST", 100)
    estimator = Formula(10_000)
    before = FitFingerprint(estimator)
    assert len(before._seen) <= 101
    assert FitFingerprint(estimator) == before
    estimator.many[5][1]["n"] = -5
    assert FitFingerprint(estimator) != before


def test_no_more_bytes_of_foreign_arrays_are_read_than_a_bound(monkeypatch):
    monkeypatch.setattr("xaijax.models.identity.fit_fingerprint.BYTES", 1000)
    monkeypatch.setattr("xaijax.models.identity.fit_fingerprint.SPREAD", 11)
    estimator = Formula()
    estimator.weights = np.ones(10_001)
    before = FitFingerprint(estimator)
    estimator.weights[3000] = 2.0  # of 11 entries spread over it: 0, 1000, 2000, ...
    assert FitFingerprint(estimator) != before
    kept = LinearRegression()
    kept.coef_ = np.ones(10_001)
    before = FitFingerprint(kept)
    kept.coef_[3001] = 2.0  # scikit-learn's are read whole
    assert FitFingerprint(kept) != before


def test_a_formula_of_statsmodels_costs_milliseconds():
    pandas = pytest.importorskip("pandas")
    formulas = pytest.importorskip("statsmodels.formula.api")
    rows = pandas.DataFrame({"a": [1.0, 2.0, 3.0, 5.0], "y": [1.0, 2.0, 2.0, 4.0]})
    fitted = formulas.ols("y ~ np.sin(a)", rows).fit()
    before = FitFingerprint(fitted)
    assert len(before._seen) < 1000
    fitted._results.params = fitted._results.params + 1.0
    assert FitFingerprint(fitted) != before


ROWS = np.random.default_rng(0).normal(size=(40, 3))
TARGETS = ROWS @ [1.0, 2.0, 3.0]
NEIGHBOURS = KNeighborsRegressor(algorithm="kd_tree")


def of_forest():
    return RandomForestRegressor(2, max_depth=2, random_state=0).fit(ROWS, TARGETS)


def of_line():
    return make_pipeline(StandardScaler(), LinearRegression()).fit(ROWS, TARGETS)


def of_neighbours():
    return NEIGHBOURS.fit(ROWS, TARGETS)


def swapped(fitted):
    fitted._tree = KNeighborsRegressor(algorithm="kd_tree").fit(ROWS[::-1], TARGETS)._tree


def moved(fitted):
    np.asarray(fitted._tree.data)[0, 0] += 1.0


def leaf(fitted):
    fitted.estimators_[1].tree_.value[0, 0, 0] += 1.0


def scale(fitted):
    fitted[0].scale_[2] *= 2.0


def step(fitted):
    fitted.steps[1] = ("linearregression", LinearRegression(positive=True).fit(ROWS, -TARGETS))


CHANGES = [
    (of_forest, lambda fitted: fitted.fit(ROWS, -TARGETS)),
    (of_forest, lambda fitted: fitted.estimators_.reverse()),
    (of_forest, leaf),
    (of_line, scale),
    (of_line, step),
    (of_neighbours, swapped),
    (of_neighbours, moved),
    (of_neighbours, lambda fitted: setattr(fitted, "n_neighbors", 2)),
]


@pytest.mark.parametrize(("made", "change"), CHANGES)
def test_what_is_kept_of_a_fit_is_of_no_other(made, change):
    """Its digest, by which `merge` tells fits apart, and its translation."""
    fitted = made()
    fit, before = FitFingerprint(fitted), kept_digest(fitted)
    answers = fitted.predict(ROWS)
    assert FitFingerprint(fitted) == fit
    model = xj.as_model(fitted)
    assert kept_digest(fitted) == before == digest_of(fitted)
    change(fitted)
    assert kept_digest(fitted) == digest_of(fitted) != before
    again = xj.as_model(fitted)
    np.testing.assert_allclose(again.predict(ROWS), fitted.predict(ROWS), rtol=1e-5)
    if not np.array_equal(fitted.predict(ROWS), answers):
        with pytest.raises(xj.InputError, match="has changed since as_model translated it"):
            model.predict(ROWS)


def test_what_is_kept_of_a_fit_is_made_once_and_goes_with_it():
    fitted, made = of_forest(), []

    def make():
        made.append(1)
        return len(made)

    for verbose in (0, 1):  # no answer depends on it
        fitted.verbose = verbose
        assert once_a_fit(fitted, FitFingerprint(fitted), "use", make) == 1
    assert once_a_fit(fitted, FitFingerprint(fitted), "other", make) == 2
    model, again = xj.as_model(fitted), xj.as_model(fitted)
    assert all(map(operator.is_, *map(jax.tree.leaves, (model.params, again.params))))
    gone = weakref.ref(fitted)
    del fitted, model, again
    gc.collect()
    assert gone() is None


def test_nothing_is_kept_of_an_estimator_that_another_library_made():
    """Its state may lie where no fingerprint sees it."""
    fitted = make_pipeline(FunctionTransformer(kw_args={"kept": Slotted(1.0)}), LinearRegression())
    made = iter(range(2))
    for wanted in (0, 1):
        assert once_a_fit(fitted, FitFingerprint(fitted), "use", lambda: next(made)) == wanted


def test_a_function_in_the_place_of_another_is_another():
    """A new one may get the memory of one that is gone; a fingerprint holds those it knows."""
    fitted = FunctionTransformer(func=lambda rows: rows)
    before = FitFingerprint(fitted)
    fitted.func = None
    functions = [lambda rows: 2 * rows for _ in range(300)]
    for fitted.func in functions:
        assert FitFingerprint(fitted) != before
