"""`subsample`: rows for a private release, drawn so that nobody knows which.

Letters: D rows of the full data, M rows drawn.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from xaijax import _checks
from xaijax._errors import InputError, InputTypeError
from xaijax._frames import frame_kind
from xaijax._public import public
from xaijax._subsample import Subsample


@public
def subsample(data: Any, rate: float) -> Subsample:
    """round(rate D) rows, at least one, drawn without replacement; `QII` takes them as data.

    The draw is the operating system's and has no seed: one that is known would hide nobody. A
    release then needs less noise per epsilon than its M rows alone would: epsilon holds for the
    full data, and the mechanism runs at ln(1 + (e^epsilon - 1) / rate). Each draw can be released
    once, in the process that made it.

    Arguments:
        data: array [D, ...] or frame, at least two rows.
        rate: above 0, at most 1.

    Raises InputError, InputTypeError.
    """
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.integer | np.floating):
        raise InputTypeError(f"rate must be a number above 0 and at most 1, got {rate!r}.")
    if not 0 < float(rate) <= 1:
        raise InputError(f"rate must be above 0 and at most 1, got {rate!r}.")
    if isinstance(data, Subsample):
        raise InputError("data is a Subsample already. Draw from the full data.")
    given = data
    if not frame_kind(data):
        data = _checks.as_array(data, "data")
    if len(data) < 2:
        raise InputError(f"data has {len(data)} rows; at least 2 are needed to draw from.")
    count = max(1, round(float(rate) * len(data)))
    # In the random order of the draw: sorted, a record that is replaced by another one of the draw
    # would move all rows between them to another place in the model's batches.
    drawn = secrets.SystemRandom().sample(range(len(data)), count)
    return Subsample(data, np.array(drawn), given)
