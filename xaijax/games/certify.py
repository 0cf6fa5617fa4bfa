"""Compares a structure's outputs with the model's own outputs for full rows.

A structure that is read from a trace, or declared, evaluates hybrids instead of the model. Both
evaluate the explained rows and the donors: N + B rows, compared with at least N B hybrids. Every
result can therefore be compared with the model's own f(x).

Letters: N instances, B donors, K outputs, n rows processed together, A model outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import InputError, ModelOutputError
from xaijax.games.engine.evaluator import Engine, once
from xaijax.games.engine.player_values import values_of, whole
from xaijax.games.measure.score import Score
from xaijax.games.refuse import refuse_bad_scores
from xaijax.models.queries.predict import run_jax
from xaijax.models.structure.agreement import by_structure, sensitivity

if TYPE_CHECKING:
    from xaijax.games.run import GameRun

Extremes = tuple[np.ndarray, np.ndarray]  # the smallest and the largest output, [K] each
# outputs of the structure and of the model for rows, [R, K] each
Both = tuple[np.ndarray, np.ndarray]
LEAST_HYBRIDS = 128
# The argument of a declaration, what is wrong with it, and the way out.
DECLARED = {
    "split": (
        "structure=",
        "first of the xaijax.Split is no sum over the players of parts that depend on one player "
        "each",
        "Move what mixes players from first= into rest=, unite them in players=",
    ),
    "prefixes": (
        "structure=",
        "step of the xaijax.Prefix gives another state than the model's",
        "Fix step=",
    ),
    "prompts": ("step=", "it gives another state than the model's", "Fix init= and step="),
}
MANY, BLOCK = 8192, 1024  # rows above which a larger block is worth its compilation
ROWS = 1 << 14  # rows processed together: a memory map is read in pieces


@dataclass(frozen=True)
class WholeAnswers:
    """The model's own outputs for the instances, float64 [N, K]."""

    answers: np.ndarray  # the model's own
    allowed: np.ndarray  # how far rounding may take the structure's from them
    base: np.ndarray  # [K], the mean score of the donors, by the model's own outputs
    base_allowed: np.ndarray  # [K], allowed rounding difference of the structure's mean


def whole_answers(run: GameRun) -> WholeAnswers:
    """Evaluates the game's instances and donors by both; raises ModelOutputError.

    run: games of a model with a structure.
    """
    extremes, both, base, allowed = _of_donors(run.engine)
    donors = run.engine.replacement.for_loops
    if run.codes.shape != donors.shape or not np.array_equal(run.codes, donors):
        both = None  # for QII the instances may be the donors, already evaluated
    checked = _checked(run.engine, run.codes, lambda n: f"X row {n}", extremes, both)
    if not run.engine.by_columns:
        _hold_players(run, extremes)
    return WholeAnswers(run.with_offset(checked[0]), checked[1], run.with_offset(base), allowed)


@once
def _of_donors(engine: Engine) -> tuple[Extremes, Both | None, np.ndarray, np.ndarray]:
    """(the smallest and the largest output of the donors, both outputs for the donors, the mean
    score of the model's outputs [K], its allowed rounding difference).

    The outputs are None if they exceed their share of the memory.
    """
    replacement = engine.replacement
    codes, named = replacement.for_loops, replacement.row
    both = _asked(engine, codes)
    out, allowed = _checked(engine, codes, lambda b: f"background row {int(named[b])}", None, both)
    fits = engine.memory.fits("kept", 2 * both[1].nbytes) > 0
    scores, allowed = scored(engine.score, out, allowed)
    weights = replacement.weights
    return _extremes(out), both if fits else None, weights @ scores, weights @ allowed


def scored(
    score: Score | None, answers: np.ndarray, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(scores of outputs [R, A], their change if the outputs change by `allowed`); [R, K] each."""
    if score is None:
        return answers, allowed
    if score.of_classes:  # numbers of two classes differ by more than 0.5
        same = (allowed < 0.5) & (answers == np.rint(answers))
        allowed = np.where(same, 0.0, allowed)
    moved = [np.asarray(score(answers + by, answers)) for by in (0, allowed, -allowed)]
    with np.errstate(invalid="ignore"):
        return moved[0], np.fmax(abs(moved[1] - moved[0]), abs(moved[2] - moved[0]))


def _extremes(answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(smallest, largest) of the finite outputs [R, K]; [K] each."""
    finite = answers[np.isfinite(answers).all(axis=1)]
    none = np.zeros(answers.shape[1])
    return (finite.min(axis=0), finite.max(axis=0)) if len(finite) else (none, none)


def _spread(answers: np.ndarray, extremes: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The largest distance of outputs [n, K] from the donors' outputs; [n, K]."""
    with np.errstate(invalid="ignore"):
        return np.maximum(np.abs(answers - extremes[0]), np.abs(answers - extremes[1]))


def _checked(
    engine: Engine,
    codes: np.ndarray,
    named: Callable[[int], str],
    extremes: Extremes | None,
    both: Both | None,
) -> tuple[np.ndarray, np.ndarray]:
    """(the model's own outputs for these rows, their allowed rounding difference); raises if the
    structure differs by more.

    extremes: the smallest and the largest output of the donors; the tolerance scales with the
    distance to them, so it does not depend on the other instances; None: these are the donors.
    both: the outputs of both for the rows; None: they are computed.
    """
    answers, allowed = [], []
    agreement = engine.agreement
    for chunk in _pieces(len(codes)):
        first = chunk.start
        got, want = _both(engine, codes[chunk]) if both is None else (a[chunk] for a in both)
        spread = _spread(want, _extremes(want) if extremes is None else extremes)
        slack = agreement.allowed(want, spread)
        wrong = _apart(got, want, slack)
        if len(wrong):
            slack[wrong] = np.fmax(
                slack[wrong],
                _sensitivity(engine, np.asarray(codes[chunk])[wrong], want[wrong], spread[wrong]),
            )
            wrong = _apart(got, want, slack)
        if len(wrong):
            n = int(wrong[0])
            _refuse(engine, engine.structure_name, named(first + n), got[n], want[n])
        answers.append(want)
        allowed.append(slack)
    return np.concatenate(answers), np.concatenate(allowed)


def _pieces(R: int) -> list[slice]:
    """Slices R rows into pieces of one size, so that no remainder needs the probe's small
    blocks."""
    size = -(-R // max(-(-R // ROWS), 1)) or 1
    return [slice(first, first + size) for first in range(0, R, size)]


def _asked(engine: Engine, codes: np.ndarray) -> Both:
    """The outputs of the structure and of the model for rows, [R, K] each."""
    parts = [_both(engine, codes[chunk]) for chunk in _pieces(len(codes))]
    structure, want = (np.concatenate(outputs) for outputs in zip(*parts, strict=True))
    return structure, want


def _hold_players(run: GameRun, extremes: Extremes) -> None:
    """Raises InputError if a layer that is declared as a sum over players is not one.

    It compares one hybrid per instance, at least LEAST_HYBRIDS, by its parts and by the model. The
    probe did not know the players, and compared full rows only.
    """
    engine, replacement = run.engine, run.engine.replacement
    rng, agreement = np.random.default_rng(0), engine.agreement
    instance = np.arange(max(run.N, LEAST_HYBRIDS)) % run.N
    for first in range(0, len(instance), ROWS):
        chosen = instance[first : first + ROWS]
        x = np.asarray(run.codes[chosen])
        donors = replacement.for_loops[rng.integers(replacement.count, size=len(chosen))]
        masks = rng.random((len(chosen), run.P)) < 0.5
        none = np.zeros((len(chosen), 1), bool)
        columns = np.concatenate([masks, none, ~none], axis=1)[:, run.engine.code_players]
        got, whole = _both(engine, x, (donors, columns))
        spread = _spread(whole, extremes)
        slack = agreement.allowed(whole, spread)
        wrong = _apart(got, whole, slack)
        if len(wrong):
            mixed = np.where(columns, x, donors)[wrong]
            moved = _sensitivity(engine, mixed, whole[wrong], spread[wrong])
            slack[wrong] = np.fmax(slack[wrong], moved)
            wrong = _apart(got, whole, slack)
        if len(wrong):
            m = int(wrong[0])
            names = [run.engine.players.names[p] for p in np.flatnonzero(masks[m])]
            declaration, wrong_part, way = DECLARED[_declaration(engine)]
            raise InputError(
                f"{declaration} does not describe {engine.model.name}: {wrong_part}. For X row "
                f"{int(chosen[m])} with {names} kept, the others of a background row, it makes "
                f"{got[m, 0]:.9g}, but the model gives {whole[m, 0]:.9g}. {way}, or leave "
                f"{declaration} out."
            )


def _declaration(engine: Engine) -> str:
    """The key of `DECLARED` for the structure in use."""
    of_prompts = getattr(engine.structure, "item", 0) is None  # declared by a language model
    return "prompts" if of_prompts else engine.structure_name


def refuse_structure(run: GameRun, structure: str, full: np.ndarray) -> None:
    """Raises ModelOutputError if the computed f(x) of the instances [N, K] is not the model's.
    Closed forms and sums by a structure are checked in the same way.
    """
    engine, whole = run.engine, run.full
    wrong = _apart(full, whole.answers, whole.allowed)
    if len(wrong):
        _widen(run, wrong)
        wrong = _apart(full, whole.answers, whole.allowed)
    if len(wrong):
        n = int(wrong[0])
        _refuse(engine, structure, f"X row {n}", full[n], whole.answers[n])


def refuse_wrong_program(run: GameRun, full: np.ndarray) -> None:
    """Raises ModelOutputError if the computed f(x) of the instances [N, K] differs from the
    output of the probe's program, which evaluates as many instances as the probe has rows, in
    one call.
    """
    engine, look = run.engine, run.engine.findings.look
    if look is None or look.asked is None or full.shape[1] != look.answer.shape[1]:
        return
    model, rows = run.engine.model, engine.findings.rows
    place = np.linspace(0, run.N - 1, rows).astype(np.int64)
    few = run.engine.replacement.table.asked(np.asarray(run.codes[place]))
    assert engine.findings.programs is not None
    want = np.asarray(engine.findings.programs["probe"][0](model.params, few)).reshape(rows, -1)
    gap = look.gap(want, full[place])
    if gap is not None:
        raise ModelOutputError(
            f"{model.name} gives another answer to X row {int(place[gap[1]])} in the program of "
            f"{rows} rows than in the one that answered its hybrids: by up to {gap[0]:.3g}. If a "
            "row's answer depends on other rows of its batch, change the model: that is not "
            "allowed. Otherwise XLA's compiler made one of the two programs wrong: use another "
            "version of jaxlib, or say backend='host' in as_model."
        )


def widen(run: GameRun) -> None:
    """Widens every row's tolerance to the measured rounding error of its output."""
    for first in range(0, run.N, ROWS):
        _widen(run, np.arange(first, min(first + ROWS, run.N)))


def _widen(run: GameRun, rows: np.ndarray) -> None:
    """`widen` for these rows, int [n]."""
    allowed, answers = run.full.allowed, run.full.answers[rows]
    outputs = answers - run.with_offset(np.zeros_like(answers))  # outputs without the offset
    spread = _spread(outputs, _of_donors(run.engine)[0])
    moved = _sensitivity(run.engine, np.asarray(run.codes[rows]), outputs, spread)
    allowed[rows] = np.fmax(allowed[rows], moved)


def _refuse(engine: Engine, structure: str, where: str, got: np.ndarray, want: np.ndarray) -> None:
    with np.errstate(invalid="ignore"):
        apart = np.abs(got - want)
    k = int(np.where(np.isfinite(apart), apart, np.inf).argmax())
    raise ModelOutputError(
        f"the structure {structure!r} of {engine.model.name} gives {got[k]:.9g} for "
        f"{where}, but the model itself gives {want[k]:.9g}: more than rounding explains. "
        + (
            "Leave init= and step= out"
            if _declaration(engine) == "prompts"
            else 'Say structure="plain" in as_model'
        )
        + ", so that the model itself answers every hybrid."
    )


def _apart(got: np.ndarray, want: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """Rows whose outputs differ by more than the slack; outputs that are not finite must agree."""
    same = np.isfinite(got).all(axis=1) & np.isfinite(want).all(axis=1)
    alike = ~np.isfinite(got).all(axis=1) & ~np.isfinite(want).all(axis=1)
    with np.errstate(invalid="ignore"):
        near = (np.abs(got - want) <= slack).all(axis=1)
    return np.flatnonzero(~(alike | (same & near)))


def _sensitivity(
    engine: Engine, codes: np.ndarray, want: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """The rounding error of the structure's outputs for rows [n, ..], measured on these rows; [n,
    K]."""
    rows, size = engine.replacement.table.asked(codes), engine.findings.rows
    agreement, programs = engine.agreement, engine.findings.programs
    assert programs is not None
    moved = []
    for first in range(0, len(rows), size):
        chunk = rows[first : first + size]
        filled = np.concatenate([chunk, np.repeat(chunk[-1:], size - len(chunk), axis=0)])
        changes = sensitivity(engine.structure, engine.model, filled, programs)
        moved.append(changes[: len(chunk)])
    return np.concatenate(moved) + agreement.steep(want, spread)


def _both(
    engine: Engine, codes: np.ndarray, hybrids: tuple[np.ndarray, np.ndarray] | None = None
) -> Both:
    """(the structure's outputs for rows, the model's own); float64 [R, K] each.

    hybrids: (codes of donors [R, C], bool [R, C], the columns kept of the rows); None: all.

    A few rows use the probe's programs, so that nothing is compiled; many rows use larger blocks.
    """
    model, programs = engine.model, engine.findings.programs
    assert programs is not None and model.apply is not None
    model_rows = engine.replacement.table.asked
    rows, donors, masks = model_rows(np.asarray(codes)), None, None
    if hybrids is not None:
        donors, masks = model_rows(hybrids[0]), hybrids[1]
    many = len(rows) > MANY
    size = BLOCK if many else engine.findings.rows
    got, want = [], []  # few rows: all blocks start before the first is read
    for first in range(0, len(rows), size):
        place: Any = slice(first, first + size)
        if first + size > len(rows):
            place = np.minimum(np.arange(first, first + size), len(rows) - 1)
        filled, mixed = rows[place], None
        if donors is not None and masks is not None:
            mixed = donors[place], masks[place]
        got.append(by_structure(engine.structure, model, filled, programs, mixed))
        if mixed is not None:
            filled = np.where(mixed[1].reshape(filled.shape), filled, mixed[0])
        if many:
            whole = run_jax(model.compiled, "apply", model.apply, model.params, filled)
        else:
            whole = programs["probe"][0](model.params, filled)
        want.append(whole)
    both = (np.stack([np.asarray(block) for block in part]) for part in (got, want))
    got, want = (blocks.astype(np.float64).reshape(len(blocks) * size, -1) for blocks in both)
    return got[: len(rows)], want[: len(rows)]


# Donors are evaluated once for all instances; with a known structure by the table of its values
# (`player_values`).

ROWS_AT_A_TIME = 1 << 22  # scores in memory at once


class EmptyAndFull:
    """The empty and the full coalition of the games on one set of instances."""

    def __init__(self, run: GameRun) -> None:
        """run: these games."""
        self._run = run
        # Distinct outputs of the donors, their weights, and a donor of each.
        self._donors: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self._by_values: dict[bool, np.ndarray] = {}  # see `ask_by_values`

    def of_donors(self, rows: np.ndarray) -> np.ndarray:
        """The mean score of the donors themselves, [n, K]: the value of the empty coalition.

        Donors are evaluated once for all instances. If the score reads f(x), each distinct output
        is scored for each instance.
        """
        engine = self._run.engine
        if engine.fixed:
            return self._with_fixed(rows)
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
            return np.repeat(weights[None] @ scores, len(rows), axis=0)
        reference, _, place = _distinct_rows(self._references(rows))
        step = max(1, ROWS_AT_A_TIME // distinct.size)
        parts = []
        for n in range(0, len(reference), step):
            chunk = reference[n : n + step]
            against = np.repeat(chunk, len(distinct), axis=0)
            scores = np.asarray(score(np.tile(distinct, (len(chunk), 1)), against))
            refuse_bad_scores(engine, scores, np.tile(donors, len(chunk)))
            scores = scores.reshape(len(chunk), len(distinct), -1)
            parts.append(np.tensordot(scores, weights, axes=(1, 0)))
        return np.concatenate(parts)[place]

    def ask_by_values(self, donors: bool) -> np.ndarray | None:
        """The model's outputs for the donors [B, A], or for all instances [N, A], by the table of
        their values, if the model crosses; None: no table, or an output is not finite.

        They are computed the first time. One row each is a small part of a list's rows.
        """
        values = values_of(self._run.engine, self._run.codes)
        if values is None:
            return None
        donors = donors or values.of_rows is values.of_donors
        if donors not in self._by_values:
            numbers = values.of_donors if donors else values.of_rows
            self._by_values[donors] = whole(self._run.engine, values, numbers)
        answers = self._by_values[donors]
        return answers if np.isfinite(answers).all() else None

    def _with_fixed(self, rows: np.ndarray) -> np.ndarray:
        """`of_donors` if columns of the instance are always kept: each instance is combined with
        each donor."""
        engine, none = self._run.engine, np.zeros((1, self._run.P), bool)
        donors = np.arange(engine.replacement.count)
        step = min(engine.rows_at_a_time, max(1, ROWS_AT_A_TIME // len(donors)))
        parts = []
        for first in range(0, len(rows), step):
            part = rows[first : first + step]
            place, donor = np.repeat(np.arange(len(part)), len(donors)), np.tile(donors, len(part))
            zero = np.zeros(len(place), np.int32)
            scores = self._run.rows_asked(part, place, donor, zero, none)
            scores = scores.reshape(len(part), len(donors), -1)
            parts.append(np.tensordot(scores, engine.replacement.weights, axes=(1, 0)))
        return np.concatenate(parts)

    def _answers_of_donors(self) -> np.ndarray:
        """The model's outputs for the donors, [B, A]."""
        answers = self.ask_by_values(donors=True) if self._run.may_cross() else None
        if answers is None:
            return self._run.full_donors()
        self._run.answered(len(answers))
        return answers.astype(np.float64)

    def _references(self, rows: np.ndarray) -> np.ndarray:
        """The second input of the score: f(x) [n, A] of the instances `rows`, or the score's
        reduction of it.
        """
        score = self._run.engine.score
        assert score is not None
        by_values = score.made_of_own is None and self._run.may_cross()
        answers = self.ask_by_values(donors=False) if by_values else None
        if answers is not None:
            self._run.answered(len(rows))
            return answers[rows].astype(np.float64)
        reference = self._run.instances(rows).own
        assert reference is not None
        return reference


def _distinct_rows(answers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(distinct outputs [n, A], the first row of each, the number of each row's output) of [R,
    A]."""
    axis = 0 if answers.shape[1] > 1 else None  # numbers are sorted faster than rows
    distinct, first, place = np.unique(answers, axis=axis, return_index=True, return_inverse=True)
    return distinct.reshape(-1, answers.shape[1]), first, place.ravel()
