"""`background`: rows that stand for absent players, chosen among many.

Letters: M rows given, B rows chosen, F columns.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from xaijax.certainty.medoids import medoids
from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.core.typing import Rows
from xaijax.results.background import Background
from xaijax.tables.rows import rows_of

METHODS = ("kmedoids", "random", "all")


@public
def background(
    rows: Rows,
    size: int | None = None,
    method: Literal["kmedoids", "random", "all"] = "kmedoids",
    seed: int = 0,
) -> Background:
    """Choose rows for `background=` of an explainer.

    A model is asked a row for each background row and coalition, so a choice of a hundred rows is
    much cheaper than thirty thousand; `background_spread` tells what the choice does to the values.

    Args:
        rows: [M, *F], an array or a frame.
        size: int, 1 to M. How many; with "all" leave it out.
        method: "kmedoids": rows in the middle of B groups, each with its group's share as a weight
            (medoids for the squared distance of standardised columns; a text counts as a column for
            each of its values). "random": drawn without replacement, of equal weight: values are
            then those of all rows in the mean over seeds. "all": all of them.
        seed: int. Of the draw, and of where the groups start.

    Returns:
        A `Background`: `.rows` and `.weights`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted; for "kmedoids" also numbers
            that are not finite, and fewer different rows than `size`.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.random.default_rng(0).normal(size=(1000, 3))
        >>> chosen = xj.background(rows, 20)
        >>> model = xj.as_model(lambda X: X.sum(axis=1))
        >>> explanation = xj.Explainer(model, chosen.rows, weights=chosen.weights)(rows[:5])
        >>> explanation.shape
        (5, 3)

    References:
        Park and Jun, "A simple and fast algorithm for K-medoids clustering" (2009): the alternation
        of groups and medoids.
    """
    checks.one_of(method, "method", METHODS)
    seed = checks.whole_number(seed, "seed", least=0)
    held = rows_of(rows)
    M = len(held)
    if M == 0:
        raise InputError("rows: there are none to choose from.")
    if method == "all":
        if size not in (None, M):
            raise InputError(f"size={size!r} with method='all', which takes all {M:,} rows.")
        return Background(rows, None, np.arange(M), method)
    if size is None:
        raise InputError(f"size: method={method!r} needs how many of the {M:,} rows to choose.")
    size = checks.whole_number(size, "size")
    if size > M:
        raise InputError(f"size={size:,}, but there are {M:,} rows. Say method='all'.")
    if method == "random":
        places = np.sort(np.random.default_rng(seed).choice(M, size, replace=False))
        return Background(held.take(places), None, places, method)
    places, weights = medoids(_numbers(held), size, seed)
    return Background(held.take(places), weights, places, method)


def _numbers(held: Any) -> np.ndarray:
    """Rows as standardised numbers, float64 [M, columns]; texts as a column for each value."""
    if held.is_frame:
        parts = [_column(one) for one in held.columns()]
        table = np.concatenate(parts, axis=1)
    else:
        table = checks.real_numbers(held.matrix(), "rows").reshape(len(held), -1)
        table = _standard(table)
    if not np.isfinite(table).all():
        raise InputError(
            "rows: some numbers are not finite, and distances need finite ones. Say "
            "method='random', or leave these rows out."
        )
    return table


def _column(column: np.ndarray) -> np.ndarray:
    if column.dtype.kind in "biuf":
        return _standard(column.astype(np.float64)[:, None])
    values, place = np.unique(column.astype(str), return_inverse=True)
    return np.eye(len(values))[place.reshape(-1)] / np.sqrt(2)  # two values are 1 apart


def _standard(table: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        spread = table.std(axis=0)
        return (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1)
