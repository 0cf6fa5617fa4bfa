"""How AEC's time grows with rows and columns, and that of its bootstrap: parts of T17."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import xaijax
from bench.frame import Agreement, Contender, Figure, Outcome, take_turns, timed
from bench.peers import sklearn_fits as peer
from xaijax.core.threads import cores, in_order, one_thread_of_blas
from xaijax.methods.aec.draws import Draws
from xaijax.methods.aec.lbfgs import stopping_point
from xaijax.methods.aec.logistic import fit
from xaijax.methods.aec.rows import table_of
from xaijax.methods.aec.survey import survey

REPLICATES = "a Newton step below 1e-4 leaves 1e-8 of a slope, errors are 1e-2 of it"
SUMS = "two float64 algorithms; sums of n^2 slopes of mixed signs"


def quietly(run: Callable[[], Any]) -> Any:
    """Without the warning that scales are far apart, which is true of these tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xaijax.XaiWarning)
        return run()


def fits_alone(X: np.ndarray, y: np.ndarray, solver: str) -> Callable[[int], Any]:
    """The logistic fits of y on columns [M, n] that are ready: what AEC does beside comes on top.

    "sklearn": the stopping points, in as many threads as ours. "newton": all passes, from the
    sample on, and the look whether a column has few values.
    """
    if solver == "sklearn":
        columns, labels = list(np.ascontiguousarray(X.T)), y.astype(np.intp)

        def stopped(_: int) -> Any:
            with one_thread_of_blas():
                points = in_order(lambda x: stopping_point(x, labels, None), columns, cores())
                return list(points)

        return stopped
    rows = table_of(X, y).by_column()
    found = survey(rows, "classification")
    return lambda _: fit(rows, found, "newton", False)


@dataclass(frozen=True)
class Bootstrap:
    """Resampled rows of one classification."""

    X: np.ndarray  # [M, n]
    y: np.ndarray  # [M]
    count: int

    def measure(self) -> Outcome:
        """Seconds of all replicates; the errors of three beside those of three weighted fits."""

        def ours(count: int) -> Any:
            aec = xaijax.AEC(bootstrap=count)
            return quietly(lambda: aec.fit(self.X, self.y))

        ours(2)  # compiles
        seconds, _ = timed(ours, self.count)
        table = table_of(self.X, self.y)
        draws = Draws(table, len(self.y), 0)
        newton = xaijax.AEC(solver="newton")
        each = [
            quietly(lambda s=s: newton.fit(self.X, self.y, draws.of_rows(s))).effects_
            for s in range(3)
        ]
        difference = float(np.abs(ours(3).std_errors_ / np.std(each, axis=0, ddof=1) - 1).max())
        figure = Figure(f"{self.count:,} replicates", seconds, 60, unit=" s")
        agreement = Agreement(
            "errors of three replicates and of three weighted fits", difference, 1e-4, REPLICATES
        )
        return Outcome((figure,), (), (agreement,), ("solver sklearn, from its full fit",))


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
