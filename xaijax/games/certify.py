"""Compares a structure's answers with the model's own answers to full rows.

What is read from a trace, or declared, answers hybrids in the model's place. The rows that are
explained, and the donors, are asked of both: N + B rows, where hybrids are at least one for each
pair. Every result can therefore be compared with the model's own f(x).

Letters: N instances, B donors, K outputs, n rows looked at together, A answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import InputError, ModelOutputError
from xaijax.games.engine.evaluator import Engine, once
from xaijax.games.engine.player_values import Values, values_of, whole
from xaijax.games.measure.score import Score
from xaijax.games.refuse import refuse_bad_scores
from xaijax.models.queries.predict import run_jax
from xaijax.models.structure.agreement import by_structure, sensitivity

if TYPE_CHECKING:
    from xaijax.games.run import GameRun

Ends = tuple[np.ndarray, np.ndarray]  # the smallest and the largest answer, [K] each
Both = tuple[np.ndarray, np.ndarray]  # the structure's answers to rows and the model's, [R, K] each
LEAST_HYBRIDS = 128
MANY, BLOCK = 8192, 1024  # beyond this number of rows a larger block pays for its compilation
ROWS = 1 << 14  # looked at together: a memory map is read in pieces


@dataclass(frozen=True)
class WholeAnswers:
    """The model's own answers to the instances, float64 [N, K]."""

    answers: np.ndarray  # the model's own
    allowed: np.ndarray  # how far rounding may take the structure's from them
    base: np.ndarray  # [K], the mean score of the donors, by the model's own answers
    base_allowed: np.ndarray  # [K], how far rounding may take the structure's mean from it


def whole_answers(run: GameRun) -> WholeAnswers:
    """Asks both for the game's instances and donors; raises ModelOutputError.

    run: these games, of a model with a structure.
    """
    ends, both, base, allowed = _of_donors(run.engine)
    donors = run.engine.replacement.for_loops
    if run.codes.shape != donors.shape or not np.array_equal(run.codes, donors):
        both = None  # of QII's whole data the instances are the donors, and may be asked already
    found = _checked(run.engine, run.codes, lambda n: f"X row {n}", ends, both)
    if not run.engine.by_columns:
        _hold_players(run, ends)
    return WholeAnswers(run.with_offset(found[0]), found[1], run.with_offset(base), allowed)


@once
def _of_donors(engine: Engine) -> tuple[Ends, Both | None, np.ndarray, np.ndarray]:
    """(the smallest and the largest of the donors' answers, what both answer to the donors, the
    mean score of the model's answers [K], and how far rounding may take the structure's from it).

    Answers that take more than the share of what is kept are not: None.
    """
    replacement = engine.replacement
    codes, named = replacement.for_loops, replacement.row
    both = _asked(engine, codes)
    own, allowed = _checked(engine, codes, lambda b: f"background row {int(named[b])}", None, both)
    kept = engine.memory.fits("kept", 2 * both[1].nbytes) > 0
    scores, allowed = scored(engine.score, own, allowed)
    weights = replacement.weights
    return _ends(own), both if kept else None, weights @ scores, weights @ allowed


def scored(
    score: Score | None, answers: np.ndarray, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(scores of answers [R, A], how far they go where these go by `allowed`); [R, K] each."""
    if score is None:
        return answers, allowed
    if score.of_classes:  # numbers of two classes are further apart than half of 1
        same = (allowed < 0.5) & (answers == np.rint(answers))
        allowed = np.where(same, 0.0, allowed)
    moved = [np.asarray(score(answers + by, answers)) for by in (0, allowed, -allowed)]
    with np.errstate(invalid="ignore"):
        return moved[0], np.fmax(abs(moved[1] - moved[0]), abs(moved[2] - moved[0]))


def _ends(answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(smallest, largest) of answers [R, K], without those that are not finite; [K] each."""
    finite = answers[np.isfinite(answers).all(axis=1)]
    none = np.zeros(answers.shape[1])
    return (finite.min(axis=0), finite.max(axis=0)) if len(finite) else (none, none)


def _spread(answers: np.ndarray, ends: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """How far answers [n, K] are from the donors' at most; [n, K]."""
    with np.errstate(invalid="ignore"):
        return np.maximum(np.abs(answers - ends[0]), np.abs(answers - ends[1]))


def _checked(
    engine: Engine,
    codes: np.ndarray,
    named: Callable[[int], str],
    ends: Ends | None,
    both: Both | None,
) -> tuple[np.ndarray, np.ndarray]:
    """(the model's own answers to these rows, how far rounding may take the structure's from them);
    raises if the structure gives others.

    ends: the smallest and the largest of the donors' answers; the tolerance scales with the
    distance to them, so it does not depend on what else is explained; None: these are the donors.
    both: what both answer to the rows; None: they are asked.
    """
    answers, allowed = [], []
    agreement = engine.findings.agreement
    assert agreement is not None
    for some in _pieces(len(codes)):
        first = some.start
        found, own = _both(engine, codes[some]) if both is None else (one[some] for one in both)
        spread = _spread(own, _ends(own) if ends is None else ends)
        slack = agreement.allowed(own, spread)
        wrong = _apart(found, own, slack)
        if len(wrong):
            slack[wrong] = np.fmax(
                slack[wrong],
                _sensitivity(engine, np.asarray(codes[some])[wrong], own[wrong], spread[wrong]),
            )
            wrong = _apart(found, own, slack)
        if len(wrong):
            n = int(wrong[0])
            _refuse(engine, engine.structure_name, named(first + n), found[n], own[n])
        answers.append(own)
        allowed.append(slack)
    return np.concatenate(answers), np.concatenate(allowed)


def _pieces(R: int) -> list[slice]:
    """R rows in pieces of one size: a few left over would go in the probe's small blocks."""
    size = -(-R // max(-(-R // ROWS), 1)) or 1
    return [slice(first, first + size) for first in range(0, R, size)]


def _asked(engine: Engine, codes: np.ndarray) -> Both:
    """What the structure and the model answer to rows, [R, K] each."""
    parts = [_both(engine, codes[some]) for some in _pieces(len(codes))]
    structure, own = (np.concatenate(one) for one in zip(*parts, strict=True))
    return structure, own


def _hold_players(run: GameRun, ends: Ends) -> None:
    """Raises InputError if a layer that is declared to be a sum over players is none.

    It compares a hybrid of each instance, LEAST_HYBRIDS at least, by its parts and by the model.
    The probe knew no players, and compared full rows alone.
    """
    engine, replacement = run.engine, run.engine.replacement
    rng, agreement = np.random.default_rng(0), engine.findings.agreement
    assert agreement is not None
    instance = np.arange(max(run.N, LEAST_HYBRIDS)) % run.N
    for first in range(0, len(instance), ROWS):
        here = instance[first : first + ROWS]
        x = np.asarray(run.codes[here])
        donors = replacement.for_loops[rng.integers(replacement.count, size=len(here))]
        kept = rng.random((len(here), run.P)) < 0.5
        none = np.zeros((len(here), 1), bool)
        own = np.concatenate([kept, none, ~none], axis=1)[:, run.engine.code_players]
        found, whole = _both(engine, x, (donors, own))
        spread = _spread(whole, ends)
        slack = agreement.allowed(whole, spread)
        wrong = _apart(found, whole, slack)
        if len(wrong):
            mixed = np.where(own, x, donors)[wrong]
            moved = _sensitivity(engine, mixed, whole[wrong], spread[wrong])
            slack[wrong] = np.fmax(slack[wrong], moved)
            wrong = _apart(found, whole, slack)
        if len(wrong):
            m = int(wrong[0])
            names = [run.engine.players.names[p] for p in np.flatnonzero(kept[m])]
            raise InputError(
                f"structure= does not describe {engine.model.name}: first of the "
                "xaijax.Split is no sum over the players of parts that depend on one player each. "
                f"Its parts of X row {int(here[m])} with {names} kept, the others of a background "
                f"row, make {found[m, 0]:.9g}, but the model gives {whole[m, 0]:.9g}. Move what "
                "mixes players from first= into rest=, unite them in players=, or leave structure= "
                "out."
            )


def refuse_structure(run: GameRun, structure: str, full: np.ndarray) -> None:
    """Raises ModelOutputError if f(x) of the instances, as it was found [N, K], is not the model's:
    a closed form, or what sums a structure up, is compared with it too.
    """
    engine, whole = run.engine, run.full_row_answers
    wrong = _apart(full, whole.answers, whole.allowed)
    if len(wrong):
        _widen(run, wrong)
        wrong = _apart(full, whole.answers, whole.allowed)
    if len(wrong):
        n = int(wrong[0])
        _refuse(engine, structure, f"X row {n}", full[n], whole.answers[n])


def refuse_wrong_program(run: GameRun, full: np.ndarray) -> None:
    """Raises ModelOutputError if f(x) of the instances, as the run found it [N, K], is not what the
    probe's program answers; that program is asked for as many instances as the probe has rows, in
    one call.
    """
    engine, look = run.engine, run.engine.findings.look
    if look is None or look.asked is None or full.shape[1] != look.answer.shape[1]:
        return
    model, rows = run.engine.model, engine.findings.rows
    place = np.linspace(0, run.N - 1, rows).astype(np.int64)
    asked = run.engine.replacement.table.asked(np.asarray(run.codes[place]))
    assert engine.findings.programs is not None
    own = np.asarray(engine.findings.programs["probe"][0](model.params, asked)).reshape(rows, -1)
    gap = look.gap(own, full[place])
    if gap is not None:
        raise ModelOutputError(
            f"{model.name} gives another answer to X row {int(place[gap[1]])} in the program of "
            f"{rows} rows than in the one that answered its hybrids: by up to {gap[0]:.3g}. Either "
            "a row's answer depends on the rows with it, and must not, or XLA's compiler makes "
            "one of the two programs wrong: use another version of jaxlib, or say backend='host' "
            "in as_model."
        )


def widen(run: GameRun) -> None:
    """Widens every row's tolerance to the measured rounding error of its answer."""
    for first in range(0, run.N, ROWS):
        _widen(run, np.arange(first, min(first + ROWS, run.N)))


def _widen(run: GameRun, rows: np.ndarray) -> None:
    """The same for these rows, int [n]."""
    allowed, answers = run.full_row_answers.allowed, run.full_row_answers.answers[rows]
    own = answers - run.with_offset(np.zeros_like(answers))  # as the program answers
    spread = _spread(own, _of_donors(run.engine)[0])
    moved = _sensitivity(run.engine, np.asarray(run.codes[rows]), own, spread)
    allowed[rows] = np.fmax(allowed[rows], moved)


def _refuse(engine: Engine, structure: str, where: str, found: np.ndarray, own: np.ndarray) -> None:
    with np.errstate(invalid="ignore"):
        apart = np.abs(found - own)
    k = int(np.where(np.isfinite(apart), apart, np.inf).argmax())
    raise ModelOutputError(
        f"the structure {structure!r} of {engine.model.name} gives {found[k]:.9g} for "
        f"{where}, but the model itself gives {own[k]:.9g}: more than rounding explains. Say "
        'structure="plain" in as_model, so that the model itself answers every hybrid.'
    )


def _apart(found: np.ndarray, own: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """Rows whose answers differ by more than the slack; answers that are not finite must agree."""
    same = np.isfinite(found).all(axis=1) & np.isfinite(own).all(axis=1)
    alike = ~np.isfinite(found).all(axis=1) & ~np.isfinite(own).all(axis=1)
    with np.errstate(invalid="ignore"):
        near = (np.abs(found - own) <= slack).all(axis=1)
    return np.flatnonzero(~(alike | (same & near)))


def _sensitivity(
    engine: Engine, codes: np.ndarray, own: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """How far rounding may take the structure's answers to rows [n, ..], by these rows; [n, K]."""
    rows, size = engine.replacement.table.asked(codes), engine.findings.rows
    agreement, programs = engine.findings.agreement, engine.findings.programs
    assert agreement is not None and programs is not None
    moved = []
    for first in range(0, len(rows), size):
        some = rows[first : first + size]
        filled = np.concatenate([some, np.repeat(some[-1:], size - len(some), axis=0)])
        found = sensitivity(engine.structure, engine.model, filled, programs)
        moved.append(found[: len(some)])
    return np.concatenate(moved) + agreement.steep(own, spread)


def _both(
    engine: Engine, codes: np.ndarray, hybrids: tuple[np.ndarray, np.ndarray] | None = None
) -> Both:
    """(the structure's answers to rows, the model's own); float64 [R, K] each.

    hybrids: (codes of donors [R, C], bool [R, C], which are kept of the rows); None: all of them.

    The programs of the probe are used, so that nothing is compiled for few rows; many go in larger
    blocks.
    """
    model, programs = engine.model, engine.findings.programs
    assert programs is not None and model.apply is not None
    asked = engine.replacement.table.asked
    rows, donors, kept = asked(np.asarray(codes)), None, None
    if hybrids is not None:
        donors, kept = asked(hybrids[0]), hybrids[1]
    many = len(rows) > MANY
    size = BLOCK if many else engine.findings.rows
    found, own = [], []  # few rows: all blocks are started before the first is read
    for first in range(0, len(rows), size):
        place: Any = slice(first, first + size)
        if first + size > len(rows):
            place = np.minimum(np.arange(first, first + size), len(rows) - 1)
        filled, mixed = rows[place], None
        if donors is not None and kept is not None:
            mixed = donors[place], kept[place]
        found.append(by_structure(engine.structure, model, filled, programs, mixed))
        if mixed is not None:
            filled = np.where(mixed[1].reshape(filled.shape), filled, mixed[0])
        if many:
            whole = run_jax(model.compiled, "apply", model.apply, model.params, filled)
        else:
            whole = programs["probe"][0](model.params, filled)
        own.append(whole)
    both = (np.stack([np.asarray(one) for one in part]) for part in (found, own))
    found, own = (one.astype(np.float64).reshape(len(one) * size, -1) for one in both)
    return found[: len(rows)], own[: len(rows)]


# Donors are asked once for all instances; for a model whose structure is known, by the table of its
# values (`player_values`).

ROWS_AT_A_TIME = 1 << 22  # scores held together


class EmptyAndFull:
    """The ends of the games on one set of instances."""

    def __init__(self, run: GameRun) -> None:
        """run: these games."""
        self._run = run
        # Distinct answers to the donors, their weights, and a donor of each.
        self._donors: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def of_donors(self, here: np.ndarray) -> np.ndarray:
        """The mean score of the donors themselves, [n, K]: what keeping nothing gives.

        Donors are asked once for all instances, and scored against each if the score looks at
        f(x), once for each distinct answer.
        """
        engine = self._run.engine
        if engine.fixed:
            return self._with_fixed(here)
        if self._donors is None:
            answers = self._answers_of_donors()
            distinct, first, place = _distinct_rows(answers)
            weights = np.bincount(place, engine.replacement.weights, len(distinct))
            self._donors = distinct, weights, first
        distinct, weights, donors = self._donors
        score = engine.score
        if score is None or not score.reads_own:
            scores = distinct if score is None else np.asarray(score(distinct, None))
            refuse_bad_scores(engine, scores, donors)
            return np.repeat(weights[None] @ scores, len(here), axis=0)
        own, _, place = _distinct_rows(self._beside(here))
        step = max(1, ROWS_AT_A_TIME // distinct.size)
        parts = []
        for n in range(0, len(own), step):
            some = own[n : n + step]
            against = np.repeat(some, len(distinct), axis=0)
            scores = np.asarray(score(np.tile(distinct, (len(some), 1)), against))
            refuse_bad_scores(engine, scores, np.tile(donors, len(some)))
            scores = scores.reshape(len(some), len(distinct), -1)
            parts.append(np.tensordot(scores, weights, axes=(1, 0)))
        return np.concatenate(parts)[place]

    @cached_property
    def donors_by_values(self) -> np.ndarray | None:
        """The model's answers to the donors [B, A] by the table of their values, of a model that
        crosses; None: no table, or an answer is not finite.
        """
        values = values_of(self._run.engine, self._run.codes)
        return None if values is None else self._whole(values, values.of_donors)

    @cached_property
    def rows_by_values(self) -> np.ndarray | None:
        """The same to all instances, [N, A]. One row each is a small part of a list's rows."""
        values = values_of(self._run.engine, self._run.codes)
        if values is None or values.of_rows is values.of_donors:
            return self.donors_by_values
        return self._whole(values, values.of_rows)

    def _whole(self, values: Values, numbers: np.ndarray) -> np.ndarray | None:
        answers = whole(self._run.engine, values, numbers)
        return answers if np.isfinite(answers).all() else None

    def _with_fixed(self, here: np.ndarray) -> np.ndarray:
        """The same where columns of the instance are always kept: each is asked with each donor."""
        engine, none = self._run.engine, np.zeros((1, self._run.P), bool)
        donors = np.arange(engine.replacement.count)
        step = min(engine.rows_at_a_time, max(1, ROWS_AT_A_TIME // len(donors)))
        parts = []
        for first in range(0, len(here), step):
            some = here[first : first + step]
            place, donor = np.repeat(np.arange(len(some)), len(donors)), np.tile(donors, len(some))
            zero = np.zeros(len(place), np.int32)
            scores = self._run.rows_asked(some, place, donor, zero, none)
            scores = scores.reshape(len(some), len(donors), -1)
            parts.append(np.tensordot(scores, engine.replacement.weights, axes=(1, 0)))
        return np.concatenate(parts)

    def _answers_of_donors(self) -> np.ndarray:
        """The model's answers to the donors, [B, A]."""
        found = self.donors_by_values if self._run.may_cross() else None
        if found is None:
            return self._run.full_donors()
        self._run.answered(len(found))
        return found.astype(np.float64)

    def _beside(self, here: np.ndarray) -> np.ndarray:
        """What the score looks at in addition to an answer: f(x) [n, A] of the instances `here`, or
        what the score makes of it.
        """
        score = self._run.engine.score
        assert score is not None
        by_values = score.made_of_own is None and self._run.may_cross()
        found = self.rows_by_values if by_values else None
        if found is not None:
            self._run.answered(len(here))
            return found[here].astype(np.float64)
        own = self._run.instances(here).own
        assert own is not None
        return own


def _distinct_rows(answers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(distinct answers [n, A], the first row of each, which of them every row is) of [R, A]."""
    axis = 0 if answers.shape[1] > 1 else None  # numbers are sorted faster than rows
    distinct, first, place = np.unique(answers, axis=axis, return_index=True, return_inverse=True)
    return distinct.reshape(-1, answers.shape[1]), first, place.ravel()
