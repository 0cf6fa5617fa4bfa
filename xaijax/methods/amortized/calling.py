"""Values of rows: the network's, and the explainer's own for those whose bounds are the largest.

Letters: N rows, P players, K outputs, n rows that the explainer answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.typing import Progress
from xaijax.methods.amortized.bounds import difficulty
from xaijax.methods.amortized.fitted import FittedNetwork
from xaijax.methods.amortized.predictor import Predictor
from xaijax.methods.amortized.questions import Labels, Teacher, count_of, rows_at, rows_between
from xaijax.methods.progress import progress_bar
from xaijax.results.top import half_widths_together

PIECE = 1 << 14  # rows that are read as numbers together
OF_DRAWS = ("bound", "checks", "tolerance", "budget")
OF_ROWS = {"dof": np.inf, "coalitions": 0, "pairs": 0, "whole_pairs": 0, "certain": False}


@dataclass(frozen=True)
class AmortizedValues:
    """The values of N rows."""

    values: np.ndarray  # float64 [N, P, K]
    full: np.ndarray  # float64 [N, K], f(x)
    bounds: np.ndarray  # float64 [N]
    outside: np.ndarray  # bool [N], rows beyond those that were learned
    std_errors: np.ndarray | None  # [N, P, K], NaN of the network's; None: nobody has any
    sent: np.ndarray  # bool [N], which rows the explainer answered
    exact: np.ndarray  # bool [N]
    model_rows: int
    seconds: tuple[float, float]  # of the network and f(x); of the explainer
    # What the explainer's own intervals need: its stats, with an entry [N] for each instance.
    drawn: dict[str, Any] = field(default_factory=dict)


def answered(
    question: Teacher,
    fitted: FittedNetwork,
    predictor: Predictor,
    rows: Any,
    share: float,
    progress: Progress,
) -> AmortizedValues:
    """The values of rows as they were read; share: of those that the explainer answers."""
    started = time.perf_counter()
    with progress_bar(progress, count_of(rows), "rows by the network") as bar:
        values, full, bounds, outside = _by_network(question, fitted, predictor, rows, bar.update)
    here = time.perf_counter() - started
    N = len(values)
    size = np.where(np.isnan(bounds), np.inf, bounds)  # of which nothing is known
    worst = np.sort(np.argsort(-size, kind="stable")[: int(share * N + 1e-9)])
    sent, exact, errors = np.zeros(N, bool), np.zeros(N, bool), None
    if len(worst) == 0:
        _warn_outside(outside, sent, share)
        return AmortizedValues(values, full, bounds, outside, errors, sent, exact, N, (here, 0.0))
    labels = question.explained(rows_at(rows, worst), progress)
    values[worst], sent[worst] = labels.values, True
    _warn_outside(outside, sent, share)
    bounds[worst] = _bounds_of(labels, fitted.confidence)
    found = labels.explanation
    exact[worst] = found.exact if found.exact else found.stats.get("exact_rows", False)
    if found.std_errors is not None:
        errors = np.full(values.shape, np.nan)
        errors[worst] = found.std_errors.reshape(labels.values.shape)
    seconds = here, labels.seconds
    asked = N + labels.model_rows
    drawn = _drawn(found.stats, sent)
    return AmortizedValues(
        values, full, bounds, outside, errors, sent, exact, asked, seconds, drawn
    )


def _drawn(stats: Mapping[str, Any], sent: np.ndarray) -> dict[str, Any]:
    """What `stats` of the rows that were sent say of their draws, for all rows."""
    found = {name: stats[name] for name in OF_DRAWS if stats.get(name) is not None}
    for name, of_others in OF_ROWS.items():
        if name in stats:
            found[name] = np.full(len(sent), of_others, np.asarray(stats[name]).dtype)
            found[name][sent] = stats[name]
    return found


def _by_network(
    question: Teacher,
    fitted: FittedNetwork,
    predictor: Predictor,
    rows: Any,
    done: Callable[[int], object],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(values [N, P, K], f(x) [N, K], bounds [N], which rows are beyond those that were learned,
    bool [N], with an infinite bound); beside these, nothing grows with N.
    """
    N, shape = count_of(rows), fitted.centre.shape
    values, full, bounds = np.empty((N, *shape)), np.empty((N, shape[1])), np.empty(N)
    outside = np.zeros(N, bool)
    for first in range(0, N, PIECE):
        here = slice(first, min(first + PIECE, N))
        some = rows_between(rows, here)
        full[here] = question.answers(some)
        read = predictor.inputs.read(some)
        params = predictor.network.params
        values[here], height = predictor.of(params, fitted.line, read, full[here])
        outside[here] = predictor.inputs.outside(read).any(axis=1)
        known = fitted.quantile * difficulty(height, fitted.ends)
        bounds[here] = np.where(outside[here], np.inf, known)
        done(len(read))
    return values, full, bounds, outside


def _warn_outside(outside: np.ndarray, sent: np.ndarray, share: float) -> None:
    """Say how many rows are beyond those that were learned, and who answered them."""
    count, left = int(outside.sum()), int((outside & ~sent).sum())
    if not count:
        return
    N = len(outside)
    told = f"The explainer answered {count - left:,} of them (fallback={share:g})."
    if left:
        told += (
            f" The other {left:,} have the network's values and an infinite bound: raise fallback= "
            f"to {min(1.0, count / N):.3g} or more, or fit anew with rows like these."
        )
    checks.warn(
        f"{count:,} of {N:,} rows are outside the range of the rows that the network was fitted "
        f"with, in a column or more, and no bound holds there. {told} "
        'stats["outside_rows"] says which they are.'
    )


def _bounds_of(labels: Labels, confidence: float) -> np.ndarray:
    """Of rows that the explainer answered, [n]: 0 where exact; else by its standard errors.

    All P K values of a row at once, by Bonferroni's inequality. Draws that a rule ended have the
    intervals of that rule, which hold at every look. Infinite where there is no error.
    """
    found, n = labels.explanation, len(labels.values)
    if "bound" not in found.stats:
        half = found.half_widths(1 - (1 - confidence) / labels.values[0].size)
    else:
        half, _ = half_widths_together(found, confidence)
    wide = half.reshape(n, -1).max(axis=1)
    exact = found.stats.get("exact_rows", np.full(n, found.exact))
    return np.where(exact, 0.0, np.where(np.isnan(wide), np.inf, wide))
