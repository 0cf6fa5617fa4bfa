"""What a rule keeps of one image or of one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.plots import pixels, style
from xaijax.plots.words import draw, read
from xaijax.results.rules import Rule, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

FADED = 0.15  # how much is left of what a rule does not keep


@public
def kept(
    rule: Rule,
    image: ArrayLike | None = None,
    players: ArrayLike | None = None,
    ax: Axes | None = None,
    *,
    words: Sequence[str | None] | None = None,
) -> Axes:
    """The players that a rule keeps: superpixels of an image, or words of a sentence.

    Of an image the kept players are shown as they are, with a line around them, and all else is
    faded. Of a sentence the kept words stand on an orange ground, the others are grey. The title is
    the rule's prediction and precision.

    Args:
        rule: `Rule` of an `AnchorExplainer`.
        image: array [H, W], or [H, W, C] or [C, H, W] with C of 1, 3 or 4: the instance.
        players: whole numbers [H, W], the player of each pixel. None: each pixel is one.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        words: in place of an image the words, one for each player. A word None is left out.

    Returns:
        The `Axes`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> model = xj.as_model(lambda X: (X[:, 0] > 0) * 1, output="label")
        >>> data = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
        >>> rule = xj.AnchorExplainer(model, data, bins=None).explain(data[1:2])[0]
        >>> axes = xj.plots.kept(rule, words=["good", "film"])
        >>> [(text.get_text(), text.get_weight()) for text in axes.texts]
        [('good', 'bold'), ('film', 'normal')]
    """
    if not isinstance(rule, Rule):
        raise InputTypeError(f"rule: got {type(rule).__name__}; pass a Rule of AnchorExplainer.")
    if (image is None) == (words is None):
        raise InputError("image, words: pass one of the two, an image or the words of a sentence.")
    if words is not None:
        if players is not None:
            raise InputError("players: they are of an image; words are one for each player.")
        axes = _sentence(words, rule.features, ax)
    else:
        axes = _image(checks.as_array(image, "image"), players, rule.features, ax)
    said = "" if rule.accepted else ", not accepted"
    title = f"{rule.prediction}: precision {percent(rule.precision)}{said}"
    axes.set_title(
        style.elide(title, 60), loc="left", fontsize=9.5, color=style.ink(), parse_math=False
    )
    return axes


def _sentence(words: Any, features: Sequence[int], ax: Any) -> Axes:
    words = checks.listed(words, "words", "words")
    count = len(words)
    shown = read(words, count)
    if max(features, default=-1) >= count:
        raise InputError(
            f"words: the rule keeps player {max(features)}, counted from 0; got {count} words."
        )
    stays = [p in features for p in range(count)]
    grounds = [style.UP if one else "#eef0f1" for one in stays]
    inks = [style.TEXT if one else "#70757a" for one in stays]
    return draw(ax, shown, grounds, inks, bold=stays)


def _image(image: np.ndarray, players: Any, features: Sequence[int], ax: Any) -> Axes:
    if pixels.channels_first(image.shape):
        image = np.moveaxis(image, 0, -1)
    if not pixels.is_image(image.shape):
        raise InputError(
            f"image: got shape {image.shape}; accepted are (H, W), (H, W, C) and (C, H, W) with C "
            f"of {pixels.CHANNELS}."
        )
    H, W = image.shape[:2]
    owner = pixels.numbering(players, H, W)
    if owner is None:
        if image.ndim == 3 and image.shape[2] > 1:
            raise InputError("players: which player is a pixel of colours? Pass numbers [H, W].")
        owner = np.arange(H * W).reshape(H, W)
    if max(features, default=-1) > owner.max():
        raise InputError(
            f"players: the rule keeps player {max(features)}, and the numbers end at {owner.max()}."
        )
    inside = np.isin(owner, list(features))
    levels = pixels.shown(image, image.shape)
    low, high = (0.0, 1.0) if levels.ndim == 3 else (float(levels.min()), float(levels.max()))
    grey = low + 0.75 * ((high - low) or 1.0)
    stays = inside if levels.ndim == 2 else inside[..., None]
    axes = style.new_axes(ax, 8, width=4.0)
    axes.imshow(
        np.where(stays, levels, grey + FADED * (levels - grey)),
        cmap="gray" if levels.ndim == 2 else None,
        vmin=low,
        vmax=high if high > low else low + 1.0,
        interpolation="nearest",
    )
    pixels.outline(axes, np.where(inside, owner + 1, 0), style.UP)
    pixels.bare(axes)
    return axes
