"""A second call of the same shape traces nothing: what JAX is told once is kept.

The broken version traced the structure of a model eleven times a call of QII, which was most of it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from often import some_slow

import xaijax as xj

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 6)).astype(np.float32)
CODES = RNG.integers(0, 3, size=(40, 6)).astype(np.float32)
W = RNG.normal(size=(6, 8)).astype(np.float32)

traces = 0


def count(event: str, seconds: float, **of: Any) -> None:
    global traces
    traces += event == "/jax/core/compile/jaxpr_trace_duration"


jax.monitoring.register_event_duration_secs_listener(count)


def network(rows: Any) -> Any:
    return jnp.tanh(rows @ W).sum(axis=1)


def explained(**options: Any) -> Any:
    explainer = xj.Explainer(xj.as_model(network), X[:10], **options)
    return lambda: explainer(X[10:])


def decided() -> xj.Model:
    return xj.as_model(lambda rows: (network(rows) > 0).astype(jnp.int32), output="label")


def drawn() -> Any:
    question = xj.QII(decided(), CODES, quantity="average", samples=200)
    return lambda: question.unary()


def rates(model: xj.Model) -> xj.QII:
    return xj.QII(model, CODES, quantity="rate", outcome="score", bounds=(-9, 9))


def crossed() -> Any:
    question = rates(xj.as_model(network))
    return lambda: question.unary()


def searched() -> Any:
    explainer = xj.AnchorExplainer(decided(), X[:10])
    return lambda: explainer.explain(X[10:])


WAYS = {
    "first layer": explained,
    "whole rows": lambda: explained(estimator="exact", batch_size=100),
    "orders": lambda: explained(estimator="permutation", budget=20),
    "least squares": lambda: explained(estimator="kernel", budget=24),
    "QII drawn": drawn,
    "QII of all data": crossed,
    "anchors": searched,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", some_slow(WAYS, 4))
def test_a_second_call_traces_nothing(name: str) -> None:
    ask = WAYS[name]()
    ask()
    ask()  # some sizes are told from the first answer
    before = traces
    ask()
    assert traces == before


@pytest.mark.slow
def test_a_further_explainer_of_a_model_traces_its_layer_no_more() -> None:
    model = xj.as_model(network)
    for explain in (lambda: xj.Explainer(model, X[:10])(X[10:]), lambda: rates(model).unary()):
        explain()
        before = traces
        explain()
        assert traces - before <= 1  # by which is told whether the head is affine


def test_the_count_sees_a_trace() -> None:
    before = traces
    jax.jit(lambda rows: rows + 1).trace(X)
    assert traces > before
