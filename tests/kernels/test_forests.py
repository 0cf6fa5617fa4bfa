"""Values of forests in closed form are those of the definition, by each of the ways to add them.

The oracle walks the trees in NumPy and asks all coalitions.

Letters: N instances, B donors, C columns, P players, T trees, K outputs, M nodes.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import oracles
import pytest

from xaijax_kernels.structures import forests, leaves, parts
from xaijax_kernels.structures.base import WeightedDonors
from xaijax_kernels.structures.nodes import Nodes

N, B = 4, 7
# Sums of some hundred terms of size one in float64, in other orders.
CLOSE = {"rtol": 0, "atol": 1e-12}


@dataclass(frozen=True)
class Sizes:
    """Weights of sets of k players: of Shapley's interaction index or of Banzhaf's."""

    kind: str
    order: int = 1

    def __call__(self, k: int) -> list[np.ndarray]:
        return [self.of(k, s) for s in range(1, min(self.order, k) + 1)]

    def of(self, k: int, s: int) -> np.ndarray:
        if self.kind == "banzhaf":
            return np.full(k - s + 1, 0.5 ** (k - s))
        f = math.factorial
        return np.array([f(t) * f(k - s - t) / f(k - s + 1) for t in range(k - s + 1)])


def forest(
    rng: np.random.Generator, T: int, C: int, depth: int, K: int, single: bool = False
) -> Nodes:
    """Random trees with thresholds that rows hit, and places for missing values and categories.

    single: each tree pays one output.
    """
    left, split, value, roots = [], [], [], []
    levels = 1

    def node(owns: bool, level: int) -> None:
        nonlocal levels
        left.append(len(left))
        split.append((int(rng.integers(C)), float(rng.integers(8)) / 2) if owns else (0, np.inf))
        value.append(np.zeros(K))
        levels = max(levels, level)

    for t in range(T):
        roots.append(len(left))
        node(True, 0)
        front = [roots[-1]]
        for level in range(1, depth + 1):
            inner, front = front, []
            for one in inner:
                left[one] = len(left)
                for _ in range(2):
                    goes_on = level < depth and rng.random() < (0.8 if depth < 10 else 0.6)
                    node(goes_on, level)
                    if goes_on:
                        front.append(len(left) - 1)
        for one in range(roots[-1], len(left)):
            if left[one] == one:
                value[one] = rng.normal(size=K) * (np.arange(K) == t % K if single else 1)
    M, inner = len(left), np.array(left) != np.arange(len(left))
    return Nodes(
        np.array(left, np.int32),
        np.array([column for column, _ in split], np.int32),
        np.array([cut for _, cut in split], np.float32),
        np.array(value),
        np.array(roots, np.int32),
        np.zeros((levels, C), bool),
        (rng.random(M) < 0.5) | ~inner,
        np.where(inner & (rng.random(M) < 0.2), 0, -1).astype(np.int32),
        np.array([[True, False, False, True, False]]),
    )


def walk(nodes: Nodes, rows: np.ndarray) -> np.ndarray:
    """The sums of the leaves' values, [R, K]."""
    out = np.zeros((len(rows), nodes.value.shape[1]))
    for at in nodes.roots:
        for n, row in enumerate(rows):
            here = at
            while nodes.left[here] != here:
                here = nodes.left[here] + goes_right(nodes, int(here), row[nodes.feature[here]])
            out[n] += nodes.value[here]
    return out


def goes_right(nodes: Nodes, node: int, x: float) -> bool:
    if np.isnan(x):
        return not nodes.missing_left[node]
    if nodes.category_split[node] >= 0:
        known = 0 <= x < nodes.goes_left.shape[1] - 1
        return not nodes.goes_left[0, int(x) if known else -1]
    return not x <= nodes.threshold[node]


def rows_of(rng: np.random.Generator, count: int, C: int) -> np.ndarray:
    rows = (rng.integers(0, 9, (count, C)) / 2).astype(np.float32)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows


def by_definition(nodes: Nodes, x: np.ndarray, given: WeightedDonors, of: Sizes) -> np.ndarray:
    """The values of sets of 1 to `order` players, [M, K]."""
    players = range(given.P)
    groups = [np.flatnonzero(given.players == p) for p in players]
    rows = given.donors, given.weights
    v = oracles.coalition_values(lambda z: walk(nodes, z), x, *rows, groups)
    out = []
    for s in range(1, of.order + 1):
        for S in itertools.combinations(players, s):
            rest, total = [p for p in players if p not in S], 0.0
            for t, weight in enumerate(of.of(given.P, s)):
                for others in itertools.combinations(rest, t):
                    for q in range(s + 1):
                        for some in itertools.combinations(S, q):
                            sign = (-1) ** (s - q)
                            total = total + weight * sign * v[frozenset((*others, *some))]
            out.append(total)
    return np.stack(out)


# Trees, columns, depth, outputs, whether a tree pays one output, weights, players.
CASES: dict[str, tuple[Any, ...]] = {
    "stumps": (3, 3, 1, 1, False, Sizes("shapley"), None),
    "three outputs": (3, 5, 4, 3, False, Sizes("shapley"), None),
    "an output each": (4, 5, 4, 3, True, Sizes("banzhaf"), None),
    "groups": (3, 6, 5, 1, False, Sizes("shapley"), [0, 1, 1, 2, 0, 3]),
    "pairs": (2, 5, 5, 2, False, Sizes("banzhaf", 2), None),
    "threes": (2, 5, 4, 1, False, Sizes("shapley", 3), None),
    "deep": (1, 6, 16, 1, False, Sizes("shapley", 2), None),
}
WAYS = {  # the bits of parts, the players of a product, those of a table
    "parts": (8, 6, 14),
    "products": (0, 14, 14),
    "subsets": (0, 0, 14),
    "pairs": (1, 0, -1),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_definition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    T, C, depth, K, single, of, players = CASES[name]
    rng = np.random.default_rng(len(name))
    nodes = forest(rng, T, C, depth, K, single)
    X, donors, w = rows_of(rng, N, C), rows_of(rng, B, C), rng.random(B)
    player = np.arange(C) if players is None else np.array(players)
    given = WeightedDonors(donors, w / w.sum(), player, int(player.max()) + 1, of)
    wanted = np.stack([by_definition(nodes, x, given, of) for x in X])
    for bits, product, table in WAYS.values():
        monkeypatch.setattr(parts, "BITS", bits)
        monkeypatch.setattr(leaves, "MOST_OF_PRODUCT", product)
        monkeypatch.setattr(forests, "most_of_table", lambda _, most=table: most)
        form = forests.Trees(nodes, given, (np.eye(K), np.zeros(K)))
        values, layer = form.of(X)
        np.testing.assert_allclose(values, wanted, **CLOSE)
        np.testing.assert_allclose(layer, walk(nodes, X), **CLOSE)
        np.testing.assert_allclose(form.of_donors, walk(nodes, donors), **CLOSE)
        # A row's values are identical bit for bit, whatever rows come with it.
        np.testing.assert_array_equal(form.of(X[1:2])[0], values[1:2])
    # With little memory, tables are small, and are made again for each call.
    form = forests.Trees(nodes, replace(given, memory=1 << 10), (np.eye(K), np.zeros(K)))
    np.testing.assert_allclose(form.of(X)[0], wanted, **CLOSE)


@pytest.mark.parametrize("P", [64, 65])
def test_paths_of_up_to_64_players_have_a_form(P: int) -> None:
    """The deepest leaf pays 1 to a row that goes right at each node: a 64th to each player."""
    M, inner = 2 * P + 1, 2 * np.arange(P)
    left, feature, cut = np.arange(M), np.zeros(M, np.int32), np.full(M, np.inf, np.float32)
    left[inner], feature[inner], cut[inner] = inner + 1, np.arange(P), 0.5
    value, yes = np.zeros((M, 1)), np.ones(M, bool)
    value[-1] = 1
    no_split, table = np.full(M, -1), np.zeros((0, 1), bool)
    levels, root = np.zeros((P, P), bool), np.zeros(1, np.int32)
    nodes = Nodes(left, feature, cut, value, root, levels, yes, no_split, table)
    donors, of = np.zeros((3, P), np.float32), Sizes("shapley")
    given = WeightedDonors(donors, np.full(3, 1 / 3), np.arange(P), P, of)
    form = forests.closed_form_of(nodes, given, (np.eye(1), np.zeros(1)))
    if P > 64:
        assert form is None
        return
    assert form is not None
    values, _ = form.of(np.ones((1, P), np.float32))
    np.testing.assert_allclose(values, np.full((1, P, 1), 1 / P), rtol=1e-12)
