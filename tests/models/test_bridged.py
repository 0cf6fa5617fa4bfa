"""What JAX makes of another library's module is held against the module, on every row."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from xaijax.core.errors import ModelOutputError
from xaijax.models.queries import comparison
from xaijax.models.queries.comparison import Bridged

RNG = np.random.default_rng(0)
W = RNG.normal(size=(3, 2)).astype("f4")
X = RNG.normal(size=(23, 3)).astype("f4")


def traced(params: Any, rows: Any) -> Any:
    return jnp.tanh(rows @ params)


def own(rows: Any) -> np.ndarray:
    return np.tanh(rows @ W)


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "AT_ONCE", 10)  # so that rows come in three parts


def test_answers_that_agree_are_taken() -> None:
    Bridged("Net", traced, W, own).compare_all(X)
    one = Bridged(
        "Net", lambda params, rows: traced(params, rows)[:, 0], W, lambda z: own(z)[:, :1]
    )
    one.compare_all(X)


def test_one_row_that_differs_is_named() -> None:
    def other(rows: Any) -> np.ndarray:
        return own(rows) + 0.25 * (rows[:, :1] == X[17, 0])

    with pytest.raises(ModelOutputError, match="in JAX differs.*by up to 0.25, first in row 17"):
        Bridged("Net", traced, W, other).compare_all(X)


def test_rows_in_several_arrays() -> None:
    rows = {"a": X[:, :1], "b": X[:, 1:]}

    def joined(params: Any, z: Any) -> Any:
        return traced(params, jnp.concatenate([z["a"], z["b"]], axis=1))

    def module(z: Any) -> np.ndarray:
        return own(np.concatenate([z["a"], z["b"]], 1))

    Bridged("Net", joined, W, module).compare_all(rows)
    with pytest.raises(ModelOutputError, match="first in row 0"):
        Bridged("Net", joined, 2 * W, module).compare_all(rows)
