"""Values of rows: the network's, or the explainer's own for the rows with the largest bounds.

Letters: N rows, P players, K outputs, n rows that the explainer answers, D what tells difficulty.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.typing import Progress
from xaijax.methods.amortized.fitted import FittedNetwork
from xaijax.methods.amortized.predictor import Predictor
from xaijax.methods.amortized.questions import Labels, Teacher, count_of, rows_at, rows_between
from xaijax.methods.record import progress_bar
from xaijax.results.top import half_widths_together

PIECE = 1 << 14  # rows that are converted to numbers together
OF_DRAWS = ("bound", "checks", "tolerance", "budget")
OF_ROWS = {"dof": np.inf, "coalitions": 0, "pairs": 0, "whole_pairs": 0, "certain": False}


@dataclass(frozen=True)
class AmortizedValues:
    """The values of N rows."""

    values: np.ndarray  # float64 [N, P, K]
    full: np.ndarray  # float64 [N, K], f(x)
    bounds: np.ndarray  # float64 [N]
    outside: np.ndarray  # bool [N], rows outside the range of the fitted rows
    std_errors: np.ndarray | None  # [N, P, K], NaN for the network's values; None: there are none
    sent: np.ndarray  # bool [N], which rows the explainer answered
    exact: np.ndarray  # bool [N]
    model_rows: int
    seconds: tuple[float, float]  # for the network and f(x); for the explainer
    # The explainer's intervals need its stats, with an entry [N] for each instance.
    drawn: dict[str, Any] = field(default_factory=dict)


def answered(
    question: Teacher,
    fitted: FittedNetwork,
    predictor: Predictor,
    rows: Any,
    share: float,
    progress: Progress,
) -> AmortizedValues:
    """The values of rows as they were read; share: the share that the explainer answers."""
    started = time.perf_counter()
    with progress_bar(progress, count_of(rows), "rows by the network") as bar:
        values, full, bounds, outside = _by_network(question, fitted, predictor, rows, bar.update)
    network_seconds = time.perf_counter() - started
    N = len(values)
    size = np.where(np.isnan(bounds), np.inf, bounds)  # NaN: nothing is known
    worst = np.sort(np.argsort(-size, kind="stable")[: int(share * N + 1e-9)])
    sent, exact, errors = np.zeros(N, bool), np.zeros(N, bool), None
    model_rows, seconds, drawn = N, 0.0, {}
    if len(worst):
        labels = question.explained(rows_at(rows, worst), progress)
        values[worst], sent[worst] = labels.values, True
        bounds[worst] = _bounds_of(labels, fitted.confidence)
        result, seconds = labels.explanation, labels.seconds
        exact[worst] = result.exact if result.exact else result.stats.get("exact_rows", False)
        if result.std_errors is not None:
            errors = np.full(values.shape, np.nan)
            errors[worst] = result.std_errors.reshape(labels.values.shape)
        model_rows, drawn = N + labels.model_rows, _drawn(result.stats, sent)
    _warn_outside(outside, sent, share)
    rest = errors, sent, exact, model_rows, (network_seconds, seconds), drawn
    return AmortizedValues(values, full, bounds, outside, *rest)


def _drawn(stats: Mapping[str, Any], sent: np.ndarray) -> dict[str, Any]:
    """The stats of draws of the rows that were sent to the explainer, extended to all rows."""
    drawn = {name: stats[name] for name in OF_DRAWS if stats.get(name) is not None}
    for name, of_others in OF_ROWS.items():
        if name in stats:
            drawn[name] = np.full(len(sent), of_others, np.asarray(stats[name]).dtype)
            drawn[name][sent] = stats[name]
    return drawn


def _by_network(
    question: Teacher,
    fitted: FittedNetwork,
    predictor: Predictor,
    rows: Any,
    done: Callable[[int], object],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(values [N, P, K], f(x) [N, K], bounds [N], rows outside the range of the fitted rows [N]).

    Rows outside have an infinite bound. No other array grows with N.
    """
    N, shape = count_of(rows), fitted.centre.shape
    values, full, bounds = np.empty((N, *shape)), np.empty((N, shape[1])), np.empty(N)
    outside = np.zeros(N, bool)
    for first in range(0, N, PIECE):
        chunk = slice(first, min(first + PIECE, N))
        part = rows_between(rows, chunk)
        full[chunk] = question.answers(part)
        read = predictor.inputs.read(part)
        params = predictor.network.params
        values[chunk], height = predictor.of(params, fitted.line, read, full[chunk])
        outside[chunk] = predictor.inputs.outside(read).any(axis=1)
        known = fitted.quantile * difficulty(height, fitted.ends)
        bounds[chunk] = np.where(outside[chunk], np.inf, known)
        done(len(read))
    return values, full, bounds, outside


def _warn_outside(outside: np.ndarray, sent: np.ndarray, share: float) -> None:
    """Warns of the number of rows outside the range of the fitted rows, and says who answered
    them.
    """
    count, left = int(outside.sum()), int((outside & ~sent).sum())
    if not count:
        return
    N = len(outside)
    answered_by = f"The explainer answered {count - left:,} of them (fallback={share:g})."
    if left:
        answered_by += (
            f" The other {left:,} have the network's values and an infinite bound: raise fallback= "
            f"to {min(1.0, count / N):.3g} or more, or fit anew with rows like these."
        )
    checks.warn(
        f"{count:,} of {N:,} rows are outside the range of the rows that the network was fitted "
        f"with, in a column or more, and no bound holds there. {answered_by} "
        'stats["outside_rows"] says which they are.'
    )


def _bounds_of(labels: Labels, confidence: float) -> np.ndarray:
    """Bounds of rows that the explainer answered, [n]: 0 if exact, else by its standard errors.

    They cover all P K values of a row at once, by Bonferroni's inequality. Draws that a rule ended
    have the intervals of that rule, which hold at every check. The bound is infinite if there is no
    error.
    """
    explanation, n = labels.explanation, len(labels.values)
    if "bound" not in explanation.stats:
        half = explanation.half_widths(1 - (1 - confidence) / labels.values[0].size)
    else:
        half, _ = half_widths_together(explanation, confidence)
    wide = half.reshape(n, -1).max(axis=1)
    exact = explanation.stats.get("exact_rows", np.full(n, explanation.exact))
    return np.where(exact, 0.0, np.where(np.isnan(wide), np.inf, wide))


# The error of a row is that of its worst value, e = max over players and outputs of |phi - phi^|.
# Rows are not alike: a line in what the network knows of a row is fitted to log e of the
# validation rows, and d(x) = exp(line) is the difficulty. Of the n judge rows, which no step
# before has seen, the scores e / d are taken. If a further row is drawn as they are, its score is
# equally likely to have any of n + 1 places among theirs, so with
#
#     k = ceil((n + 1) confidence),    bound(x) = d(x) times the k-th smallest score,
#
# its values are within +- bound(x) with at least that confidence, and at most 1 / (n + 1) more
# where no two scores are equal. That is over the draw of the judge rows too: what share of all
# rows one set of them covers is Beta(k, n + 1 - k) distributed, 1.9 points around 90 % of 256
# rows.
#
# References: Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World" (2005), section
# 2.2. Papadopoulos, Gammerman and Vovk, "Normalized nonconformity measures" (2008). Lei et al.,
# "Distribution-free predictive inference for regression" (JASA 2018), sections 2 and 5.2.

FLOOR = 1e-3  # of the values' spread, added to errors before their logarithm is taken
FEWEST = 20  # validation rows needed to estimate difficulty; with fewer all rows count as alike
STRENGTHS = 10.0 ** np.arange(-1, 7)  # ridge strengths, times n


def errors_of(values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The error of the worst value of each row, [n], for values [n, P, K]."""
    return np.abs(values - wanted).max(axis=(1, 2))


def fewest_judges(confidence: float) -> int:
    """The smallest n for which the quantile is one of the n scores."""
    return math.ceil(round(confidence / (1 - confidence), 9))


def quantile(scores: np.ndarray, confidence: float) -> float:
    """The k-th smallest of n scores, k = ceil((n + 1) confidence)."""
    k = math.ceil(round((len(scores) + 1) * confidence, 9))
    return float(np.sort(scores)[k - 1])


def difficulty_line(features: np.ndarray, errors: np.ndarray, spread: float) -> np.ndarray:
    """Weights [1 + D] of the line that predicts the log error from the features of rows, [n, D].

    The fit is a ridge regression. Its strength has the smallest leave-one-out error, by the
    residuals r_i / (1 - H_ii) of the fit to all rows, H its hat matrix (Golub, Heath and Wahba
    1979).
    """
    wanted = np.log(errors + FLOOR * spread + np.finfo(np.float64).tiny)
    out = np.zeros(1 + features.shape[1])
    out[0] = wanted.mean()
    n = len(wanted)
    if n < FEWEST:
        return out
    middle, size = features.mean(axis=0), features.std(axis=0)
    size[size < 1e-9 * (1 + np.abs(middle))] = np.inf  # a constant feature has no information
    # (told - middle) / size = U s V
    U, s, V = np.linalg.svd((features - middle) / size, full_matrices=False)
    rotated = U.T @ (wanted - out[0])
    best, weights = np.inf, rotated
    for strength in STRENGTHS:
        share = s**2 / (s**2 + strength)
        left = wanted - out[0] - U @ (share * rotated)
        hat = 1 / n + (U**2) @ share
        error = float(np.mean((left / np.maximum(1 - hat, 1e-6)) ** 2))
        if error < best:
            best, weights = error, V.T @ (s / (s**2 + strength) * rotated)
    out[1:] = weights / size
    out[0] -= float(middle @ out[1:])
    return out


def difficulty(height: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """d [n] of the line's heights [n]; limits: the lowest and highest height of validation rows.

    Beyond these limits the line must not be extrapolated.
    """
    return np.exp(np.clip(height, *limits))
