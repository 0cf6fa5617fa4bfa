"""People's inputs, as texts next to their influences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.results.explanation import Explanation
from xaijax.results.private_explanation import PrivateExplanation
from xaijax.tables.rows import rows_of


def profiles_of(
    explanation: Explanation | PrivateExplanation, profile: Any
) -> list[list[str | None]]:
    """Returns for each person one text per player [P]; None if a player has no single value to
    show.

    profile: a frame or a list of mappings, one row per person; a player without a column there is
        taken from the data.
    """
    N, names = len(explanation), explanation.feature_names
    data = explanation.player_data()
    texts = [[None if values is None else as_text(values[n]) for values in data] for n in range(N)]
    if profile is None:
        return texts
    rows = _rows(profile, N)
    known = {name for row in rows for name in row}
    if not known & set(names):
        raise InputError(
            f"profile: none of its columns {sorted(known)[:10]} is a player of {list(names)[:20]}."
        )
    for person, row in zip(texts, rows, strict=True):
        for j, name in enumerate(names):
            if name in row:
                person[j] = as_text(row[name])
    return texts


def _rows(profile: Any, N: int) -> list[dict[str, Any]]:
    frame = rows_of(profile)
    if frame.is_frame:
        labels, columns = frame.labels, frame.columns()
        rows = [
            dict(zip(labels, [c[n] for c in columns], strict=True)) for n in range(len(profile))
        ]
    elif isinstance(profile, Mapping):
        rows = [profile]
    elif isinstance(profile, Sequence) and all(isinstance(row, Mapping) for row in profile):
        rows = profile
    else:
        raise InputTypeError(
            f"profile must be a frame or a list of dicts, a row each, got {type(profile).__name__}."
        )
    if len(rows) != N:
        raise InputError(f"profile has {len(rows)} rows for {N} people.")
    return [{str(key): value for key, value in row.items()} for row in rows]


def as_text(value: Any) -> str:
    """The text of a number by `shown_number`, of anything else as it is."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | float | np.integer | np.floating):
        return shown_number(value)
    return str(value)


def shown_number(value: Any, digits: int = 4, sign: bool = False) -> str:
    """A number with this number of digits, all those before the point, no exponent up to 1e15.

    Commas are used from 10,000 on, since 1984 may be a year. 0 has no minus sign. There is no
    exponent from 1e-4 on.
    """
    number = float(value) + 0.0  # -0.0 + 0.0 is 0.0
    plus = "+" if sign else ""
    if math.isfinite(number) and 10**digits - 0.5 <= abs(number) < 1e15:
        return f"{number:{plus}{',' if abs(number) >= 9_999.5 else ''}.0f}"
    return f"{number:{plus}.{digits}g}"
