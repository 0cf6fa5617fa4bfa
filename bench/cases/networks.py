"""T37: networks as they are: images, tokens, and one of a thousand outputs.

Letters: N instances, P players, H units before the last layer, K outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import xaijax
from bench import network_tasks
from bench.definition import REASON, efficiency, tolerance
from bench.frame import Agreement, Case, Contender, Duel, Figure, Several, Size, Timing, ratio

PREDICTED, LONE, SOFTMAX = "predicted of many", "one output", "predicted of many, behind a softmax"


def _predicted(task: network_tasks.Task) -> Duel:
    """The digits' network with a last layer of random weights for many outputs, of which each
    instance's largest is explained; against the same network whose last layer has one column only,
    that of the output which is the largest most often. The same rows, orders and background.
    """
    from bench import nnx_models  # noqa: PLC0415

    full = task.size == "full"
    K, N = (1_000, 100) if full else (80, 3)
    X, H = task.X[:N], task.network.last.kernel.shape[0]
    rng = np.random.default_rng(4)
    kernel = (rng.normal(size=(H, K)) / np.sqrt(H)).astype(np.float32)
    bias = (0.1 * rng.normal(size=K)).astype(np.float32)
    many = nnx_models.with_last(task.network, kernel, bias)
    forward, params = nnx_models.forward_of(many)
    answers = np.asarray(jax.jit(forward)(params, X), np.float64)
    largest = answers.argmax(axis=1)
    column = int(np.bincount(largest).argmax())
    lone = nnx_models.with_last(task.network, kernel[:, [column]], bias[[column]])

    def explainer(model: Any) -> Any:
        return xaijax.Explainer(model, task.background, estimator="permutation", budget=task.budget)

    def softmax(params: Any, rows: Any) -> Any:
        return jax.nn.softmax(forward(params, rows))

    of_many, of_lone = explainer(xaijax.as_model(many)), explainer(xaijax.as_model(lone))
    of_softmax = explainer(xaijax.as_model(softmax, params))

    def check(results: Mapping[str, Any]) -> list[Agreement]:
        own, same = results[PREDICTED], largest == column
        accepted = tolerance(answers)
        wrong = float((own.stats["outputs"] != largest).sum())
        apart = float(np.abs(own.values[same] - results[LONE].values[same]).max())
        return [
            Agreement("which output", wrong, 0.0, "the largest answer, the first of equal ones"),
            efficiency(own, answers[np.arange(N), largest]),
            Agreement("values of the same output", apart, accepted, REASON),
        ]

    def figures(timings: Mapping[str, Timing], results: Mapping[str, Any]) -> list[Figure]:
        del results
        label = f'outputs="predicted" of {K:,} / the same network with one output'
        softmaxed = f"{label}, where a softmax needs all"
        return [
            Figure(label, ratio(timings, PREDICTED, LONE), 1.1),
            Figure(softmaxed, ratio(timings, SOFTMAX, LONE)),
        ]

    return Duel(
        [
            Contender(PREDICTED, lambda n: of_many(X[:n], outputs="predicted", progress=False), N),
            Contender(LONE, lambda n: of_lone(X[:n], progress=False), N),
            Contender(SOFTMAX, lambda n: of_softmax(X[:n], outputs="predicted", progress=False), N),
        ],
        check,
        figures,
        rounds=3 if full else 1,
        notes=(
            f"{N:,} instances; output {column} is the largest of {int((largest == column).sum())}",
        ),
    )


def setup(size: Size) -> Several:
    """Three duels."""
    task = network_tasks.digits(size)
    tokens = network_tasks.tokens(size)
    return Several({"digits": task.duel(), "tokens": tokens.duel(), "outputs": _predicted(task)})


CASES = (
    Case(
        "T37",
        "nnx networks, pairs of permutations with 10 background rows: a convolutional one on 1,000 "
        "digits, a reader of 64 tokens by attention, against the network alone and shap "
        "Permutation; 1,000 outputs of which the predicted one is explained, against one",
        "time / best tiled forward <= 1.25; 1,000 outputs / one <= 1.1",
        "<= 1.05",
        setup,
        long=True,
    ),
)
