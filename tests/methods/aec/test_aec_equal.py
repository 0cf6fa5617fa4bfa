"""Columns that are equal in every row tie to the bit, wherever they stand."""

from __future__ import annotations

import warnings

import numpy as np
import often
import oracles
import pytest
from aec_data import fitted
from sklearn.linear_model import Ridge

import xaijax as xj
from xaijax.methods.aec import bootstrap, rows
from xaijax.methods.aec import first_pass as equal
from xaijax_kernels.collinearity.effects import RemainingEffects

COPIES = 4


def with_copies(F, seed, M=100):
    """Mixed normal columns, four of them copies of others at any place; y; and what is equal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M, F)) @ rng.normal(size=(F, F))
    source = np.append(np.arange(F), rng.integers(0, F, COPIES))
    source = source[rng.permutation(F + COPIES)]
    X = X[:, source]
    first = np.array([source.tolist().index(one) for one in source])
    return X, X @ rng.normal(size=F + COPIES) + rng.normal(size=M), first


def check(aec, first):
    """Equal numbers, and one after the other in column order in every list."""
    effects, slopes = np.atleast_2d(aec.effects_), np.atleast_2d(aec.target_slopes_)
    np.testing.assert_array_equal(effects, effects[:, first])
    np.testing.assert_array_equal(slopes, slopes[:, first])
    for order in np.atleast_2d(aec.ranking_):
        groups = first[order].tolist()
        for one in set(groups):
            places = [at for at, group in enumerate(groups) if group == one]
            assert places == list(range(places[0], places[0] + len(places)))
            assert (np.diff(order[places]) > 0).all()


@pytest.mark.parametrize("F", range(3, 25))
def test_effects_and_lists_of_a_regression(F):
    for seed in range(4):
        X, y, first = with_copies(F, seed)
        for options in ({}, {"standardize": True}, {"learner": Ridge()}, {"decimals": 4}):
            check(fitted(X, y, **options), first)
        check(fitted(X, y, np.random.default_rng(seed).random(len(y)) + 0.1), first)


@pytest.mark.parametrize("solver", ["sklearn", "newton"])
@pytest.mark.parametrize("F", [3, 8, 13, 20])
def test_effects_and_lists_of_a_classification(F, solver):
    X, y, first = with_copies(F, F)
    X[:, first == first[0]] = np.round(X[:, first[:1]])  # of few distinct values
    check(fitted(X, y > 0, solver=solver), first)
    check(fitted(X, np.digitize(y, [-1, 1]).astype(str), solver=solver, standardize=True), first)


@pytest.mark.slow
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("size", [7, 300])
def test_chunks(labels, size, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_VALUES", 1024)  # blocks of 256 rows
    X, y, first = with_copies(9, 0, M=600)
    y = y > 0 if labels else y
    parts = [(X[a : a + size], y[a : a + size]) for a in range(0, 600, size)]
    aec = xj.AEC(solver="newton", bootstrap=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XaiWarning)
        aec.fit_chunks(parts)
    check(aec, first)
    np.testing.assert_array_equal(aec.std_errors_, aec.std_errors_[first])


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("options", [{}, {"standardize": True}, {"learner": Ridge()}])
@pytest.mark.parametrize("labels", [False, True])
def test_replicates(labels, options, wide, monkeypatch):
    """Errors are equal, and of two copies the later has the next rank in every replicate."""
    monkeypatch.setattr(bootstrap, "WIDE", 1 if wide else 64)
    for F in (3, 10, 17):
        X, y, _ = with_copies(F, F)
        X = X[:, np.unique(X, axis=1, return_index=True)[1]]
        X = np.column_stack([X, X[:, :2]])
        aec = fitted(X, y > 0 if labels else y, bootstrap=10, **options)
        np.testing.assert_array_equal(aec.std_errors_[:2], aec.std_errors_[-2:])
        shares = aec.rank_probabilities_
        np.testing.assert_array_equal(shares[:2, :-1], shares[-2:, 1:])


@often.product(
    {
        "F": often.all_but(range(3, 25, 3), slow=[18, 21, 24]),
        "options": [{}, {"standardize": True}],
    },
    often=lambda F, options: F <= 6 or bool(options) == (F == 12),
)
def test_the_movement_rate(F, options):
    """The closed form, a fit for each list, and the definition with its ties rounded to be such.

    Nine digits: far above the rounding of either, and far below the distance of unequal columns.
    """

    def refit(X, y):
        return fitted(X, y, **options).effects_

    for seed in range(3 if F < 15 else 1):  # the definition takes F^4 fits
        X, y, first = with_copies(F, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", xj.XaiWarning)
            aec = xj.AEC(**options)
            closed, steps = xj.normalized_movement_rate(aec, X, y, return_steps=True)
        again, others = xj.normalized_movement_rate(refit, X, y, return_steps=True)
        assert closed == again
        np.testing.assert_array_equal(steps.positions, others.positions)

        def ranked(alive, X=X, y=y):
            found = np.abs(oracles.additive_effects(X[:, alive], y, **options))
            tied = np.array([float(f"{one:.9g}") for one in found])
            return [alive[j] for j in np.argsort(-tied, kind="stable")]

        # The same fractions in the same order, up to the rounding of their mean.
        assert closed == pytest.approx(oracles.movement_rate(ranked, F + COPIES), rel=1e-14)


def test_what_a_huge_column_leaves_behind_is_the_same_for_equal_columns():
    """Slopes of 1e20 go and leave 1e-12, with other digits where the order of terms was another."""
    for seed in range(10):
        slopes = np.random.default_rng(seed).normal(size=(7, 7))
        first = np.array([0, 1, 2, 3, 0, 5, 6])
        slopes[4], slopes[0, 0] = slopes[0], 1.0
        slopes[:, 4] = slopes[:, 0]
        slopes[[2, 6]] *= 1e20
        remaining = RemainingEffects(slopes, np.ones(7), None, first)
        for alive in ([0, 1, 2, 3, 4, 5, 6], [0, 1, 3, 4, 5, 6], [0, 1, 3, 4, 5]):
            effects = dict(zip(alive, remaining(np.array(alive)), strict=True))
            assert effects[0] == effects[4]


def test_equal_is_in_every_row_of_every_block():
    x = np.arange(12.0).reshape(2, 6)[:, [0, 1, 0, 0, 1, 2]].T  # [6 columns, 2 rows]
    none = np.zeros(6, np.intp)
    first = equal.split(none, x)
    assert first.tolist() == [0, 1, 0, 0, 1, 5]
    later = np.zeros((6, 3))
    later[2, 1] = 1.0
    later[3] = -0.0
    assert equal.split(first, later).tolist() == [0, 1, 2, 0, 1, 5]
    last = np.zeros((6, equal.FEW + 1))
    last[4, -1] = 1.0
    assert equal.split(first, last).tolist() == [0, 1, 0, 0, 4, 5]


def test_a_column_like_no_other_is_not_looked_at_again():
    class Untouchable(np.ndarray):
        def __getitem__(self, key):
            assert isinstance(key, tuple), "a column is read"
            return super().__getitem__(key)

    x = np.zeros((3, 2)).view(Untouchable)
    assert equal.split(np.arange(3), x).tolist() == [0, 1, 2]


def test_a_learner_is_asked_once_for_equal_columns():
    X, y, first = with_copies(5, 1)
    asked = []
    fitted(X, y, learner=lambda x, y: asked.append(1) or float(len(asked)))
    assert len(asked) == len(set(first.tolist())) < X.shape[1]
