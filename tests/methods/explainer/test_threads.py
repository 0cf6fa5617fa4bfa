"""One explainer that several threads call."""

from __future__ import annotations

import threading

import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax.games import queries

RNG = np.random.default_rng(0)
B, X = RNG.integers(0, 5, (8, 3)), RNG.integers(0, 9, (6, 3))


def test_rows_of_another_dtype_in_another_thread_end_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The explainer goes on with codes of floats while the call holds codes of whole numbers."""
    model = xj.as_model(lambda r: (r[:, 0] * r[:, 1]).astype(jnp.float32) + r[:, 2])
    explainer, found = xj.Explainer(model, B), []
    counted = queries.exact_cost

    def in_between(game: queries.GameRun, weights: queries.Weights) -> queries.ExactCost:
        monkeypatch.undo()
        other = threading.Thread(target=lambda: found.append(explainer(X + 0.5, progress=False)))
        other.start()
        other.join()
        return counted(game, weights)

    monkeypatch.setattr(queries, "exact_cost", in_between)
    with pytest.raises(xj.XaiError, match="Make an explainer for each thread"):
        explainer(X, progress=False)
    for rows, got in ((X + 0.5, found[0]), (X, explainer(X, progress=False))):
        wanted = xj.Explainer(model, B)(rows, progress=False)
        np.testing.assert_array_equal(got.values, wanted.values)
