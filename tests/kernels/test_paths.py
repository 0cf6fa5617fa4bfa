"""Path-dependent values of forests, compared with their definition over all sets of players."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import oracles
import oracles_paths
import pytest

from xaijax_kernels.structures.paths import path_dependent, points

C, CODES, WIDTH = 5, 4, 6  # columns, numbers of one, and categories with the unknown ones
# A value adds up some hundred products of roundings 1e-16, of leaves of a size of about one.
CLOSE = {"rtol": 0, "atol": 1e-12}


@dataclass(frozen=True)
class Sizes:
    """The weights [P] of a semivalue; induced on k players by adding null players back."""

    p: tuple[float, ...]
    order: int = 1

    def __call__(self, k: int) -> Any:
        p = np.array(self.p)
        while len(p) > k:
            p = p[:-1] + p[1:]
        return [p]


def forest(seed: int, T: int = 3, K: int = 2, depth: int = 5, **options: bool) -> dict[str, Any]:
    """Random trees that test columns again and again; level by level in each tree."""
    rng = np.random.default_rng(seed)
    parts: dict[str, list[Any]] = {name: [] for name in ("left", "cover", "level")}
    roots = []
    for _ in range(T):
        first = len(parts["left"])
        roots.append(first)
        parts["left"].append(first)
        parts["cover"].append(100.0)
        level = [first]
        for _ in range(depth):
            below: list[int] = []
            for node in level:
                if node != first and rng.random() < 0.3:
                    continue
                share = 0.0 if options.get("empty") and rng.random() < 0.5 else rng.random()
                parts["left"][node] = len(parts["left"])
                for part in (share, 1 - share):
                    below.append(len(parts["left"]))
                    parts["left"].append(below[-1])
                    parts["cover"].append(parts["cover"][node] * part)
            level = below
    left = np.array(parts["left"])
    M, leaf = len(left), left == np.arange(len(left))
    nodes: dict[str, Any] = {
        "left": left,
        "feature": np.where(leaf, 0, rng.integers(0, C, M)),
        "threshold": np.where(leaf, np.inf, rng.integers(0, CODES, M) + 0.5),
        "missing_left": leaf | (rng.random(M) < 0.5),
        "value": np.where(leaf[:, None], rng.normal(size=(M, K)), 0),
        "cover": np.array(parts["cover"]),
        "roots": np.array(roots),
    }
    if options.get("categories"):
        split = np.where(leaf | (rng.random(M) < 0.5), -1, rng.integers(0, 7, M))
        table = rng.random((7, WIDTH)) < 0.5
        at = split >= 0
        nodes["missing_left"][at] = table[split[at], -1]
        nodes |= {"category_split": split, "goes_left": table}
    return nodes


def rows(R: int, missing: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(R)
    x = rng.integers(0, WIDTH + 1, (R, C)).astype(np.float64)
    return np.where(rng.random((R, C)) < missing, np.nan, x)


def form_of(nodes: dict[str, Any], players: Any, weight: Any) -> Any:
    """The form for the weight of one set, by its size, of as many players as there are."""
    P, K = int(np.max(players)) + 1, nodes["value"].shape[1]
    p = Sizes(tuple(weight(P)(s) for s in range(P)))
    return path_dependent(nodes, np.array(players), P, p, (np.eye(K), np.zeros(K)))


def hold(nodes: dict[str, Any], X: np.ndarray, players: Any, weight: Any) -> None:
    """Asserts that the form's values, base value and layer are those of the definition."""
    form, P = form_of(nodes, players, weight), int(np.max(players)) + 1
    groups = [np.flatnonzero(np.array(players) == p).tolist() for p in range(P)]
    values, layer = form.of(X)
    for n, x in enumerate(X):
        v = oracles_paths.coalition_values(nodes, x, groups)
        np.testing.assert_allclose(values[n], oracles.semivalue(v, P, weight(P)), **CLOSE)
        np.testing.assert_allclose(layer[n], v[frozenset(range(P))], **CLOSE)
        np.testing.assert_allclose(form.of_donors[0], v[frozenset()], **CLOSE)


ALONE = list(range(C))
LIMITED = {"limited": lambda P: oracles.size_limited_weight(P, 2)}
WEIGHTS = {"shapley": oracles.shapley_weight, "banzhaf": oracles.banzhaf_weight} | LIMITED
OPTIONS = {
    "plain": {},
    "missing and categories": {"categories": True},
    "children that no row reached": {"empty": True},
    "one output": {"K": 1},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_values_are_those_of_the_definition(name):
    nodes = forest(6, **OPTIONS[name])
    hold(nodes, rows(5, 0.2), ALONE, oracles.shapley_weight)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_groups_of_columns_and_other_semivalues(weight):
    hold(forest(2), rows(3), [0, 1, 0, 2, 3], WEIGHTS[weight])


def test_trees_of_some_outputs_and_of_one_leaf():
    """A boosted tree has one output of several; a tree may be its root alone."""
    nodes = forest(3, T=4, K=3, depth=3)
    ends = np.append(nodes["roots"], len(nodes["left"]))
    for t in range(3):
        nodes["value"][ends[t] : ends[t + 1], np.arange(3) != t % 2] = 0
    stump = forest(4, T=2, K=3, depth=0)
    first = len(nodes["left"])
    both = {name: np.concatenate([nodes[name], stump[name]]) for name in nodes}
    both["left"][first:] += first
    both["roots"][len(nodes["roots"]) :] += first
    hold(both, rows(3), ALONE, oracles.shapley_weight)
    hold(stump, rows(2), ALONE, oracles.shapley_weight)


def test_a_path_of_many_columns_is_a_product():
    """A leaf of value 2^40 behind 40 columns, each with half of the training rows."""
    d = 40
    left = np.repeat(1 + 2 * np.arange(d), 2)
    left = np.concatenate([[1], np.stack([1 + 2 * np.arange(1, d + 1), np.zeros(d)], 1).ravel()])
    left[2::2] = np.arange(2, 2 * d + 1, 2)
    left[-2] = 2 * d - 1
    feature = np.zeros(2 * d + 1, np.int64)
    feature[[0, *range(1, 2 * d - 1, 2)]] = np.arange(d)
    cover = np.concatenate([[1], np.repeat(0.5 ** np.arange(1.0, d + 1), 2)])
    value = np.zeros((2 * d + 1, 1))
    value[-2] = 2.0**d
    nodes = {"left": left.astype(int), "feature": feature, "value": value, "cover": cover}
    nodes |= {"threshold": np.full(2 * d + 1, 0.0), "roots": np.zeros(1, int)}
    X = np.zeros((2, d))
    X[1, 0] = 1.0  # fails the first test alone
    P = d
    form = path_dependent(nodes, np.arange(P), P, Sizes(shapley(P)), (np.eye(1), np.zeros(1)))
    assert form is not None
    values, layer = form.of(X)
    np.testing.assert_allclose(layer[:, 0], [2.0**d, 0])
    np.testing.assert_allclose(form.of_donors, 1)
    # Alike players share what there is; v(S) is 2^|S| without the failing one, and 0 with it.
    np.testing.assert_allclose(values[0], (2.0**d - 1) / d, rtol=1e-12)
    lost = -sum(2.0**s / d for s in range(d))
    np.testing.assert_allclose(values[1, 0, 0], lost, rtol=1e-12)
    np.testing.assert_allclose(values[1, 1:, 0], (-1 - lost) / (d - 1), rtol=1e-9)


def shapley(P: int) -> tuple[float, ...]:
    return tuple(oracles.shapley_weight(P)(s) for s in range(P))


def test_a_row_has_the_same_bits_in_any_company():
    nodes, X = forest(5, T=6, depth=6), rows(600, 0.1)
    form = form_of(nodes, ALONE, oracles.shapley_weight)
    values, layer = form.of(X)
    for some in (slice(0, 1), slice(3, 5), slice(250, 267), slice(599, 600)):
        own, reached = form.of(X[some])
        assert own.tobytes() == values[some].tobytes()
        assert reached.tobytes() == layer[some].tobytes()


def test_few_points_are_enough():
    for d in (1, 2, 7, 30):
        assert len(points(Sizes(shapley(d)), d)[0]) == -(-d // 2)
        assert len(points(Sizes(tuple(0.5 ** (d - 1) for _ in range(d))), d)[0]) == 1


def test_weights_that_are_no_sum_over_points_are_refused():
    """Sets of one size alone, of 60 players: points would cancel all digits. So are sets."""
    one = tuple(float(s == 30) for s in range(60))
    assert points(Sizes(one), 60) is None
    nodes = forest(1)
    pairs = replace(Sizes(shapley(C)), order=2)
    head = np.eye(2), np.zeros(2)
    assert path_dependent(nodes, np.arange(C), C, pairs, head) is None
