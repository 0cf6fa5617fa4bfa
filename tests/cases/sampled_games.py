"""Games as tables [2^P], and a driver that asks them, for the tests of the sampled estimators."""

from __future__ import annotations

import numpy as np
import oracles

from xaijax.estimators.driver import METHODS
from xaijax.estimators.estimator import Result
from xaijax.players.index import named

INDICES = ("shapley", "banzhaf")


def members(P: int) -> np.ndarray:
    """bool [2^P, P]"""
    return (np.arange(1 << P)[:, None] >> np.arange(P) & 1).astype(bool)


def threshold(P: int) -> np.ndarray:
    """1 where the members' weight exceeds half; weights lognormal, no two alike."""
    weight = np.random.default_rng(2).lognormal(0, 0.5, P)
    return (members(P) @ weight > weight.sum() / 2).astype(float)


def triples(P: int) -> np.ndarray:
    """Products of three neighbouring players in a ring, with normal coefficients."""
    z = members(P).astype(float)
    c = np.random.default_rng(0).normal(size=P)
    return sum(c[i] * z[:, i] * z[:, (i + 1) % P] * z[:, (i + 2) % P] for i in range(P))


def random_table(P: int) -> np.ndarray:
    """Interactions of every order."""
    return np.random.default_rng(0).normal(size=1 << P)


def pairwise(P: int) -> np.ndarray:
    """Interactions of two players at most."""
    rng = np.random.default_rng(1)
    z, A = members(P).astype(float), rng.normal(size=(P, P))
    return 3.0 + z @ rng.normal(size=P) + ((z @ A) * z).sum(axis=1)


def additive(P: int) -> np.ndarray:
    """No interactions, far from zero."""
    return 1000.0 + members(P) @ np.random.default_rng(3).normal(size=P)


def truth(table: np.ndarray, index: str) -> np.ndarray:
    """The oracle's values; [P]."""
    P = len(table).bit_length() - 1
    weight = oracles.shapley_weight(P) if index == "shapley" else oracles.banzhaf_weight(P)
    return oracles.semivalue_of_table(table, weight)


def answers(tables: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """v(masks) of games [G, 2^P], as values [G, C, 1]."""
    return tables[:, masks @ (1 << np.arange(masks.shape[1]))][..., None]


def with_ends(values: np.ndarray, empty: np.ndarray, full: np.ndarray) -> np.ndarray:
    """Answers [G, 2 + C, K] as estimators take them; values [G, C, K], empty and full [G, K]."""
    return np.concatenate([empty[:, None], full[:, None], values], axis=1)


def estimate(name: str, index: str, budget: int, seed: int, tables: np.ndarray) -> Result:
    """One estimate of every game [G, 2^P], with all the budget in one step."""
    P = tables.shape[1].bit_length() - 1
    method = METHODS[name]
    state = method.init(P, named(index), budget, seed)
    state, new = method.step(state, method.units(P, named(index), budget))
    masks = method.masks(state, new)
    return method.result(state, with_ends(answers(tables, masks), tables[:, :1], tables[:, -1:]))
