"""HTML pages from the templates beside this file, and pictures inside them."""

from __future__ import annotations

import base64
import io
import os
from importlib import resources
from pathlib import Path
from typing import Any

from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.results.files.npz import as_path, write_atomically

DPI = 160


def refuse_folder(path: Any) -> None:
    """Refuse a path that is a folder, or none at all."""
    if as_path(path).is_dir():
        raise InputError(f"path: {path} is a folder; give the name of a file.")


def write(path: str | os.PathLike[str], template: str, content: dict[str, Any]) -> Path:
    """Render a template into a file and return its path; all text is escaped."""
    jinja2 = require("jinja2", "xaijax[plots]")
    folder = resources.files("xaijax.reports")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: folder.joinpath(name).read_text("utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    page = environment.get_template(template).render(**content)
    return write_atomically(path, lambda file: file.write(page.encode("utf-8", "replace")))


def new_figure(size: tuple[float, float]) -> Any:
    """A figure of its own, unknown to pyplot: a notebook must not show it a second time."""
    made = require("matplotlib.figure", "xaijax[plots]").Figure
    return made(figsize=size, layout="constrained")


def png(figure: Any) -> str:
    """The figure as base64 text of a PNG."""
    stored = io.BytesIO()
    figure.savefig(stored, format="png", dpi=DPI)
    return base64.b64encode(stored.getvalue()).decode("ascii")
