"""T10: federated Shapley values of the 5-nearest-neighbour model on Adult, three settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import xaijax
from bench.baselines import federated
from bench.frame import LEAST_SECONDS, Agreement, Case, Contender, Duel, Figure, Size, Timing, ratio
from bench.models import adult_table

OURS, AUTHORS = "xaijax", "the authors' scheme"
WORK = ("Workclass", "Occupation", "Hours per week")
SETTINGS = {"whole": (), "3 guest columns": WORK, "5": (*WORK, "Capital Gain", "Capital Loss")}


@dataclass(frozen=True)
class Experiment:
    """A fitted model, the rows to explain, and the columns that the guest owns in each setting."""

    model: Any
    train: np.ndarray  # [R, F], normalised
    rows: np.ndarray  # [N, F]
    guests: Mapping[str, Sequence[int]]

    def ours(self, count: int) -> dict[str, Any]:
        """The Explanations of the first `count` rows, by setting."""
        wrapped = xaijax.as_model(self.model, backend="host", output=True)
        found = {}
        for name, columns in self.guests.items():
            named = {"guest": columns} if columns else {}
            explain = xaijax.FederatedExplainer(wrapped, self.train, named)
            found[name] = explain(self.rows[:count], progress=False)
        return found

    def authors(self, count: int) -> dict[str, np.ndarray]:
        """The same by their scheme, values [count, P]."""
        reference = np.median(self.train, axis=0)
        F = len(reference)
        found = {}
        for name, columns in self.guests.items():
            groups = [[c] for c in range(F) if c not in columns]
            groups += [list(columns)] if columns else []
            explain = federated.explainer(
                lambda rows: self.model.predict_proba(rows)[:, 1], reference, groups
            )
            found[name] = explain(self.rows[:count])
        return found


def _adult(instances: int) -> Experiment:
    """Section 5 as the reading settles it: the first training rows, normalised by all of them."""
    X, y = adult_table("shap", shuffle=False)
    chosen, _ = train_test_split(np.arange(len(X)), test_size=0.2, random_state=7)
    train, labels = X.iloc[chosen], y.iloc[chosen]
    rows = ((train - train.mean()) / train.std()).to_numpy()
    model = KNeighborsClassifier().fit(rows, labels)
    columns = {
        name: [X.columns.get_loc(column) for column in guests] for name, guests in SETTINGS.items()
    }
    return Experiment(model, rows, rows[:instances], columns)


def _small() -> Experiment:
    """Random codes, for the smoke test."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, (200, 6)).astype(float)
    model = KNeighborsClassifier().fit(rows, rows.sum(axis=1) > 5)
    return Experiment(model, rows, rows[:4], {"whole": (), "2 guest columns": (4, 5)})


def setup(size: Size) -> Duel:
    """All settings are one work, timed together."""
    experiment = _small() if size == "smoke" else _adult(1_000)

    def check(results: Mapping[str, Any]) -> list[Agreement]:
        # By at most |2 t - z + (a - 2 g) T| / (P E), in the letters of least_squares.py.
        reason = "their end weight E = 10,000 moves a value by at most 4 a / (P E), a < 3"
        found = []
        for name, ours in results[OURS].items():
            theirs = results[AUTHORS][name]
            difference = float(np.abs(ours.values[: len(theirs)] - theirs).max())
            bound = 12 / (1e4 * ours.values.shape[1])
            found.append(Agreement(f"{name}: values and the authors'", difference, bound, reason))
            total = ours.base_values + ours.values.sum(axis=1)
            outputs = experiment.model.predict_proba(experiment.rows)[:, 1]
            difference = float(np.abs(total - outputs).max())
            reason = "fractions of five votes, summed in float64"
            found.append(Agreement(f"{name}: base + values and f(x)", difference, 1e-12, reason))
        return found

    def figures(timings: Mapping[str, Timing], results: Mapping[str, Any]) -> list[Figure]:
        stats = [one.stats for one in results[OURS].values()]
        asked, naive = (sum(s[key] for s in stats) for key in ("model_rows", "naive_rows"))
        speed = ratio(timings, AUTHORS, OURS)
        return [
            Figure("distinct / naive queries", 100 * asked / naive, 2, unit=" %"),
            Figure("the authors' scheme / ours", speed, 10, better="more", unit="x"),
        ]

    N = len(experiment.rows)
    least = LEAST_SECONDS if size == "full" else 0.0
    return Duel(
        contenders=[
            Contender(OURS, experiment.ours, N),
            Contender(AUTHORS, experiment.authors, N, least),
        ],
        check=check,
        figures=figures,
        rounds=1,  # a minute of neighbour queries each
        notes=(f"{len(experiment.guests)} settings of {N:,} rows; the same scikit-learn model",),
    )


CASES = (
    Case(
        "T10",
        "federated Shapley values of 5-NN on Adult, three settings, 1,000 rows each, against the "
        "authors' scheme with the same model (the nearest-neighbour kernel is not built yet)",
        "distinct / naive queries <= 2 %; authors / ours >= 10",
        "",
        setup,
    ),
)
