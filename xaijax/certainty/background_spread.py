"""`background_spread`: how far values move with the choice of the background, by its size.

Letters: N instances, S sizes, D draws, P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from xaijax.certainty.background import background
from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.core.travel import made_of
from xaijax.core.typing import Rows
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.methods.explainer.explainer import Explainer
from xaijax.results.background import BackgroundSpread
from xaijax.tables.rows import rows_of


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
    """How far the values of X move when the background is chosen anew.

    An explanation takes its background as given; its standard errors do not cover that choice. Here
    `draws` backgrounds of each size are chosen among `rows`, the instances are explained by each,
    and the spread of the values over the draws is told. Of "random" draws it falls like 1 / sqrt of
    the size, and to 0 where a draw takes all rows. Of a sampled estimator the values keep their
    seed, and what their draws add to the spread is in it.

    Args:
        explainer: `Explainer`, whose model, players, index, link and estimator are used.
        X: rows [N, *F], the instances.
        rows: rows [M, *F] to choose from; None: the explainer's own background.
        sizes: whole numbers, at most M each.
        draws: int, at least 2.
        method: "random" or "kmedoids" (which differ by where the groups start), see `background`.
        seed: int. Draw d of a size has seed + d.

    Returns:
        A `BackgroundSpread`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted, and what an explainer raises.

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
    wanted = [checks.whole_number(one, "sizes") for one in sizes]
    if not wanted:
        raise InputError("sizes: none is given; name at least one.")
    given = made_of(explainer)
    pool = _pool(given, rows)
    if max(wanted) > len(rows_of(pool)):
        raise InputError(
            f"sizes: {max(wanted):,} rows are asked of {len(rows_of(pool)):,}. Say smaller sizes, "
            "or give more rows to choose from by rows=."
        )

    def values(size: int, draw: int) -> np.ndarray:
        chosen = background(pool, size, method, seed + draw)
        own = {"background": chosen.rows, "weights": chosen.weights}
        found = Explainer(**(given | own))(X, progress=False)
        return found.values.reshape(*found.values.shape[:2], -1)

    spread, relative, by_player = [], [], []
    for size in wanted:
        drawn = np.stack([values(size, d) for d in range(draws)])  # [D, N, P, K]
        variance = drawn.var(axis=0, ddof=1)
        power = (drawn.mean(axis=0) ** 2).sum() - variance.sum() / draws
        spread.append(np.sqrt(variance.sum(axis=1).mean()))
        relative.append(variance.sum() / power if power > 0 else np.nan)
        by_player.append(np.sqrt(variance.mean(axis=(0, 2))))
    return BackgroundSpread(
        np.array(wanted),
        draws,
        method,
        np.array(spread),
        np.array(relative),
        np.array(by_player),
        explainer.players.names,
    )


def _pool(given: dict[str, Any], rows: Any) -> Any:
    """The rows to choose from. Raises InputError where the explainer has none of equal weight."""
    if rows is not None:
        return rows
    if isinstance(given["background"], Baseline) or given.get("weights") is not None:
        raise InputError(
            "rows: the explainer's background is a Baseline or has weights. Give the rows to "
            "choose from."
        )
    return given["background"]
