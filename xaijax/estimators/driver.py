"""Computes exact values, and drives the sampled estimators.

The exact estimator evaluates every coalition of every instance once. The driver evaluates
coalitions that all instances share: an `Estimator` chooses them and computes the values. With a
rule each instance stops when the requested claim is certain. A new estimator needs its own file,
and its name in `METHODS` and `EstimatorName`.

Letters: N instances, P players, C coalitions, K outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from xaijax.core.errors import InputError, MemoryPlanError
from xaijax.estimators.estimator import Estimator, Result
from xaijax.estimators.gaussian_process import GaussianProcess
from xaijax.estimators.kernel import Kernel
from xaijax.estimators.pairs import PairSampler, UnbiasedPairSampler
from xaijax.estimators.permutation import Permutation
from xaijax.estimators.race import GamePairs, RaceLimits, RaceResult, race
from xaijax.estimators.stopping import Checkpoint, Rule
from xaijax.games import queries
from xaijax.games.run import GameRun
from xaijax.games.strategies.totals import OfSets, Weights
from xaijax.players.index import Index
from xaijax.players.interaction_index import InteractionIndex
from xaijax_kernels.games.semivalues import count, of_tables, semivalue

LARGEST_MATRIX = 1 << 25  # entries of the matrix from a pair's sub-coalitions to interactions
PIECE = 14  # log2 of the sub-coalitions that are summed at once, approximately


class Estimate(NamedTuple):
    """The values of all instances, float64."""

    values: np.ndarray  # [N, P, K]
    base: np.ndarray  # [N, K], the value with everything replaced
    full: np.ndarray  # [N, K], the value with nothing replaced
    std_errors: np.ndarray | None  # like values; None: exact
    span: np.ndarray  # [N], largest change of the output within a sum
    summed: np.ndarray  # [N], sub-coalitions in the largest sum that a loop took in its own dtype
    fitted: bool = False  # whether each base is fitted, like an intercept, not a mean of outputs


@dataclass
class InstanceValues:
    """The values of n instances, enumerated or sampled, float64."""

    values: np.ndarray  # [n, M, K], of players or of sets of them
    base: np.ndarray  # [n, K]
    full: np.ndarray  # [n, K]
    std_errors: Any  # [n, M, K], 0 where exact; None: all are exact
    dof: np.ndarray  # [n], degrees of freedom of the standard errors; infinite where exact
    coalitions: np.ndarray  # int64 [n], sampled; empty and full not counted; 0 where exact
    span: np.ndarray  # [n], largest change of the output within a sum
    summed: np.ndarray  # [n], coalitions in one sum; 0: all sums are in float64
    pairs: np.ndarray  # int64 [n], units drawn; 0 where exact
    met: np.ndarray  # bool [n], the rule's last result; False without a rule, True where exact
    checks: np.ndarray  # int64 [n], checks of the rule within the full budget; 0 where exact
    whole: np.ndarray  # int64 [n], units that sampled every player; 0 where exact
    heavy: np.ndarray  # bool [n], see `heavy_tail`; False where exact

    @classmethod
    def exact(cls, estimate: Estimate) -> InstanceValues:
        """Returns values for which all coalitions were evaluated."""
        out = cls.empty(len(estimate.values), 0, 0, 0)
        for name in ("values", "base", "full", "std_errors", "span", "summed"):
            setattr(out, name, getattr(estimate, name))
        out.dof[:], out.met[:] = np.inf, True
        return out

    @classmethod
    def empty(cls, n: int, M: int, K: int, stops: int) -> InstanceValues:
        """Returns the arrays before anything is evaluated; stops: checkpoints."""
        zeros, whole = np.zeros, np.int64
        return cls(
            values=zeros((n, M, K)),
            base=zeros((n, K)),
            full=zeros((n, K)),
            std_errors=zeros((n, M, K)),
            dof=zeros(n),
            coalitions=zeros(n, whole),
            span=zeros(n),
            summed=zeros(n),
            pairs=zeros(n, whole),
            met=zeros(n, bool),
            checks=np.full(n, stops),
            whole=zeros(n, whole),
            heavy=zeros(n, bool),
        )

    @classmethod
    def joined(cls, parts: Sequence[InstanceValues]) -> InstanceValues:
        """Concatenates parts of sampled instances."""
        names = cls.__dataclass_fields__
        return cls(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in names})

    @classmethod
    def mixed(
        cls, exact: np.ndarray, enumerated: InstanceValues, sampled: InstanceValues
    ) -> InstanceValues:
        """Merges enumerated and sampled instances; exact: bool [n], the enumerated ones."""

        def both(name: str) -> np.ndarray:
            first, second = getattr(enumerated, name), getattr(sampled, name)
            if first is None:
                first = np.zeros_like(enumerated.values)
            out = np.empty((len(exact), *second.shape[1:]), second.dtype)
            out[exact], out[~exact] = first, second
            return out

        return cls(**{name: both(name) for name in cls.__dataclass_fields__})

    def part(self, start: int, end: int) -> InstanceValues:
        """Returns views of some of the sampled instances: writes to them change this object."""
        names = self.__dataclass_fields__
        return InstanceValues(**{name: getattr(self, name)[start:end] for name in names})

    def take(self, left: np.ndarray, ended: RaceResult) -> None:
        """Writes the results of the race of some of the instances `left`."""
        at = left[ended.rows]
        self.values[at], self.std_errors[at] = ended.values, ended.std_errors
        self.coalitions[at], self.pairs[at] = ended.coalitions, ended.pairs
        self.met[at], self.span[at] = ended.met, np.maximum(self.span[at], ended.span)


def _summed(
    game: GameRun, weights: Weights, by_size: Callable[[], Sequence[np.ndarray]], rows: np.ndarray
) -> Estimate:
    """Sums over the sub-coalitions of each pair.

    by_size: returns weights [P - s + 1] of sets of s = 1, 2, ..., which take P^2 steps.

    If the model is declared random, every sub-coalition is an independent output with the standard
    deviation measured by the probe. With weights w over donors, Var phi_i = sigma^2 sum w^2 times
    the sum of the squared weights of all sub-coalitions in a value.
    """
    totals = queries.semivalues(game, weights, rows)
    noise, errors = game.engine.findings.noise, None
    if noise is not None:
        donors = float((game.engine.replacement.weights**2).sum())
        of_value = np.sqrt(_squares(by_size(), game.P) * donors)[:, None] * noise
        errors = np.broadcast_to(of_value, (len(rows), *of_value.shape)).copy()
    return Estimate(totals.phi, totals.empty, totals.full, errors, totals.span, totals.summed)


def _squares(by_size: Sequence[np.ndarray], P: int) -> np.ndarray:
    """The sum of squares of the weights of all sub-coalitions in each set of P players; [M]."""
    parts = []
    for s, p in enumerate(by_size, start=1):
        total = math.fsum(math.comb(P - s, t) * w**2 for t, w in enumerate(p.tolist()))
        parts.append(np.full(math.comb(P, s), 2**s * total))
    return np.concatenate(parts)


@dataclass(frozen=True)
class Exact:
    """The semivalue with weights p [P] of a single set by size, for instances that an explainer
    enumerates.
    """

    p: np.ndarray
    index: Index
    name = "exact"
    solvable = True  # by a closed form, if the model has one
    efficient = True  # base value plus Shapley values is f(x) up to rounding

    @cached_property
    def weights(self) -> Weights:
        """The matrices of `p`, shared by all calls."""
        return Weights.semivalue(self.p)

    def cost(self, game: GameRun, rows: np.ndarray) -> None:
        """Adds what `estimate` asks for the instances `rows` [n] to the game's cost."""
        if game.quantity.linear:
            queries.semivalues_cost(game, self.weights, rows)
        else:
            queries.tables_cost(game, rows)

    def estimate(self, game: GameRun, rows: np.ndarray) -> Estimate:
        """The values of the instances `rows` [n]."""
        if game.quantity.linear:
            return _summed(game, self.weights, lambda: [self.p], rows)
        return by_tables(game, rows, lambda table: (semivalue(table, self.p), table[:, 0]))


def exact_sets(game: GameRun, of: OfSets, rows: np.ndarray) -> Estimate:
    """Interactions of the instances `rows`; values [n, M, K] of sets of 1 to `of.order` players.

    They use a closed form if there is one, else pairs (`by_pairs`), else full tables. `exact_cost`
    has counted the game's pairs unless there is a closed form.
    """
    if not by_pairs(game, of)[rows].all():
        if game.engine.findings.noise is not None:
            raise InputError(
                f"order={of.order}: sets of this size go by full tables, which do not show "
                "the noise of a random model (deterministic=False). Lower order=."
            )
        p = of(game.P)
        return by_tables(game, rows, lambda table: (of_tables(table, p), table[:, 0]))
    return _summed(game, Weights(of), lambda: of(game.P), rows)


def by_pairs(game: GameRun, of: OfSets) -> np.ndarray:
    """Whether an instance's interactions may be summed pair by pair, bool [N]: the quantity is
    linear, and the matrices of its widest pair are no larger than LARGEST_MATRIX.
    """
    widest, place = np.unique(game.largest, return_inverse=True)
    fits = np.zeros(len(widest), bool)
    for number, k in enumerate(widest.tolist()):
        low = min(k, PIECE)
        entries = (count(low, of.order) << low) * (k - low + 1)
        fits[number] = game.quantity.linear and entries <= LARGEST_MATRIX
    return fits[place]


def by_tables(game: GameRun, rows: np.ndarray, read: Callable[[np.ndarray], Any]) -> Estimate:
    """The results of `read` for full tables [n, 2^P, K]: values [n, P, K] and base values [n,
    K]."""
    parts = []
    for table in queries.tables(game, rows):
        span = np.abs(table - table[:, :1]).max(axis=(1, 2))
        parts.append((*read(table), table[:, -1], span))
    values, base, full, span = map(np.concatenate, zip(*parts, strict=True))
    return Estimate(values, base, full, None, span, np.full(len(rows), 2.0**game.P))


AnyIndex: TypeAlias = Index | InteractionIndex
# The values of `estimator=`: "auto", "exact" and the names of METHODS.
EstimatorName: TypeAlias = Literal["auto", "exact", "permutation", "kernel", "gaussian-process"]
METHODS: dict[str, Estimator] = {
    "permutation": Permutation(),
    "kernel": Kernel(),
    "gaussian-process": GaussianProcess(),
}
# Samplers of players, and of pairs of them.
SAMPLERS: dict[str, Estimator] = {
    **METHODS,
    "pairs": PairSampler(),
    "unbiased-pairs": UnbiasedPairSampler(),
}
# Roundings of an output by which two equal values may differ: a model adds hundreds of products, in
# another order at another position of a batch, and n errors of one unit add up to sqrt(n).
ROUNDINGS = 16
SILENT = 5e11  # operations of a core between two updates of the progress bar: about 20 seconds


def refuse_undrawable(
    game: GameRun, method: str, index: AnyIndex, budget: int, K: int = 1, given: bool = True
) -> None:
    """Raises MemoryPlanError for a budget whose coalitions cannot be held.

    K: outputs, at least one; given: False for the default budget.
    """
    memory, P = game.engine.memory.whole, game.P
    held = SAMPLERS[method].cost(P, index, budget, K).held
    if held > memory:
        fits = METHODS["permutation"].cost(P, index, budget, K).held <= memory
        other = ", say estimator='permutation'" if fits and method in METHODS else ""
        who = f"estimator={method!r}" if method in METHODS else "sampling of pairs"
        raise MemoryPlanError(
            f"budget={budget:,}{'' if given else ' (the default)'}: {who} with {P:,} players and "
            f"{K:,} outputs holds about {held:,.0f} bytes, more than max_memory={memory:,}. Say a "
            f"smaller budget={other}, group columns with players=, or raise max_memory=."
        )


def sampled(
    game: GameRun,
    rows: np.ndarray,
    method: str,
    index: AnyIndex,
    budget: int,
    seed: int,
    rule: Rule | None = None,
) -> InstanceValues:
    """Samples the instances `rows` [n] of the game.

    rule: an instance stops at the first checkpoint that meets it. The checkpoints double the number
    of pairs, with or without one in between, and do not depend on the data.
    """
    K = game.probe().outputs
    refuse_undrawable(game, method, index, budget, K)
    drawn = _Drawn(game, method, index, budget, seed, rule.checks if rule else 0)
    together = _together(game, method, index, budget)
    # One array for all: parts joined at the end would need twice the memory.
    out = InstanceValues.empty(len(rows), drawn.method.count(game.P), K, len(drawn.stops))
    for i in range(0, len(rows), together):
        chunk = rows[i : i + together]
        _fill(out.part(i, i + len(chunk)), game, chunk, drawn, rule)
    out.summed = out.coalitions + 2.0
    return out


def _together(game: GameRun, method: str, index: AnyIndex, budget: int) -> int:
    """Number of instances that are evaluated, and then processed, together."""
    K = game.probe().outputs
    fit = game.engine.memory.fits("results", 24 * K * (budget + 2))
    work = K * SAMPLERS[method].cost(game.P, index, budget, K).each
    return max(1, min(fit, int(SILENT / max(work, 1.0))))  # one player needs no work


def sampled_cost(
    game: GameRun, rows: np.ndarray, method: str, index: Index, budget: int, seed: int
) -> None:
    """Adds what `sampled` asks for the instances `rows` [n], if none stops early, to the game's
    cost.
    """
    K = game.probe().outputs
    refuse_undrawable(game, method, index, budget, K)
    drawn = _Drawn(game, method, index, budget, seed)
    together = _together(game, method, index, budget)
    state, new, _ = next(iter(drawn))
    game.cost.reserve(results=24 * K * (budget + 2) * min(together, len(rows)))
    for i in range(0, len(rows), together):
        if drawn.scans:
            queries.scan_cost(game, len(state.drawn), rows[i : i + together])
        else:
            queries.values_cost(game, len(new) + 2, rows[i : i + together])


class _Drawn:
    """The coalitions of each checkpoint, drawn once for all instances."""

    def __init__(
        self, game: GameRun, method: str, index: AnyIndex, budget: int, seed: int, checks: int = 0
    ) -> None:
        """checks: number of checks per doubling of the units; 0: only at the end."""
        self.method, self.most, self.seed = SAMPLERS[method], budget, seed
        units = self.method.units(game.P, index, budget)
        least = self.method.first_stop(game.P)
        steps = [least << i for i in range(48)]
        if checks == 2:  # half way, at most the first checkpoint of the next doubling
            steps = sorted([*steps, *(3 * step // 2 for step in steps)])
        self.steps = steps if checks else []
        self.stops = [s for s in self.steps if s < units] + [units]
        self.orders = self.method.scans_orders(index)
        self.scans = self.orders and game.may_scan()
        self._state = self.method.init(game.P, index, budget, seed)
        self._kept: list[tuple[Any, np.ndarray]] = []

    def __iter__(self) -> Iterator[tuple[Any, np.ndarray, bool]]:
        """Yields (state, its new units, whether it is the last) for each checkpoint.

        `method.masks` makes coalitions from the new units, a part at a time; scanned orders need
        none.
        """
        for i, stop in enumerate(self.stops):
            if i == len(self._kept):
                self._state, new = self.method.step(self._state, stop)
                self._kept.append((self._state, new))
            yield *self._kept[i], i == len(self.stops) - 1


def _fill(
    out: InstanceValues, game: GameRun, rows: np.ndarray, drawn: _Drawn, rule: Rule | None
) -> None:
    """Writes the results of a group of instances that fits the memory with its coalitions'
    values."""
    n, K = len(rows), game.probe().outputs
    left = np.arange(n)  # instances that continue
    moves = queries.moving(game, rows)
    answers = np.zeros((n, 0, K))
    pairs = 0  # orders scanned so far
    for number, (state, new, last) in enumerate(drawn, start=1):
        first = answers.shape[1] == 0
        if drawn.scans:
            walked = queries.scan(game, state.drawn[pairs:], rows[left])
            latest, pairs = _of_cuts(walked, new, pairs), len(state.drawn)
            if first:
                empty_and_full = walked[:, 0, 1, -1:], walked[:, 0, 0, -1:]
                latest = np.concatenate([*empty_and_full, latest], axis=1)
        else:
            listed = _Listed(drawn.method, state, new, game.P, first)
            latest = queries.values(game, listed, rows[left])
        answers = latest if first else np.concatenate([answers, latest], axis=1)
        walked = latest = None
        same = ~moves[left].any(axis=1)
        # the same row, which a model may have rounded in two ways
        answers[same, 1] = answers[same, 0]
        base = out.base[left] = answers[:, 0]
        out.full[left] = answers[:, 1]
        result: Result = drawn.method.result(state, answers, moves[left])
        out.values[left], out.std_errors[left] = result.values, result.std_errors
        # One number per instance: that of the output with the least certain errors.
        out.dof[left], out.coalitions[left] = result.dof.min(axis=1), answers.shape[1] - 2
        drawn_answers = answers[:, 2:]
        low = drawn_answers.min(axis=1, initial=np.inf)
        high = drawn_answers.max(axis=1, initial=-np.inf)
        out.span[left] = np.maximum(0.0, np.maximum(high - base, base - low).max(axis=1))
        out.pairs[left] = out.whole[left] = state.pairs
        resolution = resolution_of(game, base, out.span[left])
        if result.heavy is not None:  # errors other than rounding, as in means of many draws
            errors = np.nan_to_num(result.std_errors).max(axis=(1, 2), initial=0.0)
            out.heavy[left] = result.heavy & (errors > resolution / (8 * ROUNDINGS))
        if rule is None:
            continue
        estimates = partial(_estimates, drawn.method, state, answers)
        at = number, len(drawn.stops), state.pairs
        both = answers[:, :2]
        low, high = np.minimum(low, both.min(axis=1)), np.maximum(high, both.max(axis=1))
        ranges = low.min(axis=1), high.max(axis=1), resolution
        check = Checkpoint(*at, result, *ranges, estimates if drawn.method.independent else None)
        undecided = rule.undecided(check)
        goes_on = undecided.any(axis=1)
        out.met[left] = ~goes_on
        if drawn.orders and not last:
            stops = [s for s in drawn.steps if s > state.pairs]
            limits = RaceLimits(stops, drawn.most, answers.shape[1] - 2)
            draw = GamePairs(game, rows[left], base, drawn.seed)
            for ended in race(rule, check, undecided, draw, limits):
                out.take(left, ended)
                goes_on[ended.rows] = False
        if last or not goes_on.any():
            break
        left, answers = left[goes_on], answers[goes_on]


def _estimates(
    method: Estimator, state: Any, answers: np.ndarray, rows: Any, pairs: slice
) -> np.ndarray:
    """The values that each of some pairs alone gives to some instances, [n, d, P, K]."""
    return method.estimates(state, answers[rows] - answers[rows, :1], pairs)


def resolution_of(game: GameRun, base: np.ndarray, span: np.ndarray) -> np.ndarray:
    """The largest differences of values due to rounding of outputs, float64 [n].

    They are `ROUNDINGS` units of the last digit of the largest |v(S)|; base [n, K], span [n].
    """
    double = game.evaluator.engine.findings.answer_dtype == "float64"
    eps = np.finfo(np.float64 if double else np.float32).eps
    return ROUNDINGS * float(eps) * (np.abs(base).max(axis=1) + span)


class _Listed:
    """Coalitions as bool [C, P], made when a part is requested; the empty and the full one come
    first."""

    def __init__(self, method: Estimator, state: Any, new: np.ndarray, P: int, ends: bool) -> None:
        """new: the argument of `method.masks`; ends: whether the empty and the full coalition are
        listed."""
        self._method, self._state, self._new = method, state, new
        self._ends = np.repeat([[False], [True]], P, axis=1)[: 2 * ends]

    def __len__(self) -> int:
        return len(self._ends) + len(self._new)

    def __getitem__(self, part: slice) -> np.ndarray:
        first, last, _ = part.indices(len(self))
        shift = len(self._ends)
        new = self._new[max(0, first - shift) : max(0, last - shift)]
        masks = self._method.masks(self._state, new)
        return np.concatenate([self._ends[first:last], masks])


def _of_cuts(walked: np.ndarray, cuts: np.ndarray, first: int) -> np.ndarray:
    """The values of new coalitions, read from scans; [n, D, 2, P, K] -> [n, C, K].

    cuts int32 [C, 3] as `permutation.step` gives them: (pair, half, size of the prefix of the order
    or of its reverse); first: the pair of walked[:, 0]. The prefix of size s of the reverse is
    the complement of the prefix of size P - s.
    """
    pair, half, size = cuts.T
    size = np.where(half == 1, walked.shape[3] - size, size)
    n, D, halves, P, K = walked.shape
    at = np.ravel_multi_index((pair - first, half, size - 1), (D, halves, P))
    return walked.reshape(n, D * halves * P, K).take(at, axis=1)
