"""Sampled labels: their errors are not those of one draw that all rows share."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

import xaijax as xj
from xaijax.methods.amortized import questions as labels
from xaijax.methods.amortized.questions import labelled

P, N, FALSE_ALARM = 6, 256, 1e-6
RNG = np.random.default_rng(0)
BACKGROUND = RNG.normal(size=(3, P)).astype(np.float32)
MODEL = xj.as_model(lambda rows: rows[:, 0] * rows[:, 1] * rows[:, 2] + rows[:, 3] * rows[:, 4])
PAIR = xj.Explainer(MODEL, BACKGROUND, estimator="permutation", budget=2 * (P - 1))
ALIKE = np.repeat(RNG.normal(size=(1, P)).astype(np.float32), N, axis=0)


def off(values):
    """Whether the mean of labels of one row is not its value, but for FALSE_ALARM in all."""
    wanted = xj.Explainer(MODEL, BACKGROUND)(ALIKE[:1]).values[0]
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    limit = t.isf(FALSE_ALARM / (2 * P), len(values) - 1)
    # A player of which all labels are the same is off by rounding, some units of the answers.
    return bool((np.abs(values.mean(axis=0) - wanted) > limit * error + 1e-5).any())


@pytest.mark.slow
def test_errors_of_labels_average_out(monkeypatch):
    """Caught: draws that all rows share, as one call of the explainer has them."""
    found = labelled(PAIR, ALIKE, 0, False)
    assert not off(found.values)
    assert len(np.unique(found.values, axis=0)) > 20  # 6 players have 360 pairs of orders
    monkeypatch.setattr(labels, "GROUPS", 1)
    shared = labelled(PAIR, ALIKE, 0, False)
    assert len(np.unique(shared.values, axis=0)) == 1 and off(shared.values)


@pytest.mark.slow
def test_the_seed_settles_the_draws():
    one, same, other = (labelled(PAIR, ALIKE, seed, False).values for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_rows_that_are_exact_have_the_explainers_own_values():
    rows = ALIKE[:40].copy()
    rows[:20, 2:] = BACKGROUND[0, 2:]
    near = xj.Explainer(MODEL, BACKGROUND[:1], budget=20)  # "auto": 2 players differ, or 6
    found, wanted = labelled(near, rows, 0, False), near(rows)
    exact = found.stats["exact_rows"]
    np.testing.assert_array_equal(exact, wanted.stats["exact_rows"])
    assert exact.sum() == 20
    np.testing.assert_array_equal(found.values[exact], wanted.values[exact])
    whole = labelled(xj.Explainer(MODEL, BACKGROUND), rows, 0, False)
    np.testing.assert_array_equal(whole.values, xj.Explainer(MODEL, BACKGROUND)(rows).values)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*rows have been explained by a network:xaijax.XaiWarning")
def test_bounds_of_noisy_judges_are_wider_than_of_exact_ones():
    """Nothing is promised too narrow: the error of the judge's own draws is in them."""
    rows = RNG.normal(size=(260, P)).astype(np.float32)
    options = {"judge": 60, "steps": 100, "progress": False}
    exact = xj.AmortizedExplainer(PAIR, (8,)).fit(rows, **options)
    noisy = xj.AmortizedExplainer(PAIR, (8,)).fit(rows, judge_by=PAIR, **options)
    assert exact.stats_["judge_exact"] and not noisy.stats_["judge_exact"]
    np.testing.assert_array_equal(exact._fitted.leaves[0], noisy._fitted.leaves[0])
    assert noisy._fitted.quantile > exact._fitted.quantile
