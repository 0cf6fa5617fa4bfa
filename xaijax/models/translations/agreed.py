"""Rows on which a translation agreed with its estimator: no further explainer compares them again.

A background is asked about by many explainers, and the estimator's own answers to it may take
longer than an explanation.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from xaijax.models.identity.fit_stamp import Stamp
from xaijax.tables.fingerprints import hash_of_numbers

MOST = 1 << 12  # keys; the oldest goes
LIBRARIES = ("sklearn", "numpy", "scipy")


class Agreed:
    """The hashes of these rows, of one translation and one fit."""

    def __init__(self) -> None:
        self._keys: dict[Hashable, None] = {}

    def key(self, centred: bool, kinds: list[Any]) -> Hashable:
        """What rows of these kinds are known by; None: they are compared each time.

        centred: which translation is compared, see `centre.py`. The rows' own numbers, not as JAX
        reads them: the estimator may tell two numbers apart that float32 does not. Taken before the
        estimator is asked, which may write into its rows.
        """
        hashes = [hash_of_numbers(rows) for rows in kinds]
        return None if None in hashes else (centred, *hashes)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._keys

    def clear(self) -> None:
        """Compare all rows again."""
        self._keys.clear()

    def add(self, key: Hashable, stamp: Stamp | None, spread: np.ndarray | None) -> None:
        """These rows agreed, within a share of this spread of the answers.

        Not kept where the spread is 0, which accepts more than a later one may, nor where a class
        of somebody else's takes part, whose state may lie where no stamp sees it.
        """
        told = spread is not None and bool((spread > 0).all())
        if key is None or not told or stamp is None or not stamp.made_by(LIBRARIES):
            return
        self._keys[key] = None
        if len(self._keys) > MOST:
            del self._keys[next(iter(self._keys))]
