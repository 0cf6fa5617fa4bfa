"""k-medoids for squared Euclidean distances.

The sum of squared distances of a group's rows to a point y is their spread about the mean plus n
times the squared distance of y from the mean. So the medoid of a group is its row nearest to the
mean, and no distance between two rows is needed.

Letters: M rows, B groups, F columns.
"""

from __future__ import annotations

import numpy as np

from xaijax.core.errors import InputError

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
