"""What the pictures of interactions share: checks, names, the pairs that are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.plots import style
from xaijax.results import interaction_forms
from xaijax.results.interactions import Interactions

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def of_one_output(given: Any, output: int | str | None, plot: str) -> Interactions:
    """Interactions [N, M] of one output, finite, of one instance at least.

    Raises:
        InputTypeError: no Interactions.
        InputError: nothing to draw, or several outputs and none chosen.
    """
    if not isinstance(given, Interactions):
        raise InputTypeError(
            f"interactions: got {type(given).__name__}; pass xaijax Interactions, as "
            "explainer.interactions(X) gives them."
        )
    if len(given) == 0:
        raise InputError("interactions: there are no instances, so there is nothing to draw.")
    if given.output_names is not None:
        if output is None:
            names = ", ".join(repr(name) for name in given.output_names[:6])
            raise InputError(f"output: {plot} draws one output; pass output= ({names}).")
        given = given[:, :, output]
        if given.output_names is not None:
            raise InputTypeError(f"output: got {output!r}; pass one name or position.")
    elif output is not None:
        chosen = given.provenance.get("selected_output")
        if not (isinstance(output, str) and output == chosen):
            raise InputError(f"output: got {output!r}, but there is one output; leave output out.")
    if not np.isfinite(given.values).all():
        raise InputError("interactions: some values are not finite; draw the other instances.")
    return given


def of_pairs(given: Any, max_display: Any, output: int | str | None, plot: str) -> Interactions:
    """The same where pairs are drawn and no larger sets."""
    checks.whole_number(max_display, "max_display")
    found = of_one_output(given, output, plot)
    largest = max(map(len, found.sets))
    if largest > 2:
        by = "xaijax.report" if plot == "report" else f"plots.{plot}"
        raise InputError(
            f"interactions: {by} draws pairs, but there are sets of {largest} players. "
            "Say explainer.interactions(X, order=2), or draw xaijax.plots.pairs."
        )
    refuse_single_players(found)
    return found


def refuse_single_players(found: Interactions) -> None:
    """Raise InputError where there is no set of two players or more."""
    if max(map(len, found.sets)) < 2:
        raise InputError(
            "interactions: there are single players only, of order 1; say order=2 for pairs."
        )


def shown_number(value: float, most: float, sign: bool) -> str:
    """Three digits; 0 for what rounding leaves beside the largest number."""
    if abs(value) < 1e-5 * most:
        return "0"
    return style.number(value, sign=sign)


def name_of(found: Interactions) -> str:
    """What one number is called."""
    return interaction_forms.value_name(found)


def picture_title(ax: Axes, found: Interactions) -> None:
    """The instance and the output, where there is one of each to be named, and what is measured."""
    title = style.title_of_one(found) if len(found) == 1 else style.title_of(found)
    style.write_title(ax, title, int(style.room(ax, []) / style.TITLE_INCHES))
