"""A translation with products of fewer digits is compared with its estimator by those digits."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from sklearn.neural_network import MLPRegressor

import xaijax as xj
from xaijax.models.queries import comparison

DIGITS = {"tf32": 10, "bfloat16": 7}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.fixture(scope="module")
def network() -> Any:
    options: Any = {"hidden_layer_sizes": (16, 16), "max_iter": 200, "tol": 0.1}
    return MLPRegressor(**options, learning_rate_init=0.01, random_state=0).fit(X, Y)


def rounding(bits: int, monkeypatch: pytest.MonkeyPatch, scale: float = 1.0) -> None:
    """Rounds parameters and rows of the compared programs as a GPU rounds factors of products."""
    run = comparison.run_jax

    def rounded(one: Any) -> Any:
        return np.asarray(jax.lax.reduce_precision(one * np.float32(scale), 8, bits))

    def lower(compiled: Any, key: str, function: Any, params: Any, rows: Any) -> Any:
        return run(compiled, key, function, jax.tree.map(rounded, params), rounded(rows))

    monkeypatch.setattr(comparison, "run_jax", lower)


def answers(network: Any, precision: Any) -> bool:
    """Whether the translation answers, once it is compared with the estimator."""
    check: Any = xj.as_model(network, precision=precision).comparison
    check.compare_first((X[:8], X[8:10]))
    return check.reason is None


@pytest.mark.parametrize("precision", DIGITS)
def test_its_own_digits_do_not_send_it_to_the_host(
    precision: Any, network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken version asked for 1e-5 of the spread, and the estimator answered."""
    rounding(DIGITS[precision], monkeypatch)
    assert [answers(network, said) for said in (precision, "float32")] == [True, False]


def test_a_wrong_translation_is_still_found(network: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rounding(10, monkeypatch, 1.05)
    assert not answers(network, "tf32")


@pytest.mark.slow
def test_values_in_bfloat16_are_near_those_of_the_estimator(network: Any) -> None:
    """Within the share that is promised of the answers, twice: a value is a difference."""
    own = xj.Explainer(xj.as_model(network, backend="host"), X[:8])(X[:2], progress=False)
    low = xj.Explainer(xj.as_model(network, precision="bfloat16"), X[:8])(X[:2], progress=False)
    most = 2 * comparison.SHARES["bfloat16"] * np.ptp(network.predict(X))
    gap = np.abs(low.values - own.values).max()
    assert low.stats["backend"] == "jax"
    assert 1e-5 < gap <= most
