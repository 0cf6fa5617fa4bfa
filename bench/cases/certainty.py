"""T32: false alarms and planted shifts of `compare`; `judge` on Adult with the demo's network.

Letters: N instances, B background rows, F columns, T steps.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xaijax
from bench.definition import efficiency
from bench.frame import Agreement, Case, Figure, NotRun, Outcome, Several, Size
from xaijax.demo.data import demo_data
from xaijax.demo.network import probability, train

PLANTED = 0.1  # of a player's values
POINTWISE = 1.96  # standard errors of the broken variant


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
        alarms, pointwise = 0, 0
        for _ in range(self.runs):
            chosen = rng.permutation(len(pool))[: self.size]
            old, new = (pool[half] for half in np.array_split(chosen, 2))
            found = xaijax.compare(old, new)
            alarms += bool(found.moved.any())
            pointwise += _pointwise(old.values, new.values)
        told = {"paired": 0, "unpaired": 0}
        j = int(np.abs(pool.values).mean(axis=0).argmax())
        shifted = np.array(pool.values)
        shifted[:, j] *= 1 + PLANTED
        after = replace(pool, values=shifted)
        for _ in range(self.planted):
            order = rng.permutation(len(pool))
            one, other = order[: self.size], order[self.size : 2 * self.size]
            told["paired"] += bool(xaijax.compare(pool[one], after[one]).moved[j])
            told["unpaired"] += bool(xaijax.compare(pool[one], after[other]).moved[j])
        level, share = 0.05, 1 / max(1, self.planted)
        figures = (
            Figure("false alarms / 5 %", alarms / self.runs / level, 0.2, better="near"),
            Figure("false alarms of pointwise intervals / 5 %", pointwise / self.runs / level),
            Figure("planted shift found, paired", share * told["paired"], 1.0, better="more"),
            Figure("planted shift found, unpaired", share * told["unpaired"]),
        )
        notes = (
            f"{self.runs:,} runs of two halves of {self.size:,} rows; {self.planted:,} planted",
        )
        return Outcome(figures, agreements=(efficiency(pool, self.outputs),), notes=notes)


def _pointwise(old: np.ndarray, new: np.ndarray) -> bool:
    """Whether intervals that each hold for themselves tell any player apart."""
    return any(
        bool((abs(a.mean(axis=0) - b.mean(axis=0)) > POINTWISE * _error(a, b)).any())
        for a, b in ((old, new), (np.abs(old), np.abs(new)))
    )


def _error(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sqrt(a.var(axis=0, ddof=1) / len(a) + b.var(axis=0, ddof=1) / len(b))


@dataclass(frozen=True)
class Judged:
    """One antithetic pair of orders, and expected gradients, held against exact values."""

    params: Any
    background: np.ndarray
    X: np.ndarray

    def measure(self) -> Outcome:
        """The relative squared errors, and what else the judge says."""
        model = xaijax.as_model(probability, self.params)
        exact = xaijax.Explainer(model, self.background, estimator="exact")
        F = self.X.shape[1]
        pair = xaijax.Explainer(model, self.background, estimator="permutation", budget=2 * (F - 1))
        given = {
            "itself": exact(self.X, progress=False),
            "one antithetic pair": pair(self.X, progress=False),
            "expected gradients": expected_gradients(self.params, self.X, self.background),
        }
        found = xaijax.judge(given, exact, self.X)
        names = ("one antithetic pair", "expected gradients")
        figures = tuple(
            Figure(f"{name}: {what}, %", 100 * getattr(found[name], field))
            for name in names
            for what, field in (
                ("relative squared error", "relative_error"),
                ("pooled error", "pooled_error"),
                ("top 1 agrees", "top1"),
            )
        )
        reason = "exact values are the truth"
        same = Agreement("exact values and the judge", found["itself"].relative_error, 0.0, reason)
        answers = np.asarray(model.predict(self.X))
        agreements = (same, efficiency(given["itself"], answers))
        return Outcome(figures, agreements=agreements, notes=tuple(repr(found).splitlines()))


def expected_gradients(
    params: Any, X: np.ndarray, background: np.ndarray, steps: int = 50
) -> np.ndarray:
    """Erion et al. 2021, equation 3: the mean over donors and places on the way of (x - b) times
    the gradient there; the same midpoints for every donor. float64 [N, F].
    """
    slope = jax.vmap(jax.grad(lambda row: probability(params, row[None])[0]))
    places = jnp.asarray((np.arange(steps) + 0.5) / steps, jnp.float32)
    donors = jnp.asarray(background, jnp.float32)

    @jax.jit
    def of_one(x: jax.Array) -> jax.Array:
        way = donors[:, None] + places[:, None] * (x - donors)[:, None]  # [B, T, F]
        gradient = slope(way.reshape(-1, len(x))).reshape(way.shape).mean(axis=1)
        return ((x - donors) * gradient).mean(axis=0)

    return np.asarray(jax.lax.map(of_one, jnp.asarray(X, jnp.float32)), np.float64)


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
    """Skewed columns; Adult with the demo's network."""
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
    wide = rows[rng.choice(len(rows), 4 if few else 100, replace=False)]
    return Several(
        {
            "synthetic": _synthetic(size),
            "Adult": _halves(explanation, np.asarray(model.predict(X)), size),
            "judge": Judged(params, wide, X[: 6 if few else 100]),
        }
    )


CASES = (
    Case(
        "T32",
        "compare: false alarms of two halves of the same 1,000 rows over 1,000 runs, and a planted "
        "shift of 0.1 of a player at N = 1,000; judge: an antithetic pair and expected gradients "
        "on Adult against exact values",
        "5 % +- 1; found",
        "",
        setup,
    ),
)
