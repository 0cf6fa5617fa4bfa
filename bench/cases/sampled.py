"""T18, T20: sampled Shapley values of a network, at equal numbers of distinct coalitions."""

from __future__ import annotations

import functools

import jax
import numpy as np

import xaijax
from bench import games
from bench.cases.exact import network
from bench.cases.walk import first_layer, rest
from bench.contest import Contest
from bench.frame import Case, Duel, Several, Size
from bench.models import forward
from bench.passes import best_pass
from bench.peers import shap_exact, shap_sampled, shapiq_sampled


def _permutation(
    size: Size, shape: tuple[int, int, tuple[int, ...]], count: int, goal: float, measured: int
) -> Duel:
    """Of `count` pairs of orders. shape: instances, background rows, widths of the network."""
    problem = network(*shape)
    P = problem.X.shape[1]
    model = jax.jit(functools.partial(forward, problem.params))
    # Its calls have one size here: nothing is padded, and it compiles once.
    rows = shap_sampled.permutation_of_rows(shap_exact.steadied(model), problem.background, count)
    # No engine that asks as many coalitions does less than what follows the first layer.
    asked, hidden = len(problem.background) * count * 2 * (P - 1), shape[2][1]
    tiles = (64,) if size == "smoke" else (256, 512, 1_024, 2_048, 4_096, 8_192, 16_384)
    alone, _ = best_pass(rest, problem.params, hidden, asked, tiles, drawn=4 * tiles[-1])
    return Contest(
        problem,
        "permutation",
        count * 2 * (P - 1),
        shap_sampled.PERMUTATION,
        shap_sampled.permutation,
        lambda n: rows(problem.X[:n]),
        (goal, 100),
        measured=measured,
        seeds=10 if size == "full" else 3,
        size=size,
        structure=xaijax.FirstLayer(first_layer, rest),
        alone=alone,
    ).duel()


def setup_permutation(size: Size) -> Several:
    """T18: ten pairs of orders at 64 players, two at 784."""
    if size == "smoke":
        return Several({"P = 16": _permutation(size, (6, 4, (16, 8, 1)), 3, 25, 4)})
    small = (64, 64, 64, 1)
    return Several(
        {
            "P = 64, B = 1": _permutation(size, (2_000, 1, small), 10, 25, 16),
            "P = 64, B = 100": _permutation(size, (64, 100, small), 10, 25, 16),
            "P = 784, B = 10": _permutation(size, (20, 10, (784, 256, 128, 10)), 2, 30, 4),
        }
    )


def _leverage(size: Size, players: int, budget: int) -> Duel:
    hidden = (8, 1) if size == "smoke" else (64, 64, 1)
    problem = network(4 if size == "smoke" else 64, 10, (players, *hidden))
    game_of = games.of_network(problem.params, problem.background)

    def rows(count: int) -> np.ndarray:
        each = [game_of(problem.X[n : n + 1]) for n in range(count)]
        name = shapiq_sampled.leverage_of_one
        return np.stack([name(game, players, budget, n) for n, game in enumerate(each)])

    return Contest(
        problem,
        "kernel",
        budget,
        shapiq_sampled.LEVERAGE,
        shapiq_sampled.leverage,
        rows,
        (20, None),
        (1.2, 1.0),
        measured=4 if size == "smoke" else 32,
        seeds=3 if size == "smoke" else 10,
        size=size,
    ).duel()


def setup_leverage(size: Size) -> Several:
    """T20: 32 P coalitions."""
    players = (16,) if size == "smoke" else (64, 128)
    return Several({f"P = {P}": _leverage(size, P, 32 * P) for P in players})


CASES = (
    Case(
        "T18",
        "permutation sampling, first layer declared, at equal numbers of distinct coalitions, "
        "against shap Permutation given the same jitted model: MLP 64-64-64-1 and 784-256-128-10",
        "shap / ours >= 25 at P = 64, >= 30 at P = 784",
        ">= 100",
        setup_permutation,
        long=True,
    ),
    Case(
        "T20",
        "leverage sampling of MLPs with 64 and 128 inputs, 10 background rows, 32 P coalitions, "
        "against shapiq LeverageSHAP: error, and time of an instance",
        "MSE / shapiq's <= 1.2; shapiq / ours >= 20",
        "<= 1.0",
        setup_leverage,
    ),
)
