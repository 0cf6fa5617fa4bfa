"""shap's ExactExplainer as a peer, given the very model that ours is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.peers.installed import installed

NAME = "shap Exact"


def explainer(
    model: Callable[[Any], np.ndarray], background: Any, players: int
) -> Callable[[Any], np.ndarray]:
    """Return rows -> Shapley values [N, P] by shap, all background rows used."""
    shap = installed("shap")
    masker = shap.maskers.Independent(background, max_samples=len(background))
    exact = shap.explainers.Exact(model, masker)

    def explain(rows: Any) -> np.ndarray:
        return exact(rows, max_evals=2**players, silent=True).values

    return explain


def steadied(model: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], np.ndarray]:
    """A jitted model for calls of any number of rows, padded to one of eight sizes an octave.

    The peer's calls differ in size with every instance; without this it would spend its time
    compiling, and the comparison would flatter us.
    """

    def call(rows: np.ndarray) -> np.ndarray:
        count = len(rows)
        step = max(1, 2 ** max(0, count.bit_length() - 4))
        missing = -count % step
        if missing:
            rows = np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)])
        return np.asarray(model(rows))[:count]

    return call
