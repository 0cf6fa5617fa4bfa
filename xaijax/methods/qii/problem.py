"""The question of a `QII` object: its arguments as read, and the games made of them.

Letters: N individuals (1 for quantities of the data), D data rows, P players, G groups, M rows
drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.games.engine.evaluator import LARGEST_PAIR, Evaluator
from xaijax.games.engine.host import hashes
from xaijax.games.engine.plan import limits_of
from xaijax.games.measure.players_of_rows import players_of_rows
from xaijax.games.measure.quantity import Quantity
from xaijax.games.measure.replacement.base import Replacement, agreement_codes, table_of
from xaijax.games.measure.replacement.baseline import Baseline, baseline_fn_of
from xaijax.games.measure.replacement.rows import intervention_of, weighted_rows, with_own
from xaijax.games.refuse import warn_repeated_cuts
from xaijax.games.run import GameRun
from xaijax.methods.qii import arguments
from xaijax.methods.qii.difference import as_outer, difference_of
from xaijax.methods.qii.exact import instead
from xaijax.methods.qii.outcome import measured_of, outcome_of, positive_of
from xaijax.methods.qii.quantities import WHOM, Interest, interest_of
from xaijax.models.model import Model
from xaijax.players.players import PerInstancePlayers, column_finder, column_labels
from xaijax.results.recount import Sample
from xaijax.results.subsample import Subsample
from xaijax.tables.frames import aligned
from xaijax.tables.rows import rows_of
from xaijax.tables.same_memory import is_same, shares_memory
from xaijax.tables.table import CodedTable, CodeTable, kept_rows, read_by

# Pools of a `Baseline`, in the words of the repr.
ONE_ROW = {"baseline": "one constant pool row", "function": "a baseline of each instance"}


class QiiRun(NamedTuple):
    """A run that began."""

    game: GameRun
    rows: Any  # the individuals as read; None for quantities of the data
    X: Any  # as given
    before: Any  # the clock at the start
    started: float


class QIIProblem:
    """A question of QII: quantity, outcome, intervention, difference, plan of sampling."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Reads the arguments of `QII`."""
        args = SimpleNamespace(**options)
        model, data, positive, samples = args.model, args.data, args.positive, args.samples
        pool, data_weights, pool_weights = args.pool, args.data_weights, args.pool_weights
        self.interest = interest_of(args.quantity)
        self.outcome = outcome_of(model, self.interest, args.outcome, positive, args.bounds)
        self.measured, self.words = measured_of(self.interest, self.outcome.kind)
        self.signed = arguments.signed_of(args.signed, self.interest)
        self.difference, self.distance = difference_of(args.difference, args.floor)
        arguments.refuse_difference(self.difference, self.interest, self.outcome, args.floor)
        self.plan = arguments.plan_of(args, self.outcome.width)
        self.samples = samples
        self.floor = None if args.floor is None else float(args.floor)
        self.groups: np.ndarray | None = None
        arguments.refuse_sampled(self._quantity(), 1 + (self.interest.whom == WHOM[-1]), samples)
        arguments.refuse_random(model, self._quantity())
        own_pool = pool is not None or pool_weights is not None
        arguments.refuse_unused_weights(self.interest, data_weights, own_pool)
        self.model, self._given_positive = model, positive
        self.subsample = data if isinstance(data, Subsample) else None
        if self.subsample is not None:
            pool = None if pool is data else pool
            data = self.subsample.rows
        full = () if self.subsample is None else (self.subsample.full, self.subsample.given)
        refuse_sample_weights(self.subsample, pool, data_weights, pool_weights)
        table = table_of(model, data, "data")
        self.data = table.read(data, "data", model.allow_nan, "the model")
        D = len(rows_of(self.data))
        self.weights, total = checks.row_weights(data_weights, D, "data_weights", "the data")
        pool, pool_weights = weighted_rows(pool, pool_weights, "pool")
        if pool is None:
            pool_weights = data_weights if pool_weights is None else pool_weights
        donors, kind = arguments.pool_rows(pool, data, pool_weights, self.plan, samples)
        baseline_fn = baseline_fn_of(pool)
        if baseline_fn is not None:
            if pool_weights is not None:
                raise InputError("pool_weights belong to pool rows; a Baseline is one row.")
            donors, kind = rows_of(self.data).part(0, 1), "function"
        replacement = intervention_of(model, table, donors, pool_weights, kind)
        self.table = read_by(replacement.table)  # compares rows as they are, not as JAX rounds them
        labels = self.table.feature_names or tuple(column_labels(table.shape))
        self.players = players_of_rows(args.players, self.table)
        if self.subsample is not None and isinstance(self.players, PerInstancePlayers):
            raise InputError(
                "players= numbers the entries of each row, and a Subsample draws which rows there "
                "are. Give one numbering for all rows."
            )
        rows = data if self.subsample is None else self.subsample.full
        count = len(rows_of(rows))
        self.full_mask = members_of(args.members, self.interest, rows, labels, count)
        self.mask = members_drawn(self.full_mask, self.subsample, self.interest)
        self.groups = groups_of(self.interest, self.mask, self.weights)
        self.sample = None if self.subsample is None else sample_of(self.subsample, self.full_mask)
        limits = args.batch_size, args.max_memory, args.devices, args.tile, args.path
        self.limits = limits_of(*limits)
        self.facts = facts_of(self.mask, self.weights, self.groups, total is not None)
        donor_rows = replacement.for_estimator()
        self.facts["pool_is_data"] = pool is None or pool_is_data(self.data, donor_rows)
        self.facts["whose_pool"] = whose_pool(pool, data, full)
        self.pool, self.private = pool, (data, self.data, *full)  # as given; what holds rows
        public = ("rows", "full_rows", "rate")
        sample = self.sample and {name: getattr(self.sample, name) for name in public}
        self.facts["subsample"] = sample
        declared = positive is not None or self.outcome.classes is not None
        self.facts["positive_given"] = declared or not self.outcome.needs_positive
        explained_model = cast(Model, self.outcome.model)
        parts = with_own(explained_model, replacement, self.players, baseline_fn)
        self.evaluator = Evaluator(explained_model, *parts, self.limits)
        # The data as codes, and by which table.
        self._codes: tuple[CodeTable, tuple[CodeTable, np.ndarray]] | None = None
        self.positive: Any = None
        known = self.outcome.classes is not None
        self._asks_labels = self.outcome.kind == "label" and positive is not None and not known
        if known or not (self.outcome.needs_positive or self._asks_labels):
            self.ready()

    def prior(self) -> np.ndarray:
        """Pr[S] of the data itself; see `QII.prior`."""
        if isinstance(self.players, PerInstancePlayers):
            raise InputError(
                "prior() needs columns that are players in all rows. Give Pr[S] as [2**P]."
            )
        return arguments.prior_of(self.data, self.players, self.weights)

    def kept_of(self, X: Any, rows: Any) -> tuple[Any, Any]:
        """(the individuals X as a result keeps them, the index of their frame or None).

        X None: the data's rows; rows: as read, None for quantities of the data.
        """
        if rows is None:
            return None, None
        instances = rows_of(self.private[0] if X is None else X)
        return kept_rows(instances, rows), instances.index

    def whose(self, X: Any) -> str:
        """Origin of the explained rows, from the argument: "none", "data", "part" of them,
        "given".
        """
        if self.groups is not None or X is None:
            return "data" if self.groups is None else "none"
        return "part" if any(shares_memory(X, rows) for rows in self.private) else "given"

    def model_identity(self) -> str | None:
        """Returns the identity of the model for these rows; None: it cannot be recognised later."""
        default = getattr(self.table, "dtype", None)
        dtype = getattr(self.table, "rows_dtype", default)
        return self.model.identity(self.table.shape, dtype, self.limits.devices[0].platform)

    def plain_rows(self, rows: Any) -> Any:
        """The rows as the model takes them, array or frame, rounded as the model's rows are."""
        table, codes = self.table.encode(rows)
        return table.decode(codes[:])

    @property
    def full_rows(self) -> Any:
        """The data, or all rows that a subsample was drawn from, as the model takes them."""
        if self.subsample is None:
            return self.plain_rows(self.data)
        full = self.table.read(self.subsample.full, "data", self.model.allow_nan, "the data")
        return self.plain_rows(full)

    def described(self) -> str:
        """The text of the repr."""
        as_what = "" if self.measured == self.interest.name else f" (measured as {self.measured!r})"
        parts = [repr(self.interest.name) + as_what, f"outcome={self.outcome.kind!r}"]
        if self.signed:
            parts.append("signed=True")
        scored = self.outcome.kind == "score" and self.interest.score is None
        if self.outcome.needs_positive or scored:
            known = self.positive if self.positive is not None else self._given_positive
            unknown = self.outcome.needs_positive
            last = "the last label seen on data" if unknown else "the last column"
            parts.append(f"positive={(last if known is None else known)!r}")
        parts.append(f"difference={self.difference!r}")
        weighted = " (weighted)" if self.facts["data_weights"] == "given" else ""
        parts += [f"{len(rows_of(self.data)):,} data rows{weighted}", self._pool_described()]
        parts.append("exact" if self.samples is None else f"samples={self.samples:,}")
        if self.samples is not None:
            parts.append(f"scheme={self.plan.scheme!r}")
        if self.plan.stop is not None:
            parts.append(f"stop={self.plan.stop!r}")
        return f"QII({', '.join(parts)}, {self.players.count} players)"

    def _pool_described(self) -> str:
        pool = self.evaluator.engine.replacement
        if pool.kind in ONE_ROW:
            return ONE_ROW[pool.kind]
        what = "pool rows of a sampler" if pool.kind == "sampler" else "pool rows"
        weighted = " (weighted)" if pool.weights_sum is not None else ""
        return f"{pool.rows_given:,} {what}{weighted}"

    @property
    def otherwise(self) -> str:
        """Alternatives to an index by tables if there are too many players."""
        quantity = self._quantity()
        if quantity.linear:
            return "Or say index='shapley' with samples=n."
        return instead(quantity, "index")

    def is_data(self, rows: Any) -> bool | None:
        """Whether the explained rows, as read, are the data; None if there are none."""
        if rows is None:
            return None
        if rows is self.data or len(rows_of(rows)) != len(rows_of(self.data)):
            return rows is self.data
        table, codes = self.table.encode(self.data)  # one encoding: a frame's texts compare
        return same_rows(codes, table.encode(rows)[1])

    def ready(self) -> None:
        """Makes the score, for which the positive label must be known."""
        if self.evaluator.engine.score is None:
            if self.outcome.needs_positive:
                self.positive = positive_of(
                    self.model, self.outcome.classes, self._given_positive, self.data
                )
            elif self.outcome.kind == "score" and self.interest.score is None:
                classes = self.outcome.classes
                last = None if classes is None else classes[-1]
                self.positive = last if self._given_positive is None else self._given_positive
            elif self._asks_labels:  # check that the label exists
                positive_of(self.model, None, self._given_positive, self.data)
            self.evaluator.measure(self.outcome.score_for(self.positive))

    def begin(
        self,
        X: Any,
        sets: int | None = None,
        distances: bool = True,
        evaluator: Evaluator | None = None,
        report: Callable[[int], object] = lambda rows: None,
    ) -> QiiRun:
        """Begins a run; X as for the methods. sets: how many sets are asked, of each draw if values
        are drawn; None: those of an index.

        The game can be run after `ready`, which may call the model: refuse first. evaluator: a
        plan's evaluator, whose game runs nothing; None: the problem's own. report(model rows done).
        """
        started = time.perf_counter()
        warn_repeated_cuts()
        rows = None
        if self.groups is not None:
            if X is not None:
                raise InputError(
                    f"X cannot go with quantity={self.interest.name!r}, one number for the whole "
                    "data. Leave it out, or say quantity='individual' or 'actual'."
                )
        elif X is None:
            rows = self.data
        else:
            self.evaluator.engine.refuse_overflow(checks.rows_given(X))
            rows = self.table.read(X, "X", self.model.allow_nan, "the data")
        self.evaluator.engine.refuse_too_little_memory()
        quantity = self._quantity(distances)
        explained = self.data if rows is None else rows
        self.players.refuse_others(len(rows_of(explained)))
        asks = evaluator is None
        encoded = self._encoded if asks and explained is self.data else None
        evaluator = evaluator or self.evaluator
        game = GameRun(evaluator, explained, quantity, report, asks=asks, encoded=encoded)
        game.coalitions = partial(self._coalitions, sets, game.engine.replacement.count)
        return QiiRun(game, rows, X, self.evaluator.start(), started)

    def _coalitions(self, sets: int | None, donors: int, P: int) -> int:
        """Coalitions of an individual and each donor, at most; see `begin`."""
        if self.samples is None:
            return 1 << min(P, LARGEST_PAIR) if sets is None else sets
        return -(-self.samples * (P + 1 if sets is None else sets) // donors)  # one donor a draw

    def _encoded(self) -> tuple[CodeTable, np.ndarray]:
        """The data as codes. A translation encodes them once for all questions.

        A translation is compared with its estimator on all rows that it encodes.
        """
        evaluator, cache = self.evaluator, self._codes
        if not isinstance(evaluator.engine.replacement.table, CodedTable):
            return evaluator.encoded(self.data)
        if cache is None or cache[0] is not evaluator.engine.replacement.table:
            cache = None
        if cache is None or not evaluator.answers():
            encoded = evaluator.encoded(self.data)
            self._codes = cache = evaluator.engine.replacement.table, encoded
        return cache[1]

    def planner(self) -> Evaluator:
        """An evaluator for plans.

        If the positive label is not known yet, another label replaces it, so that the model is not
        called for the labels of the data.
        """
        evaluator = copy(self.evaluator)
        if evaluator.engine.score is None:
            evaluator.measure(self.outcome.score_for(0))
        return evaluator

    def _quantity(self, distances: bool = True) -> Quantity:
        outer = as_outer(self.distance) if distances and self.distance is not None else None
        return Quantity(
            self.difference,
            argument="difference",
            measured=self.interest.name,
            outer=outer,
            reads_full=outer is not None,
            groups=self.groups,
            combine=_factors_of(self.interest, self.signed),
            remedy="Say floor= (a small share for every class), or another difference.",
        )


def members_of(
    members: Any, interest: Interest, data: Any, names: tuple[str, ...], N: int
) -> np.ndarray | None:
    """Reads `members=`, bool [N], decided by the rows as they are; None if no group is needed.

    names: names of the columns. It raises InputError for an empty group, a group of everybody if
        the rest
    is needed, another length, an unknown column or an unknown value.
    """
    if not interest.of_members:
        if members is not None:
            raise InputError(
                "members= goes with quantity='group', 'disparity' and 'ratio', not with "
                f"{interest.name!r}. Leave it out."
            )
        return None
    if members is None:
        raise InputError(
            f"members= is needed for quantity={interest.name!r}: a bool for each data row, "
            "{column: value}, or a function of the data."
        )
    if isinstance(members, Mapping):
        mask = _by_values(members, data, names, N)
    elif callable(members):
        mask = _bools(members(data), data, N, "members(data)")
    else:
        mask = _bools(members, data, N, "members")
    if not mask.any():
        raise InputError("members: the group is empty, so it has no share of outcomes.")
    if interest.whom == "members and rest" and mask.all():
        raise InputError(
            f"members: the group is everybody, so quantity={interest.name!r} has nobody to compare "
            "it with. Say quantity='rate'."
        )
    return mask


def _by_values(members: Mapping[Any, Any], data: Any, names: tuple[str, ...], N: int) -> np.ndarray:
    if not members:
        raise InputError("members: {} names no column; say {column: value}.")
    mask = np.ones(N, bool)
    find = column_finder(names, "members")
    for label, value in members.items():
        j = find(label)
        if hasattr(value, "__len__") and not isinstance(value, str | bytes):
            raise InputTypeError(
                f"members: {{{label!r}: value}} takes one value, got {type(value).__name__} "
                f"{value!r}. For several say lambda data: data[{label!r}].isin([...])."
            )
        values = rows_of(data).column(j)
        equal = np.asarray(values == value)
        if equal.shape != (N,):
            equal = np.zeros(N, bool)
        if not equal.any():
            seen = list(dict.fromkeys(np.asarray(values).tolist()[:1000]))[:10]
            raise InputError(
                f"members: no data row has {value!r} in column {names[j]!r}; it has {seen}."
            )
        mask &= equal
    return mask


def _bools(members: Any, data: Any, N: int, name: str) -> np.ndarray:
    members = aligned(members, data, name)
    try:
        mask = np.asarray(members)
    except (TypeError, ValueError):
        mask = np.zeros(0)
    if mask.dtype.kind != "b":
        raise InputTypeError(
            f"{name} must be True or False for each data row, or {{column: value}}; got an array "
            f"of {mask.dtype}."
        )
    if mask.shape != (N,):
        raise InputError(f"{name} has shape {mask.shape}, but the data has {N} rows: give [{N}].")
    return mask


def _factors_of(interest: Interest, signed: bool) -> np.ndarray | Callable[..., Any] | None:
    """Returns the function that combines the groups' means into one number, or factors [G] if it is
    linear.

    A signed disparity is linear: group minus rest. Its semivalues are then means.
    """
    if interest.whom == "individual":
        return None
    if interest.whom != "members and rest":
        return np.ones(1)
    if signed:
        return np.array([1.0, -1.0])
    return interest.combine if callable(interest.combine) else np.array(interest.combine)


def groups_of(interest: Interest, mask: np.ndarray | None, weights: np.ndarray) -> Any:
    """float64 [G, N], each row of sum 1: the weights of the means; None for individuals."""
    if not interest.of_data:
        return None
    chosen = [np.ones(len(weights), bool)] if mask is None else [mask]
    if interest.whom == "members and rest":
        assert mask is not None
        chosen.append(~mask)
    rows = np.stack([np.where(group, weights, 0.0) for group in chosen])
    if not rows.any(axis=1).all():
        raise InputError("data_weights are all zero in the group of members= or in the rest.")
    return rows / rows.sum(axis=1, keepdims=True)


def refuse_sample_weights(
    subsample: Subsample | None, pool: Any, data_weights: Any, pool_weights: Any
) -> None:
    """Raises InputError for weights of a subsample, since nobody knows which rows it has."""
    if isinstance(pool, Subsample):
        raise InputError(
            "pool is a Subsample. Give it as data, and leave pool= out: its rows are donors too."
        )
    weighted = data_weights is not None or (pool is None and pool_weights is not None)
    if subsample is not None and weighted:
        raise InputError(
            "data_weights and pool_weights cannot be used with a Subsample. Leave them out."
        )


def members_drawn(
    full: np.ndarray | None, subsample: Subsample | None, interest: Interest
) -> np.ndarray | None:
    """The members among the drawn rows, bool [M]; full: among all rows [D]."""
    if full is None or subsample is None:
        return full
    mask = subsample.of_full(full)
    if not mask.any() or (interest.whom == "members and rest" and mask.all()):
        raise InputError(
            f"data: of {len(mask):,} rows drawn {int(mask.sum()):,} are members=; both sides need "
            "rows. Draw another subsample, or a larger one."
        )
    return mask


def sample_of(subsample: Subsample, full: np.ndarray | None) -> Sample:
    """The sample as a release must know it.

    The report says how many members were drawn (its noise depends on that number). Given that
    number, a member was drawn with probability drawn members / members, and the others with theirs:
    the larger of the two is what amplifies privacy.
    """
    sample = subsample.sample
    if full is None:
        return sample
    drawn = subsample.of_full(full)
    rates = [sample.rate, drawn.sum() / full.sum()]
    if not full.all():
        rates.append((~drawn).sum() / (~full).sum())
    return replace(sample, rate=float(max(rates)))  # `release` stays one object for both


# Whose rows the pool and the people explained are follows from what was passed. Values of private
# rows are never compared for it, since the copy and its noise would tell the outcome.

STEP = 1 << 16  # rows compared at a time


def facts_of(
    mask: np.ndarray | None, weights: np.ndarray, groups: np.ndarray | None, weighted: bool
) -> dict[str, Any]:
    """Facts of the data: mask bool [D] of the members; weights [D]; groups [G, D]."""
    D = len(weights)
    largest = weights.max() if groups is None else np.max(groups, axis=1).max()
    return {
        "data_rows": D,
        "members": None if mask is None else int(mask.sum()),
        "rest": None if mask is None else int(D - mask.sum()),
        "data_weights": "given" if weighted else "equal",
        "largest_data_weight": float(largest),
    }


def pool_is_data(rows: Any, replacement: Replacement) -> bool:
    """Whether the given donors equal the data's own rows, in any order.

    rows: the data as read. Weights do not count: weighted rows of the data are still rows of the
    data.
    """
    if replacement.kind != "rows" or replacement.rows_given != len(rows_of(rows)):
        return False
    codes = replacement.table.encode(rows)[1]
    places = replacement.row
    return same_rows(codes[places] if len(places) < len(codes) else codes, replacement.for_loops)


def same_rows(a: Any, b: Any) -> bool:
    """Whether codes [M, C] hold the same rows, in any order (for a memory map: in this order)."""
    if len(a) != len(b):
        return False
    if all(
        np.array_equal(agreement_codes(a[i : i + STEP]), agreement_codes(b[i : i + STEP]))
        for i in range(0, len(a), STEP)
    ):
        return True
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return False
    left, right = (np.sort(hashes(agreement_codes(codes))) for codes in (a, b))
    return np.array_equal(left, right)


def whose_pool(pool: Any, data: Any, private: Sequence[Any]) -> str:
    """ "data": no pool was given, or the data; "part": memory of private rows; "other": public.

    data: as given; private: other objects that hold private rows.
    """
    if pool is None or is_same(pool, data):
        return "data"
    rows = pool  # or the row of a Baseline, or the rows that it is a median of
    if isinstance(pool, Baseline):
        rows = pool.rows if isinstance(pool.row, str) else pool.row
    return "part" if any(shares_memory(rows, item) for item in (data, *private)) else "other"
