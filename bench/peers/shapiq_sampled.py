"""shapiq's approximators as peers; all of them ask a game. Letters: N instances, P players.

Their budgets count the empty and the full coalition, ours do not: hence the 2.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bench.frame import NotRun
from bench.games import Game
from bench.peers.installed import installed

LEVERAGE, KERNEL = "shapiq LeverageSHAP", "shapiq KernelSHAP"
PROXY, MSR = "shapiq ProxySHAP", "shapiq RegressionMSR"
ODD, POLY = "shapiq OddSHAP", "shapiq PolySHAP, order 3"


def library() -> Any:
    """Import shapiq's approximators, or say why the peers do not run."""
    approximator = installed("shapiq.approximator")
    if not hasattr(approximator, "LeverageSHAP"):
        raise NotRun("this shapiq has no LeverageSHAP (pip install -r bench/peers/here.txt)")
    return approximator


def leverage_of_one(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
    """Values [P] of a game of one instance by LeverageSHAP, as a user calls it: for its time."""
    made = library().LeverageSHAP(n=players, random_state=seed)
    return _values(made.approximate(budget + 2, lambda masks: game(masks)[:, 0]))


def leverage(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
    """Values [N, P] by LeverageSHAP; all instances share the seed's coalitions, as ours do."""
    made = library().LeverageSHAP(n=players, random_state=seed)
    drawn = made._sample(budget + 2)
    made._sample = lambda _: drawn
    return _all(made, game(drawn[0]), budget)


def kernel(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
    """Values [N, P] by KernelSHAP with its pairs, shared likewise. Without them it is far worse."""
    made = library().KernelSHAP(n=players, pairing_trick=True, random_state=seed)
    made._sampler.sample(budget + 2)
    made._sampler.sample = lambda _: None
    return _all(made, game(made._sampler.coalitions_matrix), budget)


def proxy(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
    """Values [N, P] by ProxySHAP: the values of a boosted model of the game."""
    made = library().ProxySHAP(
        n=players, max_order=1, index="SV", proxy_model=_trees(seed), random_state=seed
    )
    return _each(made, game, budget)


def msr(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
    """Values [N, P] by RegressionMSR: such a model, and its residuals sampled."""
    made = library().RegressionMSR(
        n=players, index="SV", proxy_model=_trees(seed), random_state=seed
    )
    return _each(made, game, budget)


def odd(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
    """Values [N, P] by OddSHAP: odd interactions that a boosted model picks."""
    installed("lightgbm")  # without it, it would take a single tree
    return _each(library().OddSHAP(n=players, random_state=seed), game, budget)


def poly(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
    """Values [N, P] by PolySHAP of order 3, with half as many terms as coalitions at most."""
    made = library().PolySHAP(
        n=players,
        max_order=3,
        max_terms=max(players + 1, budget // 2),
        pairing_trick=True,
        random_state=seed,
    )
    return _each(made, game, budget)


def _trees(seed: int) -> Any:
    """What shapiq makes of "lightgbm", but silent. Without it, it would take a single tree."""
    lightgbm = installed("lightgbm")
    return lightgbm.LGBMRegressor(random_state=seed, verbose=-1)


def _all(made: Any, table: np.ndarray, budget: int) -> np.ndarray:
    """One solution an instance, on the coalitions already drawn; table [C, N].

    In one thread: many small systems take longer in several, and nothing is timed here.
    """
    with threadpool_limits(1, "blas"):
        return np.stack([_values(made.approximate(budget + 2, lambda _, v=v: v)) for v in table.T])


def _each(made: Any, game: Game, budget: int) -> np.ndarray:
    """The coalitions of the first instance serve the others: the game is asked once."""
    kept = made._sampler
    kept.sample(budget + 2)
    kept.sample = lambda _: None
    table = game(kept.coalitions_matrix)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _all(made, table, budget)


def _values(found: Any) -> np.ndarray:
    """[P], of the single players, from an InteractionValues."""
    return np.asarray(found.get_n_order_values(1), np.float64)
