"""Hybrids that several instances share are asked of a host model once."""

from __future__ import annotations

import itertools

import games
import numpy as np
import pytest

import xaijax as xj
from xaijax.games import _memo, evaluator

P, N = 5, 40
A = games.weights(P)


class Recording:
    """A host model that keeps the rows it was asked."""

    def __init__(self):
        self.rows: list[bytes] = []

    def __call__(self, rows):
        self.rows += [row.tobytes() for row in np.ascontiguousarray(rows)]
        return games.smooth_host(rows, A)


def distinct_hybrids(X, donor):
    masks = np.array(list(itertools.product([False, True], repeat=P)))
    return {row.tobytes() for x in X for row in np.where(masks, x, donor)}


@pytest.mark.parametrize("estimator", ["exact", "permutation", "kernel"])
@pytest.mark.parametrize("batch_size", [256, 700])
def test_each_is_asked_once(estimator, batch_size, monkeypatch):
    monkeypatch.setattr(_memo, "FEWEST", 0)
    X, donors = games.rows(N, P, "few", 1), games.rows(1, P, "few", 2)
    model = Recording()
    options = {} if estimator == "exact" else {"budget": 20}
    explainer = xj.Explainer(
        xj.as_model(model, backend="host"),
        donors,
        estimator=estimator,
        batch_size=batch_size,
        **options,
    )
    explainer(X[:1], progress=False)
    before = len(model.rows)  # probes and the first run
    found = explainer(X, progress=False)
    asked = model.rows[before:]
    assert len(asked) == len(set(asked)) == found.stats["model_rows"]
    assert set(asked) <= distinct_hybrids(X, donors[0])
    if estimator == "exact":
        assert set(asked) == distinct_hybrids(X, donors[0])


def test_the_same_values_as_without(monkeypatch):
    X, donors = games.rows(N, P, "few", 1), games.rows(1, P, "few", 2)
    model = xj.as_model(lambda rows: games.three_outputs_host(rows, A), backend="host")
    spared = xj.Explainer(model, donors)(X, progress=False)
    monkeypatch.setattr(evaluator.Evaluator, "_memo", lambda self, K: None)
    whole = xj.Explainer(model, donors)(X, progress=False)
    assert spared.values.tobytes() == whole.values.tobytes()
    assert spared.stats["model_rows"] < whole.stats["model_rows"]


def test_a_random_model_is_asked_each_time():
    X, donors = games.rows(N, P, "few", 1), games.rows(1, P, "few", 2)
    rng = np.random.default_rng(0)

    def noisy(rows):
        return games.smooth_host(rows, A) + 0.1 * rng.normal(size=len(rows))

    model = xj.as_model(noisy, backend="host", deterministic=False)
    found = xj.Explainer(model, donors, estimator="exact")(X, progress=False)
    assert found.stats["model_rows"] == N << P


def codes(seed, rows=200):
    return np.random.default_rng(seed).integers(0, 3, (rows, 4))


def answer(rows):
    return np.stack([rows.sum(axis=1), rows[:, 0]], axis=1).astype(float)


@pytest.mark.parametrize("kept", [0, 10, 1000])
@pytest.mark.parametrize("collide", [False, True])
def test_memo(kept, collide, monkeypatch):
    """Whatever is kept, and where all hashes are one of two, the answers are each row's own."""
    if collide:
        monkeypatch.setattr(_memo, "_hashes", lambda words: (words[:, 0] % 2).astype(np.uint64))
    memo, asked = _memo.Memo(kept), []

    def ask(rows):
        asked.append(len(rows))
        return answer(rows)

    total = 0
    for seed in range(5):
        rows = codes(seed)
        values, spared, filling = memo.answers(rows, ask)
        np.testing.assert_array_equal(values, answer(rows))
        total += len(rows) - spared
        assert spared == len(rows) or asked[-1] == len(rows) - spared + filling
        assert filling == 0 or asked[-1] <= _memo.FEWEST
    if kept == 1000 and not collide:
        assert total == len(np.unique(np.concatenate([codes(s) for s in range(5)]), axis=0))


def test_a_call_is_filled():
    """New rows are few, so known ones go along; where nothing is new, nothing is asked."""
    memo = _memo.Memo(1000)
    rows = codes(0)
    memo.answers(rows, answer)
    more = np.concatenate([rows, [[9, 9, 9, 9]]])
    calls = []
    values, spared, filling = memo.answers(more, lambda r: calls.append(len(r)) or answer(r))
    np.testing.assert_array_equal(values, answer(more))
    assert (spared, filling, calls) == (200, 200, [201])
    values, spared, filling = memo.answers(more, lambda r: 1 / 0)
    np.testing.assert_array_equal(values, answer(more))
    assert (spared, filling) == (201, 0)
