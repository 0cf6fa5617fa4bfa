"""Sampled values on the GPU beside captum's, in PyTorch on the same GPU, at equal orders.

Letters: N instances, P players, S seeds.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import xaijax
from bench import tf32
from bench.cases.exact import OURS, Problem, network
from bench.cases.gpu import MATMUL, device
from bench.environments import HERE, Worker, environment
from bench.frame import Agreement, Case, Contender, Duel, Figure, Outcome, Several, Size, Timing
from bench.models import forward
from bench.truth import Truth, centred, long_run, squared

CAPTUM = "captum ShapleyValueSampling"


@dataclass(frozen=True)
class Beside:
    """One precision. Both sides draw `orders` orders of the players; ours in pairs, there and back.

    Evaluations of an instance: ours orders (P - 1) + 2 distinct ones, captum's orders P + 1, since
    it asks the full coalition again in every order.
    """

    problem: Problem  # with one background row, which captum calls the baseline
    precision: str
    device: str
    size: Size
    orders: int
    measured: int  # instances whose error is measured
    seeds: int
    spent: list[float] = field(default_factory=list)  # seconds inside captum's process

    def explainer(self, precision: Any, times: int = 1) -> xaijax.Explainer:
        """Ours, with `times` as many orders."""
        return xaijax.Explainer(
            xaijax.as_model(forward, self.problem.params, precision=precision),
            self.problem.background,
            estimator="permutation",
            budget=times * self.orders * (self.problem.X.shape[1] - 1),
        )

    def truth(self, sides: Mapping[str, np.ndarray]) -> Truth:
        """A long run of ours in float32."""
        X, times = self.problem.X[: self.measured], 10
        explain = self.explainer("float32", times)

        def run(seed: int) -> tuple[np.ndarray, np.ndarray]:
            explain.seed = seed
            found = explain(X, progress=False)
            assert found.std_errors is not None
            return found.values, found.std_errors

        def smallest(truth: np.ndarray) -> float:
            return min(float(squared(side, truth).mean()) for side in sides.values())

        inputs = (X, self.problem.background, self.problem.params, times * self.orders)
        return long_run(inputs, run, smallest, keep=self.size == "full")

    def measure(self) -> Outcome:
        """Both in turn, captum in an environment of its own."""
        with Worker(environment("captum"), HERE / "peers" / "captum_worker.py") as worker:
            return self._beside(worker)

    def _beside(self, worker: Worker) -> Outcome:
        X, background, params = self.problem.X, self.problem.background, self.problem.params
        layers = {
            f"{name}{index}": array
            for index, layer in enumerate(params["layers"])
            for name, array in zip(("weight", "bias"), layer, strict=True)
        }
        told = worker.call(
            "prepare",
            options={"device": self.device, "precision": self.precision},
            X=X,
            background=background,
            shift=params["shift"],
            scale=params["scale"],
            **layers,
        )[1]["told"]

        def theirs(count: int, at_once: int, seed: int = 0) -> np.ndarray:
            options = {"count": count, "orders": self.orders, "at_once": at_once, "seed": seed}
            seconds, answer = worker.call("explain", options=options)
            self.spent.append(seconds)
            return answer["values"]

        def seconds(at_once: int) -> float:
            for _ in range(2):  # the first is a warm-up
                theirs(len(X), at_once)
            return self.spent[-1]

        widths = (1, 4, 16, 64) if self.size == "full" else (1, 4)
        at_once = min(widths, key=seconds)
        explain = self.explainer(self.precision)
        sides: dict[str, list[np.ndarray]] = {OURS: [], CAPTUM: []}
        for seed in range(self.seeds):
            explain.seed = seed
            sides[OURS].append(explain(X[: self.measured], progress=False).values)
            sides[CAPTUM].append(theirs(self.measured, at_once, seed))
        stacked = {name: np.stack(values) for name, values in sides.items()}
        truth = self.truth(stacked)
        errors = {name: float(squared(side, truth.values).mean()) for name, side in stacked.items()}
        rounds = 5 if self.size == "full" else 1

        def check(results: Mapping[str, Any]) -> list[Agreement]:
            base = tf32.on_host(params, background)
            outputs, cut = (
                tf32.on_host(params, np.concatenate([X, background]), way)
                for way in (tf32.whole, tf32.dropped)
            )
            accepted = tf32.accepted(self.precision, outputs, cut, outputs)
            # Both telescope in every order, whichever orders were drawn.
            values = {OURS: results[OURS].values, CAPTUM: results[CAPTUM]}
            gaps = {
                name: float(np.abs(base + found.sum(axis=1) - outputs[:-1]).max())
                for name, found in values.items()
            }
            return [
                *(Agreement(f"{n}: f(b) + values and f(x)", g, *accepted) for n, g in gaps.items()),
                truth.agreement(min(errors.values()), "smallest error"),
                *(centred(name, side, truth) for name, side in stacked.items()),
            ]

        def figures(timings: Mapping[str, Timing], results: Mapping[str, Any]) -> list[Figure]:
            # Without the transport between the processes, which is no part of captum.
            inside = min(self.spent[-rounds:])
            rows = results[OURS].stats["model_rows"] / timings[OURS].best / 1e6
            return [
                Figure(f"{CAPTUM} / ours", inside / timings[OURS].best, better="more", unit="x"),
                Figure("MSE ours / captum's", errors[OURS] / errors[CAPTUM]),
                Figure("model rows a second", rows, better="more", unit=" M"),
            ]

        def ours(count: int) -> Any:
            explain.seed = 0
            return explain(X[:count], progress=False)

        return Duel(
            [
                Contender(OURS, ours, len(X)),
                Contender(CAPTUM, functools.partial(theirs, at_once=at_once), len(X)),
            ],
            check,
            figures,
            rounds=rounds,
            notes=(
                str(told),
                f"{len(X):,} instances, {self.orders} orders; captum with {at_once} coalitions at "
                f"once, the fastest of {len(widths)}; its ratio by the seconds in its own process",
                f"MSE {errors[OURS]:.3g} and {errors[CAPTUM]:.3g} on {self.measured} instances, "
                f"{self.seeds} seeds",
            ),
        ).measure()


def setup(size: Size) -> Several:
    """Both precisions."""
    where = "cuda" if device(size) == "gpu" else "cpu"
    if size == "full":
        problem, orders, measured, seeds = network(20_000, 1, (64, 256, 128, 1)), 20, 16, 10
    else:
        problem, orders, measured, seeds = network(6, 1, (16, 8, 1)), 6, 4, 3
    return Several(
        {one: Beside(problem, one, where, size, orders, measured, seeds) for one in MATMUL}
    )


CASES = (
    Case(
        "gpu-captum",
        "on a GPU, float32 and TF32 apart: permutation sampling of MLP 64-256-128-1 against captum "
        "in PyTorch on the same GPU, at equal numbers of orders, one background row",
        "reported",
        "",
        setup,
    ),
)
