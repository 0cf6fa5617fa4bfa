"""What the bench's sampled cases rest on: games, the peers' shortcuts, and the long run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import games, truth
from bench.cases.exact import network
from bench.definition import shapley
from bench.models import predict

P, N, B = 7, 3, 4
PROBLEM = network(N, B, (P, 8, 1))
RNG = np.random.default_rng(0)


def game() -> games.Game:
    return games.of_network(PROBLEM.params, PROBLEM.background)(PROBLEM.X)


def test_games_are_means_over_the_background() -> None:
    masks = RNG.random((5, P)) < 0.5
    rows = np.where(masks[:, None, None], PROBLEM.X[:, None], PROBLEM.background)  # [C, N, B, P]
    expected = predict(PROBLEM.params, rows.reshape(-1, P)).reshape(5, N, B).mean(axis=2)
    np.testing.assert_allclose(game()(masks), expected, atol=1e-6)
    host = games.of_host(lambda rows: predict(PROBLEM.params, rows), PROBLEM.background)
    np.testing.assert_allclose(host(PROBLEM.X)(masks), expected, atol=1e-6)


def test_a_counted_game_asks_each_coalition_once() -> None:
    asked: list[int] = []

    def told(masks: np.ndarray) -> np.ndarray:
        asked.append(len(masks))
        return game()(masks)

    counted = games.Counted(told, P)
    masks = np.array([[1] * P, [0] * P, [1] + [0] * (P - 1), [1] + [0] * (P - 1)])
    np.testing.assert_array_equal(counted(masks), game()(masks.astype(bool)))
    counted(masks[::-1])
    assert counted.asked == 1 and asked == [2, 1]


def test_peers_by_a_game_are_the_peers_by_rows() -> None:
    pytest.importorskip("shap")
    from bench.peers import shap_sampled  # noqa: PLC0415

    exact = np.stack(
        [shapley(lambda r: predict(PROBLEM.params, r), x, PROBLEM.background) for x in PROBLEM.X]
    )
    # Budgets that cover all coalitions make shap's kernel exact; orders are unbiased.
    np.testing.assert_allclose(shap_sampled.kernel(game(), P, 2**P - 2, 0), exact, atol=1e-5)
    counted = games.Counted(game(), P)
    several = [shap_sampled.permutation(counted, P, 60, seed) for seed in range(40)]
    assert np.abs(np.mean(several, axis=0) - exact).max() < 0.02
    one = games.Counted(game(), P)
    shap_sampled.permutation(one, P, 60, 0)
    assert 60 - 2 * (P - 1) < one.asked <= 60


def test_shared_draws_are_the_draws_of_a_peer_made_anew() -> None:
    approximator = pytest.importorskip("shapiq.approximator")
    if not hasattr(approximator, "LeverageSHAP"):
        pytest.skip("this shapiq has no LeverageSHAP: the newest for Python 3.11 is older")
    from bench.peers import shapiq_sampled  # noqa: PLC0415

    library, budget = shapiq_sampled.library(), 40
    shared = shapiq_sampled.leverage(game(), P, budget, 3)
    pairs = shapiq_sampled.kernel(game(), P, budget, 3)
    for n in range(N):
        own = games.of_network(PROBLEM.params, PROBLEM.background)(PROBLEM.X[n : n + 1])
        alone = shapiq_sampled.leverage_of_one(own, P, budget, 3)
        np.testing.assert_allclose(shared[n], alone, atol=1e-5)
        made = library.KernelSHAP(n=P, pairing_trick=True, random_state=3)
        found = made.approximate(budget + 2, lambda masks, own=own: own(masks)[:, 0])
        np.testing.assert_allclose(pairs[n], found.get_n_order_values(1), atol=1e-5)


def test_a_long_run_stops_by_the_rule_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(truth, "CACHE", tmp_path)
    seeds: list[int] = []

    def run(seed: int) -> tuple[np.ndarray, np.ndarray]:
        seeds.append(seed)
        return np.full((2, 3), 5.0), np.full((2, 3), 0.1)  # variance 0.01

    found = truth.long_run([1, PROBLEM.X], run, lambda _: 0.1, keep=True)
    # 0.01 / runs must be at most 0.9 * 0.02 * 0.1.
    assert found.runs == 6 == len(set(seeds)) and found.agreement(0.1, "any").holds
    assert not found.agreement(0.05, "any").holds
    again = truth.long_run([1, PROBLEM.X], run, lambda _: 0.1, keep=True)
    assert again.runs == 6 == len(seeds)
    np.testing.assert_array_equal(again.values, np.full((2, 3), 5.0))
    truth.long_run([2, PROBLEM.X], run, lambda _: 10.0, keep=True)
    assert len(seeds) == 7
