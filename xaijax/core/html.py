"""Formats results, models and explainers as HTML for notebooks.

The HTML consists of plain tags with inline styles. It runs nothing and loads nothing, it takes its
colours from the surrounding page (light or dark), and every number is also given as text, since
some viewers drop styles. A card stays under `LIMIT` bytes, whatever names and data it contains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from xaijax.core.facts import fact_rows

LIMIT = 20_000
FACTS = 6_000  # bytes of the folded facts at most; fewer if the rest is large
LINE, NAME, INPUT = 160, 48, 32  # characters of a line above the table, of a name, of an input

# Same as in the pictures: blue against orange, both legible on white and on black.
DOWN, UP, GREY, PALE = "#2b6cb0", "#e07b16", "#8a9097", "#8fb8e8"
# Control characters, and those that change the reading direction, also of adjacent text.
_TURNING = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SPACED = "border-collapse:separate;border-spacing:.8em 0;margin-left:-.8em;color:inherit"
_PLAIN = (str, int, float, list, tuple, Mapping)
_LEFT = 'style="text-align:left"'


def cut(value: object, most: int) -> str:
    """Shortens a text to one line of at most `most` characters; both ends stay, since names differ
    at either.
    """
    line = " ".join(str(value).split())
    if len(line) <= most:
        return line
    tail = (most - 1) // 3
    return f"{line[: most - 1 - tail].rstrip()}…{line[len(line) - tail :].lstrip()}"


def text(value: object, most: int = LINE) -> str:
    """Returns one line of at most `most` characters, escaped."""
    shown = _TURNING.sub("\N{REPLACEMENT CHARACTER}", cut(value, most))
    return escape(shown.encode("utf-8", "replace").decode("utf-8"))


def bar(
    parts: Iterable[tuple[float, float, str]],
    zero: float = 0.0,
    sure: tuple[float, float] | None = None,
) -> str:
    """Draws a bar of coloured parts (from, to, colour), the uppermost first; places are from 0 to
    1.

    zero: the place of the axis; sure: None, or the two ends of an interval, drawn as a line.
    """
    layers = []
    if sure is not None:
        layers.append(_layer(*sure, "currentColor") + " 0 50%/100% 2px no-repeat")
    layers += [_layer(low, high, colour) for low, high, colour in parts]
    layers.append(
        f"linear-gradient(currentColor,currentColor) {_share(zero)}% 0/1px 100% no-repeat"
    )
    return (
        '<div aria-hidden="true" style="width:12em;height:.8em;'
        f'background:{",".join(layers)}"></div>'
    )


def _layer(low: float, high: float, colour: str) -> str:
    a, b = _share(min(low, high)), _share(max(low, high))
    return f"linear-gradient(90deg,#0000 {a}%,{colour} {a}% {b}%,#0000 {b}%)"


def _share(place: float) -> str:
    return f"{100 * min(max(place, 0.0), 1.0):.1f}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table; the cells are HTML already, the heads are not."""
    top = "".join(f'<th scope="col" {_LEFT}>{text(head, NAME)}</th>' for head in heads)
    inside = f"<thead><tr>{top}</tr></thead><tbody>{''.join(map(row, rows))}</tbody>"
    return f'<table style="{_SPACED}">{inside}</table>'


def row(cells: Sequence[str]) -> str:
    """A row of a table, of cells that are HTML already."""
    return "<tr>" + "".join(f"<td {_LEFT}>{cell}</td>" for cell in cells) + "</tr>"


def folded(title: str, facts: Iterable[tuple[str, str]], most: int = FACTS) -> str:
    """Returns facts behind a triangle, as many as fit into `most` bytes; it says if some are left
    out.
    """
    rows = ((text(name, NAME), text(value)) for name, value in facts)
    lines = list(within(map(row, rows), most, "<tr><td>and more</td></tr>"))
    if not lines:
        return ""
    inside = f'<table style="{_SPACED};font-size:90%">{"".join(lines)}</table>'
    return f"<details><summary>{text(title)}</summary>{inside}</details>"


def within(pieces: Iterable[str], most: int, end: str = "") -> Iterator[str]:
    """Yields the first pieces that together take at most `most` bytes, and `end` if there are
    more.
    """
    for piece in pieces:
        most -= len(piece.encode())
        if most < 0:
            yield from [end] * bool(end)
            return
        yield piece


def card(
    title: str, lines: Iterable[str], body: Iterable[str], made: str, facts: Mapping[str, Any]
) -> str:
    """Returns a title, lines of text, a body that is HTML already, and facts under the heading
    `made`.
    """
    under = "".join(f"<div>{text(line)}</div>" for line in lines)
    whole = f"<div><b>{text(title)}</b></div>{under}{''.join(body)}"
    room = LIMIT - len(whole.encode()) - 500  # of the tags around
    whole += folded(made, fact_rows(facts), min(FACTS, room))
    return f'<div style="max-width:60em;overflow-x:auto;color:inherit">{whole}</div>'


def shown(*names: str) -> Callable[[Any], str]:
    """Returns a `_repr_html_`: the words of `repr`, and the attributes of these names, without
    None.
    """

    def card_of(self: Any) -> str:
        attributes = {name.rpartition(".")[2].strip("_"): _attribute(self, name) for name in names}
        known = {
            name: value if isinstance(value, _PLAIN) else repr(value)
            for name, value in attributes.items()
            if value is not None
        }
        title, _, rest = repr(self).partition("(")
        return card(title, [rest.removesuffix(")")], [], "Details", known)

    return card_of


def _attribute(owner: Any, name: str) -> Any:
    """The attribute of a dotted name; None if it does not exist yet."""
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner
