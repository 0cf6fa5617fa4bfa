"""The bounds of Anchors: closed forms, bisection in float64, the worked values of the reading."""

from __future__ import annotations

import numpy as np
import oracles_anchors as oracles
import pytest

from xaijax_kernels.rules.bandits import (
    exploration_rate,
    lower,
    upper,
    validation_rate,
)

# Newton in float64 ends within some roundings of the root: the slope of KL in q is at least
# sqrt(2 level) there, and KL itself is rounded to about 1e-16, so 1e-16 / sqrt(2e-5) = 2e-14 and
# some more for the entropy, of which KL is a difference.
ATOL = 1e-12


@pytest.mark.parametrize(
    ("n", "t", "delta", "rate"), [(10, 1, 0.05, 13.7285451886), (10, 7, 0.1, 15.2963856284)]
)
def test_exploration_rate(n, t, delta, rate):
    assert abs(exploration_rate(n, t, delta) - rate) < 5e-11  # ten digits are given


def test_validation_rate():
    assert abs(validation_rate(4, 12, 0.05) - 6.6066501862) < 5e-11
    assert validation_rate(1, 12, 0.1) == np.log(1 / 0.1)


def test_worked_bounds():
    assert abs(upper(0.8, 0.02) - 0.8715) < 5e-5 and abs(lower(0.8, 0.02) - 0.7127) < 5e-5


@pytest.mark.parametrize("level", [1e-6, 1e-3, 0.02, 0.5, 3.0, 20.0])
def test_closed_forms(level):
    assert abs(lower(1.0, level) - np.exp(-level)) <= 1e-15
    assert abs(upper(0.0, level) - (1 - np.exp(-level))) <= 1e-15
    half = np.sqrt(1 - np.exp(-2 * level))
    assert abs(upper(0.5, level) - (1 + half) / 2) <= ATOL
    assert abs(lower(0.5, level) - (1 - half) / 2) <= ATOL


@pytest.mark.slow
def test_bounds_are_those_of_bisection():
    rng = np.random.default_rng(0)
    n = rng.integers(1, 50_000, 3_000)
    p = np.floor(rng.random(3_000) * (n + 1)).clip(0, n) / n
    p[:800] = 1 - rng.integers(0, 4, 800).clip(0, n[:800]) / n[:800]  # nearly all agree
    level = rng.uniform(1, 25, 3_000) / n
    above = [oracles.upper(*pair) for pair in zip(p, level, strict=True)]
    below = [oracles.lower(*pair) for pair in zip(p, level, strict=True)]
    np.testing.assert_allclose(upper(p, level), above, rtol=0, atol=ATOL)
    np.testing.assert_allclose(lower(p, level), below, rtol=0, atol=ATOL)


def test_one_bisection_is_not_enough():
    """What one version of the reference had left of its loop; the tolerance tells it apart."""
    low, high = 0.8, min(1.0, 0.8 + np.sqrt(0.02 / 2))
    middle = (low + high) / 2
    once = high if oracles.kl(0.8, middle) <= 0.02 else middle
    assert abs(once - oracles.upper(0.8, 0.02)) > 0.02


def test_limits():
    assert upper(0.3, 0.0) == 0.3 and abs(lower(0.3, 0.0) - 0.3) <= 1e-16
    assert upper(1.0, 2.0) == 1.0 and lower(0.0, 2.0) == 0.0
