"""Bounds that hold at every look: against quadrature, and over many runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import oracles_certain as oracle
import pytest
from scipy import stats

from xaijax.core.sequences import log_bounded_factor, time_uniform_quantile


@pytest.mark.parametrize("alpha", [0.05, 4e-4])
@pytest.mark.parametrize("n", [12, 24, 100, 1000, 40_000])
def test_the_two_sided_quantile_solves_its_equation(n: int, alpha: float) -> None:
    """Found by halving here, in closed form there: both to a few hundred roundings."""
    assert time_uniform_quantile(n, alpha) == pytest.approx(
        oracle.two_sided_quantile(n, alpha), rel=1e-9
    )


@pytest.mark.parametrize("two_sided", [True, False])
@pytest.mark.parametrize("n", [14, 40, 90])
def test_at_the_quantile_the_bayes_factor_is_one_over_alpha(n: int, two_sided: bool) -> None:
    """The factor is made of noncentral t densities there, to the digits of quadrature."""
    alpha = 0.01
    t = time_uniform_quantile(n, alpha, two_sided)
    factor = oracle.bayes_factor(t, n, oracle.precision(alpha, two_sided), two_sided)
    assert factor * alpha == pytest.approx(1, rel=1e-5)


def test_a_few_draws_tell_nothing() -> None:
    for n in (0, 1, 2, 5):
        assert math.isinf(time_uniform_quantile(n, 0.01))
    assert math.isinf(time_uniform_quantile(8, 1e-3, two_sided=False))
    assert time_uniform_quantile(16, 1e-3, two_sided=False) < 8


def test_one_side_needs_less() -> None:
    for n in (16, 100, 2000):
        one, two = (time_uniform_quantile(n, 0.01, sides) for sides in (False, True))
        assert stats.t.isf(0.01, n - 1) < one < two


@pytest.mark.parametrize("total, variation", [(3.0, 4.0), (50.0, 20.0), (0.5, 0.0), (9.0, 400.0)])
@pytest.mark.parametrize("width", [1.0, 4.0])
def test_the_bounded_factor_is_its_integral(total: float, variation: float, width: float) -> None:
    found = log_bounded_factor(np.array([total, -total]), np.array([variation] * 2), width)
    assert found[0] == pytest.approx(oracle.log_bounded(total, variation, width), rel=1e-7)
    assert found[1] == -np.inf


def looked_at(draws: np.ndarray, quantile: Callable[[int], Any]) -> float:
    """The share of runs [runs, n] whose mean was beyond the bound at some n from 2 on."""
    n = np.arange(1, draws.shape[1] + 1)
    mean = np.cumsum(draws, axis=1) / n
    square = np.cumsum(draws**2, axis=1) - n * mean**2
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(np.maximum(square, 0) / (n - 1) / n)
    bound = np.array([quantile(int(one)) for one in n])
    with np.errstate(invalid="ignore"):
        beyond = np.abs(mean) > bound * error
    return float(beyond[:, 1:].any(axis=1).mean())


def test_the_bound_holds_at_every_look_and_fixed_intervals_do_not() -> None:
    """Normal draws of mean 0, looked at after each of 300: no more than 5 % are ever missed.

    Over 4,000 runs, six standard deviations above 5 % (a false alarm in 1e-9 of runs) is 7.1 %.
    Student's intervals of one look, looked at as often, miss many times that.
    """
    draws = np.random.default_rng(0).normal(size=(4_000, 300))
    limit = 0.05 + 6 * math.sqrt(0.05 * 0.95 / len(draws))
    assert looked_at(draws, lambda n: time_uniform_quantile(n, 0.05)) < limit
    peeking = looked_at(draws, lambda n: stats.t.isf(0.025, max(1, n - 1)))
    assert peeking > 0.3


def test_bounded_draws_hold_without_any_assumption() -> None:
    """Rare large draws, of which standard errors of few know nothing: mean 0, in [-1/20, 19/20].

    The share of runs whose evidence for a positive mean ever reaches 20 is at most 5 %; of 4,000
    runs six standard deviations above that is 7.1 %. A bound by the spread alone fails here.
    """
    rng = np.random.default_rng(1)
    draws = -((rng.random((4_000, 400)) < 0.05) - 0.05)  # within a width of 1
    n = np.arange(1, draws.shape[1] + 1)
    before = np.cumsum(draws, axis=1) - draws
    left = draws - before / np.maximum(1, n - 1)
    evidence = log_bounded_factor(np.cumsum(draws, axis=1), np.cumsum(left**2, axis=1), 1.0)
    limit = 0.05 + 6 * math.sqrt(0.05 * 0.95 / len(draws))
    assert (evidence.max(axis=1) >= math.log(20)).mean() < limit
    assert looked_at(draws[:, :30], lambda n: time_uniform_quantile(n, 0.05)) > limit
