"""The two ends of a game: the scores of the donors themselves, and what they are scored against.

Donors are asked once for all instances; of a model whose structure is known, by the table of its
values (`player_values`).

Letters: N instances, n of them, B donors, A answers, K scores.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from xaijax.games.asking.asked import Asked
from xaijax.games.asking.refuse import refuse_bad_scores
from xaijax.games.engine.player_values import Values, values_of, whole

ROWS_AT_A_TIME = 1 << 22  # scores held together


class Ends:
    """The ends of the games on one set of instances."""

    def __init__(self, ask: Asked) -> None:
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
