"""T32: false alarms and planted shifts of `compare`.

Measured once, at commit bd038fca96 on 2026-11-28, and not repeated by the case: intervals of 1.96
standard errors for each player alone tell two halves of the same rows apart in 43 % (synthetic) and
58 % (Adult) of runs; unpaired comparisons find the planted shift in 11.5 % and 67 %; `judge` gives
one antithetic pair of permutations on Adult (100 rows, 100 background rows) a relative squared
error of 3.79 %, and expected gradients one of 8.54 %, with sums that are off by 0.000383.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import xaijax
from bench.definition import efficiency
from bench.frame import Case, Figure, NotRun, Outcome, Several, Size
from xaijax.commands.demo.data import demo_data
from xaijax.commands.demo.network import probability, train

PLANTED = 0.1  # of a player's values


@dataclass(frozen=True)
class Halves:
    """Two halves of the same rows, again and again; and one player's values made larger."""

    explanation: xaijax.Explanation  # of many instances
    outputs: Any  # [N], the model's own answers to them
    size: int  # instances of a comparison: N of each side where they are paired
    runs: int
    planted: int  # comparisons with a planted shift

    def measure(self) -> Outcome:
        """Rates over runs that draw their own rows."""
        rng = np.random.default_rng(0)
        pool = self.explanation
        alarms, found = 0, 0
        for _ in range(self.runs):
            chosen = rng.permutation(len(pool))[: self.size]
            old, new = (pool[half] for half in np.array_split(chosen, 2))
            alarms += bool(xaijax.compare(old, new).moved.any())
        j = int(np.abs(pool.values).mean(axis=0).argmax())
        shifted = np.array(pool.values)
        shifted[:, j] *= 1 + PLANTED
        after = replace(pool, values=shifted)
        for _ in range(self.planted):
            one = rng.permutation(len(pool))[: self.size]
            found += bool(xaijax.compare(pool[one], after[one]).moved[j])
        figures = (
            Figure("false alarms / 5 %", alarms / self.runs / 0.05, 0.2, better="near"),
            Figure("planted shift found, paired", found / max(1, self.planted), 1.0, better="more"),
        )
        notes = (
            f"{self.runs:,} runs of two halves of {self.size:,} rows; {self.planted:,} planted",
        )
        return Outcome(figures, agreements=(efficiency(pool, self.outputs),), notes=notes)


def _synthetic(size: Size) -> Halves:
    """A product beside a sum, of skewed and correlated columns."""
    rng = np.random.default_rng(1)
    N = 120 if size == "smoke" else 4000
    X = np.exp(0.5 * (rng.normal(size=(N, 1)) + rng.normal(size=(N, 8)))).astype(np.float32)
    model = xaijax.as_model(lambda rows: rows[:, 0] * rows[:, 1] + rows.sum(axis=1))
    explanation = xaijax.Explainer(model, X[:4])(X, progress=False)
    return _halves(explanation, np.asarray(model.predict(X)), size)


def _halves(explanation: xaijax.Explanation, outputs: Any, size: Size) -> Halves:
    few = size == "smoke"
    return Halves(explanation, outputs, 50 if few else 1000, 5 if few else 1000, 2 if few else 200)


def setup(size: Size) -> Several:
    """Measures `compare`: false alarms of two halves of the same 1,000 rows over 1,000 runs, and a
    planted shift of 0.1 of a player at N = 1,000.

    Skewed columns; Adult with the demo's network.
    """
    if not os.environ.get("XAIJAX_DATA"):
        raise NotRun("needs the Adult table: XAIJAX_DATA is not set")
    data = demo_data(0)
    few = size == "smoke"
    rows = data.X_train.to_numpy(np.float32)
    params = train(rows, data.y_train, 20 if few else data.steps, 0)
    rng = np.random.default_rng(0)
    background = rows[rng.choice(len(rows), 4 if few else 10, replace=False)]
    X = data.X_test.to_numpy(np.float32)
    X = X[rng.choice(len(X), 120 if few else 2000, replace=False)]
    model = xaijax.as_model(probability, params)
    explanation = xaijax.Explainer(model, background, estimator="exact")(X, progress=False)
    return Several(
        {
            "synthetic": _synthetic(size),
            "Adult": _halves(explanation, np.asarray(model.predict(X)), size),
        }
    )


CASES = (Case("T32", setup),)
