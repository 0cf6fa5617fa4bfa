"""T19: sampled permutations of a network with a declared first layer, against its forward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import xaijax
from bench.definition import efficiency
from bench.frame import Agreement, Case, Contender, Duel, Ratio, Results, Size
from bench.models import Params, continuous, forward, mlp, predict
from bench.passes import best_pass

OURS, FORWARD = "declared layer", "plain forward"


def first_layer(params: Params) -> tuple[jax.Array, jax.Array]:
    """Weights and bias of the first layer, with the normalisation folded in."""
    weight, bias = params["layers"][0]
    weight = weight / params["scale"][:, None]
    return weight, bias - params["shift"] @ weight


def rest(params: Params, hidden: jax.Array) -> jax.Array:
    """The network after its first layer: [R, H] -> [R]."""
    for weight, bias in params["layers"][1:]:
        hidden = jax.nn.relu(hidden) @ weight + bias
    return hidden[:, 0]


@dataclass(frozen=True)
class Problem:
    """Instances, background, a network and the pairs of orders that the budget is for."""

    X: np.ndarray  # [N, P]
    background: np.ndarray  # [B, P]
    params: Params
    pairs: int

    @property
    def rows(self) -> int:
        """Model rows of one instance."""
        return len(self.background) * (2 * (self.X.shape[1] - 1) * self.pairs + 2)

    def explain(self) -> Callable[[int], Any]:
        """Return n -> the Explanation of the first n instances."""
        layer = xaijax.FirstLayer(first_layer, rest)
        model = xaijax.as_model(forward, self.params, structure=layer)
        budget = 2 * (self.X.shape[1] - 1) * self.pairs
        explainer = xaijax.Explainer(model, self.background, estimator="permutation", budget=budget)
        return lambda count: explainer(self.X[:count], progress=False)

    def forward(self, tiles: tuple[int, ...], drawn: int) -> Callable[[int], None]:
        """The model alone over as many rows, in the tile that is fastest here."""
        return best_pass(forward, self.params, self.X.shape[1], self.rows, tiles, drawn)[0]


def setup(size: Size) -> Duel:
    """Measures permutations with a declared first layer: evaluations a second over the model's rows
    a second, 784-256-128-10 with 10 background rows and 64-64-64-1 with 100.

    Two networks in one duel; every figure is a rate over the forward pass of as many rows.
    """
    full = size == "full"
    shapes = (
        {"P = 784": (784, 256, 128, 10), "P = 64": (64, 64, 64, 1)}
        if full
        else {"P = 12": (12, 8, 6, 1)}
    )
    contenders: list[Contender] = []
    problems: dict[str, Problem] = {}
    for name, widths in shapes.items():
        N, B = ((8, 10) if widths[0] == 784 else (40, 100)) if full else (2, 3)
        X, background = continuous(N, B, widths[0])
        problem = Problem(X, background, mlp(widths, background), 4)
        problems[name] = problem
        tiles, drawn = ((512, 1024, 2048, 4096, 8192), 1 << 15) if full else ((32, 64), 64)
        contenders += [
            Contender(f"{name}: {OURS}", problem.explain(), N),
            Contender(f"{name}: {FORWARD}", problem.forward(tiles, drawn), N),
        ]

    def check(results: Results) -> list[Agreement]:
        return [
            efficiency(results[f"{name}: {OURS}"], predict(problem.params, problem.X))
            for name, problem in problems.items()
        ]

    return Duel(
        contenders=contenders,
        check=check,
        figures=[
            Ratio(
                f"{name}: evaluations/s over forward rows/s",
                f"{name}: {FORWARD}",
                f"{name}: {OURS}",
                *goals,
                better="more",
            )
            for name, goals in zip(problems, ((2.5, 6.0), (0.7, 1.2)), strict=False)
        ],
        rounds=3 if full else 1,
    )


CASES = (Case("T19", setup),)
