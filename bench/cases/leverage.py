"""`leverage`: the protocol of LeverageSHAP's table of errors, ours beside four peers.

Musco and Witter 2025 fit XGBoost, take the mean row for the background and 8 P coalitions, and
report the mean relative squared error of 100 rows. They do not say how deep or how many the trees
are, so their figures stand in the notes, and what is compared is what runs here on one model.

Letters: N instances, n of them in a block, P players.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes

import xaijax
from bench import games
from bench.frame import Agreement, Case, Figure, Outcome, Size
from bench.models import adult_table
from bench.peers import shap_sampled, shapiq_sampled
from bench.peers.installed import installed

OURS = ("auto", "kernel", "permutation")
PEERS = {
    shap_sampled.PERMUTATION: shap_sampled.permutation,
    shap_sampled.KERNEL: shap_sampled.kernel,
    shapiq_sampled.KERNEL: shapiq_sampled.kernel,
    shapiq_sampled.LEVERAGE: shapiq_sampled.leverage,
}
PUBLISHED = (
    "published, Adult, Diabetes, Independent: permutation .0188 .0094 .0079, kernel .0140 .0124 "
    ".0062, leverage .0043 .0031 .0033"
)
EACH = 8  # coalitions for each player
BLOCK = 10  # instances that share the coalitions of a seed
ROUNDING = 1e-4  # of leaves and sums in float32, at the size of the target


@dataclass(frozen=True)
class Table:
    """A data set, its model, and the instances."""

    name: str
    predict: Callable[[np.ndarray], np.ndarray]
    base: np.ndarray  # [1, P]
    X: np.ndarray  # [N, P]
    truth: np.ndarray  # [N, P]

    def errors(self) -> dict[str, float]:
        """The mean relative squared error of each contender."""
        found: dict[str, list[np.ndarray]] = {}
        P = self.base.shape[1]
        model = xaijax.as_model(self.predict, backend="host")
        for name in OURS:
            explain = xaijax.Explainer(model, self.base, estimator=name, budget=EACH * P)
            for seed, here in enumerate(self._blocks()):
                explain.seed = seed
                found.setdefault(name, []).append(explain(self.X[here], progress=False).values)
        game_of = games.of_host(self.predict, self.base)
        for name, peer in PEERS.items():
            for seed, here in enumerate(self._blocks()):
                game = games.Counted(game_of(self.X[here]), P)
                found.setdefault(name, []).append(peer(game, P, EACH * P, seed))
        return {name: self._relative(np.concatenate(parts)) for name, parts in found.items()}

    def _blocks(self) -> list[slice]:
        return [slice(at, at + BLOCK) for at in range(0, len(self.X), BLOCK)]

    def _relative(self, values: np.ndarray) -> float:
        off = ((values.reshape(self.truth.shape) - self.truth) ** 2).sum(axis=1)
        return float((off / (self.truth**2).sum(axis=1)).mean())

    def proof(self) -> Agreement:
        """That the truth is of this model: its values sum to the change of its answer."""
        change = self.predict(self.X) - self.predict(self.base)
        gap = np.abs(self.truth.sum(axis=1) - change).max() / np.ptp(change)
        reason = "leaves and their sums are float32 in XGBoost"
        return Agreement(f"{self.name}: sums of the truth, and answers", gap, ROUNDING, reason)


def _data(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "Adult":
        X, y = adult_table("shap")
        return X.to_numpy(np.float64), y.to_numpy().astype(float)
    if name == "Diabetes":
        found: Any = load_diabetes()
        return found.data, found.target
    X, y = installed("shap").datasets.independentlinear60()
    return X.to_numpy(np.float64), np.asarray(y, float)


def _table(name: str, count: int) -> Table:
    shap = installed("shap")
    X, y = _data(name)
    model = installed("xgboost").XGBRegressor(n_estimators=100, max_depth=4, n_jobs=1).fit(X, y)
    base = X.mean(axis=0, keepdims=True)
    some = X[np.random.default_rng(0).choice(len(X), count, replace=False)]
    trees = shap.TreeExplainer(model, base, feature_perturbation="interventional")
    truth = np.asarray(trees.shap_values(some), np.float64)
    return Table(name, lambda rows: model.predict(rows).astype(np.float64), base, some, truth)


@dataclass(frozen=True)
class Tables:
    """All data sets."""

    tables: tuple[Table, ...]

    def measure(self) -> Outcome:
        """The errors of all contenders on each."""
        figures, errors = [], {one.name: one.errors() for one in self.tables}
        for name, own in errors.items():
            best = min(PEERS, key=own.__getitem__)
            figures.append(
                Figure(f"{name}: auto / best peer ({best})", own["auto"] / own[best], 1.05)
            )
            figures += [
                Figure(f"{name}: relative error, {who}", error) for who, error in own.items()
            ]
        return Outcome(
            tuple(figures),
            agreements=tuple(one.proof() for one in self.tables),
            notes=(PUBLISHED, "XGBoost: 100 trees of depth 4; coalitions: 8 P for everybody"),
            details={"errors": errors},
        )


def setup(size: Size) -> Tables:
    """Adult, Diabetes and Independent, 100 rows each."""
    names = ("Diabetes",) if size == "smoke" else ("Adult", "Diabetes", "Independent")
    return Tables(tuple(_table(name, 10 if size == "smoke" else 100) for name in names))


CASES = (
    Case(
        "leverage",
        "sampled values by the protocol of LeverageSHAP's table: XGBoost, the mean row, 8 P "
        "coalitions, relative squared error of 100 rows of three data sets, beside four peers",
        "auto / best peer <= 1.05",
        "",
        setup,
    ),
)
