"""Players at their pixels: shapes, numberings, colours and lines shared by pictures of images."""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.plots import style
from xaijax.results.explanation import Explanation
from xaijax.results.shared_fields import player_columns, rows_of_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHANNELS = (1, 3, 4)  # grey, colours, colours with opacity


def as_images(explanation: Explanation, shape: Any) -> tuple[Explanation, tuple[int, ...]]:
    """The explanation with channels last, and (H, W) or (H, W, C) of its instances."""
    image_shape = _shape_of(explanation, shape)
    if not channels_first(image_shape):
        return explanation, image_shape
    C, H, W = image_shape
    place = np.moveaxis(np.arange(H * W * C).reshape(H, W, C), -1, 0).reshape(-1)  # of each entry
    columns = explanation.provenance.get("player_columns")
    frame = rows_of_frame(explanation.data)
    if columns is None and frame is None and len(explanation.feature_names) == len(place):
        columns = [(j,) for j in range(len(place))]
    changes: dict[str, Any] = {}
    if columns is not None:
        refuse_beyond([np.asarray(entries, np.intp) for entries in columns], len(place))
        moved = tuple(tuple(int(place[j]) for j in entries) for entries in columns)
        changes["provenance"] = {**explanation.provenance, "player_columns": moved}
    if explanation.data is not None:
        data = np.asarray(explanation.data) if frame is None else frame.matrix()
        changes["data"] = np.moveaxis(data.reshape(len(explanation), C, H, W), 1, -1)
    if frame is not None and columns is None:
        raise InputError(
            "shape: a frame's columns are read with channels last; pass shape=(H, W, C)."
        )
    return replace(explanation, **changes), (H, W, C)


def channels_first(shape: tuple[int, ...]) -> bool:
    """Whether rows of this shape are images [C, H, W], and not images [H, W, C]."""
    return len(shape) == 3 and shape[0] in CHANNELS and shape[2] not in CHANNELS and min(shape) > 0


def _shape_of(explanation: Explanation, shape: Any) -> tuple[int, ...]:
    """(H, W), (H, W, C) or (C, H, W) of the instance."""
    if shape is not None:
        try:
            shape = tuple(operator.index(size) for size in shape)
        except TypeError as error:
            raise InputTypeError(f"shape: got {shape!r}; pass (H, W) or (H, W, C).") from error
        if not (is_image(shape) or channels_first(shape)):
            raise InputError(
                f"shape: got {shape}; pass (H, W), (H, W, C) or (C, H, W) with C of {CHANNELS}."
            )
        size = None if explanation.data is None else math.prod(explanation.data.shape[1:])
        if size is not None and size != math.prod(shape):
            raise InputError(
                f"shape: {shape} has {math.prod(shape):,} entries; the instance has {size:,}."
            )
        return shape
    if explanation.data is None:
        raise InputError("explanation: it holds no data; pass shape=(H, W) of the image.")
    dims = tuple(explanation.data.shape[1:])
    if rows_of_frame(explanation.data) is not None or not (is_image(dims) or channels_first(dims)):
        raise InputError(
            f"explanation: its instances have shape {dims}, which is no image: (H, W), (H, W, C) "
            f"or (C, H, W) with C of {CHANNELS}. For flat rows pass shape=(H, W)."
        )
    return dims


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether rows of this shape are images."""
    known = len(shape) == 2 or (len(shape) == 3 and shape[2] in CHANNELS)
    return known and min(shape) > 0


def columns_of(
    explanation: Explanation, F: int, owner: np.ndarray | None = None, shape: tuple[int, ...] = ()
) -> list[np.ndarray]:
    """The positions of each player [P] in the F entries of the instance; owner: see `numbering`."""
    if owner is not None:
        if owner.max() >= (P := len(explanation.feature_names)):
            raise InputError(f"players: number {owner.max()} is none of the {P:,} players.")
        whose = np.repeat(owner.reshape(-1), math.prod(shape[2:]))
        return [np.flatnonzero(whose == p) for p in range(P)]
    known = explanation.provenance.get("player_columns")
    if known is None:
        names, framed = explanation.feature_names, rows_of_frame(explanation.data) is not None
        P = len(names)
        places = player_columns(explanation.data, names, None) if framed else list(range(P))
        if None in places or P != F:
            raise InputError(
                f"explanation: it has {P:,} players for {F:,} entries of the image, and "
                "provenance['player_columns'], which says whose each is, is missing."
            )
        known = [(j,) for j in places]
    columns = [np.asarray(c, np.intp) for c in known]
    if not any(len(c) for c in columns):
        raise InputError(
            "explanation: each instance has its own players. Pass players=, whole numbers [H, W]."
        )
    refuse_beyond(columns, F)
    return columns


def refuse_beyond(columns: list[np.ndarray], F: int) -> None:
    """Raises InputError if players have entries beyond the F entries of an image."""
    if max((int(c.max()) for c in columns if len(c)), default=0) >= F:
        raise InputError(f"shape: {F:,} entries are fewer than the players cover.")


def on_pixels(
    numbers: np.ndarray, columns: list[np.ndarray], shape: tuple[int, ...], unknown: float = np.nan
) -> np.ndarray:
    """The numbers [P] of the players at their pixels [H, W]; NaN without a player."""
    H, W, *channels = shape
    out = np.zeros(H * W)
    covered = np.zeros(H * W, bool)
    for number, entries in zip(numbers, columns, strict=True):
        pixels = np.unique(entries // math.prod(channels))
        out[pixels] += unknown if np.isnan(number) else number
        covered[pixels] = True
    return np.where(covered, out, np.nan).reshape(H, W)


def limit_of(limit: Any, values: np.ndarray) -> float:
    """The end of the colour scale."""
    if limit is None:
        return float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    return checks.positive(limit, "limit")


def colour_map(cmap: Any) -> Any:
    """The colour map of a name, or blue, white, orange."""
    if cmap is None:
        return style.scale(style.DOWN, "#ffffff", style.UP).with_extremes(bad=style.LINE)
    try:
        return require("matplotlib", "xaijax[plots]").colormaps.get_cmap(cmap)
    except (TypeError, ValueError) as error:
        raise InputError(f"cmap: {cmap!r} is no colour map of matplotlib.") from error


def hatch(axes: Axes, chosen: np.ndarray) -> bool:
    """Hatches the chosen pixels [H, W] as one surface; returns whether there are any."""
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


def bright_pixels(data: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The pixels [H, W] that are brighter than the middle between darkest and brightest."""
    try:
        levels = checks.real_numbers(data, "data").reshape(shape)
    except (TypeError, ValueError) as error:
        raise InputError("explanation: its data are no numbers; pass outline=False.") from error
    if levels.ndim == 3:
        levels = levels[..., :3].mean(axis=2)
    finite = levels[np.isfinite(levels)]
    middle = (finite.min() + finite.max()) / 2 if finite.size else 0.0
    return levels > middle


def outline(axes: Axes, labels: np.ndarray, colour: str = style.TEXT) -> None:
    """Draws a line along the edges between pixels of different labels, int or bool [H, W].

    It also goes around the image where labels are not 0. A light rim keeps a dark line visible on
    dark pixels.
    """
    H, W = labels.shape
    padded = np.pad(labels, 1)
    segments = [
        ((x - 0.5, y - 0.5), (x - 0.5, y + 0.5))
        for y, x in np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1])
    ]
    segments += [
        ((x - 0.5, y - 0.5), (x + 0.5, y - 0.5))
        for y, x in np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1])
    ]
    width = 1.1 if max(H, W) <= 64 else 0.6
    made = require("matplotlib.collections", "xaijax[plots]").LineCollection
    # Half of a line around the image is outside of the axes, so none is clipped.
    shared = {"capstyle": "round", "clip_on": False}
    line = made(segments, colors=colour, linewidths=width, zorder=2.2, **shared)
    rim = made(segments, colors="#ffffff", linewidths=width + 1.2, zorder=2.1, **shared)
    axes.add_collection(line, autolim=False)
    axes.add_collection(rim, autolim=False)


def numbering(players: Any, H: int, W: int, n: int = 0, N: int = 1) -> np.ndarray | None:
    """The player of each pixel, int [H, W], for instance n of N; -1: no player. None if not
    given.
    """
    if players is None:
        return None
    owner = checks.as_array(players, "players")
    if owner.dtype.kind not in "iu":
        raise InputTypeError(f"players: got dtype {owner.dtype}; whole numbers [H, W] are needed.")
    last = owner.shape[:-1] in ((H, W), (N, H, W)) or owner.shape == (N, H, W)
    if owner.ndim in (3, 4) and not last and owner.shape[-2:] == (H, W):
        if owner.shape[-3] in CHANNELS:  # [C, H, W], or [N, C, H, W]
            owner = np.moveaxis(owner, -3, -1)
    if owner.ndim > 2 and owner.shape[:-1] in ((H, W), (N, H, W)) and owner.shape != (N, H, W):
        if (owner != owner[..., :1]).any():  # as `Explainer` takes them, for images with channels
            raise InputError(
                "players: the channels of a pixel have different players. Give one for each pixel, "
                f"({H}, {W}); image() without players= shows their sums."
            )
        owner = owner[..., 0]
    if owner.shape == (N, H, W):
        return owner[n]
    if owner.shape != (H, W):
        raise InputError(
            f"players: got shape {owner.shape}; pass ({H}, {W}), or ({N}, {H}, {W}) for each image."
        )
    return owner


def shown(data: Any, shape: tuple[int, ...]) -> np.ndarray:
    """One image as matplotlib draws it: [H, W], or [H, W, 3 or 4] between 0 and 1."""
    levels = checks.real_numbers(data, "data").reshape(shape).astype(float)
    if levels.ndim == 3 and levels.shape[2] == 1:
        levels = levels[..., 0]
    low, high = np.nanmin(levels), np.nanmax(levels)
    if levels.ndim == 3 and (low < 0 or high > 1):
        levels = (levels - low) / ((high - low) or 1.0)
    return levels


def values(axes: Axes, numbers: np.ndarray, colours: Any, limit: float) -> Any:
    """Draws numbers [H, W] in the colours from -limit to limit; returns the matplotlib image."""
    shown = np.ma.masked_invalid(numbers)
    return axes.imshow(shown, cmap=colours, vmin=-limit, vmax=limit, interpolation="nearest")


def bare(axes: Axes) -> None:
    """Removes ticks, and draws a light frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(style.faint())
