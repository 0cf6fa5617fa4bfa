"""`Background`: rows chosen to represent absent players; `BackgroundSpread`: the effect of the
choice.

Letters: B rows chosen, S sizes tried, P players.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core.public import public_class
from xaijax.results.convert import frame_of
from xaijax.results.shared_fields import FrozenArrays
from xaijax.results.summary import ranking

TOP = 4  # players in the repr


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Background(FrozenArrays):
    """Holds rows for `background=` of an explainer; made by `xaijax.background`.

    Use it as `xaijax.Explainer(model, chosen)`, or as `chosen.rows` with `weights=chosen.weights`.

    Attributes:
        rows: [B, *F], of the type that was given: an array, a frame.
        weights: float64 [B] with the sum 1, the share of the rows that each represents; None: equal
            weights.
        places: int64 [B]. The positions of the rows among the given ones.
        method: "kmedoids", "random" or "all".

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.array([[0.0], [0.1], [0.2], [5.0]])
        >>> chosen = xj.background(rows, 2)
        >>> chosen.rows.tolist(), chosen.weights
        ([[0.1], [5.0]], array([0.75, 0.25]))
    """

    rows: Any
    weights: np.ndarray | None
    places: np.ndarray
    method: str

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        weighted = "" if self.weights is None else f", weights {self.weights.min():.2g} to "
        weighted += "" if self.weights is None else f"{self.weights.max():.2g}"
        return f"Background({len(self):,} rows, {self.method}{weighted})"


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class BackgroundSpread(FrozenArrays):
    """Says how far values move with the background; made by `xaijax.background_spread`.

    Attributes:
        sizes: int64 [S]. Number of background rows of a draw.
        draws: int. Number of backgrounds drawn for each size.
        method: str. How they were chosen.
        spread: float64 [S]. The distance of an instance's values from their mean over the draws:
            the root of the mean over instances of the summed variances, in units of v (the model's
            output).
        relative: float64 [S]. The sum of these variances divided by the sum of the squared values:
            the relative squared error from the choice of one background alone.
        by_player: float64 [S, P]. The standard deviation of a player's value over the draws, as the
            root mean square over instances (and outputs).
        feature_names: tuple of str [P].

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.random.default_rng(0).normal(size=(200, 2))
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), rows)
        >>> found = xj.background_spread(explainer, rows[:20], sizes=(5, 50))
        >>> bool(found.spread[1] < found.spread[0])
        True
    """

    sizes: np.ndarray
    draws: int
    method: str
    spread: np.ndarray
    relative: np.ndarray
    by_player: np.ndarray
    feature_names: tuple[str, ...]

    def __repr__(self) -> str:
        lines = [f"BackgroundSpread: {self.draws} draws of each size, {self.method}"]
        for s, size in enumerate(self.sizes):
            widest = ranking(self.by_player[s])[:TOP]
            players = ", ".join(
                f"{self.feature_names[j]} {self.by_player[s, j]:.2g}" for j in widest
            )
            lines.append(
                f"  {size:,} rows: values move by {self.spread[s]:.3g} "
                f"({100 * self.relative[s]:.3g} % squared); {players}"
            )
        return "\n".join(lines)

    def to_dataframe(self) -> Any:
        """Returns a pandas DataFrame, one row per size; needs `pip install "xaijax[data]"`."""
        columns = {"spread": self.spread, "relative": self.relative}
        columns |= dict(zip(self.feature_names, self.by_player.T, strict=True))
        return frame_of(columns, [self.sizes.tolist()], ["size"])
