"""Where a host model's own exception comes out, a note names the instances, not the stream."""

import numpy as np
import pytest
from small_case import B, X, f64

import xaijax as xj
from xaijax.games import run
from xaijax.games.engine.evaluator import Engine
from xaijax.games.engine.loop import named_rows
from xaijax.games.measure.replacement.base import differing

ROWS = np.random.default_rng(4).normal(size=(40, 4)).astype(np.float32)


class Fails:
    """f, until it is asked for a row that `bad` picks."""

    def __init__(self, bad, after=0):
        self.bad, self.calls, self.after = bad, 0, after

    def __call__(self, rows):
        self.calls += 1
        if self.calls > self.after and self.bad(rows).any():
            raise KeyError("a row of mine")
        return f64(rows)


def notes_of(ask):
    with pytest.raises(KeyError, match="a row of mine") as caught:
        ask()
    return caught.value.__notes__


def keeps(row):
    """Hybrids that are this very row."""
    return lambda rows: (rows == row).all(axis=1)


def test_row_55_the_instances_are_named():
    """Calls of 256 rows, 5 donors of 16 sub-coalitions: row 21 of X is asked with a few others."""
    model = xj.as_model(Fails(keeps(ROWS[21])), backend="host")
    notes = notes_of(lambda: xj.Explainer(model, B, tile=256)(ROWS))
    assert "on rows 1536:1792" in notes[0]
    assert "these are hybrids of X rows 19 to 22 with the donors" in notes[1]


def test_row_55_of_sampled_coalitions():
    wide = np.random.default_rng(5).normal(size=(30, 14))
    model = xj.as_model(
        Fails(lambda rows: (rows[:, :3] == wide[28, :3]).all(axis=1)), backend="host"
    )
    notes = notes_of(lambda: xj.Explainer(model, wide[:2], budget=64, tile=256)(wide[10:]))
    assert "these are hybrids of X rows 17 to 19 with the donors" in notes[1], notes


def test_row_55_with_shared_hybrids():
    codes = np.random.default_rng(6).integers(0, 2, (30, 6)).astype(np.float64)
    codes[17] = 7.0
    model = xj.as_model(Fails(keeps(codes[17])), backend="host", max_rows=16)
    notes = notes_of(lambda: xj.Explainer(model, xj.Baseline(np.zeros(6)))(codes))
    assert "X row" in notes[1] and "17" in notes[1]


def test_row_55_of_the_probe():
    model = xj.as_model(Fails(keeps(X[1])), backend="host")
    assert "rows of the probe" in notes_of(lambda: xj.Explainer(model, B)(X))[1]


def test_row_55_of_donors_alone():
    """A rate asks for its donors once, whoever is explained; the probe sees the first 16."""
    qii = xj.QII(
        xj.as_model(Fails(keeps(ROWS[30])), backend="host"),
        ROWS[:8],
        pool=ROWS[8:],
        outcome="score",
        quantity="individual",
        bounds=(-99, 99),
    )
    notes = notes_of(qii.unary)
    assert "these are donors as they are" in notes[1] and "not X" in notes[1]


@pytest.mark.parametrize("perturbation", ["row", "sampler"])
def test_row_55_of_rules(perturbation):
    def sampler(rows, kept, u):
        return np.where(kept, rows, ROWS[(u[:, :1] * 40).astype(int)[:, 0]])

    space = sampler if perturbation == "sampler" else perturbation
    model = xj.as_model(Fails(lambda rows: rows[:, 0] == ROWS[33, 0], after=6), backend="host")
    anchors = xj.AnchorExplainer(model, ROWS, perturbation=space, tolerance=1.0)
    notes = notes_of(lambda: anchors.explain(ROWS[:3], search="kl-lucb"))
    assert "X row" in notes[1] and ("drawn around" in notes[1] or "hybrids" in notes[1]), notes


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([4, 4], "row 4"),
        (range(32), "rows 0 to 31"),
        ([9, 2, 5, 10, 11, 2], "rows 2, 5 and 9 to 11"),
        (range(0, 40, 2), "rows 0, 2, 4, 6, 8, 10, 12, 14 and 12 more"),
    ],
)
def test_rows_are_named_in_few_words(rows, text):
    assert named_rows(np.array(list(rows))) == text


@pytest.mark.parametrize("players", [[0, 1, 2, 3, 4], [0, 1, 0, 2, 1], [1, 1, 1, 1, 0]])
def test_a_player_differs_if_a_column_is_unequal(players):
    players, rng = np.array(players), np.random.default_rng(0)
    x, donors = rng.integers(0, 2, (7, 5), np.int32), rng.integers(0, 2, (4, 5), np.int32)
    got = differing(x, donors, players, 1 + max(players))
    for n, b, p in np.ndindex(got.shape):
        assert got[n, b, p] == any(x[n, c] != donors[b, c] for c in np.flatnonzero(players == p))


@pytest.mark.parametrize("budget", [None, 6])
def test_players_that_differ_are_looked_for_once_in_a_call(monkeypatch, budget):
    """The cost of exact values is counted before them, a few instances at a time."""
    looked, real = [], run._differ

    def counted(x, *rest):
        looked.extend(map(bytes, np.ascontiguousarray(x)))
        return real(x, *rest)

    rows = np.where(ROWS[:, :1] > 0, ROWS, B[0]).astype(np.float32)  # some agree with a donor
    model = xj.as_model(f64, backend="host")
    together = xj.Explainer(model, B, budget=budget)(rows)
    monkeypatch.setattr(run, "_differ", counted)
    monkeypatch.setattr(Engine, "instances_at_a_time", 3)
    apart = xj.Explainer(model, B, budget=budget)(rows)
    assert len(looked) == len(rows)
    np.testing.assert_allclose(apart.values, together.values, rtol=0, atol=1e-12)
