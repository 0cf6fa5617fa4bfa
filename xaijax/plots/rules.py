"""Rule cards: the conditions of each rule, its prediction, precision and coverage."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.plots import pixels, style
from xaijax.plots.tokens import draw, read
from xaijax.results.rules import Rule, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

WIDE = 62  # characters of a line of conditions
CONDITION = 58  # characters of one condition
MOST_CONDITIONS = 6  # of a card; more are counted
LINE = 0.21  # inches of a line of text
LEFT, RIGHT = 0.66, 0.86  # start and end of the bars, as shares of the width


@public
def rules(rules: Sequence[Rule] | Rule, ax: Axes | None = None, *, max_display: int = 6) -> Axes:
    """Draws one card for each rule: IF its conditions THEN its prediction, with two bars.

    The upper bar is the precision, the share of rows under the rule that get its prediction; a
    white line in it marks its lower bound, if there is one. The lower bar is the coverage, the
    share of rows that satisfy the rule. Both run from 0 to 100 %. A rule that was not accepted says
    so. Up to six conditions of a rule are written out.

    Args:
        rules: `Rules` of an `AnchorExplainer`, a list of `Rule`, or one `Rule`.
        {ax}
        {max_rules}
            They are the first ones; the picture says how many others there are.

    {axes}
        InputError: there are no rules.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rule = xj.Rule(["age > 1"], [(0, 1, np.inf)], "adult", 0.9, None, 0.5, True, 8, "exact")
        >>> axes = xj.plots.rules(rule)
        >>> [text.get_text() for text in axes.texts]
        ['IF age > 1', 'THEN adult', 'precision 90%', 'coverage 50%']
    """
    checked = _checked(rules)
    shown = checked[: checks.whole_number(max_display, "max_display")]
    cards = [_lines(rule) for rule in shown]
    heights = [max(len(lines), 2) + 1 for lines in cards]
    left_out = len(checked) - len(shown)
    total = sum(heights) + (left_out > 0)
    axes = style.new_axes(ax, 0, 9.4, height=LINE * total + 0.3)
    axes.set_xlim(0, 1)
    axes.set_ylim(total, 0)
    axes.axis("off")
    top = 0.0
    for rule, lines, height in zip(shown, cards, heights, strict=True):
        _card(axes, rule, lines, top, height)
        top += height
    if left_out:
        style.note(axes, 0.02, top + 0.4, f"{left_out:,} more rules are not shown")
    return axes


def _checked(rules: Any) -> list[Rule]:
    several = [rules] if isinstance(rules, Rule) else rules
    if isinstance(several, str) or not isinstance(several, Sequence):
        raise InputTypeError(f"rules: got {type(rules).__name__}; pass Rules of AnchorExplainer.")
    if not several:
        raise InputError("rules: there are none, so there is nothing to draw.")
    for rule in several:
        checks.passed(rule, "rules", Rule, "rules only")
    return list(several)


def _lines(rule: Rule) -> list[tuple[str, str]]:
    """The sentence in lines with their weights; each condition is cut separately."""
    conditions = style.shorten(rule.rule[:MOST_CONDITIONS], CONDITION)
    if len(rule.rule) > MOST_CONDITIONS:
        conditions.append(f"{len(rule.rule) - MOST_CONDITIONS} more conditions")
    lines: list[str] = []
    for place, condition in enumerate(conditions or ["anything"]):
        text = f"{'AND' if place else 'IF'} {condition}"
        if lines and len(lines[-1]) + 1 + len(text) <= WIDE:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
    said = f" ({', '.join(rule.remarks)})" if rule.remarks else ""
    then = wrap(f"THEN {rule.predicted}{said}", WIDE) or ["THEN"]
    if len(then) > 2:
        then = [then[0], style.elide(" ".join(then[1:]), WIDE)]
    return [(line, "normal") for line in lines] + [(line, "bold") for line in then]


def _card(axes: Axes, rule: Rule, lines: list[Any], top: float, height: int) -> None:
    axes.axhspan(top + 0.1, top + height - 0.15, color=style.faint(), alpha=0.35, linewidth=0)
    middle = top + (height - 0.05) / 2
    for n, (line, weight) in enumerate(lines):
        style.note(axes, 0.02, middle + n - (len(lines) - 1) / 2, line, weight=weight)
    for row, (name, share, colour) in enumerate(
        (
            ("precision", rule.precision, style.DOWN if rule.accepted else style.GREY),
            ("coverage", rule.coverage, style.UP),
        )
    ):
        if share is None:
            continue
        y = middle + row - 0.5
        axes.barh([y], [RIGHT - LEFT], left=LEFT, height=0.55, color=style.ground())
        axes.barh([y], [(RIGHT - LEFT) * share], left=LEFT, height=0.55, color=colour)
        if name == "precision" and rule.precision_lower is not None:
            at = LEFT + (RIGHT - LEFT) * rule.precision_lower
            axes.plot([at, at], [y - 0.27, y + 0.27], color="#ffffff", linewidth=1.4)
        style.note(axes, RIGHT + 0.01, y, f"{name} {percent(share)}")


FADED = 0.15  # opacity of the parts that a rule does not keep


@public
def kept(
    rule: Rule,
    image: ArrayLike | None = None,
    players: ArrayLike | None = None,
    ax: Axes | None = None,
    *,
    words: Sequence[str | None] | None = None,
) -> Axes:
    """Draws the players that a rule keeps: superpixels of an image, or words of a sentence.

    In an image the kept players are shown as they are, with a line around them, and all else is
    faded. In a sentence the kept words have an orange background, the others are grey. The title is
    the rule's prediction and precision.

    Args:
        rule: `Rule` of an `AnchorExplainer`.
        image: array [H, W], or [H, W, C] or [C, H, W] with C of 1, 3 or 4: the instance.
        players: whole numbers [H, W], the player of each pixel. None: each pixel is a player.
        {ax}
        words: the words in place of an image, one for each player. A word None is left out.

    {axes}

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
    checks.passed(rule, "rule", Rule, "a Rule of AnchorExplainer")
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
    style.head(axes, style.elide(title, 60))
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
    grounds = [style.UP if stay else "#eef0f1" for stay in stays]
    inks = [style.TEXT if stay else "#70757a" for stay in stays]
    return draw(ax, shown, grounds, inks, bold=stays)


def _image(image: np.ndarray, players: Any, features: Sequence[int], ax: Any) -> Axes:
    if pixels.channels_first(image.shape):
        image = np.moveaxis(image, 0, -1)
    if not pixels.is_image(image.shape):
        raise InputError(
            f"image: got shape {image.shape}; pass (H, W), (H, W, C) or (C, H, W) with C of "
            f"{pixels.CHANNELS}."
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
    faded = np.where(stays, levels, grey + FADED * (levels - grey))
    top, cmap = high if high > low else low + 1.0, "gray" if levels.ndim == 2 else None
    axes.imshow(faded, cmap=cmap, vmin=low, vmax=top, interpolation="nearest")
    pixels.outline(axes, np.where(inside, owner + 1, 0), style.UP)
    pixels.bare(axes)
    return axes
