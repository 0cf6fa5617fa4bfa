"""The problems whose programs are compiled for accelerators: `JOBS`, by name.

A job is made for `devices=` of a topology. It plans its run as on these devices, and its programs
are those of the plan.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

import xaijax
from bench.models import continuous, forward, gpt, mlp, transformer, vit
from xaijax.estimators.driver import by_pairs
from xaijax.games import queries
from xaijax.games.engine.dispatch import Compiled, ProgramRecipe
from xaijax.games.strategies.totals import Weights


@dataclass(frozen=True)
class Job:
    """A problem, made for the devices of a target."""

    programs: Callable[[], list[tuple[ProgramRecipe, int]]]  # with how often each runs
    rows: int  # hybrids, or rows whose derivative is taken
    model: Callable[[Any, Any], Any] | None = None  # f(params, rows), to compare with
    params: Any = None
    row: tuple[int, ...] = ()  # the shape of a row
    tile: int = 1 << 13  # rows of a call of the model


def planned(plan: Callable[[], object]) -> list[tuple[ProgramRecipe, int]]:
    """The programs of a plan, and how often each runs."""
    noted: list[tuple[ProgramRecipe, int]] = []

    def lacking(self: Compiled, recipes: Iterable[ProgramRecipe], runs: Mapping[Any, int]) -> int:
        noted.extend((recipe, runs[recipe.name]) for recipe in recipes)
        return len(noted)

    with mock.patch.object(Compiled, "lacking", lacking):
        plan()
    return noted


def shapes_on(sharding: Any, tree: Any) -> Any:
    """Shapes of arrays with a place."""

    def shape(leaf: Any) -> jax.ShapeDtypeStruct:
        dtype = jax.dtypes.canonicalize_dtype(jnp.result_type(leaf))
        return jax.ShapeDtypeStruct(jnp.shape(leaf), dtype, sharding=sharding)

    return jax.tree.map(shape, tree)


def of_explainer(
    f: Callable[..., Any],
    params: Any,
    X: np.ndarray,
    background: np.ndarray,
    target: dict[str, Any],
    structure: Any = None,
    kind: Any = None,
    options: dict[str, Any] | None = None,
    plan: Callable[[Any, Any], Any] | None = None,
    **arguments: Any,
) -> Job:
    """The job of an explainer of f(params, rows); options: of the model; plan(explainer, X): None,
    the plan of a call.
    """
    model = xaijax.as_model(f, params, structure=structure, **(options or {}))
    made = (kind or xaijax.Explainer)(model, background, **arguments, **target)
    return of_plan(made, X, plan, f, params)


def of_plan(explainer: Any, X: np.ndarray, plan: Any, f: Any, params: Any) -> Job:
    """The job of an explainer that is made."""
    ask = (lambda: explainer.plan(X)) if plan is None else partial(plan, explainer, X)
    cost = ask()
    rows = int(cost.model_rows.sum())
    return Job(partial(planned, ask), rows, f, params, X.shape[1:], cost.tile)


def network(
    target: dict[str, Any], N: int = 1_000, B: int = 100, P: int = 12, **arguments: Any
) -> Job:
    """T1's network of 64 and 64 units."""
    X, background = continuous(N, B, P)
    return of_explainer(
        forward, mlp((P, 64, 64, 1), background), X, background, target, **arguments
    )


def codes(target: dict[str, Any], **arguments: Any) -> Job:
    """T3: columns of few values, so that pairs agree in about half of them."""
    rng = np.random.default_rng(3)
    sizes = (60, 6, 12, 5, 10, 5, 4, 2, 20, 12, 40, 25)
    X, background = (
        np.stack([rng.integers(0, size, rows) for size in sizes], 1).astype(np.float32)
        for rows in (1_000, 100)
    )
    params = mlp((12, 64, 64, 1), background)
    return of_explainer(forward, params, X, background, target, **arguments)


def logistic(target: dict[str, Any]) -> Job:
    """A logistic regression's chances."""
    X, background = continuous(1_000, 100, 12)

    def f(p: Any, rows: Any) -> Any:
        return jax.nn.sigmoid(rows @ p["w"] + p["b"])

    return of_explainer(f, {"w": X[0].copy(), "b": np.float32(0.1)}, X, background, target)


def machine(target: dict[str, Any]) -> Job:
    """A machine of 2,000 support vectors and an RBF kernel."""
    X, background = continuous(100, 20, 12)
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(2_000, 12)).astype(np.float32)

    def f(p: Any, rows: Any) -> Any:
        squares = (rows**2).sum(1)[:, None] + (p["c"] ** 2).sum(1) - 2 * rows @ p["c"].T
        return jnp.exp(-0.1 * squares) @ p["a"]

    params = {"c": centres, "a": rng.normal(size=2_000).astype(np.float32)}
    return of_explainer(f, params, X, background, target)


def convolution(target: dict[str, Any], side: int = 28) -> Job:
    """A convolutional network of `side` x `side` pixels, players of 4 x 4, by permutations."""
    X, background = (a.reshape(-1, side, side, 1) for a in continuous(100, 10, side * side))
    rng = np.random.default_rng(0)
    params = {
        "kernel": (0.3 * rng.normal(size=(5, 5, 1, 16))).astype(np.float32),
        "out": (0.05 * rng.normal(size=((side - 4) ** 2 * 16, 10))).astype(np.float32),
    }

    def f(p: Any, images: Any) -> Any:
        made = jax.lax.conv_general_dilated(
            images, p["kernel"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return jax.nn.relu(made).reshape(len(images), -1) @ p["out"]

    row = np.arange(side) // 4
    players = (row[:, None] * (side // 4) + row[None])[..., None]
    return of_explainer(
        f, params, X, background, target, players=players, estimator="permutation", budget=100
    )


def images(target: dict[str, Any], layers: int = 6) -> Job:
    """A vision transformer of 5 M parameters and 64 patches, by permutations."""
    X, background = (a.reshape(-1, 64, 64, 3) for a in continuous(4, 1, 64 * 64 * 3))
    row = np.arange(64) // 8
    players = np.broadcast_to((row[:, None] * 8 + row[None])[..., None], (64, 64, 3)).copy()
    params = transformer(64, 256, layers, 8 * 8 * 3, 10)
    return of_explainer(
        vit, params, X, background, target, players=players, estimator="permutation", budget=130
    )


def words(target: dict[str, Any], layers: int = 6) -> Job:
    """A causal transformer of 5 M parameters and 64 tokens, by permutations."""
    rng = np.random.default_rng(0)
    X, background = rng.integers(1, 500, (4, 64)), np.zeros((1, 64), np.int64)
    params = transformer(64, 256, layers, 500, 500)
    return of_explainer(gpt, params, X, background, target, estimator="permutation", budget=130)


def gradients(target: dict[str, Any], path: str) -> Job:
    """Integrated or expected gradients of T1's network, 100 columns."""
    X, background = continuous(1_000, 100, 100)
    baseline = background[:1] if path == "integrated" else background
    params = mlp((100, 64, 64, 1), background)
    kind = xaijax.GradientExplainer
    return of_explainer(forward, params, X, baseline, target, kind=kind, path=path)


def influence(target: dict[str, Any]) -> Job:
    """QII of all pairs of T1's network."""
    X, background = continuous(100, 100, 12)
    options = {"threshold": 0.0}
    params = mlp((12, 64, 64, 1), background)
    return of_explainer(forward, params, X, background, target, kind=xaijax.QII, options=options)


def rules(target: dict[str, Any]) -> Job:
    """Anchors of T1's network, exact."""
    X, background = continuous(100, 1_000, 12)
    options = {"threshold": 0.0}
    params = mlp((12, 64, 64, 1), background)
    kind = xaijax.AnchorExplainer
    return of_explainer(forward, params, X, background, target, kind=kind, options=options)


def of_estimator(
    target: dict[str, Any], estimator: Any, X: Any, y: Any, B: int, output: str
) -> Job:
    """A scikit-learn estimator, fitted to y; the first B rows are the background."""
    model = xaijax.as_model(estimator.fit(X, y), output=output)
    made = xaijax.Explainer(model, X[:B], **target)

    def f(params: Any, rows: Any) -> Any:
        del params  # the program holds them
        return xaijax.as_jax(model)(rows)

    f.__name__ = f"{type(estimator).__name__}, {output}"  # tells the plain programs apart
    return of_plan(made, X[B : B + 100], None, f, ())


def forest(target: dict[str, Any]) -> Job:
    """The labels of a random forest of 30 trees on breast cancer; chances ask no hybrid."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X.astype(np.float32)
    trees = RandomForestClassifier(30, max_depth=6, random_state=0)
    return of_estimator(target, trees, X[:, :12], y, 50, "label")


def boosted(target: dict[str, Any]) -> Job:
    """The chances of 100 boosted trees on the 30 columns of breast cancer, sampled."""
    X, y = load_breast_cancer(return_X_y=True)
    off: Any = False  # the stubs know "auto" only
    trees = HistGradientBoostingClassifier(max_depth=6, early_stopping=off, random_state=0)
    return of_estimator(target, trees, X.astype(np.float32), y, 100, "proba")


def neighbours(target: dict[str, Any]) -> Job:
    """The chances of 5 nearest neighbours among 2,000 rows."""
    X, _ = continuous(2_000, 1, 12, seed=3)
    return of_estimator(target, KNeighborsClassifier(5), X, X.sum(axis=1) > 0, 20, "proba")


class Planned(Exception):
    """A call was planned, and is not run."""


def plan_of_call(explainer: Any, call: Callable[[], object], cost: Any = None) -> Any:
    """The plan of a call: `explainer.plan(X)`, where the call chooses who answers.

    cost(choose) -> what counts the cost of exact values; None: as for a plain call.
    """
    plans = []

    def run(X: Any, progress: Any, choose: Any, *_: Any) -> Any:
        exact = explainer.exact if cost is None else cost(choose)
        with mock.patch.multiple(explainer, _choose=choose, exact=exact):
            plans.append(explainer.plan(X))
        raise Planned

    with mock.patch.object(explainer, "_run", run), contextlib.suppress(Planned):
        call()
    return plans[0]


@dataclass(frozen=True)
class CostOfSets:
    """Counts what exact interactions ask, in place of an explainer's `exact`."""

    choose: Any  # a method of the query
    name = "exact"

    def cost(self, game: Any, rows: np.ndarray) -> None:
        """Adds the cost of the instances `rows` to the game's."""
        weights = self.choose.__self__.weights
        if by_pairs(game, weights).all():
            queries.semivalues_cost(game, Weights(weights), rows)
        else:
            queries.tables_cost(game, rows)


def interactions(target: dict[str, Any]) -> Job:
    """All pairs of T3's columns."""

    def plan(explainer: Any, X: np.ndarray) -> Any:
        return plan_of_call(explainer, lambda: explainer.interactions(X), CostOfSets)

    return codes(target, plan=plan)


def certain(target: dict[str, Any]) -> Job:
    """The three largest values of 64 columns, until they are certain or the budget ends."""

    def plan(explainer: Any, X: np.ndarray) -> Any:
        return plan_of_call(explainer, lambda: explainer(X, top=3))

    return network(target, P=64, budget=2_048, plan=plan)


def derivative(target: dict[str, Any]) -> Job:
    """`shapley_values` of T1's network and 12 columns, and its derivative by the parameters."""
    X, background = continuous(16, 100, 12)
    params, devices = mlp((12, 64, 64, 1), background), target["devices"]
    everywhere = NamedSharding(Mesh(np.array(devices), ("tiles",)), PartitionSpec())

    def loss(params: Any, x: Any, background: Any) -> Any:
        return (xaijax.shapley_values(forward, x, background, params=params) ** 2).sum()

    arguments = shapes_on(everywhere, (params, X, background))
    what = "shapley_values and its derivative"
    recipe = ProgramRecipe((what,), jax.value_and_grad(loss), arguments, what=what)
    return Job(lambda: [(recipe, 1)], len(X) * 100 << 12, forward, params, (12,))


JOBS: dict[str, Callable[[dict[str, Any]], Job]] = {
    "T1": network,
    "T1, plain": partial(network, structure="plain"),
    "T1, one instance": partial(network, N=1),
    "T1, bfloat16": partial(network, options={"precision": "bfloat16"}),
    "T3": codes,
    "logistic": logistic,
    "RBF machine": machine,
    "forest, labels": forest,
    "boosted": boosted,
    "nearest neighbours": neighbours,
    "first convolution": convolution,
    "kernel, P = 64": partial(network, P=64, estimator="kernel", budget=2_048),
    "permutation, P = 64": partial(network, P=64, estimator="permutation", budget=2_048),
    "permutation, P = 784": partial(
        network, N=100, B=10, P=784, estimator="permutation", budget=4_096
    ),
    "interactions": interactions,
    "certain top-k": certain,
    "QII, all pairs": influence,
    "Anchors": rules,
    "integrated gradients": partial(gradients, path="integrated"),
    "expected gradients": partial(gradients, path="expected"),
    "shapley_values": derivative,
    "ViT": images,
    "GPT": words,
}
# For tests, on TPUs: these take their compiler up to a minute each at full size.
SMALL: dict[str, Callable[[dict[str, Any]], Job]] = {
    "first convolution": partial(convolution, side=16),
    "ViT": partial(images, layers=1),
    "GPT": partial(words, layers=1),
}
