"""`Subsample`: rows drawn for a private release, and how they were drawn.

Letters: D rows of the full data, M rows drawn.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from xaijax.results.recount import Once, Sample
from xaijax.results.shared_fields import take_rows


class Subsample:
    """Rows drawn without replacement, by the operating system's randomness; `QII` takes it as data.

    Made by `xaijax.privacy.subsample`. Which rows were drawn stays inside: the privacy that a
    sample adds is that nobody knows it. It is neither saved nor copied; one released report uses it
    up, in the process that drew it.
    """

    def __init__(self, data: Any, places: np.ndarray, given: Any = None) -> None:
        """places: int [M], in random order, of the rows of `data` [D] that were drawn.

        given: what `data` was read from, where that is another object.
        """
        self._data, self._places = data, places
        self.given = data if given is None else given
        self._rows: Any = None
        self.sample = Sample(len(places), len(data), len(places) / len(data), Once())

    def __len__(self) -> int:
        return len(self._places)

    @property
    def rows(self) -> Any:
        """The rows drawn [M, ...], of the kind that was given; one object, made once."""
        if self._rows is None:
            self._rows = take_rows(self._data, self._places)
        return self._rows

    @property
    def full(self) -> Any:
        """The rows that were drawn from [D, ...]."""
        return self._data

    @property
    def rate(self) -> float:
        """M / D."""
        return self.sample.rate

    def of_full(self, mask: np.ndarray) -> np.ndarray:
        """The entries [M] of what stands for all rows [D]."""
        return mask[self._places]

    def __repr__(self) -> str:
        return f"Subsample({len(self):,} of {len(self._data):,} rows)"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Subsample is not copied or stored: a second copy of the same draw could be released "
            "again. Draw another one (xaijax.privacy.subsample)."
        )
