"""The univariate logistic slopes of AEC, by Newton steps or by scikit-learn's own stopping point.

The fit of y on one column minimises the logistic loss plus b^2 / 2, with a free intercept a. This
is scikit-learn's `LogisticRegression()`, L2 with C = 1.

Letters: F features, M rows, R rows in a block, K' classes fitted against the rest, G columns with
tables of distinct values, or distinct values with their weights, D distinct values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from scipy.optimize import minimize

from xaijax.core import checks
from xaijax.core.process import available_host_memory, cores, in_order, one_thread_of_blas
from xaijax.games.engine.plan import usable
from xaijax.methods.aec.first_pass import FirstPass
from xaijax.methods.aec.rows import InMemoryRows, Rows
from xaijax_kernels.collinearity.newton import TILE, logistic_sums, newton

HELD = 12  # arrays of all rows, for one fitted column
SAMPLE = 2 * TILE  # rows of the fit that the passes over all rows start from

_sums = jax.jit(logistic_sums)


@dataclass(frozen=True)
class LogisticFit:
    """The logistic fits of every feature against every class."""

    slopes: np.ndarray  # float64 [K', F], per unit of the column (of its spread if standardised)
    theta: np.ndarray  # float64 [K', F, 2], intercept and slope of (x - mean) / spread; the minimum
    passes: int  # passes over the rows, the most of all classes; 0: only over tables
    tables: list[ValueTable | None]  # [F], of the fitted columns


def penalties(facts: FirstPass, standardize: bool) -> np.ndarray:
    """The weight of b^2 / 2 in units of the standardised slope beta = b * spread: 1 / spread^2."""
    return np.ones(facts.F) if standardize else (1 / facts.spread) ** 2


def fit(rows: Rows, facts: FirstPass, solver: str, standardize: bool) -> LogisticFit:
    """The slopes of all features; warns of columns whose fit stopped before it converged."""
    tables: list[ValueTable | None] = [None] * facts.F
    if isinstance(rows, InMemoryRows):
        rows = rows.by_column()
        codes = facts.target.encode(rows.y)
        tables = [
            value_table(rows, j, codes, facts.target.positives) if facts.fitted[j] else None
            for j in range(facts.F)
        ]
    if solver == "sklearn":
        assert isinstance(rows, InMemoryRows)
        fitted = _by_sklearn(rows, facts, standardize, tables)
    else:
        fitted = _by_newton(rows, facts, standardize, tables)
    first = facts.first
    return replace(fitted, slopes=fitted.slopes[:, first], theta=fitted.theta[:, first])


def device_blocks(
    rows: Rows, facts: FirstPass, features: np.ndarray, k: int
) -> Callable[[], Iterator[tuple[Any, Any, Any]]]:
    """A function that starts a pass: x [G, R], total [R] and positive [R] on the device.

    R is padded with rows of weight 0. Blocks of rows in memory are moved there once.
    """

    def placed() -> Iterator[tuple[Any, Any, Any]]:
        for block in rows.blocks():
            with jax.enable_x64(True):
                yield jax.device_put(_padded(block, facts, features, k))

    blocks = list(placed()) if rows.in_memory else None
    return placed if blocks is None else lambda: iter(blocks)


def _by_newton(
    rows: Rows, facts: FirstPass, standardize: bool, tables: list[ValueTable | None]
) -> LogisticFit:
    F, positives = facts.F, facts.target.positives
    theta, penalty = np.zeros((len(positives), F, 2)), penalties(facts, standardize)
    tabled = np.array([table is not None for table in tables])
    rest = np.flatnonzero(~tabled & facts.fitted)
    of_table = np.flatnonzero(tabled)
    passes, stuck = 0, facts.constant & False
    for at, k in enumerate(positives):
        if len(of_table):
            counted = stacked([table for table in tables if table is not None], at)
            evaluate = over(lambda counted=counted: [counted], facts, of_table)
            ended = newton(evaluate, theta[at, of_table], penalty[of_table])
            theta[at, of_table] = ended.theta
            stuck[of_table] |= ~ended.converged
        if len(rest):
            start = _from_sample(rows, facts, rest, k, penalty[rest])
            blocks = device_blocks(rows, facts, rest, k)
            ended = newton(over(blocks, facts, rest), start, penalty[rest])
            theta[at, rest] = ended.theta
            stuck[rest] |= ~ended.converged
            passes = max(passes, ended.passes)
    _warn_stuck(stuck, facts, "found no point where the gradient is zero to rounding. Rescale them")
    scale = np.where(facts.constant, 0.0, 1.0 if standardize else 1 / facts.spread)
    return LogisticFit(theta[..., 1] * scale, theta, passes, tables)


def over(
    parts: Callable[[], Iterable[Any]], facts: FirstPass, features: np.ndarray, sums_of: Any = _sums
) -> Callable[[np.ndarray], np.ndarray]:
    """theta [..., G, 2] -> sums [..., G, 5] over all parts; `parts` starts a pass.

    sums_of(theta, x, mean, scale, total, positive): the sums of one part.
    """
    mean, scale = facts.mean[features], 1 / facts.spread[features]

    def evaluate(theta: np.ndarray) -> np.ndarray:
        sums = np.zeros((*theta.shape[:-1], 5))
        for x, total, positive in parts():
            with jax.enable_x64(True):
                sums += np.asarray(sums_of(theta, x, mean, scale, total, positive))
        return sums

    return evaluate


def _from_sample(
    rows: Rows, facts: FirstPass, features: np.ndarray, k: int, penalty: np.ndarray
) -> np.ndarray:
    """Starting point of the passes over all rows: the fit of some rows, whose passes cost little.

    It is zero if the sample is not much smaller than the whole, or lacks a class.
    """
    start = np.zeros((len(features), 2))
    if facts.moments.rows < 4 * SAMPLE:
        return start
    if isinstance(rows, InMemoryRows):
        block = rows.part(slice(None, None, facts.moments.rows // SAMPLE))
    else:
        block = next(iter(rows.blocks())).part(slice(SAMPLE))
    placed = _padded(block, facts, features, k)
    if placed[2].sum() in (0.0, placed[1].sum()):
        return start
    share = placed[1].sum() / facts.moments.weight
    ended = newton(over(lambda: [placed], facts, features), start, penalty * share)
    return np.where(ended.converged[:, None], ended.theta, start)


def _padded(
    block: InMemoryRows, facts: FirstPass, features: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x [G, R], total [R] and positive [R] with R rounded up to a whole number of tiles."""
    size = len(block.y)
    R = -(-size // TILE) * TILE if size > TILE else 1 << (size - 1).bit_length()
    x, total, positive = np.zeros((len(features), R)), np.zeros(R), np.zeros(R)
    x[:, :size] = block.x[features]
    x[:, size:] = facts.mean[features, None]
    total[:size] = 1.0 if block.weights is None else block.weights
    positive[:size] = total[:size] * (facts.target.encode(block.y) == k)
    return x, total, positive


def _by_sklearn(
    table: InMemoryRows, facts: FirstPass, standardize: bool, tables: list[ValueTable | None]
) -> LogisticFit:
    """One fit per column, on its distinct values if these are few, that stops where scikit-learn's
    does.

    The slopes are those of that point; `theta` is the minimum, from which bootstrap continues.
    """
    positives, penalty = facts.target.positives, penalties(facts, standardize)
    theta = np.zeros((len(positives), facts.F, 2))
    slopes = np.zeros((len(positives), facts.F))
    stuck, far = facts.constant & False, []
    codes = facts.target.encode(table.y)

    def fitted(j: int) -> list[tuple[float, np.ndarray, bool, bool]]:
        """Returns for each class the slope, the minimum, whether that is far, and whether the fit
        converged.
        """
        out = []
        for at, k in enumerate(positives):
            x, y, weights = _cases(table, tables[j], j, at, codes == k)
            z = (x - facts.mean[j]) / facts.spread[j]
            a, b, converged = stopping_point(z if standardize else x, y, weights)
            start = (a, b) if standardize else (a + b * facts.mean[j], b * facts.spread[j])
            reached = minimum(z, y, weights, start, penalty[j])
            positive = (y if weights is None else y * weights).sum()
            weight = facts.moments.weight
            distant = is_far(start[1], reached[1], positive, weight, penalty[j])
            out.append((b, reached, distant, converged))
        return out

    columns = [int(j) for j in np.flatnonzero(facts.fitted)]
    memory = usable(available_host_memory())
    threads = max(1, min(cores(), memory // (HELD * 8 * len(table.y))))
    with one_thread_of_blas():  # the columns are fitted in parallel
        for j, of_classes in zip(columns, in_order(fitted, columns, threads), strict=True):
            for at, (b, reached, distant, converged) in enumerate(of_classes):
                slopes[at, j], theta[at, j] = b, reached
                if distant:
                    unit = 1.0 if standardize else facts.spread[j]
                    both = f"({b:.3g}, {reached[1] / unit:.3g})"
                    equal = map(int, np.flatnonzero(facts.first == j))
                    far += [f"{_named(facts, i, positives[at])} {both}" for i in equal]
                else:
                    stuck[j] |= not converged
    warn_far(far)
    _warn_stuck(
        stuck, facts, "stopped at scikit-learn's limit of 100 iterations. Say solver='newton'"
    )
    return LogisticFit(slopes, theta, 0, tables)


def _cases(
    table: InMemoryRows, values: ValueTable | None, j: int, at: int, of_class: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """x, y (0 or 1) and weights of one fit: the rows, or each value with and without the class."""
    if values is None:
        return table.column(j), of_class.astype(np.intp), table.weights
    weights = np.concatenate([values.total - values.positive[at], values.positive[at]])
    y = np.repeat([0, 1], len(values.values))
    used = weights > 0
    return np.tile(values.values, 2)[used], y[used], weights[used]


def _named(facts: FirstPass, j: int, k: int) -> str:
    """Column j, with the class k if each of several classes has a fit."""
    classes = facts.target.classes
    if classes is None or len(classes) == 2:
        return repr(facts.names[j])
    return f"{facts.names[j]!r} for class {classes[k]}"


def _warn_stuck(stuck: np.ndarray, facts: FirstPass, what: str) -> None:
    if stuck.any():
        names = ", ".join(repr(facts.names[j]) for j in np.flatnonzero(stuck[facts.first]))
        checks.warn(f"The logistic fit of y on {names} {what} for converged slopes.")


# The same loss is given to the same optimiser, SciPy's L-BFGS-B, from the same start and with the
# options that scikit-learn (1.5 and later) gives it, so it stops where `fit` does. The rest of
# `fit` is left out: it checks the rows and looks for the classes once for each column, which takes
# longer than the few steps of a fit (1 to 6 of the bench's 16 columns, 7 to 17 of the diabetes
# table's). Letters: R rows, or distinct values with their weights.

LARGEST = 700.0  # its exponential is a float64
LBFGS_TILE = 1 << 13  # rows whose numbers stay in the cache
OPTIONS = {"maxiter": 100, "maxls": 50, "gtol": 1e-4, "ftol": 64 * np.finfo(np.float64).eps}


def stopping_point(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray | None
) -> tuple[float, float, bool]:
    """Intercept and slope where the solver stops, and whether it converged.

    x: float64 [R]; y: 0 or 1 [R]; weights: [R], None: all 1.

    The loss is (sum w log(1 + exp(eta)) - w y eta) / sum w + b^2 / (2 sum w) with eta = a + b x:
    the mean of the logistic loss, and the L2 penalty of C = 1.
    """
    total = float(len(x)) if weights is None else float(weights.sum())
    sign = 1.0 - 2.0 * y  # the loss of a row is log(1 + exp(m)) with m = sign (a + b x)
    columns = [sign, sign * x] if weights is None else [sign, sign * x, weights]
    parts = [
        [c[first : first + LBFGS_TILE] for c in columns] for first in range(0, len(x), LBFGS_TILE)
    ]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        b, a = theta
        sums = np.array([b * b / 2, b, 0.0])  # loss, and its derivatives by b, a
        for s, sx, *weighted in parts:
            m = a * s + b * sx
            low = np.minimum(m, LARGEST)
            e = np.exp(low)
            above = 1.0 + e
            # A small e added to 1 loses at most 2^-53 of a mean loss in which the optimiser looks
            # for 64 times 2^-52. Above `LARGEST`, log(1 + exp(m)) is m and the slope is 1.
            value, slope = np.log(above) + (m - low), e / above
            for w in weighted:
                value, slope = w * value, w * slope
            sums += value.sum(), slope @ sx, slope @ s
        return sums[0] / total, sums[1:] / total

    with np.errstate(under="ignore"):  # exp(m) of too long a step
        result = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", options=OPTIONS)
    b, a = result.x
    return float(a), float(b), bool(result.success)


# `LogisticRegression()` stops once no entry of the gradient of the mean loss is above 1e-4. For one
# column of mean m and standard deviation s the Hessian of the mean loss is about v [[1, m], [m, m^2
# + s^2]], v = p (1 - p) with p the share of the class, so the standardised slope (slope times s)
# may still be off by 1e-4 (1 + |m|) / (v s): little for most columns, everything if the mean is
# large or the unit is tiny. The line search gives up even earlier if the two entries differ too
# much in size. Letters: R rows, or distinct values with their weights.

# Share of the slope at the minimum. In raw units of ordinary tables the solver ends within 3 %.
SHARE = 0.05
# Share of the standard error of a slope of 0: a slope this close to 0 has no digit or sign to lose.
ERRORS = 0.5
# A Newton step of this size leaves an error of about its square, far below both of these.
CLOSE = 1e-2
NAMED = 10  # columns in a warning


def minimum(z: np.ndarray, y: np.ndarray, weights: Any, start: Any, penalty: float) -> np.ndarray:
    """Intercept and slope [2] at the minimum, to about `CLOSE` squared.

    z: the standardised column [R]; y: 0 or 1 [R]; weights: [R], None: all 1; start: intercept and
    slope where the solver stopped; penalty: the weight of half the squared slope.

    The first Newton step is the check: it takes one pass over the rows if it is small, as it mostly
    is. NumPy is used because a compiled kernel costs more if few rows are fitted, and shapes
    differ.
    """
    total = np.ones(len(z)) if weights is None else weights

    def sums(theta: np.ndarray) -> np.ndarray:
        """Gradient and Hessian, [1, 5], as in `xaijax_kernels.collinearity.newton.fit_sums`."""
        eta = theta[0, 0] + theta[0, 1] * z
        e = np.exp(-np.abs(eta))
        missed = total * (np.where(eta >= 0, 1.0, e) / (1 + e) - y)
        curve = total * e / (1 + e) ** 2
        bent = curve * z
        return np.array([[missed.sum(), missed @ z, curve.sum(), bent.sum(), bent @ z]])

    return newton(sums, np.array([start]), np.array([penalty]), close=CLOSE).theta[0]


def is_far(stopped: float, reached: float, positive: float, weight: float, penalty: float) -> bool:
    """Whether a standardised slope is far from the one at the minimum, `reached`.

    It is far if the distance is above `SHARE` of the slope and above `ERRORS` standard errors of a
    slope of 0. At slope 0 the loss has the curvature J = weight p (1 - p), and J is also the
    variance of its gradient; the penalty adds to the curvature only, so the error is sqrt(J) / (J +
    penalty). The standard error of the slope itself is no measure: it shrinks with the rows, and is
    unbounded if the classes are separated.

    positive, weight: the weight of the class, and of all rows.
    """
    J = positive * (1 - positive / weight)
    noise = np.sqrt(J) / (J + penalty)
    return bool(abs(reached - stopped) > max(SHARE * abs(reached), ERRORS * noise))


def warn_far(far: list[str]) -> None:
    """Gives one warning that names the columns and both slopes, if there are some."""
    if not far:
        return
    more = f" and {len(far) - NAMED:,} more" if len(far) > NAMED else ""
    checks.warn(
        "solver='sklearn': the logistic fit of y stopped far from its minimum on (slope where it "
        f"stopped, slope at the minimum): {', '.join(far[:NAMED])}{more}. The size and the sign of "
        "these effects are those of an unfinished fit; bootstrap errors are of the minimum. Say "
        "solver='newton' for the minimum, or standardize=True for a list that does not depend on "
        "units."
    )


MOST = 4096  # distinct values in a table
LOOKED_AT = 4096  # rows that decide whether a column of non-integers is worth sorting


@dataclass(frozen=True)
class ValueTable:
    """One column: its values, and the rows' weights at each of them."""

    values: np.ndarray  # float64 [D], ascending
    codes: np.ndarray  # intp [M], the place of each row's value
    total: np.ndarray  # float64 [D]
    positive: np.ndarray  # float64 [K', D], of the rows of the class


def value_table(
    table: InMemoryRows, j: int, codes: np.ndarray, positives: tuple[int, ...]
) -> ValueTable | None:
    """Column j as a table, or None if it has too many distinct values for a gain.

    Sums of weights are exact if the weights are whole numbers, so the fit equals that on the rows.
    codes: intp [M], places of the classes.
    """
    both = _places(table.column(j))
    if both is None:
        return None
    values, places = both

    def counted(rows: Any) -> np.ndarray:
        weights = None if table.weights is None else table.weights[rows]
        return np.bincount(places[rows], weights, len(values)).astype(np.float64)

    positive = np.stack([counted(codes == k) for k in positives])
    return ValueTable(values, places, counted(slice(None)), positive)


def _places(column: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Distinct values [D], and the place of each row's among them [M]."""
    low, high = column.min(), column.max()
    limit = min(MOST, max(2, len(column) // 4))
    if high - low < limit and low == np.rint(low):
        places = (column - low).astype(np.intp)
        if (places == column - low).all():
            seen = np.bincount(places) > 0
            order = np.cumsum(seen) - 1
            return low + np.flatnonzero(seen), order[places]
    if len(column) > LOOKED_AT:
        few = column[:: -(-len(column) // LOOKED_AT)]
        if len(np.unique(few)) > len(few) // 4:
            return None
    values, places = np.unique(column, return_inverse=True)
    return (values, places) if len(values) <= limit else None


def stacked(tables: list[ValueTable], at: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, totals and positives [G, D] of the class `at`, padded with weight 0.

    D is rounded up to a power of two, so that few shapes are compiled.
    """
    D = 1 << (max(len(table.values) for table in tables) - 1).bit_length()
    values, total, positive = (np.zeros((len(tables), D)) for _ in range(3))
    for g, table in enumerate(tables):
        d = len(table.values)
        values[g, :d], values[g, d:] = table.values, table.values[0]
        total[g, :d], positive[g, :d] = table.total, table.positive[at]
    return values, total, positive
