"""T17: AEC and its movement rate against loops of scikit-learn fits, and how its time grows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.datasets import make_classification, make_regression

import xaijax
from bench.cases.aec_scale import Bootstrap, Growth, fits_alone, quietly
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

RATE, FITS = "AEC and its movement rate", "our fits of y alone"


@dataclass(frozen=True)
class Against:
    """One table and solver against the peers; all of them see the same array."""

    X: np.ndarray  # [M, n]
    y: np.ndarray  # [M]
    labels: bool
    solver: Literal["sklearn", "newton"]
    goal: float  # times that np.cov and fits of y should take
    accepted: float  # relative difference of effects
    reason: str
    rounds: int
    least: float
    alone: bool = False  # whether the fits of y are timed by themselves

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
        if self.alone:  # not after the peers, whose BLAS still holds the cores for a while
            contenders.insert(2, Contender(FITS, fits_alone(self.X, self.y, self.solver), 1))
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
        most = cov / timings[FITS].best if self.alone else None
        figures = (
            Figure("n^3 loop / ours", loop / ours, 80, 500, **more),
            Figure("loops of the movement rate / ours", loops / rate, 400, 3_000, **more),
            Figure("np.cov and fits of y / ours", cov / ours, self.goal, ceiling=most, **more),
        )
        if most is None:
            return figures
        return (*figures, Figure(f"np.cov and fits of y / {FITS}, the ceiling here", most, **more))

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
            # Columns of few values are fitted on these: the fits are not what takes the time.
            alone = labels and name != "diabetes"
            goal = 8 if labels else 1.5
            job = Against(X, y, labels, solver, goal, accepted, reason, rounds, least, alone)
            jobs[f"{name}, {solver}" if labels else name] = job
    rows = (400, 800) if smoke else (100_000, 200_000, 400_000, 800_000, 1_600_000)
    columns = (8, 16) if smoke else (250, 500, 1_000, 2_000)
    X, y, _ = tables["classes" if smoke else "diabetes"]
    jobs["bootstrap"] = Bootstrap(X, y, 10 if smoke else 1_000)
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


CASES = (
    Case(
        "T17",
        "AEC, and with its movement rate, against the n^3 loop of scikit-learn fits and against "
        "np.cov with n fits; growth with rows and columns",
        "loop / ours >= 80; with the rate >= 400; np.cov and fits >= 1.5 (logistic 8)",
        ">= 500; >= 3,000",
        setup,
        long=True,
    ),
)
