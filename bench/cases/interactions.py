"""T29, T30: interactions of feature pairs, exact on Adult's codes, sampled at 30 and 100 players.

Measured once, at commit e021920f06 on 2026-11-25, over networks and forests of 30 and 100 players
and 3 seeds at 512, 2,048 and 8,192 coalitions, and not repeated by the case: 94.5 to 97.1 % of the
95 % intervals of all pairs hold, of the 20 largest pairs 21.7 to 51.7 %, 78.3 to 95 % and 65 to 95
%. With unbiased=True 94.7 to 96 % of all and 86.7 to 98.3 % of the 20 largest hold, and the squared
error is 1.6 to 13.2 times the default's.

Letters: N instances, P players, B background rows, M pairs.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

import xaijax
from bench import games
from bench.cases.exact import OURS, Problem, adult_problem
from bench.definition import REASON, coalition_values, tolerance
from bench.frame import (
    LEAST,
    Agreement,
    Case,
    Contender,
    Duel,
    Figure,
    Outcome,
    Ratio,
    Results,
    Several,
    Size,
)
from bench.models import forward, mlp, predict
from bench.peers import shapiq_interactions as peers

VALUES = "the values alone"
FEW_PLAYERS = 50  # up to which every peer is asked
DEFINED = 5  # instances whose tables are enumerated
BLOCK = 10  # inputs of a network whose tables are enumerated


def definition(v: np.ndarray) -> np.ndarray:
    """SII of players and pairs of a table [2^P] in float64, by its derivatives; [P + M]."""
    P = len(v).bit_length() - 1
    c = np.arange(1 << P)
    size = np.bitwise_count(c).astype(int)
    out = []
    for S in peers.sets(P):
        bits = [1 << i for i in S]
        T = c[(c & sum(bits)) == 0]
        change = (
            v[T | sum(bits)] - sum(v[T | b] for b in bits) + v[T]
            if len(S) == 2
            else (v[T | bits[0]] - v[T])
        )
        n, s = P, len(S)
        weight = np.array([1 / ((n - s + 1) * math.comb(n - s, t)) for t in range(n - s + 1)])
        out.append((weight[size[T]] * change).sum())
    return np.array(out)


def _table(problem: Problem, x: np.ndarray) -> np.ndarray:
    return coalition_values(functools.partial(predict, problem.params), x, problem.background)


def setup_exact(size: Size) -> Duel:
    """Measures all 66 feature pairs of Adult's 12 players and the values, 1,000 rows, 100
    background rows, against the values alone and against shapiq's ExactComputer with the same
    jitted model.

    All pairs and the values, against the values alone and against shapiq.
    """
    problem = adult_problem(*((4, 3) if size == "smoke" else (1_000, 100)))
    P = problem.X.shape[1]
    model = xaijax.as_model(forward, problem.params)
    explainer = xaijax.Explainer(model, problem.background, estimator="exact")
    game_of = games.of_network(problem.params, problem.background)

    def theirs(count: int) -> np.ndarray:
        found = []
        for n in range(count):
            game = game_of(problem.X[n : n + 1])
            found.append(peers.exact(lambda masks, game=game: game(masks)[:, 0], P))
        return np.stack(found)

    def check(results: Results) -> list[Agreement]:
        ours, values, shapiq = results[OURS], results[VALUES], results[peers.EXACT]
        tables = [_table(problem, x) for x in problem.X[:DEFINED]]
        off = max(
            float(np.abs(ours.values[n] - definition(table)).max() / np.ptp(table))
            for n, table in enumerate(tables)
        )
        reason = "of the span of each instance's table, about ten roundings of float32"
        peer = float(np.abs(ours.values[: len(shapiq)] - shapiq).max())
        alone = float(np.abs(ours.values[:, :P] - values.values).max())
        limit = tolerance(problem.outputs)
        return [
            Agreement(f"interactions and the definition, {len(tables)} rows", off, 1e-6, reason),
            Agreement(f"interactions and {peers.EXACT}'s", peer, 4 * limit, REASON),
            Agreement("players alone and their values", alone, limit, REASON),
        ]

    N = len(problem.X)
    return Duel(
        contenders=[
            Contender(OURS, lambda n: explainer.interactions(problem.X[:n], progress=False), N),
            Contender(VALUES, lambda n: explainer(problem.X[:n], progress=False), N),
            Contender(peers.EXACT, theirs, N, LEAST[size]),
        ],
        check=check,
        figures=[
            Ratio("pairs and values / values alone", OURS, VALUES, 2, 1.3),
            Ratio("shapiq exact / ours", peers.EXACT, OURS, 50, 500),
        ],
        rounds=3 if size == "full" else 1,
    )


@dataclass(frozen=True)
class Sampled:
    """One model whose pairs are known exactly, at some budgets."""

    model: Any
    x: np.ndarray  # [P]
    background: np.ndarray  # [B, P]
    truth: np.ndarray  # [P + M]
    budgets: tuple[int, ...]
    seeds: int

    def measure(self) -> Outcome:
        """Errors of pairs, relative to the sum of their squares."""
        P = len(self.x)
        figures, details, ratios = [], {}, []
        plain = xaijax.as_model(self.model, backend="host")
        game = games.of_host(self.model, self.background)(self.x[None])

        def one(masks: np.ndarray) -> np.ndarray:
            return game(masks)[:, 0]

        whole = float((self.truth[P:] ** 2).sum())
        for budget in self.budgets:
            errors: dict[str, list[float]] = {}
            for seed in range(self.seeds):
                explainer = xaijax.Explainer(
                    plain, self.background, estimator="kernel", budget=budget, seed=seed
                )
                found = explainer.interactions(self.x[None], progress=False).values[0]
                guesses = {name: peer(one, P, budget, seed) for name, peer in self._peers().items()}
                for name, values in {OURS: found, **guesses}.items():
                    error = float(((values - self.truth)[P:] ** 2).sum()) / whole
                    errors.setdefault(name, []).append(error)
            means = {name: float(np.mean(list_)) for name, list_ in errors.items()}
            ratios.append(means[OURS] / min(means[name] for name in self._peers()))
            details[str(budget)] = means
            figures.append(Figure(f"MSE at {budget:,} / the best of shapiq's", ratios[-1]))
        mean = float(np.exp(np.mean(np.log(ratios))))
        figures.insert(0, Figure("MSE / the best of shapiq's, geometric mean", mean, 1.05, 0.8))
        left_out = sorted(set(peers.SAMPLED) - set(self._peers()))
        notes = (f"left out, minutes a call: {', '.join(left_out)}",) if left_out else ()
        agreements = self._agreements()
        return Outcome(tuple(figures), agreements=agreements, notes=notes, details=details)

    def _peers(self) -> dict[str, Callable[..., np.ndarray]]:
        """Those whose loops over pairs end in reasonable time: at 100 players and 512 coalitions
        SVARMIQ takes 330 s of a core for one instance, KernelSHAPIQ 8 s.
        """
        few = len(self.x) <= FEW_PLAYERS
        return {name: one for name, one in peers.SAMPLED.items() if few or "SVARMIQ" not in name}

    def _agreements(self) -> tuple[Agreement, ...]:
        """The truth's players add up to f(x) less the mean of the background."""
        P = len(self.x)
        ends = self.model(np.concatenate([self.x[None], self.background]))
        off = abs(float(self.truth[:P].sum() - (ends[0] - ends[1:].mean())))
        return (Agreement("the truth adds up", off, tolerance(ends), REASON),)


def _rows(P: int, B: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(P)
    return rng.normal(size=P).astype(np.float32), rng.normal(size=(B, P)).astype(np.float32)


def _blocks(P: int, budgets: tuple[int, ...], seeds: int) -> Sampled:
    """A sum of networks of ten inputs each, whose pairs tables give."""
    x, background = _rows(P, 10)
    width = min(BLOCK, P)
    parts = [mlp((width, 32, 32, 1), background[:, :width], seed=i) for i in range(P // width)]

    def model(rows: np.ndarray) -> np.ndarray:
        own = np.split(np.asarray(rows), P // width, axis=1)
        return np.sum([predict(p, z) for p, z in zip(parts, own, strict=True)], axis=0)

    place, truth = {S: m for m, S in enumerate(peers.sets(P))}, np.zeros(P * (P + 1) // 2)
    for i, params in enumerate(parts):
        here = slice(i * width, (i + 1) * width)
        table = _table(Problem(x[None, here], background[:, here], params), x[here])
        for S, value in zip(peers.sets(width), definition(table), strict=True):
            truth[place[tuple(i * width + p for p in S)]] = value
    return Sampled(model, x, background, truth, budgets, seeds)


def _forest(P: int, budgets: tuple[int, ...], seeds: int) -> Sampled:
    """A forest, whose pairs its leaves give."""
    x, background = _rows(P, 10)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, P)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + np.where(X[:, 2] > 0, X[:, 3], -X[:, 4]) + X[:, 5:9].sum(axis=1)
    forest = RandomForestRegressor(30, max_depth=6, random_state=0).fit(X, y)
    truth = np.mean([_of_tree(one.tree_, x, background) for one in forest.estimators_], axis=0)
    model: Callable[[np.ndarray], np.ndarray] = forest.predict
    return Sampled(model, x, background, truth, budgets, seeds)


def _of_tree(tree: Any, x: np.ndarray, background: np.ndarray) -> np.ndarray:
    """SII of players and pairs of a tree, leaf by leaf and donor by donor; [P + M].

    A leaf pays where all columns of U, whose bounds the donor breaks, are kept, and none of V,
    whose bounds x breaks: its one derivative by S that is not 0 is (-1)^|S in V|, at U without S.
    """
    place = {S: m for m, S in enumerate(peers.sets(len(x)))}
    out = np.zeros(len(place))
    for value, bounds in _leaves(tree):
        for b in background:
            broken = {
                c: tuple(not low < z[c] <= high for z in (x, b))
                for c, (low, high) in bounds.items()
            }
            if any(by_x and by_b for by_x, by_b in broken.values()):
                continue
            U = {c for c, (by_x, by_b) in broken.items() if by_b}
            V = {c for c, (by_x, by_b) in broken.items() if by_x}
            k = len(U) + len(V)
            for S in itertools.chain.from_iterable(
                itertools.combinations(sorted(U | V), s) for s in (1, 2)
            ):
                s, t = len(S), len(U - set(S))
                weight = 1 / ((k - s + 1) * math.comb(k - s, t))
                out[place[S]] += (-1) ** len(V & set(S)) * weight * value / len(background)
    return out


def _leaves(tree: Any) -> Iterator[tuple[float, dict[int, tuple[float, float]]]]:
    """(value, {column: its bounds, low < z <= high}) of each leaf."""
    left = [(0, {})]
    while left:
        node, bounds = left.pop()
        if tree.children_left[node] < 0:
            yield float(tree.value[node].ravel()[0]), bounds
            continue
        column, cut = int(tree.feature[node]), float(tree.threshold[node])
        low, high = bounds.get(column, (-np.inf, np.inf))
        left.append((tree.children_left[node], bounds | {column: (low, min(high, cut))}))
        left.append((tree.children_right[node], bounds | {column: (max(low, cut), high)}))


def setup_sampled(size: Size) -> Several:
    """Measures sampled feature pairs of a network and a forest at 30 and 100 players, 10 background
    rows, against shapiq's KernelSHAPIQ, SVARMIQ, SHAPIQ and permutations at equal coalitions.

    A network and a forest at 30 and 100 players.
    """
    if size == "smoke":
        return Several({"network, P = 10": _blocks(10, (60,), 1), "forest": _forest(10, (60,), 1)})
    budgets = (512, 2_048, 8_192)
    return Several(
        {
            f"{name}, P = {P}": make(P, budgets, 3)
            for P in (30, 100)
            for name, make in (("network", _blocks), ("forest", _forest))
        }
    )


CASES = (
    Case("T29", setup_exact),
    Case("T30", setup_sampled, long=True),
)
