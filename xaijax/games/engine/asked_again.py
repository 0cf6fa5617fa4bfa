"""The probe's donors are asked again in the run, among many more rows: are the answers the same?

A donor as it is (the empty coalition), or an instance that equals one, stands in most runs, so a
host model that answers large batches otherwise is found out without one more row or call.

Letters: R rows of a call, r rows of the probe, C code columns, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xaijax.games.engine.shared_rows import hashes
from xaijax.games.measure.replacement import agreement_codes

MOST = 256  # rows of a call that are compared


class AskedAgain:
    """Finds those donors in a call, and has the answers to them compared."""

    def __init__(self, codes: np.ndarray, compare: Callable[..., None]) -> None:
        """codes: [r, C], which mean the same in this run.

        compare(which of the probe's rows [n], their answers [n, K], R): raises where they differ.
        """
        self._words, self._compare = agreement_codes(codes), compare
        self._keys = hashes(self._words)
        self._seen = {len(codes)}  # sizes of calls that were looked at

    def __call__(self, codes: np.ndarray, answers: np.ndarray) -> None:
        """Look at a call, codes [R, C] and answers [R, K], the first time that one has R rows."""
        if len(codes) in self._seen:
            return
        self._seen.add(len(codes))
        words = agreement_codes(codes)
        here = np.flatnonzero(np.isin(hashes(words), self._keys))[:MOST]
        same = (words[here, None] == self._words).all(axis=2)  # [found, r]
        found = same.any(axis=1)
        if found.any():
            self._compare(same.argmax(axis=1)[found], answers[here[found]], len(codes))
