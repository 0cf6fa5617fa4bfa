"""HTML pages from the templates beside this file, with their tables and pictures."""

from __future__ import annotations

import base64
import hashlib
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.facts import fact_rows
from xaijax.core.optional import require
from xaijax.results.files.npz import as_path, write_atomically

DPI = 160
MOST = 10_000  # rows of a table: beyond it a browser takes long
SEARCHED = 8  # rows from which a table has a field to search


def refuse_folder(path: Any) -> None:
    """Refuse a path that is a folder, or none at all."""
    if as_path(path).is_dir():
        raise InputError(f"path: {path} is a folder; give the name of a file.")


def write(path: str | os.PathLike[str], template: str, content: dict[str, Any]) -> Path:
    """Render a template into a file and return its path; all text is escaped."""
    jinja2 = require("jinja2", "xaijax[plots]")
    folder = resources.files("xaijax.reports")

    def read(name: str) -> str:
        return folder.joinpath(name).read_text("utf-8")

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(read),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    script = read("page.js")
    fixed = {"css": read("page.css"), "script": script, "policy": _policy(script), "date": today()}
    page = environment.get_template(template).render(**content, **fixed)
    return write_atomically(path, lambda file: file.write(page.encode("utf-8", "replace")))


def today() -> str:
    """The date on which a page is written, of Greenwich."""
    return datetime.now(UTC).date().isoformat()


def _policy(script: str) -> str:
    """What a browser lets the page do: its own script and pictures inside it, and nothing else."""
    digest = hashlib.sha256(f"\n{script}".encode()).digest()
    own = base64.b64encode(digest).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{own}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def heading(title: Any) -> dict[str, Any]:
    """What takes the place of a page's own title; raises InputError or InputTypeError."""
    if title is None:
        return {}
    if not isinstance(title, str):
        raise InputTypeError(f"title: got {type(title).__name__}; pass a text, or None.")
    if not title.strip():
        raise InputError("title: it is empty; pass a text, or leave it out.")
    return {"title": title}


def cell(text: str, number: bool = False, head: bool = False) -> dict[str, Any]:
    """A cell of a table; number: to the right; head: it names its row."""
    return {"text": text, "number": number, "head": head}


def table(
    title: str,
    heads: Sequence[dict[str, Any]],
    rows: Sequence[Sequence[dict[str, Any]]],
    foot: Sequence[dict[str, Any]] = (),
    note: str = "",
    kind: str | None = None,
) -> dict[str, Any]:
    """A table that can be sorted, and searched where it is long; of too many rows the first."""
    if kind is None:
        kind = "sortable searchable" if len(rows) >= SEARCHED else "sortable"
    left = len(rows) - MOST
    if left > 0:
        note = f"{note} And {left:,} more, which are left out of this page.".lstrip()
    shown = rows[:MOST]
    fields = {"heads": heads, "rows": shown, "foot": foot, "note": note}
    return {"title": title, "kind": kind, **fields}


def facts(titled: Iterable[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """A table for each record that is not empty."""
    found = []
    for title, one in titled:
        rows = [[cell(name, head=True), cell(text)] for name, text in fact_rows(one)]
        if rows:
            found.append(table(title, (), rows, kind=""))
    return found


def new_figure(size: tuple[float, float]) -> Any:
    """A figure of its own, unknown to pyplot: a notebook must not show it a second time."""
    made = require("matplotlib.figure", "xaijax[plots]").Figure
    return made(figsize=size, layout="constrained")


def picture(title: str, figure: Any, alt: str, caption: str) -> dict[str, Any]:
    """A figure with its title, the text in its place, and what stands below."""
    width = round(min(float(figure.get_size_inches()[0]), 10.0) * 96)
    return {"title": title, "alt": alt, "caption": caption, "width": width, "png": png(figure)}


def png(figure: Any) -> str:
    """The figure as base64 text of a PNG."""
    stored = io.BytesIO()
    figure.savefig(stored, format="png", dpi=DPI)
    return base64.b64encode(stored.getvalue()).decode("ascii")
