"""The beam searches of Anchors for a batch of instances: by draws, and by known precisions.

`BeamSearch` is algorithm 2 of Ribeiro, Singh and Guestrin 2018 (chapter 5.8.1), with its four
components as arguments. Each instance has its own phase. `step` advances each until it needs draws
and returns the requested draws; `add` takes their outcome. The arrays keep their size;
`BeamState.take` drops instances that are done.

Letters: n instances, W kept rules, F columns, A = W F candidates, H kept rules of all sizes, T
accepted rules remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self, cast

import numpy as np

from xaijax_kernels.games.sampling import player_keys
from xaijax_kernels.rules.bandits import Arms, KlLucb, Rejects, Validation, validation_rate

VALIDATE, IDENTIFY, FALL_BACK, DONE = range(4)

# (kept bool [n, W, F], has bool [n, W], allowed bool [n, F]) -> rules [n, W F, F], valid [n, W F]
Propose = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
# (instances int [n], rules bool [n, A, F]) -> coverage float64 [n, A]
Cover = Callable[[np.ndarray, np.ndarray], np.ndarray]


class SearchState:
    """Arrays carried from round to round; their first axis is the instances."""

    def take(self, rows: np.ndarray) -> Self:
        """The instances `rows`."""
        values: list[Any] = [getattr(self, f.name) for f in fields(cast(Any, self))]
        taken: list[Any] = [v.take(rows) if isinstance(v, Arms) else v[rows] for v in values]
        return type(self)(*taken)


@dataclass
class BeamState(SearchState):
    """State carried from round to round; every array begins with the axis n."""

    row: np.ndarray  # int64 [n], the instance
    phase: np.ndarray  # int64 [n]
    size: np.ndarray  # int64 [n], predicates of the kept rules
    allowed: np.ndarray  # bool [n, F], columns that may be in a rule
    kept: np.ndarray  # bool [n, W, F]
    kept_cover: np.ndarray  # [n, W]
    kept_first: np.ndarray  # int64 [n, W], draws spent on identifying the rule
    kept_arms: Arms
    rules: np.ndarray  # bool [n, A, F], candidates
    cover: np.ndarray  # [n, A]
    arms: Arms
    choice: np.ndarray  # int64 [n, .], of the identification
    past: np.ndarray  # bool [n, H, F], all validated rules, in case none is accepted
    past_cover: np.ndarray  # [n, H]
    past_first: np.ndarray  # int64 [n, H]
    past_arms: Arms
    past_choice: np.ndarray  # int64 [n, .]
    best: np.ndarray  # bool [n, F]
    best_cover: np.ndarray  # [n], -1: none yet
    best_hits: np.ndarray  # int64 [n]
    best_draws: np.ndarray  # int64 [n]
    accepted: np.ndarray  # bool [n]
    spent: np.ndarray  # int64 [n], draws of all rules


@dataclass(frozen=True)
class Wanted:
    """Requested draws, Q of them in a call."""

    place: np.ndarray  # int64 [Q], position of the instance in the state
    arm: np.ndarray  # int64 [Q]
    rules: np.ndarray  # bool [Q, F]
    first: np.ndarray  # int64 [Q], earlier draws of the rule
    draws: np.ndarray  # int64 [Q]


@dataclass(frozen=True)
class BeamSearch:
    """Beam search whose components can be replaced one by one."""

    propose: Propose
    cover: Cover
    identify: KlLucb | Rejects
    validate: Validation
    width: int  # W
    levels: int  # predicates at most
    delta: float

    def init(self, rows: np.ndarray, allowed: np.ndarray) -> BeamState:
        """Instances `rows` int [n] at the empty rule; allowed: bool [n, F]."""
        n, F = allowed.shape
        W, A, H = self.width, self.width * F, 1 + self.width * self.levels

        def none(*shape: int, dtype: Any = bool) -> np.ndarray:
            return np.zeros((n, *shape), dtype)

        first = none(W)
        first[:, 0] = True
        empty = Arms.new(none(A))
        past = Arms.new(none(H))
        return BeamState(
            row=np.asarray(rows),
            phase=np.full(n, VALIDATE),
            size=none(dtype=np.int64),
            allowed=allowed,
            kept=none(W, F),
            kept_cover=self.cover(np.asarray(rows), none(W, F)),
            kept_first=none(W, dtype=np.int64),
            kept_arms=Arms.new(first),
            rules=none(A, F),
            cover=none(A, dtype=float),
            arms=empty,
            choice=self.identify.init(empty.valid),
            past=none(H, F),
            past_cover=none(H, dtype=float),
            past_first=none(H, dtype=np.int64),
            past_arms=past,
            past_choice=self.identify.init(past.valid),
            best=none(F),
            best_cover=np.full(n, -1.0),
            best_hits=none(dtype=np.int64),
            best_draws=none(dtype=np.int64),
            accepted=none(),
            spent=none(dtype=np.int64),
        )

    def rate(self, size: np.ndarray, F: int) -> np.ndarray:
        """The rate at which rules of this number of predicates are validated; [n]."""
        single, more = validation_rate(1, F, self.delta), validation_rate(self.width, F, self.delta)
        return np.where(size == 0, single, more)

    def step(self, s: BeamState) -> Wanted:
        """Advances all instances, in place, until each needs draws or is done."""
        requests: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        todo = np.flatnonzero(s.phase != DONE)
        while len(todo):
            phase, moved = s.phase[todo], []
            for now, move in (
                (VALIDATE, self._validate),
                (IDENTIFY, self._identify),
                (FALL_BACK, self._fall_back),
            ):
                rows = todo[phase == now]
                if not len(rows):
                    continue
                draws, rules, first = move(s, rows)
                waits = draws.any(axis=1)
                moved.append(rows[~waits])
                n, a = np.nonzero(draws)
                requests.append((rows[n], a, rules[n, a], first[n, a], draws[n, a]))
            todo = np.concatenate(moved)
            todo = todo[s.phase[todo] != DONE]
        F = s.kept.shape[2]
        none = np.zeros(0, np.int64)
        requests.append((none, none, np.zeros((0, F), bool), none, none))
        return Wanted(*(np.concatenate(parts) for parts in zip(*requests, strict=True)))

    def add(self, s: BeamState, wanted: Wanted, hits: np.ndarray) -> None:
        """Records the outcome: hits int64 [Q] of the requested draws."""
        for now, arms in (
            (VALIDATE, s.kept_arms),
            (IDENTIFY, s.arms),
            (FALL_BACK, s.past_arms),
        ):
            in_phase = s.phase[wanted.place] == now
            where = wanted.place[in_phase], wanted.arm[in_phase]
            arms.hits[where] += hits[in_phase]
            arms.draws[where] += wanted.draws[in_phase]
        np.add.at(s.spent, wanted.place, wanted.draws)

    def _validate(
        self, s: BeamState, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        arms = s.kept_arms.take(rows)
        rate = self.rate(s.size[rows], s.kept.shape[2])
        draws, accepted, _ = self.validate.step(arms, rate)
        settled = ~draws.any(axis=1)
        self._close(s, rows[settled], accepted[settled])
        return draws, s.kept[rows], s.kept_first[rows] + arms.draws

    def _identify(
        self, s: BeamState, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        arms = s.arms.take(rows)
        s.choice[rows], draws, best = self.identify.step(s.choice[rows], arms, self.width)
        settled = ~draws.any(axis=1)
        self._keep(s, rows[settled], best[settled])
        return draws, s.rules[rows], arms.draws

    def _fall_back(
        self, s: BeamState, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        arms = s.past_arms.take(rows)
        s.past_choice[rows], draws, best = self.identify.step(s.past_choice[rows], arms, 1)
        settled = ~draws.any(axis=1)
        fallback = rows[settled]
        means, rules, cover = arms.means()[settled], s.past[fallback], s.past_cover[fallback]
        top = np.where(best[settled], means, -np.inf).max(axis=1, keepdims=True)
        chosen = first_best(arms.valid[settled] & (means == top), cover, means, rules)
        s.best[fallback] = s.past[fallback, chosen]
        s.best_cover[fallback] = s.past_cover[fallback, chosen]
        s.best_hits[fallback] = s.past_arms.hits[fallback, chosen]
        s.best_draws[fallback] = s.past_arms.draws[fallback, chosen]
        s.phase[fallback] = DONE
        return draws, s.past[rows], s.past_first[rows] + arms.draws

    def _keep(self, s: BeamState, rows: np.ndarray, best: np.ndarray) -> None:
        """The best candidates become the kept rules; their draws are not used again."""
        order = np.argsort(~best, axis=1, kind="stable")[:, : self.width]
        pick = rows[:, None], order
        s.kept[rows], s.kept_cover[rows] = s.rules[pick], s.cover[pick]
        s.kept_first[rows] = s.arms.draws[pick]
        s.kept_arms.valid[rows] = np.take_along_axis(best, order, axis=1)
        s.kept_arms.hits[rows] = s.kept_arms.draws[rows] = 0
        s.phase[rows] = VALIDATE

    def _close(self, s: BeamState, rows: np.ndarray, accepted: np.ndarray) -> None:
        """Records a validated level, and continues with the next."""
        if not len(rows):
            return
        self._remember(s, rows)
        means = s.kept_arms.means()[rows]
        chosen = first_best(accepted, s.kept_cover[rows], means, s.kept[rows])
        wins = accepted.any(axis=1) & (s.kept_cover[rows, chosen] > s.best_cover[rows])
        moved, pick = rows[wins], chosen[wins]
        s.best[moved], s.accepted[moved] = s.kept[moved, pick], True
        s.best_cover[moved] = s.kept_cover[moved, pick]
        s.best_hits[moved] = s.kept_arms.hits[moved, pick]
        s.best_draws[moved] = s.kept_arms.draws[moved, pick]
        more = (s.size[rows] < self.levels) & (s.best_cover[rows] < 1)
        rules, valid = self.propose(s.kept[rows], s.kept_arms.valid[rows], s.allowed[rows])
        cover = self.cover(s.row[rows], rules)
        valid = valid & (cover > s.best_cover[rows, None]) & more[:, None]
        goes = valid.any(axis=1)
        moved = rows[goes]
        s.rules[moved], s.cover[moved] = rules[goes], cover[goes]
        s.arms.valid[moved] = valid[goes]
        s.arms.hits[moved] = s.arms.draws[moved] = 0
        s.choice[moved] = self.identify.init(valid[goes])
        s.size[moved] += 1
        s.phase[moved] = IDENTIFY
        ended = rows[~goes]
        s.phase[ended] = np.where(s.accepted[ended], DONE, FALL_BACK)
        lost = ended[~s.accepted[ended]]
        s.past_choice[lost] = self.identify.init(s.past_arms.valid[lost])

    def _remember(self, s: BeamState, rows: np.ndarray) -> None:
        """Stores validated rules: the empty rule first, then W places for every size."""
        first = np.maximum(0, 1 + (s.size[rows] - 1) * self.width)
        for w in range(self.width):
            has = s.kept_arms.valid[rows, w]
            n, h = rows[has], first[has] + w
            s.past[n, h], s.past_cover[n, h] = s.kept[n, w], s.kept_cover[n, w]
            s.past_first[n, h] = s.kept_first[n, w]
            s.past_arms.valid[n, h] = True
            s.past_arms.hits[n, h] = s.kept_arms.hits[n, w]
            s.past_arms.draws[n, h] = s.kept_arms.draws[n, w]


def first_best(
    among: np.ndarray, cover: np.ndarray, precision: np.ndarray, rules: np.ndarray
) -> np.ndarray:
    """The position of the best of the rules `among` bool [n, A]: int64 [n]; 0 if there are none.

    The best one has the highest coverage, then precision, then fewer predicates, then the first
    columns (lexicographic); rules bool [n, A, F].
    """
    left = among.copy()
    for value in (cover, precision, -rules.sum(axis=2).astype(float)):
        worth = np.where(left, value, -np.inf)
        left &= worth == worth.max(axis=1, keepdims=True)
    for f in range(rules.shape[2]):
        has = left & rules[:, :, f]
        left = np.where(has.any(axis=1, keepdims=True), has, left)
    return left.argmax(axis=1)


def lead(
    s: Any, among: np.ndarray, precision: np.ndarray, cover: np.ndarray, rules: np.ndarray
) -> None:
    """Keeps the most precise rule so far in the state, in case none is accepted."""
    at, chosen = np.arange(len(among)), first_best(among, precision, cover, rules)
    better = among.any(axis=1) & (precision[at, chosen] > s.lead_precision)
    s.lead[better] = rules[at, chosen][better]
    s.lead_cover[better] = cover[at, chosen][better]
    s.lead_precision[better] = precision[at, chosen][better]


def extend(beam: np.ndarray, has: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Candidate w F + f is rule w with column f: (rules bool [n, A, F], valid bool [n, A]).

    beam: bool [n, W, F]; has: bool [n, W], which of them exist; allowed: bool [n, F].
    """
    N, W, F = beam.shape
    rules = beam[:, :, None, :] | np.eye(F, dtype=bool)
    valid = has[:, :, None] & ~beam & allowed[:, None, :]
    rules, valid = rules.reshape(N, W * F, F), valid.reshape(N, W * F)
    return rules, valid & first_of_its_kind(rules, valid)


def rule_keys(rules: np.ndarray) -> np.ndarray:
    """128-bit keys of sets of columns, uint64 [..., 2]; exact up to 128 columns."""
    F = rules.shape[-1]
    words = player_keys(0, F)
    chosen = np.where(rules[..., None], words, np.uint64(0))
    return np.bitwise_xor.reduce(chosen, axis=-2)


def first_of_its_kind(rules: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Whether no earlier valid rule is the same set; bool [n, A] of rules bool [n, A, F]."""
    if rules.shape[1] <= rules.shape[2]:
        return np.ones(valid.shape, bool)  # one kept rule: all its children differ
    keys = rule_keys(rules)
    place = np.broadcast_to(np.arange(valid.shape[1]), valid.shape)
    # Valid ones first among equals, then in their original order.
    order = np.lexsort((place, ~valid, keys[..., 0], keys[..., 1]), axis=1)
    sorted_ = np.take_along_axis(keys, order[..., None], axis=1)
    new = np.ones(valid.shape, bool)
    new[:, 1:] = (sorted_[:, 1:] != sorted_[:, :-1]).any(axis=2)
    first = np.empty_like(new)
    np.put_along_axis(first, order, new, axis=1)
    return first


@dataclass
class ExactBeamState(SearchState):
    """State carried from size to size; every array begins with the axis n."""

    row: np.ndarray  # int64 [n], the instance
    allowed: np.ndarray  # bool [n, F]
    rules: np.ndarray  # bool [n, A, F], candidates
    valid: np.ndarray  # bool [n, A]; none: done
    cover: np.ndarray  # [n, A]
    found: np.ndarray  # bool [n, T, F], accepted rules, best first
    found_cover: np.ndarray  # [n, T], -1: none
    found_precision: np.ndarray  # [n, T]
    lead: np.ndarray  # bool [n, F], of all rules the one of highest precision
    lead_cover: np.ndarray  # [n]
    lead_precision: np.ndarray  # [n], -1: none yet
    size: np.ndarray  # int64 [n]
    asked: np.ndarray  # int64 [n], rules

    @property
    def done(self) -> np.ndarray:
        """bool [n]."""
        return ~self.valid.any(axis=1)


@dataclass(frozen=True)
class ExactBeam:
    """Beam search by known precisions, with one model call for all candidates of a size.

    A rule is accepted if its precision reaches the threshold. All candidates are checked, not only
    the kept ones, so no accepted rule of a size is missed.
    """

    propose: Propose
    cover: Cover
    threshold: float
    width: int  # W
    levels: int  # predicates at most
    remembered: int = 1  # T

    def init(self, rows: np.ndarray, allowed: np.ndarray) -> ExactBeamState:
        """Instances `rows` int [n] with the empty rule as candidate; allowed: bool [n, F]."""
        n, F = allowed.shape
        A, T = self.width * F, self.remembered
        valid = np.zeros((n, A), bool)
        valid[:, 0] = True
        cover = np.zeros((n, A))
        cover[:, :1] = self.cover(np.asarray(rows), np.zeros((n, 1, F), bool))
        rules, none = np.zeros((n, A, F), bool), np.zeros((n, F), bool)
        found_rules = np.zeros((n, T, F), bool)
        below, zero = np.full((n, T), -1.0), np.zeros(n, np.int64)
        lead = (none, np.zeros(n), np.full(n, -1.0))
        known = (found_rules, below, below.copy())
        return ExactBeamState(
            np.asarray(rows), allowed, rules, valid, cover, *known, *lead, zero, zero.copy()
        )

    def step(self, s: ExactBeamState, precision: np.ndarray) -> None:
        """Takes the precisions float64 [n, A] of the valid candidates, and proposes the next
        ones."""
        s.asked += s.valid.sum(axis=1)
        lead(s, s.valid, precision, s.cover, s.rules)
        holds = s.valid & (precision >= self.threshold)
        self._find(s, holds, precision)
        # An accepted rule is not refined, because a longer rule covers less.
        open_ = s.valid & ~holds
        worth = np.where(open_, precision, -np.inf)
        order = np.lexsort((-np.where(open_, s.cover, 0), -worth), axis=1)[:, : self.width]
        has = np.take_along_axis(open_, order, axis=1)
        has &= ((s.size < self.levels) & (s.found_cover[:, 0] < 1))[:, None]
        beam = np.take_along_axis(s.rules, order[:, :, None], axis=1)
        rules, valid = self.propose(beam, has, s.allowed)
        cover = self.cover(s.row, rules)
        s.rules, s.cover = rules, cover
        s.valid = valid & (cover > s.found_cover[:, :1])
        s.size += 1

    def _find(self, s: ExactBeamState, holds: np.ndarray, precision: np.ndarray) -> None:
        """Merges accepted rules into the remembered ones, best first."""
        left, at = holds.copy(), np.arange(len(s.row))
        for _ in range(self.remembered):
            open_rows = left.any(axis=1)
            if not open_rows.any():
                return
            chosen = first_best(left, s.cover, precision, s.rules)
            cover, held = s.cover[at, chosen], precision[at, chosen]
            for t in range(self.remembered):
                first = open_rows & (cover > s.found_cover[:, t])
                for later in range(self.remembered - 1, t, -1):
                    s.found[first, later] = s.found[first, later - 1]
                    s.found_cover[first, later] = s.found_cover[first, later - 1]
                    s.found_precision[first, later] = s.found_precision[first, later - 1]
                s.found[first, t] = s.rules[at, chosen][first]
                s.found_cover[first, t], s.found_precision[first, t] = cover[first], held[first]
                open_rows = open_rows & ~first
            left[at, chosen] = False
