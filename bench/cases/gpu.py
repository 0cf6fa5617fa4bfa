"""The GPU's rows: rate, share of the roof and peers on one GPU, float32 and TF32 apart.

Full size needs a GPU (`bench/GPU.md` says what to do with one); smoke size runs on any device.
Letters: N instances, P players, B background rows, S seeds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xaijax
from bench import tf32
from bench.cases.exact import FORWARD, OURS, Problem, network
from bench.frame import (
    LEAST,
    Agreement,
    Case,
    Contender,
    Duel,
    Figure,
    NotRun,
    Outcome,
    Results,
    Several,
    Size,
    Timings,
    ratio,
    timed,
)
from bench.models import Params, forward
from bench.passes import best_pass
from bench.peers import shap_exact

ROOF = "large product"
# as_model's word -> JAX's, which would else multiply in TF32 wherever a GPU can.
MATMUL = {"float32": "highest", "tf32": "tensorfloat32"}
GOALS = {"float32": 60.0, "tf32": 35.0}  # per cent of the roof


def device(size: Size) -> str:
    """The platform to run on; `NotRun` for full size where it is no GPU."""
    platform = jax.devices()[0].platform
    if size == "full" and platform != "gpu":
        raise NotRun(f"no GPU: JAX sees {platform} only (bench/GPU.md has the steps)")
    return platform


def _in(precision: str) -> Callable[[Params, jax.Array], jax.Array]:
    """The network with the precision of its products said, for all who call it beside ours."""

    def apply(params: Params, rows: jax.Array) -> jax.Array:
        with jax.default_matmul_precision(MATMUL[precision]):
            return forward(params, rows)

    return apply


def _product(precision: str, side: int, calls: int = 8) -> Callable[[int], None]:
    """n -> n times `calls` products of two square matrices of normal draws."""
    first, second = jax.random.normal(jax.random.key(0), (2, side, side), jnp.float32)

    def once(a: jax.Array, b: jax.Array) -> jax.Array:
        with jax.default_matmul_precision(MATMUL[precision]):
            return a @ b

    product = jax.jit(once)

    def run(count: int) -> None:
        # Several are under way at once: the host's share of a call is no part of the roof.
        jax.block_until_ready([product(first, second) for _ in range(count * calls)])

    return run


def _roof(precision: str, sides: tuple[int, ...]) -> tuple[Contender, float]:
    """The fastest product of these sides, and its floating-point operations."""
    found = {side: _product(precision, side) for side in sides}

    def rate(side: int) -> float:
        found[side](1)
        return side**3 / min(timed(found[side], 1)[0] for _ in range(3))

    best = max(sides, key=rate)
    return Contender(ROOF, found[best], 1), 8 * 2.0 * best**3


@dataclass(frozen=True)
class Network:
    """T1's network in one precision: ours, the model alone, shap, and the roof."""

    problem: Problem
    precision: Any  # "float32" | "tf32"
    size: Size
    checked: int  # instances that the definition is computed for

    @property
    def flops(self) -> int:
        """Floating-point operations of one model row, products only."""
        return sum(2 * weight.size for weight, _ in self.problem.params["layers"])

    @functools.cached_property
    def few(self) -> dict[str, np.ndarray]:
        """Values [checked, P] by the definition, by what becomes of the operands."""
        params, X = self.problem.params, self.problem.X[: self.checked]
        ways = (tf32.whole, tf32.dropped, tf32.rounded)
        return {way.__name__: tf32.values(params, X, self.problem.background, way) for way in ways}

    def agreements(self, results: Results) -> list[Agreement]:
        """The definition, the outputs of all instances, and shap."""
        params, X, few = self.problem.params, self.problem.X, self.few
        ours, theirs = results[OURS], results[shap_exact.NAME]
        outputs, cut = tf32.on_host(params, X), tf32.on_host(params, X, tf32.dropped)
        total = float(np.abs(ours.base_values + ours.values.sum(axis=1) - outputs).max())
        accepted, reason = tf32.accepted(self.precision, few["whole"], few["dropped"], outputs)
        gap = float(np.abs(ours.values[: len(theirs)] - theirs).max())
        peer = f"values and {shap_exact.NAME}'s"
        return [
            Agreement("values and the definition", self.off(ours), accepted, reason),
            Agreement(
                "base + values and f(x)",
                total,
                *tf32.accepted(self.precision, outputs, cut, outputs),
            ),
            Agreement(peer, gap, 2 * accepted, f"either may be off by the first: {reason}"),
        ]

    def off(self, ours: Any) -> float:
        """The largest difference from the definition in float64."""
        return float(np.abs(ours.values[: self.checked] - self.few["whole"]).max())

    def measure(self) -> Outcome:
        """All in turn."""
        problem, full = self.problem, self.size == "full"
        model = xaijax.as_model(forward, problem.params, precision=self.precision)
        explain = xaijax.Explainer(model, problem.background, estimator="exact")
        found = explain(problem.X[:1], progress=False).stats["structure"]
        apply, N, P = _in(self.precision), *problem.X.shape
        tiles = tuple(2**e for e in range(12, 21, 2)) if full else (64, 320)
        drawn = 2**23 if full else 320
        alone, tile = best_pass(apply, problem.params, P, problem.rows, tiles, drawn)
        peer = shap_exact.explainer(
            shap_exact.steadied(jax.jit(functools.partial(apply, problem.params))),
            problem.background,
            P,
        )
        roof, work = _roof(self.precision, (4_096, 8_192) if full else (64, 128))

        def figures(timings: Timings, results: Results) -> list[Figure]:
            rows = results[OURS].stats["model_rows"] / timings[OURS].best
            plain = N * problem.rows / timings[FORWARD].best
            top = work / timings[ROOF].best
            shares = [100 * self.flops * one / top for one in (rows, plain)]
            goal = GOALS[self.precision]
            bits = self.off(results[OURS]) / np.abs(self.few["rounded"] - self.few["whole"]).max()
            slower, faster = ratio(timings, OURS, FORWARD), ratio(timings, shap_exact.NAME, OURS)
            return [
                Figure("model rows a second", rows / 1e6, better="more", unit=" M"),
                Figure("time / best tiled plain forward of the same rows", slower, 1.5),
                Figure("share of the roof", shares[0], goal, better="more", unit=" %"),
                Figure("plain forward: share of the roof", shares[1], better="more", unit=" %"),
                Figure("the roof", top / 1e12, better="more", unit=" TFLOP/s"),
                Figure("shap Exact / ours", faster, better="more", unit="x"),
                Figure("largest difference / that of operands rounded to 10 bits", bits),
            ]

        return Duel(
            [
                Contender(OURS, lambda n: explain(problem.X[:n], progress=False), N),
                Contender(FORWARD, alone, N, LEAST[self.size]),
                Contender(shap_exact.NAME, lambda n: peer(problem.X[:n]), N, LEAST[self.size]),
                roof,
            ],
            self.agreements,
            figures,
            rounds=5 if full else 1,
            notes=(
                f"forward in tiles of {tile:,} rows, the fastest of {len(tiles)}",
                f"shares count the {self.flops:,} operations of the whole network for every row, "
                f"whatever ours saves of them (structure: {found})",
            ),
        ).measure()


def setup(size: Size) -> Several:
    """Measures exact values of T1's network on a GPU, float32 and TF32 apart, 10,000 instances, 100
    background rows, against the model alone (goal: at most 1.5 of its time), the largest product
    (goal: 60 % of it, 35 % in TF32) and shap's ExactExplainer.

    Both precisions, one after the other: they have roofs of their own.
    """
    device(size)
    shape = (10_000, 100, (12, 64, 64, 1)) if size == "full" else (4, 5, (6, 8, 8, 1))
    problem = network(*shape)
    return Several({one: Network(problem, one, size, 3) for one in MATMUL})


CASES = (Case("gpu", setup),)
