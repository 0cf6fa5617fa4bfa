"""Names that fit: those of one picture are shortened together, so that they still differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os.path import commonprefix

NAME_LIMIT = 30  # characters of a name on an axis
ENTRY_LIMIT = 20  # characters of an entry beside it
MORE = 8  # characters that are added where two names would look alike


def elide(text: object, limit: int = NAME_LIMIT) -> str:
    """At most `limit` characters on one line; both ends stay, since names differ at either."""
    return _cut(_clean(text), limit, None)


def shorten(names: Sequence[object], limit: int = NAME_LIMIT) -> list[str]:
    """Names of at most `limit` characters, cut in the middle; different names stay different.

    Names that would look alike show the place where they begin to differ, between both ends. Where
    that is not enough, more of them is kept than `limit`.
    """
    whole = [_clean(name) for name in names]
    given: dict[str, set[str]] = {}  # what looks alike without its tabs and line ends
    for name, text in zip(names, whole, strict=True):
        given.setdefault(text, set()).add(str(name))
    texts = [
        text if len(given[text]) == 1 else f"{text} ({sorted(given[text]).index(str(name)) + 1})"
        for name, text in zip(names, whole, strict=True)
    ]
    room = dict.fromkeys(texts, limit)
    apart: dict[str, int | None] = dict.fromkeys(texts)
    while True:
        shown = {text: _cut(text, room[text], apart[text]) for text in room}
        alike = list(_alike(shown))
        if not alike:
            return [shown[text] for text in texts]
        for group in alike:
            place = len(commonprefix(group))
            for text in group:
                room[text] += MORE * (apart[text] is not None)
                apart[text] = place


def with_entries(
    names: Sequence[str],
    entries: Sequence[Sequence[str | None]],
    between: str,
    limit: int = NAME_LIMIT,
    line: int | None = None,
) -> list[str]:
    """Name and entry of each row, each cut on its own; entries of one row stay different.

    entries: for each name what people had, one text a person; None: there is none to show.
    between: what stands between the two, " = " say.
    line: characters beyond which the entries stand below the name; None: they never do.
    """
    rows = []
    for name, own in zip(shorten(names, limit), entries, strict=True):
        known = [" ".join(str(one).split()) for one in own if one is not None]
        if len(set(known)) == 1:
            known = known[:1]
        text = " | ".join(shorten(known, ENTRY_LIMIT))
        if not known:
            rows.append(name)
        elif line is not None and len(name) + len(between) + len(text) > line:
            rows.append(f"{name}{between.rstrip()}\n{text}")
        else:
            rows.append(f"{name}{between}{text}")
    return rows


def _clean(text: object) -> str:
    return " ".join(str(text).split())


def _alike(shown: dict[str, str]) -> Iterator[list[str]]:
    """Groups of different texts that are shown alike."""
    groups: dict[str, list[str]] = {}
    for text, drawn in shown.items():
        groups.setdefault(drawn, []).append(text)
    return (group for group in groups.values() if len(group) > 1)


def _cut(text: str, limit: int, place: int | None) -> str:
    """Both ends of a text, and where a place is given what stands there."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 3
    head = limit - 1 - tail
    if place is not None and head <= place + 1 and place < len(text) - tail:
        part = (limit - 2) // 3
        word = text.rfind(" ", max(place - 6, 0), place) + 1 or place - 2  # its word's beginning
        start = min(max(word, part), len(text) - limit + 2 + part)
        stop = start + limit - 2 - 2 * part
        first, middle, last = text[:part], text[start:stop], text[len(text) - part :]
        return f"{first.rstrip()}…{middle.strip()}…{last.lstrip()}"
    return text[:head].rstrip() + "…" + text[len(text) - tail :].lstrip()
