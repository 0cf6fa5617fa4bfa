"""T17: AEC and its movement rate against loops of scikit-learn fits, and how its time grows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import make_classification, make_regression

import xaijax
from bench.frame import (
    LEAST_SECONDS,
    Agreement,
    Case,
    Contender,
    Figure,
    NotRun,
    Outcome,
    Several,
    Size,
    Timing,
    take_turns,
)
from bench.peers import sklearn_fits as peer

RATE = "AEC and its movement rate"
SUMS = "two float64 algorithms; sums of n^2 slopes of mixed signs"


def quietly(run: Callable[[], Any]) -> Any:
    """Without the warning that scales are far apart, which is true of these tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xaijax.XaiWarning)
        return run()


@dataclass(frozen=True)
class Against:
    """One table and solver against the peers; all of them see the same array."""

    X: np.ndarray  # [M, n]
    y: np.ndarray  # [M]
    labels: bool
    solver: str
    goal: float  # times that np.cov and fits of y should take
    accepted: float  # relative difference of effects
    reason: str
    rounds: int
    least: float

    @property
    def n(self) -> int:
        """Columns."""
        return self.X.shape[1]

    def measure(self) -> Outcome:
        """Ours and the peers in turn, then their effects, slopes and times."""
        name = f"AEC, solver={self.solver}" if self.labels else "AEC"

        def ours() -> Any:
            return xaijax.AEC(solver=self.solver).fit(self.X, self.y)

        def rate() -> Any:
            aec = xaijax.AEC(solver=self.solver)
            return xaijax.normalized_movement_rate(aec, self.X, self.y)

        n, labels = self.n, self.labels
        contenders = [
            Contender(name, lambda _: quietly(ours), 1),
            Contender(RATE, lambda _: quietly(rate), 1),
            Contender(
                peer.LOOP,
                lambda count: peer.fit_pairs(self.X, count),
                peer.pair_count(n),
                self.least,
            ),
            Contender(
                peer.TARGETS, lambda k: peer.fit_targets(self.X, self.y, labels, k), n, self.least
            ),
            Contender(peer.COVARIANCE, lambda _: peer.by_covariance(self.X, self.y, labels), 1),
        ]
        timings, results = take_turns(contenders, rounds=self.rounds)
        agreements = self._agreements(results[name], results)
        shares = tuple(timing.note for timing in timings.values() if timing.note)
        note = "the loop's rate: as many fits as it needs, at the seconds of a fit of the loop"
        figures = self._figures(timings, name)
        seconds, details = tuple(timings.values()), {"rate": results[RATE]}
        return Outcome(figures, seconds, agreements, (*shares, note), details)

    def _figures(self, timings: Mapping[str, Timing], name: str) -> tuple[Figure, ...]:
        n = self.n
        pair = timings[peer.LOOP].best / peer.pair_count(n)
        target = timings[peer.TARGETS].best / n
        # The movement rate runs the whole method on n, n - 1, ..., 2 columns.
        loop = peer.pair_count(n) * pair + n * target
        loops = sum(peer.pair_count(m) * pair + m * target for m in range(2, n + 1))
        ours, rate = timings[name].best, timings[RATE].best
        cov = timings[peer.COVARIANCE].best
        more: dict[str, Any] = {"better": "more", "unit": "x"}
        return (
            Figure("n^3 loop / ours", loop / ours, 80, 500, **more),
            Figure("loops of the movement rate / ours", loops / rate, 400, 3_000, **more),
            Figure("np.cov and fits of y / ours", cov / ours, self.goal, **more),
        )

    def _agreements(self, aec: Any, results: Mapping[str, Any]) -> tuple[Agreement, ...]:
        theirs = results[peer.COVARIANCE]
        size = np.abs(theirs).max()
        effects = float((np.abs(aec.effects_ - theirs) / size).max())
        slopes = max(
            abs(aec.slopes_[z, i] - slope) / (self.X[:, z].std() / self.X[:, i].std())
            for z, i, slope in results[peer.LOOP]
        )
        return (
            Agreement("effects and np.cov's, of the largest", effects, self.accepted, self.reason),
            Agreement(
                "slopes and the loop's, of the spreads' ratio",
                float(slopes),
                1e-9,
                "least squares in float64 by two algorithms, offsets of up to 1e3 spreads",
            ),
        )


def setup(size: Size) -> Several:
    """Two real tables, tables of the paper's simulated shapes, and the growth of the time."""
    smoke = size == "smoke"
    rounds, least = (1, 0.0) if smoke else (3, LEAST_SECONDS)
    tables = _smoke_tables() if smoke else _tables()
    jobs: dict[str, Any] = {}
    same = "two float64 algorithms; logistic: the solver's steps in another order of sums"
    for name, (X, y, labels) in tables.items():
        for solver in ("sklearn", "newton") if labels else ("sklearn",):
            # scikit-learn stops where the gradient is 1e-4 of a row: so far are the solvers apart.
            stopped = labels and solver == "newton"
            accepted = 0.05 if stopped else 1e-6
            reason = "scikit-learn's stopping point is not the minimum" if stopped else same
            job = Against(
                X, y, labels, solver, 8 if labels else 1.5, accepted, reason, rounds, least
            )
            jobs[f"{name}, {solver}" if labels else name] = job
    rows = (400, 800) if smoke else (100_000, 200_000, 400_000, 800_000, 1_600_000)
    columns = (8, 16) if smoke else (250, 500, 1_000, 2_000)
    jobs["growth"] = Growth(rows, columns, 40 if smoke else 4_000, rounds)
    return Several(jobs)


def _tables() -> dict[str, tuple[Any, Any, bool]]:
    if not os.environ.get("XAIJAX_DATA"):
        raise NotRun("needs the wine and diabetes tables: XAIJAX_DATA is not set")
    wine, diabetes = xaijax.datasets.wine(), xaijax.datasets.diabetes()
    X, y = make_regression(150_000, 16, n_informative=7, effective_rank=5, random_state=0)[:2]
    A, a = make_classification(100_000, 16, n_informative=9, n_redundant=5, random_state=0)
    return {
        "wine": (wine.X.to_numpy(), wine.y.to_numpy(), False),
        "diabetes": (diabetes.X.to_numpy(), diabetes.y.to_numpy(), True),
        "150,000 x 16": (X, y, False),
        "100,000 x 16 classes": (A, a, True),
    }


def _smoke_tables() -> dict[str, tuple[Any, Any, bool]]:
    X: Any
    X, y = make_regression(200, 4, effective_rank=2, random_state=0)[:2]
    return {"numbers": (X, y, False), "classes": (np.round(X / X.std(0)), y > 0, True)}


@dataclass(frozen=True)
class Growth:
    """AEC with its rate on more and more rows, and on more and more columns."""

    rows: Sequence[int]  # with 20 columns
    columns: Sequence[int]
    beside: int  # rows of the tables with more and more columns
    rounds: int

    def measure(self) -> Outcome:
        """The slopes of the logarithms; every size is compared with np.cov and fits of y."""
        rng = np.random.default_rng(0)
        by_rows = self._series("rows", {M: rng.normal(size=(M, 20)) for M in self.rows})
        by_columns = self._series(
            "columns", {n: rng.normal(size=(self.beside, n)) for n in self.columns}
        )
        figures = (
            Figure("exponent in rows", by_rows.slope, 0.1, better="near"),
            Figure("exponent in columns, 2 where it is quadratic", by_columns.slope, 2.1),
        )
        worst = max(by_rows.agreements + by_columns.agreements, key=lambda one: one.difference)
        details = {"rows": by_rows.seconds, "columns": by_columns.seconds}
        return Outcome(figures, (), (worst,), (by_rows.note, by_columns.note), details)

    def _series(self, name: str, tables: dict[int, np.ndarray]) -> Grown:
        contenders = [Contender(str(k), _both(X), 1) for k, X in tables.items()]
        timings, results = take_turns(contenders, rounds=self.rounds)
        seconds = {k: one.best for k, one in timings.items()}
        slope = np.polyfit(np.log2(list(tables)), np.log2(list(seconds.values())), 1)[0]
        agreements = []
        for k, X in tables.items():
            theirs = peer.by_covariance(X, X[:, 0], False)
            difference = float(np.abs(results[str(k)] - theirs).max() / np.abs(theirs).max())
            agreements.append(
                Agreement(f"effects and np.cov's, {name}={k}", difference, 1e-9, SUMS)
            )
        told = ", ".join(f"{int(k):,} {spent:.2g} s" for k, spent in seconds.items())
        return Grown(float(slope), seconds, agreements, f"{name}: {told}")


@dataclass(frozen=True)
class Grown:
    """What one series found."""

    slope: float
    seconds: dict[str, float]
    agreements: list[Agreement]
    note: str


def _both(X: np.ndarray) -> Callable[[int], np.ndarray]:
    """The movement rate, which fits once, and the effects of another fit."""

    def run(_: int) -> np.ndarray:
        xaijax.normalized_movement_rate(xaijax.AEC(), X, X[:, 0])
        return xaijax.AEC().fit(X, X[:, 0]).effects_

    return run


CASES = (
    Case(
        "T17",
        "AEC, and with its movement rate, against the n^3 loop of scikit-learn fits and against "
        "np.cov with n fits; growth with rows and columns",
        "loop / ours >= 80; with the rate >= 400; np.cov and fits >= 1.5 (logistic 8)",
        ">= 500; >= 3,000",
        setup,
    ),
)
