"""`background`: rows that stand for absent players, chosen among many.

Letters: M rows given, B rows chosen, F columns.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

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


# The sum of squared distances of a group's rows to a point y is their spread about the mean plus n
# times the squared distance of y from the mean. So the medoid of a group is its row nearest to the
# mean, and no distance between two rows is needed.

ROUNDS = 100


def medoids(table: np.ndarray, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(places of the medoids among the rows, ascending [B]; the share of rows of each [B]).

    table: float64 [M, F]. Groups start from k-means; then rows go to their nearest medoid and
    medoids to the middle of their rows in turn, until nothing changes: no turn makes the sum of
    squared distances larger. Raises InputError for fewer different rows than `size`.
    """
    from sklearn.cluster import KMeans  # noqa: PLC0415 - `import xaijax` does not load scikit-learn
    from sklearn.metrics import pairwise_distances_argmin  # noqa: PLC0415

    rows, place, counts = np.unique(table, axis=0, return_index=True, return_counts=True)
    if len(rows) < size:
        raise InputError(
            f"size={size:,}, but only {len(rows):,} of the {len(table):,} rows are different. Say "
            f"size={len(rows)} or less."
        )
    found = KMeans(size, random_state=seed).fit(rows, sample_weight=counts)
    group = np.asarray(found.labels_, np.int64)
    chosen = np.zeros(0, np.int64)
    for _ in range(ROUNDS):
        middle = _middles(rows, counts, group)
        if np.array_equal(middle, chosen):
            break
        chosen = middle
        group = pairwise_distances_argmin(rows, rows[chosen])
    weights = np.bincount(group, counts, len(chosen)) / len(table)
    order = np.argsort(place[chosen])
    return place[chosen][order], weights[order]


def _middles(rows: np.ndarray, counts: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The row nearest to the mean of each group, int64 [B]; the first of equally near ones."""
    groups = int(group.max()) + 1
    total = np.zeros((groups, rows.shape[1]))
    np.add.at(total, group, rows * counts[:, None])
    mean = total / np.bincount(group, counts, groups)[:, None]
    far = ((rows - mean[group]) ** 2).sum(axis=1)
    order = np.lexsort((far, group))
    return order[np.searchsorted(group[order], np.arange(groups))]
