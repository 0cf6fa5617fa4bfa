"""`background`: chooses the rows that replace absent players.

Letters: M rows given, B rows chosen, F columns, N instances, S sizes, D draws, P players, K
outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.pickling import made_of
from xaijax.core.public import public
from xaijax.core.typing import Rows
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.methods.explainer.explainer import Explainer
from xaijax.results.background import Background, BackgroundSpread
from xaijax.tables.rows import rows_of

METHODS = ("kmedoids", "random", "all")


@public
def background(
    rows: Rows,
    size: int | None = None,
    method: Literal["kmedoids", "random", "all"] = "kmedoids",
    seed: int = 0,
) -> Background:
    """Chooses rows for `background=` of an explainer.

    The model evaluates one row for each background row and coalition, so a hundred chosen rows cost
    much less than thirty thousand. `background_spread` measures how much the choice changes the
    values.

    Args:
        rows: [M, *F], an array or a frame.
        size: int, 1 to M. Number of rows to choose; leave it out with "all".
        method: "kmedoids": rows in the middle of B groups, each with its group's share as a weight
            (medoids for the squared distance of standardised columns; a text counts as a column for
            each of its values). "random": drawn without replacement, of equal weight: values are
            then those of all rows in the mean over seeds. "all": all of them.
        seed: int. Seed of the draw, and of the starting groups.

    Returns:
        A `Background`: `.rows` and `.weights`.

    Raises:
        InputError, InputTypeError: an argument is not accepted; with "kmedoids" also if numbers are
            not finite, or there are fewer different rows than `size`.

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
        raise InputError("rows: got 0 rows; give at least 1.")
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
    """Returns rows as standardised numbers, float64 [M, columns]; texts as a column for each
    value.
    """
    if held.is_frame:
        parts = [_column(column) for column in held.columns()]
        table = np.concatenate(parts, axis=1)
    else:
        table = checks.real_numbers(held.matrix(), "rows").reshape(len(held), -1)
        table = _standard(table)
    if not np.isfinite(table).all():
        raise InputError(
            "rows: some numbers are not finite. Say method='random', or leave these rows out."
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
# times the squared distance of y from the mean. The medoid of a group is therefore its row nearest
# to the mean, and no distance between two rows is needed.

ROUNDS = 100


def medoids(table: np.ndarray, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns (positions of the medoids among the rows, ascending [B]; the share of rows of each
    [B]).

    table: float64 [M, F]. Groups start from k-means; then rows move to their nearest medoid and
        medoids to the middle of their rows in turn, until nothing changes: no turn increases the
        sum of squared distances. It raises InputError for fewer different rows than `size`.
    """
    from sklearn.cluster import KMeans  # noqa: PLC0415 - `import xaijax` does not load scikit-learn
    from sklearn.metrics import pairwise_distances_argmin  # noqa: PLC0415

    rows, place, counts = np.unique(table, axis=0, return_index=True, return_counts=True)
    if len(rows) < size:
        raise InputError(
            f"size={size:,}, but only {len(rows):,} of the {len(table):,} rows are different. Say "
            f"size={len(rows)} or less."
        )
    clusters = KMeans(size, random_state=seed).fit(rows, sample_weight=counts)
    group = np.asarray(clusters.labels_, np.int64)
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


@public
def background_spread(
    explainer: Explainer,
    X: Rows,
    *,
    rows: Rows | None = None,
    sizes: Sequence[int] = (10, 30, 100),
    draws: int = 8,
    method: Literal["kmedoids", "random"] = "random",
    seed: int = 0,
) -> BackgroundSpread:
    """Measures how far the values of X move when the background is chosen anew.

    An explanation takes its background as given; its standard errors do not cover that choice. This
    function chooses `draws` backgrounds of each size among `rows`, explains the instances with
    each, and reports the spread of the values over the draws. For "random" draws the spread falls
    like 1 / sqrt(size), and to 0 if a draw takes all rows. A sampled estimator keeps its seed, and
    the spread includes its sampling error.

    Args:
        explainer: `Explainer` that provides the model, players, index, link and estimator.
        X: rows [N, *F], the instances.
        rows: rows [M, *F] to choose from; None: the explainer's own background.
        sizes: background sizes, whole numbers of at most M each.
        draws: int, at least 2. Number of backgrounds of each size.
        method: "random" or "kmedoids" (which differ by where the groups start), see `background`.
        seed: int. Draw d of a size uses seed + d.

    Returns:
        A `BackgroundSpread`.

    Raises:
        InputError, InputTypeError: an argument is not accepted; errors of the explainer pass
            through.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.random.default_rng(0).normal(size=(400, 3))
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X.sum(axis=1)), rows)
        >>> found = xj.background_spread(explainer, rows[:4], sizes=(25, 100), draws=16)
        >>> bool(1.3 < found.spread[0] / found.spread[1] < 3.5)
        True
    """
    checks.passed(explainer, "explainer", Explainer, "an xaijax.Explainer")
    checks.one_of(method, "method", ("kmedoids", "random"))
    draws = checks.whole_number(draws, "draws", least=2)
    seed = checks.whole_number(seed, "seed", least=0)
    wanted = [checks.whole_number(size, "sizes") for size in sizes]
    if not wanted:
        raise InputError("sizes: none is given; name at least one.")
    arguments = made_of(explainer)
    pool = _pool(arguments, rows)
    if max(wanted) > len(rows_of(pool)):
        raise InputError(
            f"sizes: {max(wanted):,} rows are wanted of {len(rows_of(pool)):,}. Say smaller sizes, "
            "or give more rows by rows=."
        )

    def values(size: int, draw: int) -> np.ndarray:
        chosen = background(pool, size, method, seed + draw)
        changes = {"background": chosen.rows, "weights": chosen.weights}
        result = Explainer(**(arguments | changes))(X, progress=False)
        return result.values.reshape(*result.values.shape[:2], -1)

    spread, relative, by_player = [], [], []
    for size in wanted:
        drawn = np.stack([values(size, d) for d in range(draws)])  # [D, N, P, K]
        variance = drawn.var(axis=0, ddof=1)
        power = (drawn.mean(axis=0) ** 2).sum() - variance.sum() / draws
        spread.append(np.sqrt(variance.sum(axis=1).mean()))
        relative.append(variance.sum() / power if power > 0 else np.nan)
        by_player.append(np.sqrt(variance.mean(axis=(0, 2))))
    moved, share, each = (np.array(array) for array in (spread, relative, by_player))
    names = explainer.players.names
    return BackgroundSpread(np.array(wanted), draws, method, moved, share, each, names)


def _pool(arguments: dict[str, Any], rows: Any) -> Any:
    """Returns the rows to choose from. It raises InputError if the explainer has no rows of equal
    weight.
    """
    if rows is not None:
        return rows
    if isinstance(arguments["background"], Baseline) or arguments.get("weights") is not None:
        raise InputError(
            "rows: the explainer's background is a Baseline or has weights. Give the rows to "
            "choose from."
        )
    return arguments["background"]
