"""Checks that rows of the probe have the same outputs in a run, among many more rows.

Most runs contain an unchanged donor (the empty coalition) or an unchanged instance (the full one).
A host model that differs on large batches is therefore detected without additional rows or calls.
The last instance is among them, because a model that is only right for its first rows fails late.

A host function may also change while it is explained. A few rows of a run's first call are
therefore evaluated again at its end.

Letters: R rows of a call, r rows of the probe, C code columns, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax.games.engine.host import hashes
from xaijax.games.measure.replacement.base import agreement_codes
from xaijax.models.queries.probe import AnsweredBefore

MOST = 256  # rows of a call that are compared
FIRST = 32  # rows of a run's first call that are evaluated again


class DeterminismCheck:
    """Finds the probe's rows in a call, and compares their outputs."""

    def __init__(
        self, codes: np.ndarray, donors: int, table: Any, compare: AnsweredBefore, most: int | None
    ) -> None:
        """codes: [r, C]; the first `donors` of them are the same rows in every run, the others only
        with this table.

        compare(indices of the probe's rows [n], their outputs [n, K], R): raises if they differ.
        most: maximum rows of one call of the model; None: no limit.
        """
        self._most = FIRST if most is None else min(FIRST, most)
        self._words, self._compare = agreement_codes(codes), compare
        self._donors, self._table = donors, table
        self._keys = hashes(self._words)
        self._seen = {len(codes)}  # sizes of calls that were checked
        self.start()

    def start(self) -> None:
        """Begins a run."""
        self._calls = 0
        self._first: tuple[np.ndarray, np.ndarray, Any] | None = None

    def finish(self, answer: Callable[[np.ndarray, Any], np.ndarray]) -> None:
        """Ends a run: evaluates some rows of its first call again, if it took several calls.

        answer(codes, table): the model's outputs. Raises NonDeterministicModelError if they differ
        from those of the first call.
        """
        first, several = self._first, self._calls > 1
        self.start()
        if first is not None and several:
            codes, before, table = first
            self._compare.refuse_two(before, answer(codes, table))

    def __call__(self, codes: np.ndarray, answers: np.ndarray, table: Any) -> None:
        """Checks the first call with R rows, codes [R, C] of the table and outputs [R, K]; keeps
        some rows of a run's first call.
        """
        self._calls += 1
        if self._first is None:
            sample = np.linspace(0, len(codes) - 1, min(self._most, len(codes))).astype(np.int64)
            self._first = codes[sample].copy(), answers[sample].copy(), table
        if len(codes) in self._seen:
            return
        self._seen.add(len(codes))
        known = len(self._words) if table is self._table else self._donors
        words = agreement_codes(codes)
        seen = np.flatnonzero(np.isin(hashes(words), self._keys[:known]))
        if len(seen) > MOST:  # the first and the last of them
            seen = np.concatenate([seen[: MOST // 2], seen[-MOST // 2 :]])
        same = (words[seen, None] == self._words[:known]).all(axis=2)  # [seen, known]
        matched = same.any(axis=1)
        if matched.any():
            self._compare(same.argmax(axis=1)[matched], answers[seen[matched]], len(codes))
