"""What must hold for any table: order, shifts, units, classes, weights."""

from __future__ import annotations

import numpy as np
import pytest
from aec_data import fitted, rounding
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

FEW = settings(max_examples=40, deadline=None, derandomize=True)
NUMBERS = st.integers(-64, 64).map(lambda k: k / 8)  # sums of these are exact in float64
ROWS = 12


@st.composite
def tables(draw):
    """X [12, 2 to 4] and y [12], no column constant."""
    F = draw(st.integers(2, 4))
    X = draw(hnp.arrays(np.float64, (ROWS, F), elements=NUMBERS))
    y = draw(hnp.arrays(np.float64, ROWS, elements=NUMBERS))
    assume((np.ptp(X, axis=0) > 0).all() and len(np.unique(y)) > 2)
    return X, y


@FEW
@given(tables(), st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_columns_and_rows_does_not_matter(table, random, standardize):
    X, y = table
    columns, rows = list(range(X.shape[1])), list(range(ROWS))
    random.shuffle(columns)
    random.shuffle(rows)
    aec = fitted(X, y, standardize=standardize)
    other = fitted(X[rows][:, columns], y[rows], standardize=standardize)
    bound = rounding(X, aec.target_slopes_, standardize)[columns]
    assert (np.abs(other.effects_ - aec.effects_[columns]) <= bound).all()


@FEW
@given(tables(), st.integers(-1000, 1000), st.booleans())
def test_shifts_do_not_matter(table, shift, standardize):
    X, y = table
    aec = fitted(X, y, standardize=standardize)
    other = fitted(X + shift, y - 2 * shift, standardize=standardize)
    bound = rounding(X + shift, aec.target_slopes_, standardize)
    assert (np.abs(other.effects_ - aec.effects_) <= 2 * bound).all()


@FEW
@given(tables(), st.integers(-8, 8), st.integers(0, 3))
def test_units_matter_unless_columns_are_standardised(table, power, place):
    """By powers of two, which round nothing but the two divisions by a standardised spread."""
    X, y = table
    scales = np.ones(X.shape[1])
    scales[place % X.shape[1]] = 2.0**power
    aec, other = (fitted(one, y, standardize=True) for one in (X, X * scales))
    np.testing.assert_array_equal(aec.effects_, other.effects_)
    raw, scaled = fitted(X, y).slopes_, fitted(X * scales, y).slopes_
    np.testing.assert_array_equal(scaled, raw * scales[:, None] / scales)


@FEW
@given(tables(), st.integers(-6, 6))
def test_one_unit_for_all_columns_divides_the_effects(table, power):
    X, y = table
    scaled = fitted(X * 2.0**power, y).effects_
    np.testing.assert_array_equal(scaled * 2.0**power, fitted(X, y).effects_)


@FEW
@given(tables(), st.integers(2, 5))
def test_a_column_twice_ties_with_itself(table, times):
    X, y = table
    twice = fitted(np.column_stack([X, X[:, 0]]), y)
    assert twice.effects_[0] == twice.effects_[-1]
    weights = fitted(X, y, np.full(ROWS, float(times)))  # equal weights are no weights
    bound = rounding(X, weights.target_slopes_)
    assert (np.abs(weights.effects_ - fitted(X, y).effects_) <= bound).all()


@pytest.mark.slow
@FEW
@given(tables(), st.booleans())
def test_the_other_class_has_the_effects_with_the_other_sign(table, standardize):
    X, y = table
    labels = y > np.median(y)
    assume(len(np.unique(labels)) == 2)
    one = fitted(X, labels, solver="newton", standardize=standardize)
    other = fitted(X, ~labels, solver="newton", standardize=standardize)
    # Both iterations end within a step of 1e-8, of whose square the error is.
    np.testing.assert_allclose(other.effects_, -one.effects_, rtol=1e-9, atol=1e-9)
