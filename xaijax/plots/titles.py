"""What stands over a picture: whose values they are, of which output, and in which unit."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from xaijax.plots.colours import ink
from xaijax.plots.names import elide
from xaijax.results import asked
from xaijax.results.asked import WORDS, counted_outputs, quantity
from xaijax.results.explanation import Explanation
from xaijax.results.interactions import Interactions
from xaijax.results.private_explanation import PrivateExplanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Inches of an average character of names, of the text below the axis, and of a title.
NAME_INCHES, LABEL_INCHES, TITLE_INCHES = 0.077, 0.070, 0.081
PART = 40  # characters of an instance's or an output's name
Titled = Explanation | Interactions | PrivateExplanation
ASKED = ("quantity", "quantity_words", "link")  # the chosen output stands beside it


def write_title(ax: Axes, title: str | None, width: int = 60) -> None:
    """A title of two lines at most, each of so many characters; None: there is none."""
    if title is not None:
        lines = wrap(elide(title, 2 * width - 8), width) or [""]
        text = "\n".join([*lines[:1], " ".join(lines[1:])]).strip()
        ax.set_title(text, loc="left", fontsize=10.5, color=ink(), pad=10, parse_math=False)


def room(ax: Axes, names: list[str]) -> float:
    """Inches from the end of the names to the right end of the axes' part of the figure."""
    figure: Any = ax.get_figure(root=True)
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    share = min(ax.get_position().width / 0.775, 1.0)  # 0.775: of axes that have a figure alone
    return max(figure.get_figwidth() * share - NAME_INCHES * longest - 0.2, 2.0)


def title_of(explanation: Titled) -> str | None:
    """The output that was chosen, where there were several, and what was measured of it."""
    facts, own = explanation.provenance, output_of_each(explanation)
    told = counted_outputs([elide(name, PART // 2) for name in own]) if own else None
    return title_of_facts(facts, told)


def title_of_facts(facts: Mapping[str, Any], selected: str | None = None) -> str | None:
    """The same by the facts of a provenance; selected: the output, None: as the facts say."""
    what = _quantity(facts)
    if selected is None and facts.get("selected_output") is not None:
        selected = elide(facts["selected_output"], PART)
    if selected is None:
        return None if what is None else f"explained: {what}"
    return f"output: {selected}" + ("" if what is None else f" ({what})")


def quantity_of(explanation: Titled) -> str | None:
    """What one number is an amount of, where provenance tells: a probability, say."""
    return _quantity(explanation.provenance)


def _quantity(provenance: Mapping[str, Any]) -> str | None:
    facts = {name: one for name, one in provenance.items() if name in ASKED}
    told = quantity(facts)
    return told if told not in ("", WORDS["model output"]) else None


def output_of_each(explanation: Titled) -> list[str]:
    """The output of each instance, [N], where each has its own (`outputs=`); else empty."""
    return list(asked.output_of_each(getattr(explanation, "stats", {}), len(explanation.values)))


def title_of_one(one: Titled) -> str | None:
    """The name of the only instance, and the output that was chosen."""
    parts = [title_of(one)]
    if one.instance_names is not None:
        parts.insert(0, f"instance: {elide(one.instance_names[0], PART)}")
    return ", ".join(part for part in parts if part is not None) or None
