"""`Subsample`: rows drawn for a private release, and how they were drawn.

Letters: D rows of the full data, M rows drawn.
"""

from __future__ import annotations

import secrets
from typing import Any, NoReturn

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.core.typing import Rows
from xaijax.results.recount import Once, Sample
from xaijax.results.shared_fields import take_rows
from xaijax.tables.rows import rows_of


class Subsample:
    """Rows drawn without replacement by the operating system's randomness, as data for `QII`.

    It is made by `xaijax.privacy.subsample`. It does not reveal which rows were drawn: a sample
    adds privacy because nobody knows this. It is neither saved nor copied; one released report uses
    it up, in the process that drew it.
    """

    def __init__(self, data: Any, places: np.ndarray, given: Any = None) -> None:
        """places: int [M], in random order: positions of the drawn rows of `data` [D].

        given: the object that `data` was read from, if it is another one.
        """
        self._data, self._places = data, places
        self.given = data if given is None else given
        self._rows: Any = None
        self.sample = Sample(len(places), len(data), len(places) / len(data), Once())

    def __len__(self) -> int:
        return len(self._places)

    @property
    def rows(self) -> Any:
        """The drawn rows [M, ...], of the type that was given; one object, made once."""
        if self._rows is None:
            self._rows = take_rows(self._data, self._places)
        return self._rows

    @property
    def full(self) -> Any:
        """The full rows [D, ...] from which the sample was drawn."""
        return self._data

    @property
    def rate(self) -> float:
        """The share M / D of drawn rows."""
        return self.sample.rate

    def of_full(self, mask: np.ndarray) -> np.ndarray:
        """The entries [M] for the drawn rows, from those [D] for all rows."""
        return mask[self._places]

    def __repr__(self) -> str:
        return f"Subsample({len(self):,} of {len(self._data):,} rows)"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Subsample is not copied or stored: a copy of a draw could be released again. Draw "
            "another one (xaijax.privacy.subsample)."
        )


@public
def subsample(data: Rows, rate: float) -> Subsample:
    """Draws rows for a private release so that nobody knows which; `QII` takes them as data.

    round(rate D) of the D rows, at least one, are drawn without replacement by the operating
    system's randomness. There is no seed, since a known draw would hide nobody.

    A release of the M drawn rows then needs less noise than M rows alone would. Its epsilon holds
    for the full data, and the noise is that of M rows at ln(1 + (e^epsilon - 1) / rate). For
    "group" and "disparity" the largest drawn share, of the members, the rest or all rows, replaces
    rate. Each draw can be released once, in the process that made it.

    Args:
        data: array [D, ...] or frame, with at least two rows.
        rate: float above 0 and at most 1.

    Returns:
        The draw: `len` is M, `rate` is M / D, `rows` are the drawn rows and `full` is the data. It
        can be neither copied nor stored.

    Raises:
        InputError, InputTypeError: an argument is not accepted.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> xj.privacy.subsample(np.zeros((6, 2), np.float32), 0.5)
        Subsample(3 of 6 rows)

    References:
        Balle, Barthe and Gaboardi, "Privacy amplification by subsampling: tight analyses via
        couplings and divergences" (NeurIPS 2018), theorem 9. Datta, Sen and Zick, "Algorithmic
        transparency via quantitative input influence" (IEEE S&P 2016), theorem 13.
    """
    checks.share(rate, "rate", top=True)
    if isinstance(data, Subsample):
        raise InputError("data is a Subsample already. Draw from the full data.")
    rows: Any = data
    if not rows_of(data).is_frame:
        rows = checks.as_array(data, "data")
        if not rows.ndim:
            raise InputTypeError(f"data must be rows [N, F], got {type(data).__name__}.")
    if len(rows) < 2:
        raise InputError(f"data has {len(rows)} rows; at least 2 are needed to draw from.")
    count = max(1, round(float(rate) * len(rows)))
    # In the random order of the draw: if sorted, a record that is replaced by another one of the
    # draw would move all rows between them to other positions in the model's batches.
    drawn = secrets.SystemRandom().sample(range(len(rows)), count)
    return Subsample(rows, np.array(drawn), data)
