"""An audit: what releases of two neighbours tell apart; test_privacy_controls.py must fail it.

For every released quantity two neighbours are taken that are as far apart as brute force over tiny
worlds finds them. 100,000 releases of each are drawn; every draw is of whole numbers that the
public `release` itself hands to the noise, at its scale. The events are half-lines of the
log-likelihood ratio, fixed beforehand, in both directions. Clopper-Pearson bounds at
1 - 1e-6 / (2 m), m being all comparisons of the audits, so that a sound mechanism fails
with chance 1e-6 a run at most; the chi-square tests of the noise add 4e-7.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import oracles_privacy as oracles
import pytest
from privacy_audits import (
    CASES,
    CONFIDENCE,
    DRAWS,
    LATTICE,
    SHARE,
    audit,
    draw,
    handed_over,
    measured,
)
from privacy_cases import table_model

import xaijax as xj
from xaijax.results.subsample import Subsample

pytest.importorskip("opendp", reason="needs the extra [privacy]")
pytestmark = pytest.mark.filterwarnings(
    "ignore:(X|pool)= all of its rows",
    "ignore:scores of outcome='score' lie outside",  # cut on purpose
)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_release_shows_more_than_epsilon(case, monkeypatch, record_property):
    make, how = CASES[case]
    (a, scale), (b, same) = (handed_over(one, monkeypatch, **how) for one in make())
    assert scale == same
    apart = sum(abs(x - y) for x, y in zip(a, b, strict=True)) / scale
    assert SHARE[case] < apart <= 1.0  # the neighbours are worth auditing
    found = audit(a, b, scale, CONFIDENCE)
    record_property("epsilon", found)
    assert 0.1 < found <= 1.0, f"{case}: measured {found:.3f}, claimed 1 (exactly {apart:.3f})"


def samples(rows, size, **more):
    """An explanation for each subsample of the rows."""
    labels = [0, 1, 1, 1]
    model = table_model(labels)
    for places in itertools.combinations(range(len(rows)), size):
        drawn = Subsample(oracles.bits(rows), np.array(places))
        yield xj.QII(model, drawn, players={"both": [0, 1]}, quantity="rate", **more).unary()


@pytest.mark.slow
def test_a_subsample_is_amplified_and_no_more(monkeypatch, record_property):
    worlds = []
    for rows in ([1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]):
        taken = [handed_over(one, monkeypatch) for one in samples(rows, 2)]
        (scale,) = {scale for _, scale in taken}
        which = np.random.default_rng(7).integers(len(taken), size=DRAWS)
        values = np.array([value[0] for value, _ in taken])
        worlds.append(draw([0], scale)[:, 0] + values[which])
    # Samples of 2 of 6 may spend ln(1 + 3 (e - 1)) = 1.82 for a report of epsilon 1.
    sensitivity = math.ceil(LATTICE * (3 * 2 - 1) / 4) + 1
    assert scale == pytest.approx(sensitivity / math.log1p(3 * math.expm1(1)), rel=1e-9)
    shift = np.abs(values).max() or 1
    found = measured(worlds[0] / shift, worlds[1] / shift, CONFIDENCE)
    record_property("epsilon", found)
    assert found <= 1.0


def of_samples(worlds, size, monkeypatch, **more):
    """[draws] of each world in lattice steps, over all samples, and the scale."""
    out = []
    for rows in worlds:
        taken = [handed_over(one, monkeypatch) for one in samples(rows, size, **more)]
        (scale,) = {scale for _, scale in taken}
        which = np.random.default_rng(7).integers(len(taken), size=DRAWS)
        values = np.array([value[0] for value, _ in taken])
        out.append(draw([0], scale)[:, 0] + values[which])
    return (*out, scale)


@pytest.mark.slow
def test_a_subsample_with_a_public_pool_shows_no_more(monkeypatch, record_property):
    worlds = [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]
    pool = oracles.bits([3, 0])
    first, second, scale = of_samples(worlds, 5, monkeypatch, pool=pool)
    found = measured(first / LATTICE, second / LATTICE, CONFIDENCE)
    record_property("epsilon", found)
    assert found <= 1.0
