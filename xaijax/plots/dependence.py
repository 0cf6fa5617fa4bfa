"""One player's value against its own data, coloured by the player that it interacts with most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.plots.names import shorten
from xaijax.plots.sets import name_of, of_pairs, picture_title
from xaijax.results.interactions import Interactions
from xaijax.results.player_data import as_numbers, player_columns
from xaijax.tables.rows import rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@public
def dependence(
    interactions: Interactions,
    player: int | str,
    ax: Axes | None = None,
    *,
    partner: int | str | None = None,
    output: int | str | None = None,
) -> Axes:
    """One dot for each instance: a player's value alone over its own data.

    Colours are the data of its strongest partner, low in blue and high in orange: where dots of one
    place part by colour, the interaction parts them.

    Args:
        interactions: `Interactions` of several instances, with their data, all players and pairs.
        player: name or place of the player.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        partner: name or place of the player whose data are the colours. None: the one with the
            largest mean |interaction| with it.
        output: name or position of one output. Needed where there are several.

    Returns:
        The `Axes`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted; no data; a player without one
            column of numbers.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.random.default_rng(0).normal(size=(20, 3))
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 2]), X)
        >>> axes = xj.plots.dependence(explainer.interactions(X), 0)
        >>> axes.get_xlabel(), axes.figure.axes[-1].get_ylabel()
        ('x0', 'x2')
    """
    found = of_pairs(interactions, 1, output, "dependence")
    if found.data is None:
        raise InputError(
            "interactions: have no data, so there is nothing to draw a player against. Those of "
            "explainer.interactions(X) keep X; give others theirs: "
            "xaijax.Interactions.from_shapiq(theirs, data=X), or "
            "dataclasses.replace(interactions, data=X)."
        )
    names = found.feature_names
    own = _place(found, player)
    matrix = found.matrix
    strength = np.abs(matrix[:, own]).mean(axis=0)
    strength[own] = -1.0
    other = int(strength.argmax()) if partner is None else _place(found, partner)
    if other == own:
        raise InputError("partner: is the player itself; give another, or leave it out.")
    x, colour = (_column(found, p) for p in (own, other))
    name, partner_name = shorten([names[own], names[other]])
    axes = style.new_axes(ax, 9)
    scale = style.scale(*style.LOW_TO_HIGH)
    dots = axes.scatter(x, matrix[:, own, own], c=colour, cmap=scale, s=16, linewidths=0)
    style.colour_bar(axes, dots, partner_name)
    style.plain(axes, name, f"{name_of(found)} of the player alone")
    picture_title(axes, found)
    return axes


def _place(found: Interactions, player: int | str) -> int:
    """A player's place; as a key it is a set of one, so that a place past P is no other set."""
    return found[:, (player,)].sets[0][0]


def _column(found: Interactions, player: int) -> np.ndarray:
    """A player's data as numbers [N]."""
    columns = player_columns(
        found.data, found.feature_names, found.provenance.get("player_columns")
    )
    place = columns[player]
    numbers = None if place is None else as_numbers(rows_of(found.data).column(place))
    if numbers is None:
        raise InputError(
            f"player: {found.feature_names[player]!r} has not one column of numbers in data, so "
            "there is nothing to draw it against. Choose a player that is one column."
        )
    return numbers
