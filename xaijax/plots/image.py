"""One image: the values of its players, at their pixels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from xaijax.core.checks import yes_or_no
from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.plots import pixels, style
from xaijax.results.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from numpy.typing import ArrayLike


@public
def image(
    explanation: Explanation,
    ax: Axes | None = None,
    *,
    output: int | str | None = None,
    shape: tuple[int, ...] | None = None,
    players: ArrayLike | None = None,
    limit: float | None = None,
    cmap: str | Colormap | None = None,
    colorbar: bool = True,
    outline: bool = True,
) -> Axes:
    """The values of one instance where its players lie: each pixel has its player's value.

    A patch of pixels that is one player has one value for all of them. If pixels have channels, a
    pixel shows the sum over the players that have a channel of it. The colours run from -limit
    (blue) over 0 (white) to limit (orange). A pixel that no player covers is grey.

    Hatched are the pixels whose 95 % interval contains 0 or is unknown. Where players are summed,
    the half-width is the sum of theirs. A line goes around the bright pixels: those above the
    middle between the darkest and the brightest of the image.

    Args:
        explanation: `Explanation` of one instance, values [1, P], or [1, P, K] with `output`; data
            [1, H, W] or [1, H, W, C] with C of 1, 3 or 4, or [1, C, H, W] where W is none of these.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        output: name or position of one output. Needed with K outputs.
        shape: (H, W), (H, W, C) or (C, H, W) of the instance, or None. Needed if the data are flat
            rows, or if there are none.
        players: whole numbers [H, W], the player of each pixel, or None. Needed where instances
            have players of their own. A line goes around each player; -1 is nobody.
        limit: positive float or None. The end of the colour scale, to compare pictures. None: the
            largest |value|.
        cmap: a matplotlib colour map or its name, such as "RdBu_r". None: blue, white, orange.
        colorbar: bool. Whether to draw the colour scale.
        outline: bool. Whether to draw the line around the bright pixels.

    Returns:
        The `Axes`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted; several instances; data that
            are no image.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explanation = xj.Explanation(np.array([[1.0, -2.0, 0.0, 0.5]]), np.zeros(1))
        >>> axes = xj.plots.image(explanation, shape=(2, 2))
        >>> axes.images[0].get_array().tolist()
        [[1.0, -2.0], [0.0, 0.5]]
    """
    yes_or_no(colorbar, "colorbar")
    yes_or_no(outline, "outline")
    style.check(explanation, 1)
    if len(explanation) > 1:
        raise InputError(
            f"explanation: image draws one instance and the explanation has {len(explanation):,}; "
            "choose one, explanation[0]."
        )
    one = style.one_output(explanation, output, "image")
    one, lattice = pixels.as_images(one, shape)
    owner = pixels.numbering(players, *lattice[:2])
    columns = pixels.columns_of(one, math.prod(lattice), owner, lattice)
    values = pixels.on_pixels(one.values[0], columns, lattice)
    limit, colours = pixels.limit_of(limit, values), pixels.colour_map(cmap)
    bright = None
    if outline and one.data is not None and owner is None:
        bright = pixels.bright_pixels(one.data, lattice)

    axes = style.new_axes(ax, 8, width=4.6 if colorbar else 4.0)
    picture = axes.imshow(
        np.ma.masked_invalid(values),
        cmap=colours,
        vmin=-limit,
        vmax=limit,
        interpolation="nearest",
    )
    half = style.half_widths(one)
    if half is not None:
        widths = pixels.on_pixels(half[0], columns, lattice, unknown=math.inf)
        if pixels.hatch(axes, (np.abs(values) <= widths) & (widths > 0)):
            note = "hatched: the 95 %\ninterval contains 0"
            note += " or is unknown" if np.isinf(widths).any() else ""
            axes.set_xlabel(note, color=style.ink(), fontsize=8.5)
    edges = bright if owner is None else owner + 1
    if edges is not None:
        pixels.outline(axes, edges)
    if colorbar:
        pixels.colour_bar(axes, picture, style.value_name(one), fraction=0.046, pad=0.03)
    pixels.bare(axes)
    title = style.title_of_one(one)
    if title is not None:
        style.write_title(axes, title, 38)
    return axes
