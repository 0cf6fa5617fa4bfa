"""A TPU does not clear the room for answers: what is past the last turn must not reach a result.

The room is filled with NaN here, and the run is a CPU's, whose loops stop at the last turn as a
TPU's do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax.models.queries import findings
from xaijax_kernels.engine import tiles
from xaijax_kernels.structures import averaged

P = 6


def model(options: dict[str, Any]) -> Any:
    rng = np.random.default_rng(0)
    A, C = (rng.normal(size=s).astype(np.float32) for s in ((P, 5), (5, 2)))
    return xj.as_model(lambda X: jnp.tanh(X @ A) @ C, **options)


def rows(seed: int, n: int, codes: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    made = rng.integers(0, 3, (n, P)) if codes else rng.normal(size=(n, P))
    return made.astype(np.float32)


def label(options: dict[str, Any]) -> Any:
    return xj.as_model(lambda X: X.sum(axis=1) - 3.0, threshold=0.0, **options)


ASKED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "numbers": lambda o: xj.Explainer(model(o), rows(2, 20))(rows(1, 3)).values,
    "codes": lambda o: xj.Explainer(model(o), rows(2, 20, True))(rows(1, 3, True)).values,
    "tables": lambda o: xj.Explainer(model(o), rows(2, 9), link=np.arctan)(rows(1, 3)).values,
    "kernel": lambda o: (
        xj.Explainer(model(o), rows(2, 20), estimator="kernel", budget=30)(rows(1, 3)).values
    ),
    "kernel of codes": lambda o: (
        xj.Explainer(model(o), rows(2, 9, True), estimator="kernel", budget=30)(
            rows(1, 3, True)
        ).values
    ),
    "permutation": lambda o: (
        xj.Explainer(model(o), rows(2, 20), estimator="permutation", budget=30)(rows(1, 3)).values
    ),
    "interactions": lambda o: (
        xj.Explainer(model(o), rows(2, 9, True)).interactions(rows(1, 3, True)).values
    ),
    "large pairs": lambda o: (
        xj.Explainer(model(o), rows(2, 9), tile=32).interactions(rows(1, 3)).values
    ),
    "influence": lambda o: xj.QII(label(o), rows(2, 20, True)).explain(rows(1, 3, True)).values,
}


@pytest.mark.slow
@pytest.mark.parametrize("structure", [None, "plain"])
@pytest.mark.parametrize("asked", ASKED)
def test_nothing_of_the_room_is_read(
    asked: str, structure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ASKED[asked]({"structure": structure})
    rooms: list[tuple[int, ...]] = []

    def uncleared(dims: tuple[int, ...], dtype: Any, platform: str) -> jax.Array:
        rooms.append(dims)
        return jnp.full(dims, jnp.nan, dtype)

    for module in (tiles, averaged):
        monkeypatch.setattr(module, "room_of", uncleared)
    monkeypatch.setattr(findings, "kept_of", lambda *_: findings.ProgramCache())  # compiled anew
    got = ASKED[asked]({"structure": structure})
    assert np.isfinite(got).all() and got.tobytes() == wanted.tobytes()
    by_layer = structure is None and asked in ("kernel", "permutation", "influence")
    assert rooms or by_layer  # lists, walks and crossings by a layer have room that is cleared
