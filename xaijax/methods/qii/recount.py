"""Counts the sums behind a QII report again, in whole numbers, for a private release.

Letters: N games, G groups, D data rows, B pool rows, C sets, K scores, P players, M rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.games.engine.evaluator import Evaluator
from xaijax.games.engine.host import hashes
from xaijax.games.measure.replacement.base import agreement_codes
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.games.run import GameRun
from xaijax.games.strategies.plain import ToInts, plain_sums
from xaijax.methods.qii import quantities
from xaijax.methods.qii.arguments import prior_of
from xaijax.methods.qii.exact import QiiIndex
from xaijax.methods.qii.problem import STEP
from xaijax.players.players import PerInstancePlayers
from xaijax.players.sets import all_masks
from xaijax.results.recount import LATTICE, ExactSums, Sample
from xaijax.tables.rows import rows_of
from xaijax.tables.table import CodeTable

if TYPE_CHECKING:
    from xaijax.methods.qii.problem import QIIProblem

WEIGHTS = 1 << 30  # given weights, of sum 1, are rounded to multiples of 1 / WEIGHTS
WIDEST = 1 << 24  # bounds of a score; no value then comes near the limit of 64 bits

# The quantities that bounds are proved for: these objects, not others with the same names.
BOUNDED = (
    quantities.individual,
    quantities.actual,
    quantities.average,
    quantities.rate,
    quantities.group,
    quantities.disparity,
)


@dataclass(eq=False)
class QiiRecount:
    """Computes the question of one Explanation again, on the plain path; see
    `results/recount.py`.
    """

    _problem: QIIProblem
    _rows: Any  # the individuals; None for quantities of the data
    _index: QiiIndex | None
    _sums: ExactSums | None = None
    _counted_of: str | None = None  # the model's identity when it was asked

    @property
    def sample(self) -> Sample | None:
        """The subsample that makes up the data; None: the full data."""
        return self._problem.sample

    @property
    def chance(self) -> np.ndarray | None:
        """Pr[S] [2^P] of the index, if it has one."""
        return None if self._index is None else self._index.chance

    def refused(self) -> str | None:
        """The reason why private sums cannot be counted; None if they can."""
        problem = self._problem
        if problem.interest not in BOUNDED:
            return "its quantity is your own, and no bound is proved for it"
        if (
            isinstance(problem.players, PerInstancePlayers)
            or problem.evaluator.engine.replacement.kind == "function"
        ):
            return "each instance has its own players or baseline, and no bound is proved for these"
        if not problem.evaluator.engine.model.deterministic:
            return "the model is declared deterministic=False, so a row has no answer of its own"
        if self._is_prior():
            return (
                "its index is Pr[S] = prior() of the data (to six digits), a function of the "
                "private rows; give Pr[S] of public rows"
            )
        if problem.outcome.kind == "score" and max(map(abs, problem.outcome.bounds)) > WIDEST:
            return "its bounds= are beyond 2^24. Rescale the score, and with it bounds="
        return None

    def _is_prior(self) -> bool:
        """Whether Pr[S] equals that of the data, or of all rows of a subsample, to six digits."""
        problem, chance = self._problem, self.chance
        if chance is None or isinstance(problem.players, PerInstancePlayers):
            return False
        full = problem.full_rows
        weighted = (problem.data, problem.weights), (full, np.full(len(full), 1 / len(full)))
        try:
            priors = [prior_of(rows, problem.players, weights) for rows, weights in weighted]
        except InputError:  # the data has no prior over sets
            return False
        return any(np.allclose(chance, prior, rtol=1e-5, atol=1e-6) for prior in priors)

    def copies(self) -> Sequence[str]:
        """Arguments passed as public whose rows all occur in the data; for a warning only."""
        problem = self._problem
        pool = _pool(problem) if problem.facts["whose_pool"] == "other" else None
        public = {"X=": self._rows, "pool=": pool}
        return [
            name
            for name, rows in public.items()
            if rows is not None and all_among(problem.table, rows, problem.full_rows)
        ]

    def other_labels(self) -> bool:
        """Whether labels other than 0 and 1 occur without declared classes; for a warning only."""
        problem = self._problem
        if problem.facts["positive_given"]:
            return False
        return not set(np.unique(problem.model.labels(problem.data)).tolist()) <= {0, 1}

    def identity(self) -> Mapping[str, Any] | None:
        """Texts that distinguish this question from any other: its data, rows, model, players.

        None: the model cannot be recognised later. After `sums`, the identity is that of the
        counted model.
        """
        problem = self._problem
        model = problem.model_identity() if self._sums is None else self._counted_of
        if model is None:
            return None
        sampled = problem.subsample is not None  # secret rows, different in each draw
        from_data = problem.facts["whose_pool"] == "data"
        weighted = not sampled and problem.groups is not None
        donors = problem.evaluator.engine.replacement
        secret = from_data and sampled
        return {
            "model": model,
            "data": _of_rows(problem.full_rows),
            "pool": None if from_data else _of_rows(donors.as_read),
            "rows": None if self._rows is None else _of_rows(problem.plain_rows(self._rows)),
            "members": None if problem.full_mask is None else _of_rows(problem.full_mask),
            "data_weights": _of_rows(problem.groups) if weighted else None,
            "pool_weights": None if secret else _of_rows(donors.weights),
            "donors": None if secret else _of_rows(donors.row),  # those of positive weight
            "chance": None if self.chance is None else _of_rows(self.chance),
            "players": [list(columns) for columns in problem.players.all_columns],
        }

    def sums(self) -> ExactSums:
        """Calls the model, row by row in one fixed layout; returns the same numbers each time."""
        if self._sums is None:
            before = self._problem.model_identity()
            self._sums = self._counted()
            same = before == self._problem.model_identity()  # not changed meanwhile
            self._counted_of = before if same else None
        return self._sums

    def _counted(self) -> ExactSums:
        problem = self._problem
        problem.ready()
        assert not isinstance(problem.players, PerInstancePlayers)  # see `refused`
        P = problem.players.count
        replaced = all_masks(P)
        if self._index is None:
            replaced = np.concatenate([np.zeros((1, P), bool), np.eye(P, dtype=bool)])
        engine, known = problem.evaluator.engine, problem.facts["positive_given"]
        engine.model.check_unchanged()  # the explained fit must be the counted one
        # The estimator itself is called: whether its translation answers depends on the private
        # rows. Each row is computed in its place by the model as it is: no merged rows, no
        # structure.
        model = replace(engine.model.as_fitted, structure="plain")
        limits = replace(
            engine.limits,
            devices=engine.devices[:1],
            memory=engine.memory.whole,
            tile=problem.limits.tile,
            path="tiled",
            batch_rows=None,
            shares=False,
        )
        # The last label seen on the data is private; with labels 0 and 1 the positive one is 1.
        score = engine.score if known else problem.outcome.score_for(1)
        donors = engine.replacement.for_estimator()
        evaluator = Evaluator(model, donors, problem.players, limits, score=score)
        ask = GameRun(evaluator, problem.data if self._rows is None else self._rows)
        outer = self._outer()
        inner = _whole(engine.replacement.weights, engine.replacement.weights_sum is not None)
        to_ints, unit, width = _integers(problem.outcome)
        agrees = problem.interest.agrees and problem.outcome.kind == "label"
        nothing = unit if agrees else None  # x keeps its class if nothing is replaced
        sums = plain_sums(ask, replaced, outer, inner, to_ints, width, nothing)
        of_x = (np.ones(1, np.int64),) if outer is None else outer
        return ExactSums(sums, replaced, unit, width, of_x, inner)

    def _outer(self) -> tuple[np.ndarray, ...] | None:
        """Integer weights of the data rows in each group; None for individuals."""
        groups = self._problem.groups
        if groups is None:
            return None
        weighted = self._problem.facts["data_weights"] == "given"
        return tuple(_whole(group, weighted) for group in groups)


def _whole(weights: np.ndarray, weighted: bool) -> np.ndarray:
    """Weights of sum 1 as whole numbers: rounded to a lattice if weighted, else 0 and 1."""
    if not weighted:
        return (weights > 0).astype(np.int64)
    return np.rint(weights * WEIGHTS).astype(np.int64)


def _integers(outcome: Any) -> tuple[ToInts, int, int]:
    """(scores -> whole numbers, the unit, the largest number that can occur)."""
    if outcome.kind == "label":
        return _of_labels, 1, 1
    if outcome.kind == "proba":
        return _of_chances, LATTICE, LATTICE
    low, high = (int(np.rint(bound * LATTICE)) for bound in outcome.bounds)

    def of_scores(scores: np.ndarray) -> np.ndarray:
        # Whatever the model answers, no score moves a sum by more than the width.
        return (np.clip(np.rint(_finite(scores) * LATTICE), low, high) - low).astype(np.int64)

    return of_scores, LATTICE, high - low


def _of_labels(scores: np.ndarray) -> np.ndarray:
    return (_finite(scores) > 0.5).astype(np.int64)


def _of_chances(scores: np.ndarray) -> np.ndarray:
    """Vectors of probabilities on the lattice: at least 0, their sum at most 1, for any answer.

    Two such vectors are at most 2 apart (in L1), which the sensitivity of a vector needs.
    """
    positive = np.clip(_finite(scores), 0.0, 1.0)
    total = np.maximum(positive.sum(axis=-1, keepdims=True), 1.0)
    return np.floor(positive / total * LATTICE).astype(np.int64)


def _finite(scores: np.ndarray) -> np.ndarray:
    """Scores, with 0 for those that are not finite: an error would reveal that there is one."""
    return np.where(np.isfinite(scores), scores, 0.0)


def _of_rows(rows: Any) -> str:
    """A digest of an array or a frame: names, dtypes, shape, values."""
    digest, table, columns = hashlib.sha256(), rows_of(rows), [rows]
    if table.is_frame:
        columns = table.columns()
        digest.update(repr([str(name) for name in table.labels]).encode())
    for data in map(np.ascontiguousarray, columns):
        digest.update(f"{data.dtype.str}{data.shape}".encode())
        digest.update(repr(data.tolist()).encode() if data.dtype.hasobject else data.tobytes())
    return digest.hexdigest()


def _pool(problem: QIIProblem) -> Any:
    """The donors, or the rows that they are a median of if these fit the data."""
    pool = problem.pool
    if isinstance(pool, Baseline) and isinstance(pool.row, str):
        try:
            return problem.table.read(pool.rows, "pool", True, "the data")
        except InputError:
            pass
    return problem.evaluator.engine.replacement.as_read


def all_among(table: CodeTable, rows: Any, data: Any) -> bool:
    """Whether all rows [M] are equal, bit for bit, to rows of the data [D]; both as read."""
    table, codes = table.encode(data)  # one encoding of both: codes of a frame's texts compare
    return bool(np.isin(_hashed(table.encode(rows)[1]), _hashed(codes)).all())


def _hashed(codes: Any) -> np.ndarray:
    parts = [hashes(agreement_codes(codes[i : i + STEP])) for i in range(0, len(codes), STEP)]
    return np.concatenate(parts)
