"""Broken controls: the audit of test_privacy_audit.py must catch each of them."""

from __future__ import annotations

import jax
import numpy as np
import oracles_privacy as oracles
import pytest
from privacy_audits import (
    CONFIDENCE,
    DRAWS,
    LATTICE,
    alone,
    audit,
    handed_over,
    of_scores,
)
from privacy_cases import table_model

import xaijax as xj
from xaijax.games.measure.score import PositiveColumn, Score
from xaijax.methods.qii import recount
from xaijax.privacy import mechanism

pytest.importorskip("opendp", reason="needs the extra [privacy]")
pytestmark = pytest.mark.filterwarnings("ignore:(X|pool)= all of its rows")


def individuals(monkeypatch):
    """Two neighbours at exactly the declared distance: (a, b, scale)."""
    (a, scale), (b, _) = (handed_over(one, monkeypatch) for one in alone("individual")())
    return a, b, scale


@pytest.mark.slow
def test_control_half_the_noise(monkeypatch):
    a, b, scale = individuals(monkeypatch)
    assert audit(a, b, scale / 2, CONFIDENCE) > 1.5


def counterexample(calibration, monkeypatch):
    """20 rows, 10 members: one record moves iota of the gap by 0.285; Table I says 0.2."""
    table = np.zeros((4, 3))
    table[0, 0] = table[0, 2] = table[1, 1] = table[2, 0] = table[3, 1] = 1
    flat = np.array(table.ravel())

    def classify(X):
        return jax.numpy.asarray(flat)[(3 * X[:, 0] + X[:, 1]).astype(int)]

    model = xj.as_model(classify, output="label", classes=[0, 1])
    found = []
    for record in ([1, 1], [2, 2]):
        data = np.array([record] + [[0, 0]] * 9 + [[3, 0]] * 10, np.float32)
        qii = xj.QII(
            model, data[:, :2], quantity="disparity", members=np.arange(20) < 10, signed=True
        )
        found.append(handed_over(qii.unary(), monkeypatch, calibration=calibration))
    (a, scale), (b, _) = found
    return [a[1]], [b[1]], scale


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:calibration='paper' is not private")
def test_control_the_sensitivity_of_the_paper(monkeypatch):
    a, b, scale = counterexample("paper", monkeypatch)
    assert abs(a[0] - b[0]) / LATTICE == pytest.approx(0.285, abs=1e-5)
    assert audit(a, b, scale, CONFIDENCE) > 1.2
    a, b, scale = counterexample("proved", monkeypatch)
    assert audit(a, b, scale, CONFIDENCE) <= 1.0


def laplace_support(value, scale):
    """All float32 numbers that value + scale * jax.random.laplace can be, sorted."""
    low = np.float32(-1 + np.finfo(np.float32).epsneg)
    f = jax.numpy.arange(1 << 23, dtype=np.uint32) | 0x3F800000
    f = jax.lax.bitcast_convert_type(f, np.float32) - np.float32(1)
    u = jax.numpy.maximum(low, f * (np.float32(1) - low) + low)
    noise = jax.numpy.sign(u) * jax.numpy.log1p(-jax.numpy.abs(u))
    return np.unique(np.asarray(np.float32(value) + np.float32(scale) * noise))


def inside(draws, support):
    place = np.minimum(np.searchsorted(support, draws), len(support) - 1)
    return support[place] == draws


@pytest.mark.slow
def test_control_float32_laplace_noise(monkeypatch):
    a, b, scale = individuals(monkeypatch)
    worlds = [one[0] / LATTICE for one in (a, b)]
    width = scale / LATTICE
    supports = [laplace_support(value, width) for value in worlds]
    draws = []
    for value, key in zip(worlds, jax.random.split(jax.random.key(3)), strict=True):
        noise = jax.random.laplace(key, (DRAWS,), np.float32)
        draws.append(np.asarray(np.float32(value) + np.float32(width) * noise))
    # Almost all draws are numbers that this enumeration knows (XLA fuses a product and a sum).
    hits, other = (int((inside(d, supports[0]) & ~inside(d, supports[1])).sum()) for d in draws)
    found = oracles.measured_epsilon(max(hits, other), min(hits, other), DRAWS, CONFIDENCE)
    assert found > 2.0, (hits, other)


@pytest.mark.filterwarnings("ignore:scores of outcome")
@pytest.mark.slow
def test_control_scores_that_are_not_clipped(monkeypatch):
    def not_clipped(outcome):
        low, high = (int(np.rint(bound * LATTICE)) for bound in outcome.bounds)
        return lambda s: np.rint(s * LATTICE).astype(np.int64) - low, LATTICE, high - low

    # The report's own scores are clipped as well; only the recount is broken here.
    found = of_scores()
    monkeypatch.setattr(recount, "_integers", not_clipped)
    monkeypatch.setattr(
        recount.QiiRecount, "_counted", _without_clipping(recount.QiiRecount._counted)
    )
    (a, scale), (b, _) = (handed_over(one, monkeypatch) for one in found)
    assert audit(a, b, scale, CONFIDENCE) > 3


def _without_clipping(counted):
    """Count with a score that is the bare column."""

    def count(self):
        self._problem.ready()
        self._problem.evaluator.measure(Score(PositiveColumn(-1)))
        return counted(self)

    return count


@pytest.mark.slow
def test_control_donors_drawn_with_replacement(monkeypatch):
    """One record may be drawn many times; a known seed tells how often."""
    labels, n = [0, 1, 1, 1], 4
    apart = []
    for seed in range(8):
        values = []
        for rows in ([0, 0, 0, 1], [0, 0, 0, 0]):
            qii = xj.QII(
                table_model(labels),
                oracles.bits(rows),
                players={"both": [0, 1]},
                quantity="individual",
                samples=n,
                seed=seed,
            )
            sampled = qii.unary(oracles.bits([0]))
            values.append(sampled)
        with pytest.raises(xj.PrivacyError, match="drawn with replacement"):
            xj.privacy.release(values[0], 1.0)
        apart.append([int(np.rint(one.values[0, 0] * LATTICE)) for one in values])
    a, b = max(apart, key=lambda pair: abs(pair[0] - pair[1]))
    _, _, scale = individuals(monkeypatch)  # the noise of an exact report on as many rows
    assert audit([a], [b], scale, CONFIDENCE) > 1.5


class Forgetful(xj.privacy.Ledger):
    """A broken ledger: what was charged once is drawn anew as often as it is asked."""

    def _known(self, query, epsilon):
        return None

    def _answer(self, query, epsilon, draw, may=None):
        super()._answer(query, epsilon, draw)
        return draw()


@pytest.mark.slow
def test_control_release_without_a_charge(monkeypatch, tmp_path):
    """Three answers of `release` with noise of their own, for what the ledger says was one."""
    reports = alone("individual")()
    drawn, apart = [], []
    monkeypatch.setattr(mechanism, "noisy", lambda v, s: drawn.append((v, s)) or list(v))
    for kind, times in ((Forgetful, 3), (xj.privacy.Ledger, 3)):
        worlds = []
        for place, one in enumerate(reports):
            ledger = kind(tmp_path / f"{kind.__name__}{place}", 5.0)
            drawn.clear()
            copies = [xj.privacy.release(one, 1.0, ledger=ledger) for _ in range(times)]
            assert ledger.spent == 1.0 and len(copies) == times
            worlds.append([value for values, _ in drawn for value in values])
        apart.append((worlds, drawn[0][1]))
    monkeypatch.undo()
    (broken, scale), (sound, _) = apart
    assert len(sound[0]) == 1 and audit(*sound, scale, CONFIDENCE) <= 1.0
    assert len(broken[0]) > 1 and audit(*broken, scale, CONFIDENCE) > 1.5
