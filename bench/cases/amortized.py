"""T35: a network that has learned exact values of Adult, and noisy ones of images.

Letters: N rows, P players, B background rows.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import xaijax
from bench.definition import efficiency
from bench.frame import (
    LEAST_SECONDS,
    Agreement,
    Case,
    Contender,
    Duel,
    Figure,
    NotRun,
    Outcome,
    Several,
    Size,
    Timing,
    ratio,
)
from xaijax.demo.data import demo_data
from xaijax.demo.network import probability, train

EXACT, NETWORK = "exact", "amortized, fallback=0"
DRAWS = 500  # of other judges


@dataclass(frozen=True)
class Adult:
    """An explainer, rows to learn, rows that are used for nothing else, and many rows."""

    explainer: xaijax.Explainer
    learned: np.ndarray  # [N, P]
    fresh: np.ndarray  # [N, P]
    many: np.ndarray  # [N, P]
    judge: int
    options: Mapping[str, Any] = field(default_factory=dict)  # of fit

    @cached_property
    def amortized(self) -> xaijax.AmortizedExplainer:
        """Fitted."""
        made = xaijax.AmortizedExplainer(self.explainer)
        return made.fit(self.learned, judge=self.judge, progress=False, **self.options)

    def measure(self) -> Outcome:
        """Time, then errors and bounds on the fresh rows."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", xaijax.XaiWarning)  # of few rows, which are meant
            return self._duel().measure()

    def _duel(self) -> Duel:
        amortized = self.amortized
        contenders = [
            Contender(NETWORK, lambda n: amortized(self.many[:n], fallback=0.0), len(self.many)),
            Contender(
                EXACT,
                lambda n: self.explainer(self.many[:n], progress=False),
                len(self.many),
                LEAST_SECONDS,
            ),
        ]
        return Duel(contenders, self._check, self._figures, notes=self._notes())

    @cached_property
    def _truth(self) -> xaijax.Explanation:
        return self.explainer(self.fresh, progress=False)

    @cached_property
    def _found(self) -> xaijax.Explanation:
        return self.amortized(self.fresh, fallback=0.0)

    @cached_property
    def _errors(self) -> np.ndarray:
        return np.abs(self._found.values - self._truth.values).max(axis=1)

    def _check(self, results: Mapping[str, Any]) -> list[Agreement]:
        answers = np.asarray(self.explainer.model.predict(self.fresh))
        some = self.amortized(self.fresh, fallback=0.05)
        sent = np.asarray(some.stats["fallback_rows"])
        apart = float(np.abs(some.values[sent] - self._truth.values[sent]).max(initial=0))
        return [
            efficiency(self._found, answers),
            Agreement("fallback rows and the explainer", apart, 0.0, "its own answers"),
        ]

    def _figures(
        self, timings: Mapping[str, Timing], results: Mapping[str, Any]
    ) -> tuple[Figure, ...]:
        truth, bounds = self._truth.values, np.asarray(self._found.bounds)
        covered = float((self._errors <= bounds).mean())
        spread = float((truth - truth.mean(axis=0)).std())
        stats = self.amortized.stats_
        return (
            Figure("R2 of fresh rows", r2(self._found.values, truth), 0.98, 0.995, "more"),
            Figure("90 % bounds cover, over 90 %", covered / 0.9, 0.02 / 0.9, None, "near"),
            Figure("exact / amortized, time", ratio(timings, EXACT, NETWORK), 500, None, "more"),
            Figure("median bound over the values' spread", float(np.median(bounds)) / spread),
            Figure("rows from which it pays", stats["break_even"]),
        )

    def _notes(self) -> tuple[str, ...]:
        stats = self.amortized.stats_
        some = self.amortized(self.fresh, fallback=0.05)
        left = r2(some.values, self._truth.values)
        shares = self._shares()
        return (
            f"{len(self.learned):,} rows, {self.judge:,} of them judge: labels "
            f"{stats['label_seconds']:.0f} s, training {stats['training_seconds']:.0f} s; R2 "
            f"{stats['r2']:.4f} on the judge's rows",
            f"bounds by 256 judges instead, {DRAWS} times drawn: cover {100 * shares.mean():.1f} % "
            f"of the other rows, +- {100 * shares.std():.1f}",
            f"with fallback=0.05 R2 {left:.4f}; {some.stats['fallback_seconds']:.2g} s of "
            f"{some.stats['seconds']:.2g} s are the explainer's",
        )

    def _shares(self) -> np.ndarray:
        """Coverage of fresh rows by bounds of 256 others of them, [DRAWS]."""
        scores = self._errors / np.asarray(self._found.bounds)
        n = min(256, len(scores) // 2)
        rng, out = np.random.default_rng(0), np.empty(DRAWS)
        for draw in range(DRAWS):
            order = rng.permutation(len(scores))
            limit = np.sort(scores[order[:n]])[int(np.ceil((n + 1) * 0.9)) - 1]
            out[draw] = (scores[order[n:]] <= limit).mean()
        return out


def r2(found: np.ndarray, truth: np.ndarray) -> float:
    """1 - squared error over the spread around each player's mean, of all values together."""
    return float(1 - ((found - truth) ** 2).sum() / ((truth - truth.mean(axis=0)) ** 2).sum())


@dataclass(frozen=True)
class Noisy:
    """Labels of one antithetic pair of orders; the truth is of many more."""

    model: xaijax.Model
    background: np.ndarray  # [B, P]
    learned: np.ndarray  # [N, P]
    fresh: np.ndarray  # [N, P]
    judge: int
    pairs: int  # of the judge's rows
    options: Mapping[str, Any] = field(default_factory=dict)  # of fit

    def _by(self, pairs: int, seed: int = 0) -> xaijax.Explainer:
        budget = 2 * pairs * (self.background.shape[1] - 1)
        kind = "permutation"
        return xaijax.Explainer(
            self.model, self.background, estimator=kind, budget=budget, seed=seed
        )

    def measure(self) -> Outcome:
        """How far the network's values, and those of one pair, are from the truth."""
        amortized = xaijax.AmortizedExplainer(self._by(1)).fit(
            self.learned,
            judge=self.judge,
            judge_by=self._by(self.pairs, 1),
            progress=False,
            **self.options,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", xaijax.XaiWarning)  # of few rows, which are meant
            found = amortized(self.fresh, fallback=0.0)
        given = {"network": found, "one pair": self._by(1)(self.fresh, progress=False)}
        budget = 8 * 2 * self.pairs * (self.background.shape[1] - 1)
        told = xaijax.judge(given, self._by(1), self.fresh, budget=budget)
        stats = amortized.stats_
        figures = tuple(
            Figure(f"{name}: relative squared error, %", 100 * told[name].pooled_error)
            for name in given
        )
        figures += (
            Figure("median bound over the largest value", _beside(found)),
            Figure("rows from which it pays", stats["break_even"]),
        )
        note = (
            f"labels {stats['label_seconds']:.0f} s, training {stats['training_seconds']:.0f} s; "
            f"the judge's rows by {self.pairs} pairs"
        )
        agreements = (efficiency(found, np.asarray(self.model.predict(self.fresh))),)
        return Outcome(figures, agreements=agreements, notes=(note, *repr(told).splitlines()))


def _beside(found: xaijax.Explanation) -> float:
    return float(np.median(np.asarray(found.bounds) / np.abs(found.values).max(axis=1)))


def adult(size: Size) -> Adult:
    """The demo's network, 100 background rows."""
    if not os.environ.get("XAIJAX_DATA"):
        raise NotRun("needs the Adult table: XAIJAX_DATA is not set")
    few, data = size == "smoke", demo_data(0)
    rows = data.X_train.to_numpy(np.float32)
    params = train(rows, data.y_train, 20 if few else data.steps, 0)
    rng = np.random.default_rng(0)
    rows = rows[rng.permutation(len(rows))]
    tested = data.X_test.to_numpy(np.float32)
    fresh = tested[rng.choice(len(tested), 60 if few else 4000, replace=False)]
    B, N, many = (4, 150, 300) if few else (100, 10_000, 100_000)
    model = xaijax.as_model(probability, params)
    explainer = xaijax.Explainer(model, rows[:B], estimator="exact")
    options = {"steps": 20} if few else {}
    return Adult(
        explainer,
        rows[B : B + N],
        fresh,
        np.resize(np.concatenate([rows[B + N :], tested]), (many, rows.shape[1])),
        50 if few else 2000,
        options,
    )


def digits(size: Size) -> Noisy:
    """scikit-learn's digits enlarged to 28 x 28 pixels and moved about; the logit of an 8."""
    few = size == "smoke"
    side = 4 if few else 28
    given, y = map(np.asarray, load_digits(return_X_y=True))
    images = jax.image.resize(
        jnp.asarray(given.reshape(-1, 8, 8)) / 16, (len(y), side, side), "linear"
    )
    pixels = np.asarray(images, np.float32)
    rng = np.random.default_rng(0)
    trained, tested = pixels[:1400], pixels[1400:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hidden, rounds = ((8,), 3) if few else ((256, 128), 40)
        fitted = MLPClassifier(hidden, max_iter=rounds, random_state=0).fit(
            trained.reshape(1400, -1), y[:1400]
        )
    layers = [
        (np.asarray(W, np.float32), np.asarray(b, np.float32))
        for W, b in zip(fitted.coefs_, fitted.intercepts_, strict=True)
    ]

    def logit(params: Any, rows: jax.Array) -> jax.Array:
        z = rows
        for weight, bias in params[:-1]:
            z = jax.nn.relu(z @ weight + bias)
        return (z @ params[-1][0] + params[-1][1])[:, 8]

    def moved(images: np.ndarray, count: int) -> np.ndarray:
        source, shift = rng.integers(len(images), size=count), rng.integers(-2, 3, (count, 2))
        out = [np.roll(images[s], d, axis=(0, 1)) for s, d in zip(source, shift, strict=True)]
        return np.stack(out).reshape(count, -1)

    B, N, judge, fresh = (2, 80, 20, 5) if few else (10, 4_000, 128, 40)
    return Noisy(
        xaijax.as_model(logit, layers),
        trained[:B].reshape(B, -1),
        moved(trained, N),
        moved(tested, fresh),
        judge,
        2 if few else 4,
        {"steps": 20 if few else 3000},
    )


def setup(size: Size) -> Several:
    """Exact labels of 12 players; noisy ones of 784."""
    return Several({"Adult": adult(size), "digits": digits(size)})


CASES = (
    Case(
        "T35",
        "AmortizedExplainer: Adult with the demo's network, 10,000 exact rows of 12 players, 100 "
        "background rows: fresh rows, bounds, 100,000 rows over exact; digits, 784 pixels, labels "
        "of one antithetic pair",
        "R2 >= .98; 88-92 %; 500x",
        ".995",
        setup,
        long=True,
    ),
)
