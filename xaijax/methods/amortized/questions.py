"""Uses of the explainer of an amortised one: values of rows, f(x), base value, fingerprint.

Letters: N rows, B background rows, P players, K outputs, n of them sampled.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError, ModelOutputError
from xaijax.core.pickling import made_of
from xaijax.core.typing import Progress
from xaijax.estimators.driver import InstanceValues, sampled
from xaijax.games.measure.replacement.tree_paths import TreePaths
from xaijax.games.run import GameRun
from xaijax.methods.explainer.choice import EstimatorChoice, warn_unmet
from xaijax.methods.explainer.explainer import Explainer
from xaijax.methods.explainer.levels import refuse_levels
from xaijax.methods.explainer.record import explanation, with_one_base
from xaijax.players.index import named
from xaijax.players.players import of_some_rows
from xaijax.results.explanation import Explanation
from xaijax.results.fingerprint import Fingerprint
from xaijax.tables.rows import rows_of
from xaijax.tables.table import MappedRows

NEAR = 1e-5  # for base values, relative to their size: float32 sums in another order
FITTED = "Give the explainer that it was fitted with."


class Teacher:
    """An explainer as the network's teacher, which can explain full rows at any time."""

    def __init__(self, explainer: Explainer) -> None:
        """Raises if rows do not share one base value, or if values do not add up."""
        if type(explainer) is not Explainer:
            raise InputTypeError(
                f"explainer must be an xaijax.Explainer, got {type(explainer).__name__}."
            )
        evaluator = explainer._evaluator
        TreePaths.refuse(explainer._given[0], "explainer has TreePaths(), which need no network.")
        refuse_levels(explainer, "a network learns the values of one level")
        if evaluator is None or hasattr(evaluator.engine.replacement.table, "baseline_fn"):
            raise InputError(
                "explainer has a baseline or players for each instance. Give background rows and "
                "players= that all rows share."
            )
        if evaluator.engine.fixed:
            raise InputError(
                "explainer has columns that are never replaced (-1 in players=). Make them players."
            )
        if not named(explainer.index).efficient:
            raise InputError(
                f"values of index={explainer.index!r} do not add up to f(x). Say index='shapley'."
            )
        self.explainer = explainer

    def read(self, X: Any) -> Any:
        """X, checked and copied, as the model takes rows."""
        explainer = self.explainer
        table = explainer._open().engine.replacement.table
        return table.read(X, "X", explainer.model.allow_nan)

    def explained(self, rows: Any, progress: Progress, seed: int | None = None) -> Labels:
        """The values of rows by the explainer, with the time they took.

        seed: given if a network is trained or judged on the values; see `labelled`.
        """
        started = time.perf_counter()
        if seed is None:
            with of_some_rows():
                result = self.explainer(rows, progress=progress)
        else:
            result = labelled(self.explainer, rows, seed, progress)
        seconds = time.perf_counter() - started - result.stats["compile_seconds"]
        values = result.values.reshape(*result.shape[:2], -1)
        if seed is not None and not np.isfinite(values).all():
            n = int(np.flatnonzero(~np.isfinite(values).all(axis=(1, 2)))[0])
            raise ModelOutputError(
                f"the values of row {n} of those asked are not finite: a network cannot learn "
                "them. Leave it out."
            )
        return Labels(result, values, result.base_values.reshape(len(values), -1), seconds)

    def answers(self, rows: Any) -> np.ndarray:
        """link(f(x)) of rows as they were read, float64 [N, K]."""
        explainer = self.explainer
        means = explainer.model.predict(rows).reshape(len(rows_of(rows)), 1, -1)
        return explainer.quantity.of(means, None, lambda _: "all players kept")[:, 0]

    def base(self) -> np.ndarray:
        """link(mean of f over the background), float64 [K], by the model's own answers."""
        explainer = self.explainer
        donors = explainer._open().engine.replacement
        answers = explainer.model.predict(donors.as_read).reshape(len(donors.weights), -1)
        mean = (donors.weights @ answers)[None, None]
        return explainer.quantity.of(mean, None, lambda _: "no player kept")[0, 0]

    def fingerprint(self) -> Fingerprint:
        """Returns the fingerprint of what a network learns; the model answers its probe only."""
        whole = self.explainer.fingerprint()
        table = self.explainer._open().engine.replacement.table
        question = {
            "players": self.explainer.players.names,
            "columns": self.explainer.players.all_columns,
            "shape": tuple(map(int, table.shape)),
        }
        return replace(whole, question=question)

    def best(self) -> Teacher:
        """The same question with the best values that "auto" gives, for rows that judge."""
        now = self.explainer
        if now.budget is None and now.tolerance is None and now.estimator in ("exact", "auto"):
            return self
        options = made_of(now) | {"estimator": "auto", "budget": None, "tolerance": None}
        return Teacher(Explainer(**options))


@dataclass(frozen=True)
class Labels:
    """The explainer's results, as labels for training."""

    explanation: Explanation
    values: np.ndarray  # float64 [N, P, K]
    base: np.ndarray  # float64 [N, K]
    seconds: float  # without compilation

    @property
    def model_rows(self) -> int:
        """Number of model rows used."""
        return int(self.explanation.stats["model_rows"])


def refuse_other(
    known: Fingerprint, base: np.ndarray, spread: np.ndarray, question: Teacher
) -> None:
    """Raises InputError if the explainer has another question than the one learned.

    base: the learned base values, [K]. They distinguish models that cannot be read.
    spread: that of f(x), [K], the scale on which base values count as equal.
    """
    now, name = question.fingerprint(), question.explainer.model.name
    for field in known.why_not(now):
        if field == "rows":
            raise InputError(
                f"explainer has other background rows, weights or link than were learned. {FITTED}"
            )
        if field == "model":
            raise InputError(
                f"explainer has another model ({name}): another program, or fit. Fit anew for it."
            )
        what = "rows of a shape" if field == "shape" else "players"
        raise InputError(
            f"explainer has other {what}: {now.question[field]}, not {known.question[field]}. "
            f"{FITTED}"
        )
    mean = question.base()
    if mean.shape != base.shape or (np.abs(mean - base) > NEAR * (np.abs(base) + spread)).any():
        raise InputError(
            f"explainer has the base value {mean.tolist()}, not {base.tolist()}: another model "
            f"({name}). Fit anew for it."
        )


def rows_at(rows: Any, places: np.ndarray) -> Any:
    """The rows at these positions, of rows as they were read."""
    return rows_of(rows.array if isinstance(rows, MappedRows) else rows).take(places)


def rows_between(rows: Any, at: slice) -> Any:
    """The same from one position to another."""
    return rows[at] if isinstance(rows, MappedRows) else rows_of(rows).part(at.start, at.stop)


def count_of(rows: Any) -> int:
    """The number N of rows."""
    return len(rows) if isinstance(rows, MappedRows) else len(rows_of(rows))


# An explainer draws coalitions once for all rows of a call. All values then share the errors of
# these draws, and a network would learn them as if they were the model's. Here rows are explained
# in GROUPS groups with separate draws. The common error of all rows is then the mean of that number
# of independent errors of mean 0.

GROUPS = 256


def labelled(explainer: Explainer, X: Any, seed: int, progress: Progress) -> Explanation:
    """The values of rows as the explainer would give them, sampled by groups.

    seed: seeds the draws, with the explainer's own seed.
    """
    answer = partial(_answer, explainer, seed)
    with of_some_rows():
        run = explainer._run(X, progress, explainer._choose, explainer._warn_long, answer)
    return explanation(explainer, run)


def _answer(
    explainer: Explainer, seed: int, game: GameRun, choice: EstimatorChoice
) -> InstanceValues:
    if choice.sampler is None:
        return explainer._answer(game, choice)
    enumerated, others = np.flatnonzero(choice.exact), np.flatnonzero(~choice.exact)
    groups = np.array_split(others, min(GROUPS, len(others)))
    seeds = np.random.SeedSequence([explainer.seed, seed]).generate_state(len(groups))
    drawing = choice.sampler, named(explainer.index), choice.budget
    parts = [
        sampled(game, group, *drawing, int(state), choice.rule)
        for group, state in zip(groups, seeds, strict=True)
    ]
    drawn = InstanceValues.joined(parts)
    warn_unmet(drawn, choice)
    if len(enumerated):
        exact = InstanceValues.exact(explainer.exact.estimate(game, enumerated))
        drawn = InstanceValues.mixed(choice.exact, exact, drawn)
    return with_one_base(game, choice, drawn)
