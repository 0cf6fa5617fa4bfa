"""`trees`: default models of eight kinds against the explainers that read them.

Every explainer has a process of its own for each model, one after the other. The rows are rounded
to two decimals, as measurements are, so that some are equal to a threshold.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn import ensemble

from bench.cases.trees import (
    COLUMNS,
    OURS,
    SHAP,
    SPACE,
    WOODELF,
    Alone,
    alone,
    by_shap,
    by_woodelf,
    explained,
)
from bench.frame import Agreement, Case, Figure, Outcome, Size
from bench.peers.installed import installed

N, B, TRAINED = 20, 100, 2_000  # rows explained, background rows, training rows
SECONDS, OWN = 15, 120  # of the processor, for peers and ours: some need minutes for deep forests
HEADINGS = (
    *("model", "columns", OURS, "its sums miss", SHAP, "its sums miss", "differs"),
    *(WOODELF, "its sums miss", "differs"),
)


@dataclass(frozen=True)
class Kind:
    """A kind of model: how it is made, and the output that its trees add up to."""

    make: Callable[[], Any]
    output: str | int  # of as_model
    answer: Callable[[Any, np.ndarray], np.ndarray]  # the library's own
    column: int | None = None  # of shap's values, where it has one for each class


def path_length(forest: Any, rows: np.ndarray) -> np.ndarray:
    """Mean length of the paths of an isolation forest, from its score 2^(-length / c)."""
    n = forest.max_samples_
    c = 2 * (np.log(n - 1) + np.euler_gamma) - 2 * (n - 1) / n
    return -np.log2(-forest.score_samples(rows)) * c


def chance(model: Any, rows: np.ndarray) -> np.ndarray:
    """Probability of the second class."""
    return model.predict_proba(rows)[:, 1]


def margin(name: str, value: Any) -> Callable[[Any, np.ndarray], np.ndarray]:
    """What `predict` answers with a keyword that asks for margins."""
    return lambda model, rows: np.asarray(model.predict(rows, **{name: value}))


def decision(model: Any, rows: np.ndarray) -> np.ndarray:
    """The margin of a classifier of scikit-learn."""
    return model.decision_function(rows)


KINDS = {
    "RandomForest": Kind(lambda: ensemble.RandomForestClassifier(random_state=0), 1, chance, 1),
    "ExtraTrees": Kind(lambda: ensemble.ExtraTreesClassifier(random_state=0), 1, chance, 1),
    "HistGradientBoosting": Kind(ensemble.HistGradientBoostingClassifier, "decision", decision),
    "GradientBoosting": Kind(ensemble.GradientBoostingClassifier, "decision", decision),
    "IsolationForest, path length": Kind(
        lambda: ensemble.IsolationForest(random_state=0), "path-length", path_length
    ),
    "XGBoost": Kind(
        lambda: installed("xgboost").XGBClassifier(), "decision", margin("output_margin", True)
    ),
    "LightGBM": Kind(
        lambda: installed("lightgbm").LGBMClassifier(verbose=-1),
        "decision",
        margin("raw_score", True),
    ),
    "CatBoost": Kind(
        lambda: installed("catboost").CatBoostClassifier(verbose=0, allow_writing_files=False),
        "decision",
        margin("prediction_type", "RawFormulaVal"),
    ),
}


@dataclass(frozen=True)
class Table:
    """A line for each kind of model and number of columns."""

    kinds: tuple[str, ...]
    columns: tuple[int, ...]
    rows: int

    def measure(self) -> Outcome:
        """Explain the same rows by all, and compare."""
        lines: list[tuple[str, ...]] = [HEADINGS]
        agreements: list[Agreement] = []
        details: dict[str, dict[str, float]] = {}
        notes = [
            f"default classifiers, fitted to {TRAINED:,} rows with two decimals; {self.rows} rows "
            f"explained, {B} background rows",
            "seconds of the processor, of all threads, the least of up to three calls after one of "
            "two rows; a call of a second is made once",
            "MiB above the level after the call of two rows",
            "sums: base value and values against the library's own answer; differs: the largest "
            "difference from ours; both over the largest value",
            f"no answer after {SECONDS} s, {OWN} s of ours, above {SPACE // 2**30} GiB, or with an "
            "error: its name; nothing is compared where ours has none",
        ]
        for P, name in itertools.product(self.columns, self.kinds):
            try:
                line, found, sums = self._line(name, P)
            except KeyboardInterrupt:
                notes.append(f"interrupted in {name}, {P} columns: what follows is not run")
                break
            lines.append(line)
            agreements += found
            details[f"{name}, {P} columns"] = sums
        largest = max((one[OURS] for one in details.values() if OURS in one), default=np.nan)
        return Outcome(
            (Figure("sums of ours miss the model's answer, of the largest value", largest, 1e-5),),
            agreements=tuple(agreements),
            notes=tuple(notes),
            details=details,
            table=lines,
        )

    def _line(self, name: str, P: int) -> tuple[tuple[str, ...], list[Agreement], dict[str, float]]:
        kind, rng = KINDS[name], np.random.default_rng(P)
        rows = rng.normal(size=(TRAINED, P)).round(2)
        target = np.sin(2 * rows[:, 0]) + rows[:, 1] * rows[:, 2] + rows[:, 3:8].sum(axis=1) / 2
        model = kind.make().fit(rows, target + rng.normal(size=len(rows)) / 2 > 0)
        background, X = rows[:B], rows[B : B + self.rows]
        given = {
            OURS: partial(alone, explained, model, background, kind.output),
            SHAP: partial(alone, by_shap, model, background, kind.column),
            WOODELF: partial(alone, by_woodelf, model, background),
        }
        limits = {OURS: OWN}
        found = {
            who: explain(rows=X, seconds=limits.get(who, SECONDS)) for who, explain in given.items()
        }
        ours = found[OURS].values
        if ours is None:
            cells = [found[OURS].refused, *[""] * (len(HEADINGS) - 3)]
            return (name, str(P), *cells), [], _seconds(found)
        wanted = kind.answer(model, X) - kind.answer(model, background).mean()
        largest, cells, agreements, sums = np.abs(ours).max(), [], [], {}
        for who, one in found.items():
            if one.values is None or one.values.shape != ours.shape:
                cells += [one.refused or "another shape", *([""] * (1 if who == OURS else 2))]
                continue
            sums[who] = float(np.abs(one.values.sum(axis=1) - wanted).max() / largest)
            off = float(np.abs(one.values - ours).max() / largest)
            cells += [f"{one.seconds:.2f} s, {one.peak:.0f} MiB", f"{sums[who]:.0e}"]
            cells += [] if who == OURS else [f"{off:.0e}"]
            what = f"{name}, {P} columns: {who}"
            if who == OURS:
                agreements.append(Agreement(f"{what}, sums", sums[who], 1e-5, "float32 leaves"))
        return (name, str(P), *cells), agreements, sums | _seconds(found)


def _seconds(found: dict[str, Alone]) -> dict[str, float]:
    return {f"{who}, seconds": one.seconds for who, one in found.items()}


def setup(size: Size) -> Table:
    """Measures default models of eight kinds, 12, 30 and 100 columns: processor seconds, peak
    memory, how far sums are from the model's own answer, and the largest difference from shap
    TreeExplainer and woodelf-explainer.
    """
    if size == "smoke":
        return Table(("HistGradientBoosting",), COLUMNS[:1], 5)
    return Table(tuple(KINDS), COLUMNS, N)


CASES = (Case("trees", setup, long=True, page="docs/trees.md"),)
