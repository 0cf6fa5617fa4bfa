"""v(S) for a list of coalitions against the definition."""

from __future__ import annotations

import games
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from listed import (
    agreeing,
    coalitions_of,
    differing_players,
    game_of,
    oracle,
    planned_rows,
    rows_of,
)
from often import some_slow

import xaijax as xj
from xaijax.games import queries
from xaijax.games.engine import host as make
from xaijax.games.strategies import listed

C = 37  # neither a multiple of 16 coalitions, which is a slot, nor a power of two
BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])
WEIGHTS = [0.4, 0.1, 0.3, 0.2]


def model_of(backend: str, P: int, outputs: int = 1) -> xj.Model:
    A = games.weights(P)
    if backend == "jax":
        return xj.as_model(games.smooth if outputs == 1 else games.three_outputs, params=A)
    return xj.as_model(definition(P, outputs), backend="host")


def definition(P: int, outputs: int = 1):
    A = games.weights(P)
    function = games.smooth_host if outputs == 1 else games.three_outputs_host
    return lambda X: function(X, A)


def bound(backend: str, P: int, answers: np.ndarray) -> float:
    """The model adds P tanh of size 1 at most, times a player: in float32 each rounds by some
    2^-24, and so does the answer after some tens of operations; 64 of these for each of both. A
    host model answers, and is averaged, in float64.
    """
    u = 2.0**-24 if backend == "jax" else 2.0**-53
    return 64 * u * max(float(P), float(np.abs(answers).max()))


@pytest.mark.slow
@BACKENDS
def test_distinct_donors_of_few_coalitions_in_any_order(backend):
    """What keeps nothing is a donor, whoever x is, and stands where it was put."""
    P = 3
    rng = np.random.default_rng(0)
    donors, X = rng.integers(0, 2, (60, P)).astype(float), rng.integers(0, 2, (4, P)).astype(float)
    for masks in ([[0, 0, 0], [1, 1, 0], [1, 0, 1]], [[1, 1, 0], [0, 0, 0], [1, 0, 1]]):
        game = game_of(model_of(backend, P), X, donors, weights=None)
        kept = np.array(masks, bool)
        got = queries.values(game, kept, distinct=True)
        assert game.count.distinct < len(X) * len(kept) * len(donors) / 4  # donors were shared
        answers = definition(P)(donors)
        np.testing.assert_allclose(
            got, queries.values(game, kept), rtol=0, atol=2 * bound(backend, P, answers)
        )


@pytest.mark.parametrize("P, outputs", some_slow([(6, 3), (40, 1), (70, 3)], 3))
@pytest.mark.parametrize("kind", ["continuous", "agreeing"])
@BACKENDS
def test_values_are_the_definition(backend, kind, P, outputs):
    """One, two and three words of 32 players in a mask."""
    X, donors = rows_of(kind, P)
    masks = coalitions_of(P, C)
    game = game_of(model_of(backend, P, outputs), X, donors, weights=WEIGHTS)
    got = queries.values(game, masks)
    expected = oracle(definition(P, outputs), X, donors, masks, WEIGHTS)
    expected = expected.reshape(len(X), C, outputs)
    atol = bound(backend, P, expected)
    np.testing.assert_allclose(got, expected, rtol=0, atol=atol)

    k = differing_players(X, donors)
    planned = planned_rows(k, C)
    assert game.count.distinct == planned.sum()
    if kind == "agreeing":  # precondition: sub-coalitions and lists side by side in one instance
        by_subsets = planned < C * len(donors)
        assert by_subsets[1:].all() and not by_subsets[0]
        assert (2.0 ** k[1:] < C).any(axis=1).all() and ((2.0 ** k[1:] > C).any() or P == 6)
        assert k.min() == 1
    else:
        assert (planned == C * len(donors)).all()

    some = queries.values(
        game, masks[5:20], np.array([2, 0])
    )  # other rows, another and shorter list
    np.testing.assert_allclose(some, expected[[2, 0], 5:20], rtol=0, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["continuous", "agreeing"])
@BACKENDS
def test_groups_and_a_link_after_the_mean(backend, kind):
    X, donors = rows_of(kind, 40)
    groups = [[39, 1, 7], [0, 33], *([j] for j in range(40) if j not in (39, 1, 7, 0, 33))]
    masks = coalitions_of(len(groups), C)
    model, f = model_of(backend, 40), definition(40)
    game = game_of(model, X, donors, groups[:2], WEIGHTS, np.arctan)
    expected = oracle(f, X, donors, masks, WEIGHTS, groups, np.arctan)
    # arctan shrinks an error, and its own rounding is below that of a number of size P.
    np.testing.assert_allclose(
        queries.values(game, masks)[:, :, 0], expected, rtol=0, atol=bound(backend, 40, expected)
    )
    planned = planned_rows(differing_players(X, donors, groups), C)
    assert game.count.distinct == planned.sum()


@pytest.mark.slow
@BACKENDS
def test_images_with_a_player_mask(backend):
    """Instances of shape [2, 3, 8], twelve players laid over them out of order."""
    mask = np.random.default_rng(4).permutation(np.repeat(np.arange(12), 4)).reshape(2, 3, 8)
    groups = [np.flatnonzero(mask.reshape(-1) == p).tolist() for p in range(12)]
    A = games.weights(48)
    X, donors = agreeing(12, 48)

    def image(X):
        return games.smooth(A, X.reshape(X.shape[0], 48))

    def host(X):
        return games.smooth_host(np.reshape(X, (len(X), 48)), A)

    f = image if backend == "jax" else host
    model = xj.as_model(f, backend=backend, input_shape=(2, 3, 8))
    shaped = [rows.reshape(-1, 2, 3, 8) for rows in (X, donors)]
    masks = coalitions_of(12, C)
    game = game_of(model, *shaped, players=mask)
    expected = oracle(host, X, donors, masks, groups=groups)
    np.testing.assert_allclose(
        queries.values(game, masks)[:, :, 0], expected, rtol=0, atol=bound(backend, 48, expected)
    )
    assert game.count.distinct == planned_rows(differing_players(X, donors, groups), C).sum()


@pytest.mark.slow
@BACKENDS
def test_missing_numbers_agree_with_each_other(backend):
    """NaN equals NaN, whatever its bits, so it needs no rows; and it is put where it belongs."""
    X, donors = agreeing(40)
    X[1:, 3], donors[:3, 3] = np.nan, np.nan
    donors.view(np.uint32)[0, 3] = 0xFFC00123
    X[0, 9] = np.nan

    def filled(X):
        return np.where(np.isnan(X), 0.75, X)

    def traced(X):
        return games.smooth(games.weights(40), jnp.where(jnp.isnan(X), 0.75, X))

    f = definition(40)
    if backend == "jax":
        model = xj.as_model(traced, allow_nan=True)
    else:
        model = xj.as_model(lambda X: f(filled(X)), backend="host", allow_nan=True)
    masks = coalitions_of(40, C)
    game = game_of(model, X, donors)
    expected = oracle(lambda X: f(filled(X)), X, donors, masks)
    np.testing.assert_allclose(
        queries.values(game, masks)[:, :, 0], expected, rtol=0, atol=bound(backend, 40, expected)
    )
    marked = [np.where(np.isnan(rows), np.float32(99), rows) for rows in (X, donors)]
    assert game.count.distinct == planned_rows(differing_players(*marked), C).sum()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["continuous", "few"])
@BACKENDS
def test_little_memory_cuts_coalitions_donors_and_instances(backend, kind, monkeypatch):
    """The same values but for rounding, since only the sum over donors is cut elsewhere."""
    P, C = 12, 200
    B, K, memory = (12, 1, 4_000) if backend == "host" else (120, 3, 300_000)
    X, donors = games.rows(5, P, kind, 1), games.rows(B, P, kind, 2)
    weights = 1.0 + np.arange(B)
    masks = coalitions_of(P, C)
    pieces = []

    def watched(instances, donors, coalitions, *rest):
        pieces.append((len(instances), len(donors), coalitions))
        return stream(instances, donors, coalitions, *rest)

    stream = listed.ListedStream
    monkeypatch.setattr(listed, "ListedStream", watched)
    monkeypatch.setattr(make, "SMALLEST_OF_WIDE", 8)  # 32 rows take more than these bytes
    game = game_of(model_of(backend, P, K), X, donors, weights=weights, max_memory=memory)
    got = queries.values(game, masks)
    expected = oracle(definition(P, K), X, donors, masks, weights).reshape(5, C, K)
    np.testing.assert_allclose(got, expected, rtol=0, atol=bound(backend, P, expected))
    # A host model's donors would be cut at less memory than 32 rows and the pairs take in all.
    refused = backend == "host"
    if refused:
        little = game_of(model_of(backend, P, K), X, donors, weights=weights, max_memory=640)
        with pytest.raises(xj.MemoryPlanError, match="for tile.*for pairs.*whose shares are"):
            queries.values(little, masks)
    if kind == "continuous":  # precondition: what can be was cut
        assert pieces and all(n < 5 and (b < B or refused) and c < C for n, b, c in pieces)
        # Cut, every row is still asked once.
        assert game.count.distinct == 5 * B * C


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_whatever_the_sizes_and_agreements(data):
    P = data.draw(st.sampled_from([1, 2, 5, 31, 32, 33, 64, 65]))
    C = data.draw(st.integers(1, 70))
    N, B = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    share = data.draw(st.sampled_from([0.0, 0.05, 0.2, 1.0]))
    base = rng.normal(size=P)
    X, donors = (
        np.where(rng.random((n, P)) < share, rng.normal(size=(n, P)), base) for n in (N, B)
    )
    weights = rng.random(B) + 0.1
    masks = rng.random((C, P)) < rng.random((C, 1))
    worth = rng.normal(size=P)

    def f(X):  # no two coalitions alike, and every player in every product
        return X @ worth + np.cos(X).prod(axis=1) + X[:, 0] * X[:, -1]

    # The least that explainers take: `Evaluator.refuse_too_little_memory`.
    least = 3 * 256 * P * 8 + 2 * donors.nbytes
    memory = data.draw(st.sampled_from([None, least]))
    game = game_of(xj.as_model(f, backend="host"), X, donors, weights=weights, max_memory=memory)
    got = queries.values(game, masks)[:, :, 0]
    expected = oracle(f, X, donors, masks, weights)
    # At most 70 terms of size 4 in float64, rounded in another order.
    np.testing.assert_allclose(got, expected, rtol=0, atol=280 * 16 * 2.0**-53)
    asked = planned_rows(differing_players(X, donors), C).sum()
    assert game.count.distinct == asked if memory is None else asked <= game.count.distinct
