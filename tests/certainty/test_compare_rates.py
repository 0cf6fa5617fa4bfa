"""`compare`: false alarms over many runs, and a planted shift; with the broken variant."""

from __future__ import annotations

import numpy as np
import pytest

import xaijax as xj
from xaijax.methods.certainty.simultaneous import intervals

RUNS, S = 2000, 12


def rows(rng, n):
    """Skewed and correlated, as values of real tables are."""
    shared = rng.normal(size=(n, 1))
    return np.exp(0.5 * (shared + rng.normal(size=(n, S)))) - 1


def alarms(factor):
    """(how often two halves of the same data are told apart; the same at 1.96 errors each)."""
    rng, found, pointwise = np.random.default_rng(11), 0, 0
    for _ in range(RUNS):
        a, b = rows(rng, 100), rows(rng, 100)
        shift, half = intervals([a, -b], np.zeros(S), 0.95, exchanged=True)
        error = np.sqrt(a.var(axis=0, ddof=1) / 100 + b.var(axis=0, ddof=1) / 100)
        found += bool((np.abs(shift) > factor * half).any())
        pointwise += bool((np.abs(shift) > 1.96 * error).any())
    return found / RUNS, pointwise / RUNS


@pytest.mark.slow
def test_all_intervals_hold_together(monkeypatch):
    """At 5 %: alarms of 2,000 runs have a standard deviation of 0.49 %.

    5.2 of them are 2.5 %, so that a rate in 2.5 to 7.5 % fails by chance in less than 1e-6 of runs.
    Pointwise intervals, the broken variant, alarm in a quarter of runs.
    """
    monkeypatch.setattr("xaijax.methods.certainty.simultaneous.DRAWS", 4000)
    monkeypatch.setattr("xaijax.methods.certainty.simultaneous.CHANCES", 400)
    rate, pointwise = alarms(1)
    assert 0.025 < rate < 0.075, rate
    assert pointwise > 0.15, pointwise


def test_draws_of_the_quantile_do_not_depend_on_how_they_are_made():
    """From rows (n <= S) or from their correlations (n > S): the same within the draws' error."""
    rng = np.random.default_rng(0)
    few = rng.normal(size=(40, 30))
    more = np.concatenate([few, np.zeros((40, 15))], axis=1)  # 45 statistics, 15 of them still
    wide = np.concatenate([few, few[:, :15]], axis=1)  # 45, 15 of them twice
    plain = intervals([few], np.zeros(30), 0.95)[1]
    np.testing.assert_array_equal(intervals([more], np.zeros(45), 0.95)[1][30:], 0)
    # 20,000 draws: the quantile's standard error is 0.15 % / density 0.14 = 0.011 of about 3.5.
    np.testing.assert_allclose(intervals([wide], np.zeros(45), 0.95)[1][:30], plain, rtol=0.03)


def heavy(rng, n, P):
    """Values of two signs whose sizes are skewed: exp of normal numbers that players share."""
    size = np.exp(0.8 * rng.normal(size=(n, P)) + 0.5 * rng.normal(size=(n, 1)))
    return xj.Explanation(size * rng.choice([-1, 1], (n, P), p=[0.3, 0.7]), np.zeros(n))


def coarse(rng, n, P):
    """Values that most instances lack, and that are 1 elsewhere: samples often do not vary."""
    return xj.Explanation((rng.random((n, P)) < 0.2).astype(float), np.zeros(n))


def false_alarms(monkeypatch, n, m, P, paired, runs, values=heavy):
    """The share of comparisons of one distribution with itself that find a change."""
    monkeypatch.setattr("xaijax.methods.certainty.simultaneous.DRAWS", 1000)
    monkeypatch.setattr("xaijax.methods.certainty.simultaneous.CHANCES", 400)
    rng = np.random.default_rng([n, m, P, paired])
    found = 0
    for _ in range(runs):
        a, b = values(rng, n, P), values(rng, m, P)
        found += bool(xj.compare(a, b, paired=paired).changed)
    return found / runs


# Of R runs at 5 % the rate has a standard deviation of sqrt(.05 .95 / R); 4.5 of them are passed by
# chance in 3e-6 of cases. By normal means alone, the broken variant, (8, 200, 30) is at 38 %.
def most(runs):
    return 0.05 + 4.5 * np.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize(
    ("n", "m", "P", "paired"),
    [(8, 200, 30, False), (12, 12, 8, True), (2, 2, 3, True), (3, 4, 8, False)],
)
def test_few_rows_raise_few_false_alarms(monkeypatch, n, m, P, paired):
    assert false_alarms(monkeypatch, n, m, P, paired, 60) < most(60)


@pytest.mark.slow
@pytest.mark.parametrize("values", [heavy, coarse])
@pytest.mark.parametrize(
    ("n", "m", "P", "paired"),
    [(n, n, P, True) for n in (2, 3, 5, 6, 8, 12, 40, 200) for P in (1, 8, 30)]
    + [(1000, 1000, 60, True), (1000, 1000, 60, False), (8, 1000, 60, False)]
    + [(n, m, P, False) for n, m in ((2, 2), (2, 200), (3, 4), (8, 200)) for P in (1, 8, 30, 60)]
    + [(12, 12, 30, False), (40, 1000, 30, False), (300, 1000, 8, False), (200, 8, 8, False)],
)
def test_false_alarms_at_any_number_of_rows(monkeypatch, n, m, P, paired, values):
    runs = 300 if max(n, m) * P < 10_000 else 100
    rate = false_alarms(monkeypatch, n, m, P, paired, runs, values)
    assert rate < most(runs), rate


def test_changes_are_found_as_soon_as_rows_can_tell():
    """The fewest: 6 paired rows have 32 signs, 3 and 4 rows 35 exchanges; 5 and 3, 3 too few."""
    rng = np.random.default_rng(4)

    def changed(n, m, paired):
        a, b = (xj.Explanation(rng.normal(size=(k, 2)), np.zeros(k)) for k in (n, m))
        moved = xj.Explanation(b.values + [0, 1000.0], b.base_values)
        return xj.compare(a, moved, paired=paired).changed

    assert changed(6, 6, True) == changed(3, 4, False) == changed(4, 4, False) == ("player 1",)
    assert changed(5, 5, True) == changed(3, 3, False) == ()
    # What every row says alike is no more than what its signs can tell.
    still = xj.Explanation(np.zeros((5, 2)), np.zeros(5))
    all_one = xj.compare(still, xj.Explanation(np.ones((5, 2)), np.zeros(5)), paired=True)
    assert all_one.changed == () and (all_one.low == 0).all() and (all_one.high == 2).all()
    assert "too few" in repr(all_one)


def test_many_rows_are_exchanged_in_blocks_as_sharply_as_alone(monkeypatch):
    """The quantile of 1,500 and 1,600 rows, in blocks of 2 and alone: 2,000 draws' error of it.

    Its standard error is 0.49 % / density 0.14 = 0.035 of about 3; two of them differ by 0.05.
    """
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(1501, 20)), rng.normal(size=(1600, 20))
    widths = []
    for blocks in (2048, 8192):
        monkeypatch.setattr("xaijax.methods.certainty.simultaneous.BLOCKS", blocks)
        widths.append(intervals([a, -b], np.zeros(20), 0.95, exchanged=True)[1])
    np.testing.assert_allclose(widths[0], widths[1], rtol=0.08)
