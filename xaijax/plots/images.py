"""A grid of images: each next to the values of its players, output by output."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.core.public import public
from xaijax.plots import pixels, style
from xaijax.results.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

MOST_IMAGES, MOST_OUTPUTS = 20, 10
INCHES = 1.5  # of one image


@public
def images(
    explanation: Explanation,
    *,
    outputs: Sequence[int | str] | None = None,
    shape: tuple[int, ...] | None = None,
    players: ArrayLike | None = None,
    limit: float | None = None,
    cmap: str | Colormap | None = None,
) -> Figure:
    """Draws images in rows: the image, then the values of its players, a column per output.

    All values have one scale, from -limit (blue) over 0 (white) to limit (orange). A pixel shows
    its player's value; if pixels have channels, the sum over the players that have a channel of it.
    A pixel that no player covers is grey. Above each picture is the model's answer, the base value
    plus the values, after the name of the output if there were several; above the first column is
    the image's name, if it has one.

    Args:
        explanation: `Explanation` of at most 20 images, values [N, P] or [N, P, K]; data [N, H, W]
            or [N, H, W, C] with C of 1, 3 or 4, or [N, C, H, W] if W is none of these.
        outputs: names or positions of the outputs to draw. None: all, at most 10.
        shape: (H, W), (H, W, C) or (C, H, W) of one image, or None. Needed if the data are flat
            rows.
        players: whole numbers [H, W] or [N, H, W], the player of each pixel, or None. Needed if
            images have their own players. A line goes around each player; -1 means no player.
        {limit}
        {cmap}

    Returns:
        The matplotlib `Figure`; its first axes are the pictures, row by row.

    Raises:
        InputError, InputTypeError: an argument is not accepted; there are too many images or
            outputs; or the data are not images.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> data = np.array([[[0.0, 1.0], [1.0, 0.0]]])
        >>> values = np.array([[[1.0, -1.0], [0.5, 0.0], [0.0, 0.0], [2.0, 1.0]]])
        >>> explanation = xj.Explanation(values, np.zeros((1, 2)), data=data)
        >>> figure = xj.plots.images(explanation)
        >>> figure.axes[1].images[0].get_array().tolist()
        [[1.0, 0.5], [0.0, 2.0]]
    """
    style.check(explanation)
    N = len(explanation)
    if N > MOST_IMAGES:
        raise InputError(
            f"explanation: it has {N:,} instances; choose some, explanation[:{MOST_IMAGES}]."
        )
    if explanation.data is None:
        raise InputError("explanation: it holds no data, so there are no images to draw.")
    explanation, lattice = pixels.as_images(explanation, shape)
    columns = _outputs(explanation, outputs)
    H, W = lattice[:2]
    owners = [pixels.numbering(players, H, W, n, N) for n in range(N)]
    drawn = np.stack([[_values(c[n], lattice, owners[n]) for c in columns] for n in range(N)])
    limit, colours = pixels.limit_of(limit, drawn), pixels.colour_map(cmap)

    pyplot = require("matplotlib.pyplot", "xaijax[plots]")
    wide, high = 1 + len(columns), INCHES * H / max(H, W)
    size = (INCHES * wide + 0.9, (high + 0.3) * N + 0.4)
    figure, grid = pyplot.subplots(N, wide, figsize=size, squeeze=False, layout="constrained")
    chosen = len(columns) > 1 or outputs is not None
    outs = style.output_of_each(explanation) or [None] * N
    people = style.shorten(explanation.instance_names or (), 18)
    heads = [
        [column.provenance.get("selected_output") if chosen else outs[n] for column in columns]
        for n in range(N)
    ]
    texts = sorted({str(head) for row in heads for head in row})
    brief = dict(zip(texts, style.shorten(texts, 12), strict=True))
    picture = None
    for n in range(N):
        levels = pixels.shown(np.asarray(explanation.data)[n], lattice)
        grid[n, 0].imshow(levels, cmap="gray", interpolation="nearest")
        if explanation.instance_names is not None:
            _title(grid[n, 0], people[n])
        for k, column in enumerate(columns):
            picture = pixels.values(grid[n, 1 + k], drawn[n, k], colours, limit)
            answer = column.base_values[n] + column.values[n].sum()
            said = style.number(answer)
            if heads[n][k] is not None:
                said = f"{brief[str(heads[n][k])]}: {said}"
            _title(grid[n, 1 + k], said)
    for n, axes in np.ndenumerate(grid):
        pixels.bare(axes)
        if owners[n[0]] is not None:
            pixels.outline(axes, owners[n[0]] + 1)
    figure._ipython_display_ = partial(_display, figure)
    style.colour_bar(list(grid.flat), picture, style.value_name(explanation), shrink=0.9, pad=0.02)
    return figure


def _display(figure: Figure) -> None:
    """Shows the figure in a notebook, once for each cell.

    It may be the value of the cell, or an open figure, which a notebook shows at the end of a cell.
    """
    shown = require("IPython", "ipython")
    cell = getattr(shown.get_ipython(), "execution_count", None)
    if cell is not None and getattr(figure, "_shown_in", None) == cell:
        return
    figure._shown_in = cell  # pyright: ignore[reportAttributeAccessIssue]
    stored = io.BytesIO()
    figure.savefig(stored, format="png")
    shown.display.display(shown.display.Image(data=stored.getvalue()))


def _outputs(explanation: Explanation, outputs: Any) -> list[Explanation]:
    """An explanation [N, P] for each column of the grid."""
    names = explanation.output_names
    if isinstance(outputs, str) or not isinstance(outputs, Sequence | np.ndarray | None):
        raise InputTypeError(f"outputs: got {outputs!r}; pass a list of names or positions.")
    if names is None:
        if outputs is not None:
            raise InputError("outputs: the explanation has one output; leave it out.")
        return [explanation]
    chosen = list(range(len(names))) if outputs is None else list(outputs)
    if not 1 <= len(chosen) <= MOST_OUTPUTS:
        raise InputError(
            f"outputs: {len(chosen):,} were chosen; pass 1 to {MOST_OUTPUTS} names or positions."
        )
    return [style.one_output(explanation, key, "images") for key in chosen]


def _values(image: Explanation, lattice: tuple[int, ...], owner: np.ndarray | None) -> np.ndarray:
    places = pixels.columns_of(image, math.prod(lattice), owner, lattice)
    return pixels.on_pixels(image.values[0], places, lattice)


def _title(axes: Axes, text: str) -> None:
    axes.set_title(text, fontsize=8.5, color=style.ink(), pad=3, parse_math=False)


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
    """Draws the values of one instance at its players: each pixel has its player's value.

    A patch of pixels that is one player has one value for all of them. If pixels have channels, a
    pixel shows the sum over the players that have a channel of it. The colours run from -limit
    (blue) over 0 (white) to limit (orange). A pixel that no player covers is grey.

    Pixels whose 95 % interval contains 0 or is unknown are hatched. If players are summed, the
    half-width is the sum of theirs. A line goes around the bright pixels: those above the middle
    between the darkest and the brightest of the image.

    Args:
        explanation: `Explanation` of one instance, values [1, P], or [1, P, K] with `output`; data
            [1, H, W] or [1, H, W, C] with C of 1, 3 or 4, or [1, C, H, W] if W is none of these.
        {ax}
        {output}
        shape: (H, W), (H, W, C) or (C, H, W) of the instance, or None. Needed if the data are flat
            rows, or if there are none.
        players: whole numbers [H, W], the player of each pixel, or None. Needed if instances have
            their own players. A line goes around each player; -1 means no player.
        {limit}
            Pictures with the same limit can be compared.
        {cmap}
        {colorbar}
        outline: bool. Whether to draw the line around the bright pixels.

    {axes}
        InputError: there are several instances, or the data are not an image.

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
    checks.yes_or_no(colorbar, "colorbar")
    checks.yes_or_no(outline, "outline")
    explanation = style.chosen_instance(style.checked(explanation, output, "image"), None, "image")
    explanation, lattice = pixels.as_images(explanation, shape)
    owner = pixels.numbering(players, *lattice[:2])
    columns = pixels.columns_of(explanation, math.prod(lattice), owner, lattice)
    values = pixels.on_pixels(explanation.values[0], columns, lattice)
    limit, colours = pixels.limit_of(limit, values), pixels.colour_map(cmap)
    bright = None
    if outline and explanation.data is not None and owner is None:
        bright = pixels.bright_pixels(explanation.data, lattice)

    axes = style.new_axes(ax, 8, width=4.6 if colorbar else 4.0)
    picture = pixels.values(axes, values, colours, limit)
    half = style.half_widths(explanation)
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
        style.colour_bar(axes, picture, style.value_name(explanation), fraction=0.046, pad=0.03)
    pixels.bare(axes)
    style.write_title(axes, style.title_of_one(explanation), 38)
    return axes
