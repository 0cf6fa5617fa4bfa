"""Few rows, which a forest's trees answer one after another when a translation is compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from xaijax.models.translations.families.trees import FEW, by_trees

RNG = np.random.default_rng(5)
X = RNG.normal(size=(200, 6))
CLASSES = RNG.integers(0, 3, 200)
AMOUNTS = RNG.normal(size=200) * 1e3


def fitted(kind: Any, y: Any, **options: Any) -> Any:
    return kind(7, random_state=0, **options).fit(X, y)


class Counted:
    """An answer, and how often it was asked for."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.calls = answer, 0

    def __call__(self, rows: Any) -> Any:
        self.calls += 1
        return self.answer(rows)


@pytest.mark.parametrize(
    ("forest", "method"),
    [
        (fitted(RandomForestClassifier, CLASSES), "predict_proba"),
        (fitted(ExtraTreesClassifier, CLASSES, class_weight="balanced"), "predict_proba"),
        (fitted(RandomForestRegressor, AMOUNTS, max_depth=3), "predict"),
        (fitted(ExtraTreesRegressor, AMOUNTS), "predict"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_the_bits_are_those_of_the_forest(forest: Any, method: str) -> None:
    own = Counted(getattr(forest, method))
    answers = by_trees(forest, own)
    rows = RNG.normal(size=(50, 6)) * 2
    answers(rows[:1])
    for row in rows:
        assert np.array_equal(answers(row[None]), getattr(forest, method)(row[None]))
    assert own.calls == 1  # the first was answered both ways
    assert np.array_equal(answers(rows[:FEW]), getattr(forest, method)(rows[:FEW]))


@pytest.mark.parametrize(
    "rows",
    [
        X[: FEW + 1],
        np.where(np.arange(6) == 2, np.nan, X[:2]),
        X[:2].astype(str),
        X[:2].tolist(),
    ],
    ids=["many", "missing", "text", "lists"],
)
def test_the_forest_itself_answers_other_rows(rows: Any) -> None:
    forest = fitted(RandomForestClassifier, CLASSES)
    own = Counted(forest.predict_proba)
    answers = by_trees(forest, own)
    answers(X[:1])
    assert np.array_equal(answers(rows), forest.predict_proba(rows))
    assert own.calls == 2


def test_jobs_whose_sum_has_no_order_are_asked_for() -> None:
    forest = fitted(RandomForestClassifier, CLASSES, n_jobs=2)
    own = Counted(forest.predict_proba)
    answers = by_trees(forest, own)
    answers(X[:1])
    answers(X[:1])
    assert own.calls == 2


@pytest.mark.parametrize("rows", [X[:1, :5], np.full((1, 6), np.inf)], ids=["narrow", "infinite"])
def test_the_forest_itself_refuses(rows: np.ndarray) -> None:
    forest = fitted(RandomForestClassifier, CLASSES)
    answers = by_trees(forest, forest.predict_proba)
    answers(X[:1])
    with pytest.raises(ValueError, match="features|infinity"):
        answers(rows)


def test_an_answer_that_is_not_the_mean_of_the_trees_is_always_asked_for() -> None:
    forest = fitted(RandomForestClassifier, CLASSES)
    own = Counted(lambda rows: np.nextafter(forest.predict_proba(rows), 2))
    answers = by_trees(forest, own)
    for row in X[:3]:
        assert np.array_equal(answers(row[None]), own.answer(row[None]))
    assert own.calls == 3


class Flattered(RandomForestClassifier):
    """A forest by a class of one's own."""


def test_a_class_of_ones_own_answers_itself() -> None:
    forest, two = fitted(Flattered, CLASSES), np.stack([CLASSES, CLASSES], axis=1)
    several = fitted(RandomForestClassifier, two)
    for one in (forest, several):
        assert by_trees(one, one.predict_proba) == one.predict_proba
