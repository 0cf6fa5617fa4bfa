"""Nearest neighbours.

The nearest by blocks: the k nearest of all lie in the k blocks whose smallest distances are the
smallest. One product of matrices says which blocks these are, a few more of them since it rounds;
their members are measured from differences, which do not cancel.

Where the k-th and the next neighbour are equally far, scikit-learn's answer hangs on the order in
which its search meets them: such rows are `undecided`.

Letters: R rows, F columns, V training rows, k neighbours, m members of a block, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax._coded_table import Untranslatable
from xaijax.models._columns import Columns, dense
from xaijax.models._translation import Head, Translation, translates
from xaijax.models.translations._heads import place, then

NUMBERS = 1024  # of a block, F m; measured again for k blocks, so more would outweigh the product
MEMBERS = 8, 64
SPARE = 8  # blocks beyond k, whose order the product may have turned
AT_ONCE = 2048  # training rows of one product: what a tile makes of them stays in the cache
FAR = 1e30  # stands in for padding


@translates("KNeighborsClassifier")
def classifier(estimator: Any, columns: Columns) -> Translation:
    """Shares of the classes among the neighbours; the largest decides, ties to the lowest."""
    K = len(estimator.classes_)
    votes = np.eye(K)[np.asarray(estimator._y).ravel()]
    params, mean, undecided = _neighbours(estimator, votes, columns)
    heads = {"proba": mean, "label": then(mean, place)}
    return Translation(params, heads, "neighbours", undecided=undecided)


@translates("KNeighborsRegressor")
def regressor(estimator: Any, columns: Columns) -> Translation:
    """The mean of the neighbours' targets."""
    targets = np.asarray(estimator._y, np.float64)
    params, mean, undecided = _neighbours(estimator, targets.reshape(len(targets), -1), columns)
    heads = {"value": then(mean, lambda x: x[:, 0]) if targets.ndim == 1 else mean}
    return Translation(params, heads, "neighbours", undecided=undecided)


def _neighbours(
    estimator: Any, targets: np.ndarray, columns: Columns
) -> tuple[Any, Head, Callable[[np.ndarray], np.ndarray]]:
    """(params, the weighted mean of the neighbours' targets [R, K], rows with ties)."""
    power = _power(estimator)
    if estimator.weights not in ("uniform", "distance"):
        raise Untranslatable("its weights are a function")
    rows_of = dense(estimator._fit_X)
    k, by_distance = int(estimator.n_neighbors), estimator.weights == "distance"
    centre = rows_of.mean(axis=0)  # distances do not change where all is moved
    params = {
        "rows": columns.number(rows_of - centre),
        "targets": columns.number(targets),
        "centre": columns.number(centre),
    }

    def mean(params: Any, rows: Any) -> Any:
        rows = rows - params["centre"]
        smallest, near = _nearest(params["rows"], rows, k, power)
        weights = jnp.ones_like(smallest)
        if by_distance:
            # A neighbour at distance 0 decides alone, with others at 0.
            same = smallest == 0
            weights = jnp.where(same.any(axis=1, keepdims=True), same, 1 / smallest)
        total = (weights[:, :, None] * params["targets"][near]).sum(axis=1)
        return total / weights.sum(axis=1, keepdims=True)

    return params, mean, lambda rows: _tied(rows, rows_of, k, power, columns.dtype)


def _power(estimator: Any) -> float:
    """p of the Minkowski distance that `metric` names."""
    metric, given = estimator.effective_metric_, estimator.effective_metric_params_ or {}
    named = {"euclidean": 2.0, "l2": 2.0, "manhattan": 1.0, "cityblock": 1.0, "l1": 1.0}
    named |= {"chebyshev": np.inf, "infinity": np.inf}
    if metric in named and not given:
        return named[metric]
    if metric == "minkowski" and given.get("w") is None and set(given) <= {"p", "w"}:
        return float(given.get("p", 2.0))
    raise Untranslatable(f"its metric, {metric!r}, has no translation")


def _length(off: Any, power: float) -> Any:
    """Distances of differences [..., F], not negative."""
    if power == np.inf:
        return off.max(axis=-1)
    if power == 1.0:
        return off.sum(axis=-1)
    if power == 2.0:
        return jnp.sqrt((off * off).sum(axis=-1))
    return (off**power).sum(axis=-1) ** (1 / power)


def _nearest(train: Any, rows: Any, k: int, power: float) -> tuple[Any, Any]:
    """(distances, places) of the nearest k of `train` [V, F], [R, k] each."""
    V, F = train.shape
    m = min(max(NUMBERS // F, MEMBERS[0]), MEMBERS[1])
    m = 1 << m.bit_length() - 1
    places = jnp.arange(V)[None]
    near = train[None]
    if k + SPARE < V // m:
        minima = _minima(train, rows, m, power)  # [R, blocks]
        chosen = jax.lax.top_k(-minima, k + SPARE)[1]
        blocks = jnp.pad(train, ((0, minima.shape[1] * m - V), (0, 0))).reshape(-1, m * F)
        near = blocks[chosen].reshape(len(rows), -1, F)
        places = (chosen[:, :, None] * m + jnp.arange(m)).reshape(len(rows), -1)
    far = jnp.where(places < V, _length(jnp.abs(rows[:, None] - near), power), jnp.inf)
    smallest, which = jax.lax.top_k(-far, k)
    places = jnp.broadcast_to(places, far.shape)
    return -smallest, jnp.take_along_axis(places, which, axis=1)


def _minima(train: Any, rows: Any, m: int, power: float) -> Any:
    """The smallest distance of each block of m training rows, [R, blocks], up to rounding.

    In an order of their own: the squares of the rows themselves, or the root, are left out.
    """
    V, F = train.shape
    filled = jnp.pad(train, ((0, -V % AT_ONCE), (0, 0)))
    # Members apart, blocks together: the minimum then runs over whole lines of memory.
    parts = filled.reshape(-1, AT_ONCE // m, m, F).swapaxes(1, 2).reshape(-1, AT_ONCE, F)
    void = (jnp.arange(len(filled)) >= V).reshape(-1, AT_ONCE // m, m).swapaxes(1, 2)

    def of_part(part: tuple[Any, Any]) -> Any:
        some, void = part
        if power == 2.0:
            # One product, of which the last column adds the squares of the training rows.
            far = jnp.where(void.reshape(-1), FAR, (some * some).sum(axis=1))
            wide = jnp.concatenate([-2 * some, far[:, None]], axis=1)
            found = jnp.pad(rows, ((0, 0), (0, 1)), constant_values=1) @ wide.T
        else:
            found = jnp.where(void.reshape(-1), FAR, _accumulated(some, rows, power))
        return found.reshape(len(rows), m, -1).min(axis=1)

    minima = jax.lax.map(of_part, (parts, void))  # [parts, R, AT_ONCE / m]
    return minima.swapaxes(0, 1).reshape(len(rows), -1)


def _accumulated(train: Any, rows: Any, power: float) -> Any:
    """Powers of distances [R, V], a column at a time, so that [R, V, F] never exists."""

    def add(total: Any, pair: Any) -> tuple[Any, None]:
        off = jnp.abs(pair[0][:, None] - pair[1])
        more = off if power in (1.0, np.inf) else off**power
        return (jnp.maximum(total, more) if power == np.inf else total + more), None

    first = jnp.zeros((rows.shape[0], train.shape[0]), rows.dtype)
    return jax.lax.scan(add, first, (rows.T, train.T))[0]


def _tied(rows: np.ndarray, train: np.ndarray, k: int, power: float, dtype: Any) -> np.ndarray:
    """Rows whose k-th and next neighbour are equally far up to rounding; bool [M].

    The rounding of a distance is that of the largest number that goes into it, F times.
    """
    if k >= len(train):
        return np.zeros(len(rows), bool)
    tied = []
    for row in rows.astype(np.float64):
        off = np.abs(train - row)
        far = np.linalg.norm(off, ord=power, axis=1)
        near, after = np.partition(far, [k - 1, k])[k - 1 : k + 1]
        size = max(np.abs(row).max(), np.abs(train).max())
        tied.append(after - near <= 4 * len(row) * np.finfo(dtype).eps * size)
    return np.array(tied)
