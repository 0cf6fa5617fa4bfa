"""The probe's rows are asked again in the run, among many more rows: are the answers the same?

A donor as it is (the empty coalition), or an instance as it is (the full one), is in most runs, so
a host model that answers large batches otherwise is found out without one more row or call. The
last instance is among them: it comes late, where a model that answers only its first rows is off.

A host function may also change while it is explained. Some rows of the first call of a run are
therefore asked once more when the run is over.

Letters: R rows of a call, r rows of the probe, C code columns, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax.games.engine.host import hashes
from xaijax.models.queries.probe import AnsweredBefore
from xaijax_kernels.engine.lattice import agreement_codes

MOST = 256  # rows of a call that are compared
FIRST = 32  # rows of a run's first call that are asked again


class DeterminismCheck:
    """Finds those rows in a call, and has the answers to them compared."""

    def __init__(
        self, codes: np.ndarray, donors: int, table: Any, compare: AnsweredBefore, most: int | None
    ) -> None:
        """codes: [r, C]; the first `donors` of them mean the same in every run, and the others do
        if the rows are read by this table.

        compare(which of the probe's rows [n], their answers [n, K], R): raises if they differ.
        most: rows of one call of the model; None: any number.
        """
        self._most = FIRST if most is None else min(FIRST, most)
        self._words, self._compare = agreement_codes(codes), compare
        self._donors, self._table = donors, table
        self._keys = hashes(self._words)
        self._seen = {len(codes)}  # sizes of calls that were looked at
        self.start()

    def start(self) -> None:
        """A run begins."""
        self._calls = 0
        self._first: tuple[np.ndarray, np.ndarray, Any] | None = None

    def finish(self, answer: Callable[[np.ndarray, Any], np.ndarray]) -> None:
        """A run is over: ask some rows of its first call again, where it took several.

        answer(codes, table): the model's answers. Raises NonDeterministicModelError if they are
        not those of the first call.
        """
        first, several = self._first, self._calls > 1
        self.start()
        if first is not None and several:
            codes, before, table = first
            self._compare.refuse_two(before, answer(codes, table))

    def __call__(self, codes: np.ndarray, answers: np.ndarray, table: Any) -> None:
        """Looks at a call, codes [R, C] by the table and answers [R, K], the first time that one
        has R rows; keeps some of a run's first call.
        """
        self._calls += 1
        if self._first is None:
            some = np.linspace(0, len(codes) - 1, min(self._most, len(codes))).astype(np.int64)
            self._first = codes[some].copy(), answers[some].copy(), table
        if len(codes) in self._seen:
            return
        self._seen.add(len(codes))
        known = len(self._words) if table is self._table else self._donors
        words = agreement_codes(codes)
        here = np.flatnonzero(np.isin(hashes(words), self._keys[:known]))
        if len(here) > MOST:  # the first and the last of them
            here = np.concatenate([here[: MOST // 2], here[-MOST // 2 :]])
        same = (words[here, None] == self._words[:known]).all(axis=2)  # [found, known]
        found = same.any(axis=1)
        if found.any():
            self._compare(same.argmax(axis=1)[found], answers[here[found]], len(codes))
