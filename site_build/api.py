"""The pages of all public names: one for each class, and for each room one with its functions.

The entry of a name ends with links to the examples that use it.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from site_build.gallery import Pages, draws, title
from site_build.names import address, public, room, used

# {page: (title, rooms on it)}; a room is a package of xaijax.
ROOMS = {
    "explainers": ("Explainers", ("methods", "games", "players")),
    "models": ("Models", ("models",)),
    "results": ("Results", ("results",)),
    "plots": ("Pictures", ("plots",)),
    "reports": ("Reports", ("reports",)),
    "certainty": ("How sure", ("certainty",)),
    "privacy": ("Privacy", ("privacy",)),
    "federated": ("Parties", ("federated",)),
    "sweeps": ("Many rows", ("sweeps",)),
    "datasets": ("Data sets", ("datasets",)),
    "core": ("Errors and settings", ("core",)),
}


def pages(examples: list[Path]) -> Pages:
    """A page for each room and each class, and one with all names."""
    users = {
        example: used(example)
        for example in sorted(examples, key=lambda example: (not draws(example), example.stem))
    }
    by_page = {page: _names(rooms, users) for page, (_, rooms) in ROOMS.items()}
    written = {f"api/{page}.md": _room(page, names, users) for page, names in by_page.items()}
    classes = filter(alone, public())
    written |= {f"api/{name}.md": _entry(name, users, level=1) + "\n" for name in classes}
    return {"api/index.md": _index(by_page), **written}


def alone(name: str) -> bool:
    """Whether a name has a page of its own: a class that is no error."""
    entry = public()[name]
    return inspect.isclass(entry) and not issubclass(entry, BaseException)


def _names(rooms: tuple[str, ...], users: dict[Path, set[str]]) -> list[str]:
    """The names of some rooms: classes, functions and errors, those of most examples first."""
    names = [name for name in public() if room(name) in rooms]
    kinds = {name: 2 * name.endswith(("Error", "Warning")) or not alone(name) for name in names}
    uses = {name: sum(name in used_names for used_names in users.values()) for name in names}
    return sorted(names, key=lambda name: (kinds[name], -uses[name], name.lower()))


def _room(page: str, names: list[str], users: dict[Path, set[str]]) -> str:
    classes = "\n".join(f"- {_link(name)}: {_summary(name)}" for name in names if alone(name))
    entries = [_entry(name, users) for name in names if not alone(name)]
    return "\n\n".join(filter(None, [f"# {ROOMS[page][0]}", classes, *entries])) + "\n"


def _entry(name: str, users: dict[Path, set[str]], level: int = 2) -> str:
    # mkdocstrings writes the heading, `xj.NAME`, and the text.
    entry = f"::: {address(name)}\n    options:\n      heading: xj.{name}\n"
    entry += f"      heading_level: {level}"
    links = [
        f"[{title(example)}](../examples/{example.stem}.md)"
        for example in users
        if name in users[example]
    ]
    return entry + ("\n\n**Used in:** " + "; ".join(links) + "." if links else "")


def _link(name: str) -> str:
    return f"[`xj.{name}`][{address(name)}]"


def _summary(name: str) -> str:
    return (inspect.getdoc(public()[name]) or "").partition("\n\n")[0].replace("\n", " ")


def _index(by_page: dict[str, list[str]]) -> str:
    lines = [
        f"- [{ROOMS[page][0]}]({page}.md): " + ", ".join(_link(name) for name in names)
        for page, names in by_page.items()
    ]
    return "# API\n\nAll public names, behind `import xaijax as xj`.\n\n" + "\n".join(lines) + "\n"
