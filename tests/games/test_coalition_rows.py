"""How few rows a list of coalitions takes, and which of them is blamed for a bad answer."""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest
from listed import (
    agreeing,
    coalitions_of,
    differing_players,
    game_of,
    oracle,
    planned_rows,
    rows_of,
)

import xaijax as xj
from xaijax.games import queries

C = 37  # neither a multiple of 16 coalitions, which is a slot, nor a power of two
BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["continuous", "agreeing"])
@BACKENDS
def test_rows_calls_and_dispatches(backend, kind):
    """N = 1,000: two streams of rows at most (by sub-coalitions, by list), each cut into whole
    calls.
    """
    P, N = 40, 1000
    X, donors = rows_of(kind, P)
    n = len(X)
    X = np.tile(X, (N // n + 1, 1))[:N]
    calls = []

    def f(X):
        calls.append(len(X))
        return X @ np.arange(P) + X[:, 0] * X[:, 1]

    def traced(X):
        return X @ jnp.arange(P, dtype=jnp.float32) + X[:, 0] * X[:, 1]

    model = xj.as_model(f, backend="host") if backend == "host" else xj.as_model(traced)
    game = game_of(model, X, donors, tile=512, batch_size=1024, devices=1)
    assert game.probe().outputs == 1  # probed
    calls.clear()
    queries.values(game, coalitions_of(P, C))
    plan = planned_rows(differing_players(X, donors), C)
    assert game.count.distinct == plan.sum()
    plain = plan == C * len(donors)
    streams = [int(plan[plain].sum()), int(plan[~plain].sum())]
    clock = game.evaluator.clock
    if backend == "host":
        assert game.count.padded + clock.padded_rows == 0
        assert sum(calls) == sum(streams)  # no row twice, none as padding
        assert len(calls) == clock.model_calls == sum(math.ceil(s / 1024) for s in streams)
    else:
        k = np.where(plain[:, None], 62, differing_players(X, donors))
        slots = np.ceil(np.minimum(2.0**k, C) / 16) * 16
        padded = [slots[plain].sum(), slots[~plain].sum()]
        assert game.count.distinct + game.count.padded == sum(padded)
        assert clock.model_calls == sum(math.ceil(s / 1024) for s in padded)


def test_the_quotient_is_used_from_a_quarter_fewer_rows_on():
    """Four donors and 16 coalitions, 64 rows: 48 distinct ones are few enough, 49 are not."""
    X = np.zeros((1, 8), np.float32)
    masks = coalitions_of(8, 16)
    for differ, rows in ([(4, 4, 3, 3), 48], [(4, 4, 4, 0), 64], [(0, 0, 0, 0), 4]):
        donors = np.array([[1.0] * k + [0.0] * (8 - k) for k in differ], np.float32)
        seen = []

        def f(X, seen=seen):
            seen.append(len(X))
            return X.sum(axis=1)

        game = game_of(xj.as_model(f, backend="host"), X, donors)
        assert game.probe().outputs == 1
        seen.clear()
        values = queries.values(game, masks)
        assert game.count.distinct == sum(seen) == rows
        np.testing.assert_allclose(values[0, :, 0], oracle(f, X, donors, masks)[0], atol=1e-14)


def test_a_random_model_is_asked_anew_for_hybrids_that_agree():
    rng = np.random.default_rng(0)
    model = xj.as_model(lambda X: rng.random(len(X)), backend="host", deterministic=False)
    X, donors = agreeing(40)
    game = game_of(model, X, donors)
    values = queries.values(game, coalitions_of(40, C))
    assert game.count.distinct == 4 * 4 * C
    # 592 means of four uniform numbers: no two are equal but with chance 592^2 2^-50.
    assert len(np.unique(values)) == values.size


@pytest.mark.parametrize("kind", ["continuous", "agreeing"])
@BACKENDS
def test_an_answer_that_is_not_finite_is_named(backend, kind):
    """Where only f(donor 2 with players 3 and 35 of x) is NaN; the list ends inside a slot."""
    X, donors = rows_of(kind, 40)
    X[:, 3], donors[:, 3], X[:, 35], donors[:, 35] = 5.0, 1.0, 6.0, 2.0
    donors[:, 20] = [0.0, 0.0, 9.0, 0.0]
    X[:, 20] = 9.0
    masks = coalitions_of(40, C)
    masks[:, 3] &= ~masks[:, 35]
    masks[19] = False
    masks[19, [3, 35]] = True

    def f(X):
        xp = jnp if backend == "jax" else np
        bad = (X[:, 3] == 5) & (X[:, 35] == 6) & (X[:, 20] == 9)
        return xp.where(bad, xp.nan, X.sum(axis=1))

    game = game_of(xj.as_model(f, backend=backend), X, donors)
    masks[1] = False  # the probe's rows hold f(x) itself, which must be finite
    model_rows = "X row 0 with background row 2 and the players \\['x3', "
    with pytest.raises(xj.ModelOutputError, match=model_rows) as raised:
        queries.values(game, masks, np.array([0]))
    assert "x35" in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["continuous", "agreeing"])
def test_what_fills_a_slot_is_never_asked_outside_the_list(kind):
    """37 coalitions fill three slots of 16 but for eleven rows. The model is NaN for the last donor
    with x0 of its own, which is in no coalition of the list (and in no sub-coalition of the
    others).
    """
    X, donors = rows_of(kind, 40)
    X[:, 0], donors[:, 0] = 1.0, [1.0, 1.0, 1.0, -1.0]
    model = xj.as_model(lambda X: jnp.where(X[:, 0] < 0, jnp.nan, X.sum(axis=1)))
    masks = coalitions_of(40, C) | (np.arange(40) == 0)
    game, well = game_of(model, X, donors), game_of(model, X, X)
    assert well.probe().outputs == 1
    game.evaluator.engine = dataclasses.replace(  # the probe would meet the donor
        well.engine, replacement=game.engine.replacement
    )
    assert np.isfinite(queries.values(game, masks)).all()
    assert game.count.padded > 0
