"""AEC on resampled rows: the effects of every bootstrap replicate.

No row is copied: the moments of all replicates are one product of weights [S, R] with the products
of columns [Q, R], one piece of rows at a time, and the logistic fits start from the full fit.

Letters: S replicates, M rows, R rows in a piece, F features, D = F columns (F + 1 with the
target), Q = (D + 1)(D + 2) / 2 products of columns, K' classes fitted against the rest, G of them
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import jax
import numpy as np

from xaijax.core.checks import MINUTE_OF_A_CORE, warn_slow
from xaijax.core.errors import MemoryPlanError
from xaijax.core.process import available_host_memory
from xaijax.games.engine.plan import usable
from xaijax.methods.aec.first_pass import FirstPass, of_first
from xaijax.methods.aec.learner import Learner
from xaijax.methods.aec.learner import fit as fit_learner
from xaijax.methods.aec.logistic import LogisticFit, ValueTable, over, penalties, stacked
from xaijax.methods.aec.rows import InMemoryRows, Rows, block_rows
from xaijax_kernels.collinearity.effects import effects, feature_slopes, ranks, sums_of_others
from xaijax_kernels.collinearity.newton import newton, replicate_sums

HELD = 1 << 24  # float64 numbers that a batch of replicates may hold: 128 MiB
# From this number of columns on, the products of pairs are too many to hold, and each replicate is
# a separate product: twice the multiplications, half of them for the same numbers.
WIDE = 64
SLICE = 2048  # rows whose products of columns are held at a time


@dataclass(frozen=True)
class BootstrapPlan:
    """The computations for each replicate, and their data."""

    draws: Draws
    facts: FirstPass
    standardize: bool
    decimals: int | None
    logistic: LogisticFit | None  # the full fit, where Newton starts; None: no logistic slopes
    learner: Learner | None


@dataclass(frozen=True)
class ReplicateMoments:
    """Moments of all replicates, in units of the full sample: u = (x - mean) / spread, y - mean."""

    products: np.ndarray  # [S, D, D], sums of products of deviations
    mean: np.ndarray  # [S, D]
    spread: np.ndarray  # [S, F], 1 for constant columns
    constant: np.ndarray  # bool [S, F], also columns that are constant in the replicate only
    absent: np.ndarray  # bool [S, K'], whether the class, or all others, have no row


def refuse_many(facts: FirstPass, count: int) -> None:
    """Raises MemoryPlanError if the effects of all replicates do not fit into memory."""
    # For effects, and for what is sorted to ranks.
    held = 48 * count * max(1, len(facts.target.positives)) * facts.F
    memory = usable(available_host_memory())
    if held > memory:
        raise MemoryPlanError(
            f"bootstrap={count:,} replicates of {facts.F:,} columns take about {held:,} bytes, "
            f"more than the {memory:,} that may be used. Some hundred give a standard error to a "
            "few percent; say fewer, or set XAIJAX_MEMORY_LIMIT."
        )


def warn_many(plan: BootstrapPlan, count: int) -> None:
    """Warns of replicates that take more than about a minute, before they are drawn.

    One replicate takes about 100 microseconds plus 20 nanoseconds per number, eight times that if
    it is fitted step by step; a core does 25e9 operations per second.
    """
    each = 2.5e6 + 500.0 * plan.draws.count * plan.facts.F
    fitted = plan.logistic is not None or plan.learner is not None
    if count * each * (8 if fitted else 1) > MINUTE_OF_A_CORE:
        warn_slow(
            f"bootstrap={count:,} replicates of {plan.draws.count:,} rows will run",
            "a smaller bootstrap=; some hundred give a standard error to a few percent",
        )


def replicate_effects(plan: BootstrapPlan, count: int) -> np.ndarray:
    """Effects of all replicates, [count, K', F] ([count, 1, F] for a regression).

    A replicate in which a class has no row has NaN.
    """
    D = plan.facts.F + 1
    size = max(1, min(count, HELD // ((D + 1) * (D + 2) // 2 + PIECE)))
    firsts = range(0, count, size)
    return np.concatenate([_batch(plan, np.arange(a, min(count, a + size))) for a in firsts])


def rank_shares(replicates: np.ndarray) -> np.ndarray:
    """[K', F, F]: the share of replicates [S, K', F] in which a column (axis 1) has a rank (2)."""
    shares, F = [], replicates.shape[2]
    for of_class in replicates.swapaxes(0, 1):
        places = ranks(of_class[np.isfinite(of_class).all(axis=1)])
        shares.append([np.bincount(column, minlength=F) / len(places) for column in places.T])
    return np.array(shares)


def _batch(plan: BootstrapPlan, replicates: np.ndarray) -> np.ndarray:
    facts, F = plan.facts, plan.facts.F
    moments = _moments(plan, replicates)
    units = facts.spread[:, None] * facts.spread
    slopes = feature_slopes(moments.products[:, :F, :F] * units, moments.constant, plan.standardize)
    target = _target_slopes(plan, replicates, moments)
    target = np.where(moments.constant[:, None], 0.0, target)
    if plan.decimals is not None:
        slopes, target = np.round(slopes, plan.decimals), np.round(target, plan.decimals)
    out = effects(target, sums_of_others(slopes)[:, None], plan.decimals)
    return np.where(moments.absent[:, :, None], np.nan, out)


def _target_slopes(
    plan: BootstrapPlan, replicates: np.ndarray, moments: ReplicateMoments
) -> np.ndarray:
    """b [S, K', F]; columns are standardised by each replicate's own mean and spread."""
    facts, F = plan.facts, plan.facts.F
    unit = moments.spread if plan.standardize else 1 / facts.spread
    if plan.learner is not None:
        table = plan.draws.rows
        assert isinstance(table, InMemoryRows)
        each = []
        for s, r in enumerate(replicates):
            mean = facts.mean + facts.spread * moments.mean[s, :F]
            scales = (mean, facts.spread * moments.spread[s]) if plan.standardize else None
            times = plan.draws.of_rows(int(r))
            each.append(fit_learner(plan.learner, table, facts, scales, times))
        return np.stack(each)
    if plan.logistic is None:
        squares = np.diagonal(moments.products, axis1=1, axis2=2)[:, :F]
        beta = moments.products[:, F, :F] / np.where(moments.constant, 1.0, squares)
        return (beta * unit)[:, None]
    beta = _logistic_slopes(plan, plan.logistic, replicates, moments)
    return beta * (unit[:, None] if plan.standardize else unit)


def _moments(plan: BootstrapPlan, replicates: np.ndarray) -> ReplicateMoments:
    facts, F, S = plan.facts, plan.facts.F, len(replicates)
    numbers = facts.target.classes is None
    D = F + numbers
    classes = np.array(facts.target.positives, int)[:, None]
    upper = np.triu_indices(D + 1)
    sums = np.zeros((S, len(upper[0])) if D < WIDE else (S, D + 1, D + 1))
    positives = np.zeros((S, len(classes)))
    for block, times in plan.draws.pieces(replicates):
        u = np.ones((D + 1, len(block.y)))
        u[1 : F + 1] = (block.x - facts.mean[:, None]) / facts.spread[:, None]
        y = facts.target.encode(block.y)
        if numbers:
            u[-1] = y - facts.moments.mean[-1]
        positives += times @ (y == classes).T.astype(np.float64)
        if D >= WIDE:
            for s in range(S):
                sums[s] += (u * times[s]) @ u.T
            continue
        for a in range(0, len(block.y), SLICE):
            sums += times[:, a : a + SLICE] @ _pairs(u[:, a : a + SLICE]).T
    full = sums
    if D < WIDE:
        full = np.empty((S, D + 1, D + 1))
        full[:, upper[0], upper[1]] = full[:, upper[1], upper[0]] = sums
    places = np.concatenate([[0], 1 + facts.first, [F + 1] * numbers]).astype(np.intp)
    full = of_first(full, places)
    weight = full[:, 0, 0]
    mean = full[:, 0, 1:] / weight[:, None]
    products = full[:, 1:, 1:] - mean[:, :, None] * full[:, 0, None, 1:]
    before = np.diagonal(full, axis1=1, axis2=2)[:, 1 : F + 1]
    squares = np.diagonal(products, axis1=1, axis2=2)[:, :F]
    # A column that is constant in a replicate has only the rounding of its own square left.
    constant = facts.constant | (squares <= 64 * np.finfo(float).eps * before)
    spread = np.sqrt(np.where(constant, weight[:, None], squares) / weight[:, None])
    # Sums of positive weights: a sum of none is exactly 0, a sum of all depends on the order of
    # additions.
    absent = (positives <= 0) | (weight[:, None] - positives <= 1e-9 * weight[:, None])
    if not len(classes):
        absent = np.zeros((S, 1), bool)
    return ReplicateMoments(products, mean, spread, constant, absent)


def _pairs(u: np.ndarray) -> np.ndarray:
    """Products of every row of u [D + 1, R] with itself and the later rows, [Q, R]."""
    out = np.empty((len(u) * (len(u) + 1) // 2, u.shape[1]))
    first = 0
    for i in range(len(u)):
        last = first + len(u) - i
        np.multiply(u[i], u[i:], out=out[first:last])
        first = last
    return out


FEW = 128  # distinct values up to which counting them is cheaper than Newton passes over the rows
# A Newton step of this size leaves an error of about its square, far below any standard error.
CLOSE = 1e-4

Part = tuple[np.ndarray, np.ndarray, np.ndarray]  # x [G, R], total [S, R] or [S, G, R], positive

_sums = jax.jit(replicate_sums)


def _logistic_slopes(
    plan: BootstrapPlan, full: LogisticFit, replicates: np.ndarray, moments: ReplicateMoments
) -> np.ndarray:
    """Slopes of (x - mean) / spread, with the full sample's mean and spread, [S, K', F].

    Replicates in which a class, or all others, have no row are not fitted.
    """
    draws, facts = plan.draws, plan.facts
    S, K = len(replicates), len(facts.target.positives)
    penalty = np.broadcast_to(penalties(facts, False), (S, facts.F))
    penalty = moments.spread**2 if plan.standardize else penalty
    small = np.array([table is not None and len(table.values) <= FEW for table in full.tables])
    tabled, rest = np.flatnonzero(small), np.flatnonzero(~small & facts.fitted)
    beta = np.zeros((S, K, facts.F))
    counted: list[Part] = []
    if len(tabled):
        tables = [full.tables[j] for j in tabled]
        counted = _counted(draws, facts, replicates, [t for t in tables if t is not None])
    for at in range(K):
        for features in (tabled, rest):
            if not len(features):
                continue

            def parts(features: np.ndarray = features, at: int = at) -> Iterable[Part]:
                if features is tabled:
                    return counted[at : at + 1]
                return _weighted(draws, facts, replicates, features, facts.target.positives[at])

            start = np.broadcast_to(full.theta[at, features], (S, len(features), 2))
            skip = np.broadcast_to(moments.absent[:, at, None], start.shape[:-1])
            evaluate = over(parts, facts, features, _sums)
            ended = newton(evaluate, start, penalty[:, features], close=CLOSE, skip=skip)
            beta[:, at, features] = ended.theta[..., 1]
    return beta[..., facts.first]


def _counted(
    draws: Draws, facts: FirstPass, replicates: np.ndarray, tables: list[ValueTable]
) -> list[Part]:
    """Returns the values [G, D] of each class, and the weights at each, [S, G, D]."""
    values = stacked(tables, 0)[0]
    (G, D), S = values.shape, len(replicates)
    classes = np.array(facts.target.positives)
    firsts = np.cumsum([0, *(len(each.values) for each in tables)])
    width = int(firsts[-1])
    sums = np.zeros((S, 1 + len(classes), width))
    seen = 0
    for block, times in draws.pieces(replicates):
        rows = np.arange(len(block.y))
        # The counts are small whole numbers, whose sums float32 holds exactly.
        dtype = np.float64 if block.weights is not None else np.float32
        at = np.zeros((len(rows), 1 + len(classes), width), dtype)
        for g, each in enumerate(tables):
            at[rows, 0, firsts[g] + each.codes[seen + rows]] = 1.0
        of_class = facts.target.encode(block.y)[:, None] == classes
        at[:, 1:] = at[:, :1] * of_class[:, :, None]
        sums += (times.astype(dtype) @ at.reshape(len(rows), -1)).reshape(sums.shape)
        seen += len(rows)
    padded = np.zeros((1 + len(classes), S, G, D))
    for g in range(G):
        size = firsts[g + 1] - firsts[g]
        padded[:, :, g, :size] = sums[:, :, firsts[g] : firsts[g + 1]].swapaxes(0, 1)
    return [(values, padded[0], each) for each in padded[1:]]


def _weighted(
    draws: Draws, facts: FirstPass, replicates: np.ndarray, features: np.ndarray, k: int
) -> Iterator[Part]:
    """Each piece of rows; R rounded up to a power of two, with weights 0."""
    for block, times in draws.pieces(replicates):
        R = len(block.y)
        more = (1 << (R - 1).bit_length()) - R
        x = np.pad(block.x[features], ((0, 0), (0, more)), mode="edge")
        total = np.pad(times, ((0, 0), (0, more)))
        yield x, total, total * np.pad(facts.target.encode(block.y) == k, (0, more))


# A replicate draws M of M rows with replacement (Efron 1979), so its weights are multinomial. They
# are made a piece of rows at a time: first how many of the draws fall into each piece, then which
# rows of the piece. Both depend on (seed, replicate, piece) only, so that chunks of any size, and
# batches of any number of replicates, give the same weights. Letters: S replicates, M rows, R rows
# in a piece.

PIECE = 8192  # rows drawn from together
LARGEST_SEED = 1 << 128  # the generator's key


@dataclass(frozen=True)
class Draws:
    """The weights of all replicates of one fit."""

    rows: Rows
    count: int  # M
    seed: int

    @property
    def sizes(self) -> list[int]:
        """Number of rows of each piece; all but the last are equal, and a block holds whole
        pieces.
        """
        piece = min(PIECE, block_rows(len(self.rows.names)))
        left = self.count % piece
        return [piece] * (self.count // piece) + [left] * (left > 0)

    def pieces(self, replicates: np.ndarray) -> Iterator[tuple[InMemoryRows, np.ndarray]]:
        """Yields each piece of rows with its weights in the replicates, float64 [S, R]; one
        pass.
        """
        sizes, at = self.sizes, 0
        draws = [(int(r), self._draws(int(r))) for r in replicates]
        for block in self.rows.blocks():
            for first in range(0, len(block.y), sizes[0]):
                part = block.part(slice(first, first + sizes[at]))
                times = np.stack([self._times(r, at, sizes[at], each[at]) for r, each in draws])
                yield part, times if part.weights is None else times * part.weights
                at += 1

    def of_rows(self, replicate: int) -> np.ndarray:
        """Number of times that each row is drawn in one replicate, float64 [M]."""
        pieces = enumerate(zip(self.sizes, self._draws(replicate), strict=True))
        return np.concatenate([self._times(replicate, at, *both) for at, both in pieces])

    def _draws(self, replicate: int) -> list[int]:
        """Number of the M draws that fall into each piece."""
        stream = np.random.Philox(key=self.seed, counter=[0, 0, replicate, 1])
        shares = np.array(self.sizes) / self.count
        return np.random.Generator(stream).multinomial(self.count, shares).tolist()

    def _times(self, replicate: int, piece: int, rows: int, draws: int) -> np.ndarray:
        """Number of times that each row of a piece is drawn, float64 [R]."""
        stream = np.random.Philox(key=self.seed, counter=[0, piece, replicate, 0])
        places = np.random.Generator(stream).integers(0, rows, draws, dtype=np.int32)
        return np.bincount(places, minlength=rows).astype(np.float64)
