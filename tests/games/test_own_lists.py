"""v(S) for coalitions of which each instance has its own, against the definition."""

from __future__ import annotations

import games
import numpy as np
import pytest
from listed import coalitions_of, game_of, oracle, rows_of

import xaijax as xj
from xaijax.games import queries
from xaijax.games.engine import host as make
from xaijax.games.strategies import listed as own_lists

C, P = 37, 40  # neither a multiple of 16 coalitions, which is a slot; two words of 32 players
WEIGHTS = [0.4, 0.1, 0.3, 0.2]
BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])
A = games.weights(P)


def model_of(backend: str, outputs: int) -> xj.Model:
    if backend == "jax":
        return xj.as_model(games.smooth if outputs == 1 else games.three_outputs, params=A)
    host = games.smooth_host if outputs == 1 else games.three_outputs_host
    return xj.as_model(lambda X: host(X, A), backend="host")


def own_masks(n: int) -> np.ndarray:
    """As many for each instance, none like those of another."""
    return coalitions_of(P, n * C).reshape(n, C, P)


def expected_of(X, donors, masks, outputs: int, weights=None) -> np.ndarray:
    host = games.smooth_host if outputs == 1 else games.three_outputs_host
    each = [
        oracle(lambda X: host(X, A), X[i : i + 1], donors, masks[i], weights)
        for i in range(len(masks))
    ]
    return np.stack(each).reshape(len(masks), C, outputs)


def bound(backend: str, expected: np.ndarray) -> float:
    """As of lists that are shared: P tanh of size 1 at most, each rounded, and some tens more."""
    u = 2.0**-24 if backend == "jax" else 2.0**-53
    return 64 * u * max(float(P), float(np.abs(expected).max()))


@pytest.mark.parametrize("outputs", [1, 3])
@BACKENDS
def test_values_are_the_definition(backend, outputs):
    X, donors = rows_of("continuous", P)
    game, masks = game_of(model_of(backend, outputs), X, donors, weights=WEIGHTS), own_masks(len(X))
    expected = expected_of(X, donors, masks, outputs, WEIGHTS)
    got = queries.own_values(game, masks, np.arange(len(X)))
    np.testing.assert_allclose(got, expected, rtol=0, atol=bound(backend, expected))
    assert game.count.distinct == len(X) * C * len(donors)
    # What the first instance keeps is not what the others keep.
    assert np.abs(got - queries.values(game, masks[0])).max() > 0.1

    some = np.array([2, 0])  # other rows, in another order
    got = queries.own_values(game, masks[some], some)
    np.testing.assert_allclose(got, expected[some], rtol=0, atol=bound(backend, expected))


@pytest.mark.slow
@BACKENDS
def test_little_memory_cuts_coalitions_donors_and_instances(backend, monkeypatch):
    """The same values but for rounding, since only the sum over donors is cut elsewhere."""
    B, K, memory = (40, 1, 1_400) if backend == "host" else (150, 3, 400_000)
    X, donors = games.rows(5, P, "continuous", 1), games.rows(B, P, "continuous", 2)
    pieces = []
    stream = own_lists.ListedStream

    def watched(instances, of, coalitions, *rest, **named):
        pieces.append((len(instances), len(of), coalitions))
        return stream(instances, of, coalitions, *rest, **named)

    monkeypatch.setattr(own_lists, "ListedStream", watched)
    monkeypatch.setattr(make, "SMALLEST_OF_WIDE", 8)  # 32 rows take more than these bytes
    game = game_of(model_of(backend, K), X, donors, weights=None, max_memory=memory)
    masks = own_masks(5)
    expected = expected_of(X, donors, masks, K)
    got = queries.own_values(game, masks, np.arange(5))
    np.testing.assert_allclose(got, expected, rtol=0, atol=bound(backend, expected))
    # Precondition: all three were cut; and every row is still asked once.
    assert all(n < 5 for n, _, _ in pieces) and min(c for _, _, c in pieces) < C
    assert min(b for _, b, _ in pieces) < B and game.count.distinct == 5 * B * C


def test_a_bad_answer_names_whose_coalition_it_is():
    """Of the second instance only, and of the coalition that it keeps."""

    def f(X):
        X = np.asarray(X)
        return np.where((X[:, 0] == 7.0) & (X[:, 1] == 0.0), np.nan, X[:, 2])

    X = np.zeros((2, 3)) + np.array([[1.0], [7.0]])
    model = xj.as_model(f, backend="host")
    masks = np.array([[[1, 0, 1], [1, 1, 1]], [[0, 1, 1], [1, 0, 1]]], bool)
    game = game_of(model, X, np.zeros((1, 3)), weights=None)
    kept = r"X row 1 with background row 0 and the players \['x0', 'x2'\] kept"
    with pytest.raises(xj.ModelOutputError, match=kept):
        queries.own_values(game, masks, np.arange(2))


def test_a_link_that_fails_names_the_coalition_of_its_instance():
    """logit of 1 in the third instance, where x2 is not kept."""
    model = xj.as_model(lambda X: np.where(np.asarray(X)[:, 2] == 1, 1.0, 0.5), backend="host")
    X = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    masks = np.array([[[1, 1, 0]], [[1, 1, 1]], [[0, 1, 1]]], bool)
    game = game_of(model, X, np.zeros((1, 3)), weights=None, link="logit")
    with pytest.raises(xj.ModelOutputError, match=r"'x1', 'x2'\] kept"):
        queries.own_values(game, masks, np.arange(3))
