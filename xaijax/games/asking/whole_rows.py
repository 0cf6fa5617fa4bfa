"""The model's own answers to whole rows, against which a structure's answers are held.

What is read from a trace, or declared, answers hybrids in the model's place. The rows that are
explained, and the donors, are asked of both: N + B rows, where hybrids are at least one for each
pair. So every result has the model's own f(x) beside it.

Letters: N instances, B donors, K outputs, n rows looked at together, A answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from xaijax.core.errors import InputError, ModelOutputError
from xaijax.core.once import once
from xaijax.games.asking.refuse import refuse_bad_scores
from xaijax.games.engine.evaluator import Probed
from xaijax.games.engine.player_values import Values, values_of, whole
from xaijax.games.measure.score import Score

if TYPE_CHECKING:
    from xaijax.games.asking.questions import Questions

Ends = tuple[np.ndarray, np.ndarray]  # the smallest and the largest answer, [K] each
Both = tuple[np.ndarray, np.ndarray]  # the structure's answers to rows and the model's, [R, K] each
LEAST_HYBRIDS = 128
ROWS = 1 << 14  # looked at together: a memory map is read in pieces


@dataclass(frozen=True)
class WholeAnswers:
    """Of the instances, float64 [N, K]."""

    answers: np.ndarray  # the model's own
    allowed: np.ndarray  # how far rounding may take the structure's from them
    base: np.ndarray  # [K], the mean score of the donors, by the model's own answers
    base_allowed: np.ndarray  # [K], how far rounding may take the structure's mean from it


def whole_answers(ask: Questions) -> WholeAnswers:
    """Ask both for the game's instances and donors; raises ModelOutputError.

    ask: the questions of these games (`questions.Questions`), of a model with a structure.
    """
    ends, both, base, allowed = _of_donors(ask.probed)
    donors = ask.setting.replacement.codes
    if ask.codes.shape != donors.shape or not np.array_equal(ask.codes, donors):
        both = None  # of QII's whole data the instances are the donors, and may be asked already
    found = _checked(ask.probed, ask.codes, lambda n: f"X row {n}", ends, both)
    if not ask.probed.known.by_columns:
        _hold_players(ask, ends)
    return WholeAnswers(ask.with_offset(found[0]), found[1], ask.with_offset(base), allowed)


@once
def _of_donors(probed: Probed) -> tuple[Ends, Both | None, np.ndarray, np.ndarray]:
    """(the smallest and the largest of the donors' answers, what both answer to the donors, the
    mean score of the model's answers [K], and how far rounding may take the structure's from it).

    Answers that take more than the share of what is kept are not: None.
    """
    replacement = probed.setting.replacement
    named, both = replacement.row, _asked(probed, replacement.codes)
    own, allowed = _checked(
        probed, replacement.codes, lambda b: f"background row {int(named[b])}", None, both
    )
    kept = probed.setting.memory.fits("kept", 2 * both[1].nbytes) > 0
    scores, allowed = scored(probed.setting.score, own, allowed)
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
    probed: Probed,
    codes: np.ndarray,
    named: Callable[[int], str],
    ends: Ends | None,
    both: Both | None,
) -> tuple[np.ndarray, np.ndarray]:
    """(the model's own answers to these rows, how far rounding may take the structure's from them);
    raises where the structure gives others.

    ends: the smallest and the largest of the donors' answers, by which an answer's spread is told,
    so that it does not hang on what else is explained; None: these are the donors. both: what both
    answer to the rows; None: they are asked.
    """
    answers, allowed = [], []
    agreement = probed.findings.agreement
    assert agreement is not None
    for some in _pieces(len(codes)):
        first = some.start
        found, own = _both(probed, codes[some]) if both is None else (one[some] for one in both)
        spread = _spread(own, _ends(own) if ends is None else ends)
        slack = agreement.allowed(own, spread)
        wrong = _apart(found, own, slack)
        if len(wrong):
            slack[wrong] = np.fmax(
                slack[wrong],
                _sensitivity(probed, np.asarray(codes[some])[wrong], own[wrong], spread[wrong]),
            )
            wrong = _apart(found, own, slack)
        if len(wrong):
            n = int(wrong[0])
            _refuse(probed, probed.known.name, named(first + n), found[n], own[n])
        answers.append(own)
        allowed.append(slack)
    return np.concatenate(answers), np.concatenate(allowed)


def _pieces(R: int) -> list[slice]:
    """R rows in pieces of one size: a few left over would go in the probe's small blocks."""
    size = -(-R // max(-(-R // ROWS), 1)) or 1
    return [slice(first, first + size) for first in range(0, R, size)]


def _asked(probed: Probed, codes: np.ndarray) -> Both:
    """What the structure and the model answer to rows, [R, K] each."""
    parts = [_both(probed, codes[some]) for some in _pieces(len(codes))]
    found, own = (np.concatenate(one) for one in zip(*parts, strict=True))
    return found, own


def _hold_players(ask: Questions, ends: Ends) -> None:
    """Raise InputError where a layer that is declared to be a sum over players is none.

    A hybrid of each instance, LEAST_HYBRIDS at least, by its parts and by the model. The probe knew
    no players, and compared whole rows alone.
    """
    probed, replacement = ask.probed, ask.setting.replacement
    rng, agreement = np.random.default_rng(0), probed.findings.agreement
    assert agreement is not None
    instance = np.arange(max(ask.N, LEAST_HYBRIDS)) % ask.N
    for first in range(0, len(instance), ROWS):
        here = instance[first : first + ROWS]
        x = np.asarray(ask.codes[here])
        donors = replacement.codes[rng.integers(len(replacement.codes), size=len(here))]
        kept = rng.random((len(here), ask.P)) < 0.5
        none = np.zeros((len(here), 1), bool)
        own = np.concatenate([kept, none, ~none], axis=1)[:, ask.setting.code_players]
        rows, others = (replacement.table.asked(codes) for codes in (x, donors))
        found, whole = probed.setting.model.both_answers(probed.structure, rows, (others, own))
        spread = _spread(whole, ends)
        slack = agreement.allowed(whole, spread)
        wrong = _apart(found, whole, slack)
        if len(wrong):
            mixed = np.where(own, x, donors)[wrong]
            moved = _sensitivity(probed, mixed, whole[wrong], spread[wrong])
            slack[wrong] = np.fmax(slack[wrong], moved)
            wrong = _apart(found, whole, slack)
        if len(wrong):
            m = int(wrong[0])
            names = [ask.setting.players.names[p] for p in np.flatnonzero(kept[m])]
            raise InputError(
                f"structure= does not describe {probed.setting.model.name}: first of the "
                "xaijax.Split is no sum over the players of parts that depend on one player each. "
                f"Its parts of X row {int(here[m])} with {names} kept, the others of a background "
                f"row, make {found[m, 0]:.9g}, but the model gives {whole[m, 0]:.9g}. Move what "
                "mixes players from first= into rest=, unite them in players=, or leave structure= "
                "out."
            )


def refuse_other(ask: Questions, structure: str, full: np.ndarray) -> None:
    """Raise ModelOutputError where f(x) of the instances, as it was found [N, K], is not the
    model's: a closed form, or what sums a structure up, is held against it too.
    """
    probed, whole = ask.probed, ask.whole
    wrong = _apart(full, whole.answers, whole.allowed)
    if len(wrong):
        _widen(ask, wrong)
        wrong = _apart(full, whole.answers, whole.allowed)
    if len(wrong):
        n = int(wrong[0])
        _refuse(probed, structure, f"X row {n}", full[n], whole.answers[n])


def refuse_wrong_program(ask: Questions, full: np.ndarray) -> None:
    """Raise ModelOutputError where f(x) of the instances, as the run found it [N, K], is not what
    the probe's program answers; asked for as many instances as the probe has rows, in one call.
    """
    probed, look = ask.probed, ask.probed.findings.look
    if look is None or look.asked is None or full.shape[1] != look.answer.shape[1]:
        return
    model, rows = ask.setting.model, probed.findings.rows
    place = np.linspace(0, ask.N - 1, rows).astype(np.int64)
    asked = ask.setting.replacement.table.asked(np.asarray(ask.codes[place]))
    assert probed.findings.programs is not None
    own = np.asarray(probed.findings.programs["probe"][0](model.params, asked)).reshape(rows, -1)
    gap = look.gap(own, full[place])
    if gap is not None:
        raise ModelOutputError(
            f"{model.name} gives another answer to X row {int(place[gap[1]])} in the program of "
            f"{rows} rows than in the one that answered its hybrids: by up to {gap[0]:.3g}. Either "
            "a row's answer depends on the rows beside it, and must not, or XLA's compiler makes "
            "one of the two programs wrong: use another version of jaxlib, or say backend='host' "
            "in as_model."
        )


def widen(ask: Questions) -> None:
    """Allow each row what its answer goes by rounding."""
    for first in range(0, ask.N, ROWS):
        _widen(ask, np.arange(first, min(first + ROWS, ask.N)))


def _widen(ask: Questions, rows: np.ndarray) -> None:
    """The same for these rows, int [n]."""
    allowed, answers = ask.whole.allowed, ask.whole.answers[rows]
    own = answers - ask.with_offset(np.zeros_like(answers))  # as the program answers
    spread = _spread(own, _of_donors(ask.probed)[0])
    moved = _sensitivity(ask.probed, np.asarray(ask.codes[rows]), own, spread)
    allowed[rows] = np.fmax(allowed[rows], moved)


def _refuse(probed: Probed, structure: str, where: str, found: np.ndarray, own: np.ndarray) -> None:
    with np.errstate(invalid="ignore"):
        apart = np.abs(found - own)
    k = int(np.where(np.isfinite(apart), apart, np.inf).argmax())
    raise ModelOutputError(
        f"the structure {structure!r} of {probed.setting.model.name} gives {found[k]:.9g} for "
        f"{where}, but the model itself gives {own[k]:.9g}: more than rounding can do. Say "
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
    probed: Probed, codes: np.ndarray, own: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """How far rounding may take the structure's answers to rows [n, ..], by these rows; [n, K]."""
    rows = probed.setting.replacement.table.asked(codes)
    moved = probed.setting.model.sensitivity(probed.structure, rows)
    assert probed.findings.agreement is not None
    return moved + probed.findings.agreement.steep(own, spread)


def _both(probed: Probed, codes: np.ndarray) -> Both:
    rows = probed.setting.replacement.table.asked(np.asarray(codes))
    return probed.setting.model.both_answers(probed.structure, rows)


# Donors are asked once for all instances; of a model whose structure is known, by the table of its
# values (`player_values`).

ROWS_AT_A_TIME = 1 << 22  # scores held together


class EmptyAndFull:
    """The ends of the games on one set of instances."""

    def __init__(self, ask: Questions) -> None:
        """ask: the questions of these games (`questions.Questions`)."""
        self._ask = ask
        # Distinct answers to the donors, their weights, and a donor of each.
        self._donors: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def of_donors(self, here: np.ndarray) -> np.ndarray:
        """The mean score of the donors themselves, [n, K]: what keeping nothing gives.

        Donors are asked once for all instances, and scored against each where the score looks at
        f(x), once for each distinct answer.
        """
        setting = self._ask.setting
        if setting.fixed:
            return self._with_fixed(here)
        if self._donors is None:
            answers = self._answers_of_donors()
            distinct, first, place = _distinct_rows(answers)
            weights = np.bincount(place, setting.replacement.weights, len(distinct))
            self._donors = distinct, weights, first
        distinct, weights, donors = self._donors
        score = setting.score
        if score is None or not score.reads_own:
            scores = distinct if score is None else np.asarray(score(distinct, None))
            refuse_bad_scores(setting, scores, donors)
            return np.repeat(weights[None] @ scores, len(here), axis=0)
        own, _, place = _distinct_rows(self._beside(here))
        step = max(1, ROWS_AT_A_TIME // distinct.size)
        parts = []
        for n in range(0, len(own), step):
            some = own[n : n + step]
            against = np.repeat(some, len(distinct), axis=0)
            scores = np.asarray(score(np.tile(distinct, (len(some), 1)), against))
            refuse_bad_scores(setting, scores, np.tile(donors, len(some)))
            scores = scores.reshape(len(some), len(distinct), -1)
            parts.append(np.tensordot(scores, weights, axes=(1, 0)))
        return np.concatenate(parts)[place]

    @cached_property
    def donors_by_values(self) -> np.ndarray | None:
        """The model's answers to the donors [B, A] by the table of their values, of a model that
        crosses; None: no table, or an answer is not finite.
        """
        values = values_of(self._ask.probed, self._ask.codes)
        return None if values is None else self._whole(values, values.of_donors)

    @cached_property
    def rows_by_values(self) -> np.ndarray | None:
        """The same to all instances, [N, A]. One row each is a small part of what lists ask."""
        values = values_of(self._ask.probed, self._ask.codes)
        if values is None or values.of_rows is values.of_donors:
            return self.donors_by_values
        return self._whole(values, values.of_rows)

    def _whole(self, values: Values, numbers: np.ndarray) -> np.ndarray | None:
        answers = whole(self._ask.probed, values, numbers)
        return answers if np.isfinite(answers).all() else None

    def _with_fixed(self, here: np.ndarray) -> np.ndarray:
        """The same where columns of the instance are always kept: each is asked with each donor."""
        setting, none = self._ask.setting, np.zeros((1, self._ask.P), bool)
        donors = np.arange(len(setting.replacement.codes))
        step = min(setting.rows_at_a_time, max(1, ROWS_AT_A_TIME // len(donors)))
        parts = []
        for first in range(0, len(here), step):
            some = here[first : first + step]
            place, donor = np.repeat(np.arange(len(some)), len(donors)), np.tile(donors, len(some))
            zero = np.zeros(len(place), np.int32)
            scores = self._ask.rows_asked(some, place, donor, zero, none)
            scores = scores.reshape(len(some), len(donors), -1)
            parts.append(np.tensordot(scores, setting.replacement.weights, axes=(1, 0)))
        return np.concatenate(parts)

    def _answers_of_donors(self) -> np.ndarray:
        """The model's answers to the donors, [B, A]."""
        B = len(self._ask.setting.replacement.codes)
        if self._ask.crosses and self.donors_by_values is not None:
            self._ask.answered(B)
            return self.donors_by_values.astype(np.float64)
        zero, none = np.zeros(B, np.int32), np.zeros((1, self._ask.P), bool)
        return self._ask.rows_asked(np.zeros(1, int), zero, np.arange(B), zero, none, False)

    def _beside(self, here: np.ndarray) -> np.ndarray:
        """What the score looks at beside an answer: f(x) [n, A] of the instances `here`, or what
        the score makes of it.
        """
        score = self._ask.setting.score
        assert score is not None
        if score.made_of_own is not None:
            own = self._ask.instances(here).own
            assert own is not None
            return own
        if self._ask.crosses and self.rows_by_values is not None:
            self._ask.answered(len(here))
            return self.rows_by_values[here].astype(np.float64)
        own = self._ask.instances(here).own
        assert own is not None
        return own


def _distinct_rows(answers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(distinct answers [n, A], the first row of each, which of them every row is) of [R, A]."""
    axis = 0 if answers.shape[1] > 1 else None  # numbers are sorted faster than rows
    distinct, first, place = np.unique(answers, axis=axis, return_index=True, return_inverse=True)
    return distinct.reshape(-1, answers.shape[1]), first, place.ravel()
