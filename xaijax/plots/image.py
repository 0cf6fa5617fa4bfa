"""One image: the values of its players, at their pixels."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.results.explanation import Explanation
from xaijax.results.player_data import player_columns
from xaijax.tables.rows import rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

CHANNELS = (1, 3, 4)  # grey, colours, colours with opacity


@public
def image(
    explanation: Explanation,
    ax: Axes | None = None,
    *,
    output: int | str | None = None,
    shape: tuple[int, ...] | None = None,
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
            [1, H, W] or [1, H, W, C] with C of 1, 3 or 4.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        output: name or position of one output. Needed with K outputs.
        shape: (H, W) or (H, W, C) of the instance, or None. Needed if the data are flat rows, or
            if there are none.
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
    style.check(explanation, 1)
    if len(explanation) > 1:
        raise InputError(
            f"explanation: image draws one instance and the explanation has {len(explanation):,}; "
            "choose one, explanation[0]."
        )
    one = style.one_output(explanation, output, "image")
    lattice = _shape(one, shape)
    columns = _columns(one, math.prod(lattice))
    values = _on_pixels(one.values[0], columns, lattice)
    limit, colours = _limit(limit, values), _colour_map(cmap)
    bright = _bright(one.data, lattice) if outline and one.data is not None else None

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
        widths = _on_pixels(half[0], columns, lattice, unknown=math.inf)
        if _hatch(axes, (np.abs(values) <= widths) & (widths > 0)):
            note = "hatched: the 95 %\ninterval contains 0"
            axes.set_xlabel(note, color=style.TEXT, fontsize=8.5)
    if bright is not None:
        _outline(axes, bright)
    if colorbar:
        _colour_bar(axes, picture, style.value_name(one))
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(style.LINE)
    title = style.title_of_one(one)
    if title is not None:
        axes.set_title(
            style.elide(title, 40), loc="left", fontsize=10.5, color=style.TEXT, parse_math=False
        )
    return axes


def _shape(one: Explanation, shape: Any) -> tuple[int, ...]:
    """(H, W) or (H, W, C) of the instance."""
    if shape is not None:
        try:
            shape = tuple(operator.index(size) for size in shape)
        except TypeError as error:
            raise InputTypeError(f"shape: got {shape!r}; pass (H, W) or (H, W, C).") from error
        if not _is_image(shape):
            raise InputError(f"shape: got {shape}; pass (H, W) or (H, W, C) with C of {CHANNELS}.")
        size = None if one.data is None else math.prod(one.data.shape[1:])
        if size is not None and size != math.prod(shape):
            raise InputError(
                f"shape: {shape} has {math.prod(shape):,} entries; the instance has {size:,}."
            )
        return shape
    if one.data is None:
        raise InputError("explanation: it holds no data; pass shape=(H, W) of the image.")
    found = tuple(one.data.shape[1:])
    if rows_of(one.data).is_frame or not _is_image(found):
        raise InputError(
            f"explanation: its instances have shape {found}, which is no image; accepted are "
            f"(H, W) and (H, W, C) with C of {CHANNELS}. For flat rows pass shape=(H, W)."
        )
    return found


def _is_image(shape: tuple[int, ...]) -> bool:
    known = len(shape) == 2 or (len(shape) == 3 and shape[2] in CHANNELS)
    return known and min(shape) > 0


def _columns(one: Explanation, F: int) -> list[np.ndarray]:
    """The places of each player [P] among the F entries of the instance."""
    given = one.provenance.get("player_columns")
    if given is None:
        P = len(one.feature_names)
        framed = rows_of(one.data).is_frame
        found = player_columns(one.data, one.feature_names, None) if framed else list(range(P))
        if None in found or P != F:
            raise InputError(
                f"explanation: it has {P:,} players for {F:,} entries of the image and does not "
                "say which entries each has; provenance['player_columns'] is missing."
            )
        given = [(j,) for j in found]
    columns = [np.asarray(c, np.intp) for c in given]
    if max((int(c.max()) for c in columns if len(c)), default=0) >= F:
        raise InputError(f"shape: {F:,} entries are fewer than the players cover.")
    return columns


def _on_pixels(
    numbers: np.ndarray, columns: list[np.ndarray], shape: tuple[int, ...], unknown: float = np.nan
) -> np.ndarray:
    """numbers [P] of the players at their pixels [H, W]; NaN where there is no player."""
    H, W, *channels = shape
    out = np.zeros(H * W)
    covered = np.zeros(H * W, bool)
    for number, own in zip(numbers, columns, strict=True):
        pixels = np.unique(own // math.prod(channels))
        out[pixels] += unknown if np.isnan(number) else number
        covered[pixels] = True
    return np.where(covered, out, np.nan).reshape(H, W)


def _limit(limit: Any, values: np.ndarray) -> float:
    if limit is None:
        return float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    if isinstance(limit, bool) or not isinstance(limit, int | float | np.integer | np.floating):
        raise InputTypeError(f"limit: got {limit!r}; pass a positive number or None.")
    if not 0 < limit < math.inf:
        raise InputError(f"limit: got {limit!r}; pass a positive number or None.")
    return float(limit)


def _colour_map(cmap: Any) -> Any:
    colors = require("matplotlib.colors", "xaijax[plots]")
    if cmap is None:
        ends = (style.DOWN, "#ffffff", style.UP)
        cmap = colors.LinearSegmentedColormap.from_list("down to up", ends)
        return cmap.with_extremes(bad=style.LINE)
    try:
        return require("matplotlib", "xaijax[plots]").colormaps.get_cmap(cmap)
    except (TypeError, ValueError) as error:
        raise InputError(f"cmap: {cmap!r} is no colour map of matplotlib.") from error


def _hatch(axes: Axes, chosen: np.ndarray) -> bool:
    """Hatch the chosen pixels [H, W] as one surface; whether there are any."""
    path = require("matplotlib.path", "xaijax[plots]").Path
    patches = require("matplotlib.patches", "xaijax[plots]")
    squares = [
        path([(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1), (x, y)], closed=True)
        for y, x in np.argwhere(chosen) - 0.5
    ]
    if squares:
        whole = path.make_compound_path(*squares)
        patch = patches.PathPatch(
            whole, fill=False, linewidth=0, hatch="////", edgecolor=style.GREY
        )
        axes.add_patch(patch)
    return bool(squares)


def _bright(data: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The pixels [H, W] above the middle between the darkest and the brightest."""
    try:
        levels = checks.real_numbers(data, "data").reshape(shape)
    except (TypeError, ValueError) as error:
        raise InputError("explanation: its data are no numbers; pass outline=False.") from error
    if levels.ndim == 3:
        levels = levels[..., :3].mean(axis=2)
    finite = levels[np.isfinite(levels)]
    middle = (finite.min() + finite.max()) / 2 if finite.size else 0.0
    return levels > middle


def _outline(axes: Axes, inside: np.ndarray) -> None:
    """A line along the edges between pixels inside and outside; bool [H, W]."""
    H, W = inside.shape
    padded = np.pad(inside, 1)
    segments = [
        ((x - 0.5, y - 0.5), (x - 0.5, y + 0.5))
        for y, x in np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1])
    ]
    segments += [
        ((x - 0.5, y - 0.5), (x + 0.5, y - 0.5))
        for y, x in np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1])
    ]
    lines = require("matplotlib.collections", "xaijax[plots]").LineCollection(
        segments, colors=style.TEXT, linewidths=1.1 if max(H, W) <= 64 else 0.6, capstyle="round"
    )
    axes.add_collection(lines, autolim=False)


def _colour_bar(axes: Axes, picture: Any, label: str) -> None:
    bar = axes.figure.colorbar(picture, ax=axes, fraction=0.046, pad=0.03)
    bar.ax.tick_params(labelsize=8.5, colors=style.TEXT, length=2)
    bar.set_label(label, fontsize=9, color=style.TEXT)
    bar.outline.set_visible(False)
