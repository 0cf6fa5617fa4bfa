"""The pages of all public names, by room; under each name stand the examples that use it."""

from __future__ import annotations

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
    """A page for each room, and one with all names."""
    users = {one: used(one) for one in sorted(examples, key=lambda one: (not draws(one), one.stem))}
    by_page = {page: _names(rooms) for page, (_, rooms) in ROOMS.items()}
    written = {
        f"api/{page}.md": "\n\n".join([f"# {ROOMS[page][0]}", *(_entry(n, users) for n in names)])
        + "\n"
        for page, names in by_page.items()
    }
    return {"api/index.md": _index(by_page), **written}


def _names(rooms: tuple[str, ...]) -> list[str]:
    """The names of some rooms: errors last, else by the alphabet."""
    found = [name for name in public() if room(name) in rooms]
    return sorted(found, key=lambda name: (name.endswith(("Error", "Warning")), name.lower()))


def _entry(name: str, users: dict[Path, set[str]]) -> str:
    # mkdocstrings writes the heading, `xj.NAME`, and the text.
    entry = f"::: {address(name)}\n    options:\n      heading: xj.{name}"
    links = [f"[{title(one)}](../examples/{one.stem}.md)" for one in users if name in users[one]]
    return entry + ("\n\n**Used in:** " + "; ".join(links) + "." if links else "")


def _index(by_page: dict[str, list[str]]) -> str:
    lines = [
        f"- [{ROOMS[page][0]}]({page}.md): "
        + ", ".join(f"[`{name}`][{address(name)}]" for name in names)
        for page, names in by_page.items()
    ]
    return "# API\n\nAll public names, behind `import xaijax as xj`.\n\n" + "\n".join(lines) + "\n"
