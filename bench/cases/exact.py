"""T1, T2, T3: exact Shapley values of a JAX network, continuous inputs and Adult's codes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import xaijax
from bench.definition import against_definition, against_peer, efficiency
from bench.frame import (
    LEAST_SECONDS,
    Agreement,
    Case,
    Contender,
    Duel,
    Figure,
    Size,
    Timing,
    ratio,
)
from bench.models import Params, adult_codes, continuous, forward, mlp, predict
from bench.passes import best_pass
from bench.peers import shap_exact

OURS, FORWARD = "xaijax", "plain forward"
AS_IT_IS = "shap Exact, model as it is"


@dataclass(frozen=True)
class Problem:
    """Instances, background and a network; every contender sees the same."""

    X: np.ndarray  # [N, P]
    background: np.ndarray  # [B, P]
    params: Params

    @property
    def rows(self) -> int:
        """Model rows of one instance when every hybrid is asked: B 2^P."""
        return len(self.background) * 2 ** self.X.shape[1]

    @functools.cached_property
    def outputs(self) -> np.ndarray:
        """The model on the instances, float64 [N]."""
        return predict(self.params, self.X)

    def ours(self) -> Callable[[int], Any]:
        """Return n -> the Explanation of the first n instances."""
        model = xaijax.as_model(forward, self.params)
        explainer = xaijax.Explainer(model, self.background, estimator="exact")
        return lambda count: explainer(self.X[:count], progress=False)

    def shap(self) -> Callable[[int], np.ndarray]:
        """Return n -> shap's values [n, P] of the first n instances, by the same jitted model."""
        model = jax.jit(functools.partial(forward, self.params))
        steady = shap_exact.steadied(model)
        explain = shap_exact.explainer(steady, self.background, self.X.shape[1])
        return lambda count: explain(self.X[:count])

    def shap_as_it_is(self) -> Callable[[int], np.ndarray]:
        """The same, but shap calls the jitted model as it is, and on other rows in every turn.

        Its calls then have ever new sizes, and JAX compiles for each: what a user would meet.
        """
        model = jax.jit(functools.partial(forward, self.params))
        explain = shap_exact.explainer(
            lambda rows: np.asarray(model(rows)), self.background, self.X.shape[1]
        )
        turn = 0

        def next_rows(count: int) -> np.ndarray:
            nonlocal turn
            rows = np.take(self.X, range(turn, turn + count), axis=0, mode="wrap")
            turn += count
            return explain(rows)

        return next_rows

    def agreements(self, explanation: Any) -> list[Agreement]:
        """Efficiency on all instances, the definition on one."""
        model = functools.partial(predict, self.params)
        return [
            efficiency(explanation, self.outputs),
            against_definition(explanation, model, self.X, self.background, instances=1),
        ]


def network(instances: int, background: int, widths: tuple[int, ...]) -> Problem:
    """Normal draws and a network of the given widths."""
    X, rows = continuous(instances, background, widths[0])
    return Problem(X, rows, mlp(widths, rows))


def adult_problem(instances: int, background: int) -> Problem:
    """Adult as codes; the network normalises by the whole table, as a trained one would."""
    X, rows, table = adult_codes(instances, background)
    return Problem(X, rows, mlp((12, 64, 64, 1), table))


def _problem(size: Size) -> Problem:
    if size == "smoke":
        return network(10, 5, (6, 8, 8, 1))
    return network(200, 100, (12, 64, 64, 1))


def setup_forward(size: Size) -> Duel:
    """T1: against the best tiled forward pass over as many rows, and nothing else."""
    problem = _problem(size)
    tiles = _tiles(size)
    plain, tile = _plain(problem, tiles)

    def figures(timings: Mapping[str, Timing], results: Mapping[str, Any]) -> list[Figure]:
        del results
        value = ratio(timings, OURS, FORWARD)
        return [Figure("time / plain forward of the same rows", value, 1.25, 0.95)]

    return Duel(
        contenders=[
            Contender(OURS, problem.ours(), len(problem.X)),
            Contender(FORWARD, plain, len(problem.X)),
        ],
        check=lambda results: problem.agreements(results[OURS]),
        figures=figures,
        notes=(f"forward in tiles of {tile:,} rows, the fastest of {len(tiles)}",),
    )


def _tiles(size: Size) -> tuple[int, ...]:
    """Tiles to try for the plain forward."""
    return (64, 320) if size == "smoke" else (2048, 4096, 8192, 16384, 32768)


def _plain(problem: Problem, tiles: Sequence[int]) -> tuple[Callable[[int], None], int]:
    """n -> the model alone over the rows of n instances, and its tile."""
    rows, P = problem.rows, problem.X.shape[1]
    return best_pass(forward, problem.params, P, rows, tiles, drawn=math.lcm(rows, *tiles))


def setup_shap(size: Size) -> Duel:
    """T2: the problem of T1 against shap."""
    return _against_shap(_problem(size), size, goals=(8, 12))


def setup_codes(size: Size) -> Duel:
    """T3: Adult as codes, where most values of a pair of rows agree."""
    instances, background = (4, 3) if size == "smoke" else (1_000, 100)
    return _against_shap(adult_problem(instances, background), size, goals=(150, 500), asked=True)


def _against_shap(
    problem: Problem, size: Size, *, goals: tuple[float, float], asked: bool = False
) -> Duel:
    """Shap is spared its compilations, and the plain forward pass over the rows asked is beside it.

    That is no ceiling: ours asks the first layer less often than it has rows. `asked`: the quotient
    asks few hybrids; the forward pass is then over as many rows as ours asked, and shap is timed
    once more as a user meets it, calling the jitted model as it is: its calls then differ in size
    with every instance, and JAX compiles for each size.
    """

    def check(results: Mapping[str, Any]) -> list[Agreement]:
        ours, theirs = results[OURS], results[shap_exact.NAME]
        values = against_peer(shap_exact.NAME, ours.values, theirs, problem.outputs)
        return [values, *problem.agreements(ours)]

    def figures(timings: Mapping[str, Timing], results: Mapping[str, Any]) -> list[Figure]:
        speed = ratio(timings, shap_exact.NAME, OURS)
        alone = ratio(timings, shap_exact.NAME, FORWARD)
        found: list[Figure] = []
        if asked:
            stats = results[OURS].stats
            rows = stats["model_rows"] + stats["padded_rows"]
            share = rows / (len(problem.X) * problem.rows)
            alone /= share  # the forward pass was timed over every hybrid
            found.insert(
                0, Figure("(model rows + padding) / (N B 2^P)", 100 * share, 4.5, unit=" %")
            )
            value = ratio(timings, AS_IT_IS, OURS)
            found.append(Figure("shap Exact, with its compilations / ours", value, unit="x"))
        label = "shap Exact / ours"
        found.insert(0, Figure(label, speed, *goals, better="more", unit="x"))
        found.append(Figure("shap Exact / plain forward of the rows asked", alone, unit="x"))
        return found

    least = LEAST_SECONDS if size == "full" else 0.0
    plain, _ = _plain(problem, _tiles(size))
    contenders = [
        Contender(OURS, problem.ours(), len(problem.X)),
        Contender(shap_exact.NAME, problem.shap(), len(problem.X), least),
        Contender(FORWARD, plain, len(problem.X), least),
    ]
    if asked:
        contenders.append(Contender(AS_IT_IS, problem.shap_as_it_is(), len(problem.X), least))
    return Duel(
        contenders=contenders,
        check=check,
        figures=figures,
        rounds=3 if size == "full" else 1,
        notes=("shap's calls are padded to few sizes, so that it does not compile in each",),
    )


CASES = (
    Case(
        "T1",
        "exact values, MLP 12-64-64-1, 100 background rows, continuous inputs, against the model "
        "alone on the same number of rows",
        "time / best tiled forward <= 1.25",
        "<= 0.95",
        setup_forward,
    ),
    Case("T2", "the same against shap Exact", "shap / ours >= 8", ">= 12", setup_shap),
    Case(
        "T3",
        "Adult as codes, 1,000 rows, 100 background rows, the same network, against shap Exact",
        "model rows <= 4.5 % of N B 2^P; shap / ours >= 150",
        ">= 500",
        setup_codes,
    ),
)
