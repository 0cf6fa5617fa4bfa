"""T10: federated Shapley values of the 5-nearest-neighbour model on Adult, three settings.

Ours once with scikit-learn's model on the host, beside the authors' scheme, and once with the
neighbours searched in JAX, beside scikit-learn's own tree on the very queries that the first asks.

Measured once, at commit bd038fca96 on 2026-11-28, and not repeated by a case: 1,000 instances of a
split network between two processes (gRPC with mutual TLS on one machine, 6 messages, N + 1 vectors)
take 0.214 s, in one process 0.206 s, and the values differ by 3.4e-8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import xaijax
from bench.baselines import federated
from bench.frame import (
    LEAST,
    Agreement,
    Case,
    Contender,
    Duel,
    Figure,
    Ratio,
    Results,
    Several,
    Size,
    Timings,
    ratio,
)
from bench.models import adult_table

OURS, AUTHORS = "xaijax", "the authors' scheme"
IN_JAX, KD_TREE = "xaijax in JAX", "scikit-learn's tree"
WORK = ("Workclass", "Occupation", "Hours per week")
SETTINGS = {"whole": (), "3 guest columns": WORK, "5": (*WORK, "Capital Gain", "Capital Loss")}


@dataclass(frozen=True)
class Experiment:
    """A fitted model, the rows to explain, and the columns that the guest owns in each setting."""

    model: Any
    train: np.ndarray  # [R, F], normalised
    rows: np.ndarray  # [N, F]
    guests: Mapping[str, Sequence[int]]
    made: dict[str, dict[str, Any]] = field(default_factory=dict)

    def ours(self, count: int, backend: Literal["jax", "host"] = "host") -> dict[str, Any]:
        """The Explanations of the first `count` rows, by setting; explainers are made once."""
        if backend not in self.made:
            model = xaijax.as_model(self.model, backend=backend, output=True)
            self.made[backend] = self._explainers(model)
        return self._explained(self.made[backend], count)

    def queries(self) -> np.ndarray:
        """The distinct queries of all rows and settings, as the host is asked them, [Q, F]."""
        asked = []

        def record(rows: np.ndarray) -> np.ndarray:
            asked.append(np.array(rows))
            return np.zeros(len(rows))

        model = xaijax.as_model(record, backend="host")
        self._explained(self._explainers(model), len(self.rows))
        return np.concatenate(asked)

    def _explainers(self, wrapped: Any) -> dict[str, Any]:
        found = {}
        for name, columns in self.guests.items():
            named = {"guest": columns} if columns else {}
            found[name] = xaijax.FederatedExplainer(wrapped, self.train, named)
        return found

    def _explained(self, explainers: Mapping[str, Any], count: int) -> dict[str, Any]:
        rows = self.rows[:count]
        return {name: explain(rows, progress=False) for name, explain in explainers.items()}

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


def setup(size: Size) -> Several:
    """Measures federated Shapley values of 5-nearest-neighbours on Adult, three settings of 1,000
    rows, against the authors' scheme with the same model, and with neighbours in JAX against
    scikit-learn's tree.

    Both halves of T10.

    Missed: The ratio depends on the machine: scikit-learn's tree spends its time in C and memory,
    and ratios from 3.4x to 5.2x were measured.
    """
    experiment = _small() if size == "smoke" else _adult(1_000)
    authors, tree = _against_authors(experiment, size), _against_tree(experiment, size)
    return Several({"host": authors, "in JAX": tree})


def _against_tree(experiment: Experiment, size: Size) -> Duel:
    """The neighbours of the same queries, by JAX within the explanation and by the tree alone.

    Where the fifth and the sixth neighbour are equally far, any five are right: such queries are
    told apart by brute force, and left out of the comparison.
    """
    queries = experiment.queries()
    model = experiment.model
    in_jax = xaijax.as_model(model, backend="jax", output=True)

    def tree(count: int) -> np.ndarray:
        return model.predict_proba(queries[:count])[:, 1]

    def check(results: Results) -> list[Agreement]:
        ours, found = [], results[KD_TREE]
        for name, explained in results[IN_JAX].items():
            total = explained.base_values + explained.values.sum(axis=1)
            outputs = in_jax.predict(experiment.rows[: len(total)])
            difference = float(np.abs(total - outputs).max())
            reason = "sums of float32 votes"
            ours.append(Agreement(f"{name}: base + values and f(x)", difference, 1e-5, reason))
        answers = in_jax.predict(queries[: len(found)])
        other = np.flatnonzero(np.abs(answers - found) > 1e-6)
        untied = [n for n in other if not _tied(experiment.train, queries[n])]
        reason = "queries answered otherwise although five neighbours are nearest"
        ours.append(Agreement("in JAX and scikit-learn", float(len(untied)), 0.0, reason))
        return ours

    N = len(experiment.rows)
    return Duel(
        contenders=[
            Contender(IN_JAX, lambda count: experiment.ours(count, "jax"), N),
            Contender(KD_TREE, tree, len(queries), LEAST[size]),
        ],
        check=check,
        figures=[Ratio("scikit-learn's tree, queries alone / ours", KD_TREE, IN_JAX, 5, 15)],
        rounds=2,
        notes=(f"the tree is asked the {len(queries):,} distinct queries and nothing else",),
    )


def _tied(train: np.ndarray, query: np.ndarray) -> bool:
    """Whether the fifth and the sixth neighbour are equally far, up to float32."""
    far = np.sort(np.sqrt(np.square(train - query).sum(axis=1)))[:6]
    scale = max(np.abs(query).max(), np.abs(train).max())
    return bool(far[5] - far[4] <= 4 * len(query) * np.finfo(np.float32).eps * scale)


def _against_authors(experiment: Experiment, size: Size) -> Duel:
    """All settings are one work, timed together."""

    def check(results: Results) -> list[Agreement]:
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

    def figures(timings: Timings, results: Results) -> list[Figure]:
        stats = [one.stats for one in results[OURS].values()]
        asked, naive = (sum(s[key] for s in stats) for key in ("model_rows", "naive_rows"))
        speed = ratio(timings, AUTHORS, OURS)
        return [
            Figure("distinct / naive queries", 100 * asked / naive, 2, unit=" %"),
            Figure("the authors' scheme / ours", speed, 10, better="more", unit="x"),
        ]

    N = len(experiment.rows)
    return Duel(
        contenders=[
            Contender(OURS, experiment.ours, N),
            Contender(AUTHORS, experiment.authors, N, LEAST[size]),
        ],
        check=check,
        figures=figures,
        rounds=1,  # a minute of neighbour queries each
        notes=(f"{len(experiment.guests)} settings of {N:,} rows; the same scikit-learn model",),
    )


CASES = (Case("T10", setup),)
