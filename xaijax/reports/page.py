"""HTML pages from the templates in this folder, with their tables and pictures."""

from __future__ import annotations

import base64
import hashlib
import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.facts import fact_rows
from xaijax.core.optional import require
from xaijax.core.typing import ModelLike
from xaijax.plots import style
from xaijax.results import wording
from xaijax.results.describe_question import background, meaning
from xaijax.results.explanation import Explanation
from xaijax.results.files.npz import file_to_write, write_atomically
from xaijax.results.summary import ranking
from xaijax.results.wording import named

DPI = 160
MOST = 10_000  # rows of a table: with more a browser takes long
SEARCHED = 8  # rows from which a table has a search field


def write(path: str | os.PathLike[str], template: str, content: dict[str, Any]) -> Path:
    """Renders a template into a file and returns its path; all text is escaped."""
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
    """The date on which a page is written, in UTC."""
    return datetime.now(UTC).date().isoformat()


def _policy(script: str) -> str:
    """The content policy of the page: its own script and pictures inside it, and nothing else."""
    digest = hashlib.sha256(f"\n{script}".encode()).digest()
    encoded = base64.b64encode(digest).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{encoded}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def heading(path: Any, title: Any) -> dict[str, Any]:
    """The title that replaces a page's own; refuses other titles and paths."""
    file_to_write(path)
    if title is None:
        return {}
    checks.passed(title, "title", str, "a text, or None")
    if not title.strip():
        raise InputError("title: it is empty; pass a text, or leave it out.")
    return {"title": title}


def cell(text: str, number: bool = False, head: bool = False) -> dict[str, Any]:
    """A cell of a table; number: right-aligned; head: it names its row."""
    return {"text": text, "number": number, "head": head}


def table(
    title: str,
    heads: Sequence[dict[str, Any]],
    rows: Sequence[Sequence[dict[str, Any]]],
    foot: Sequence[dict[str, Any]] = (),
    note: str = "",
    kind: str | None = None,
) -> dict[str, Any]:
    """A table that can be sorted, and searched if it is long; it has at most the first `MOST`
    rows.
    """
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
    tables = []
    for title, record in titled:
        rows = [[cell(name, head=True), cell(text)] for name, text in fact_rows(record)]
        if rows:
            tables.append(table(title, (), rows, kind=""))
    return tables


def png(size: tuple[float, float], draw: Callable[[Any], Any]) -> bytes:
    """Returns the picture that `draw` draws on axes of this size in inches."""
    # A separate figure: pyplot would need a display, and would keep the figure.
    figure_type = require("matplotlib.figure", "xaijax[plots]").Figure
    figure, stored = figure_type(figsize=size, layout="constrained"), io.BytesIO()
    draw(figure.add_subplot())
    figure.savefig(stored, format="png", dpi=DPI)
    return stored.getvalue()


def picture(
    title: str, size: tuple[float, float], draw: Callable[[Any], Any], caption: str, alt: str = ""
) -> dict[str, Any]:
    """A figure that `draw` draws on axes, with its title and caption; alt: the alternative text.

    The figure is not registered with pyplot, so that a notebook does not show it a second time.
    """
    content = base64.b64encode(png(size, draw)).decode("ascii")
    fields = {"title": title, "alt": alt, "caption": caption, "png": content}
    return {**fields, "width": round(min(size[0], 10.0) * 96)}


def model_name(model: ModelLike | str | None) -> str | None:
    """The model's name; None: an explanation holds no model, and none was given.

    Raises:
        InputTypeError: it is neither a text nor a `Model` from `as_model`.
    """
    name = getattr(model, "name", None) if hasattr(model, "probe") else model
    if name is not None and not isinstance(name, str):
        raise InputTypeError(
            f"model: got {type(model).__name__}; pass a text, what as_model returned, or None."
        )
    return name


def lines(
    model: str | None, source: str, value: str, rows: str = "Background", what: str = "A value"
) -> list[tuple[str, str]]:
    """Names and texts; source: the text of the background, "" if it is not known."""
    head = [("Model", model or "not named"), ("Page written", today())]
    return [*head, (rows, source or "not known"), (what, value)]


def about(explanation: Explanation, model: str | None) -> list[tuple[str, str]]:
    """The head of a page about an explanation, from the facts of its provenance."""
    facts, kind = explanation.provenance, explanation.kind
    if facts.get("method") == "QII" and "pool_rows" in facts:
        index_text = wording.words(explanation)[-1]
        return lines(model, wording.changed(facts, kind), index_text, "What was changed")
    return lines(model, background(facts), meaning(kind, facts))


MOST_INSTANCES, PLAYERS = 500, 20  # instances of a page, and players of each


def checked(instances: Any) -> int:
    """The number of instances that the page shows one at a time."""
    number = checks.whole_number(instances, "instances", least=0)
    return min(number, MOST_INSTANCES)


def section(title: str, each: list[dict[str, Any]], N: int) -> dict[str, Any] | None:
    """The input of the template; None if there is nothing to choose from."""
    if not each:
        return None
    left = N - len(each)
    note = f"The first {len(each):,} of {N:,}; {left:,} are left out of this page." if left else ""
    return {"title": title, "each": each, "note": note}


def of_explanation(explanation: Explanation, most: int) -> dict[str, Any] | None:
    """The values [N, P] of the first instances, the largest of each."""
    if len(explanation) == 1:  # the table above it has the same
        return None
    half = style.half_widths(explanation)
    shown = range(min(len(explanation), most))
    each = [_instance(explanation, n, None if half is None else half[n]) for n in shown]
    return section("One instance at a time", each, len(explanation))


def name_of(names: tuple[str, ...] | None, n: int) -> str:
    """The position of an instance, with its name if it has one."""
    return f"instance {n:,}" + ("" if names is None else f": {names[n]}")


def _instance(explanation: Explanation, n: int, half: np.ndarray | None) -> dict[str, Any]:
    values = explanation.values[n]
    order = ranking(np.abs(values))
    if explanation.present is not None:
        order = order[explanation.present[n][order]]
    places, left = order[:PLAYERS], order[PLAYERS:]
    heads = [cell("player"), cell("value", True)]
    if half is not None:
        heads.append(cell("±, 95 %", True))
    rows = []
    for j in places:
        row = [cell(explanation.feature_names[j], head=True), cell(f"{values[j]:+.4g}", True)]
        if half is not None:
            row.append(cell("unknown" if np.isnan(half[j]) else f"{half[j]:.2g}", True))
        rows.append(row)
    adds = named(explanation.kind).efficient
    note = ""
    if len(left):
        of_them = f", together {values[left].sum():+.4g}" if adds else ""
        note = f"And {len(left):,} smaller ones{of_them}."
    base, total = explanation.base_values[n], values.sum()
    said = f"Base value {base:.4g}"
    if adds and len(explanation.feature_names) == explanation.provenance.get("players"):
        said += f"; with all values {base + total:.4g}"
    title = name_of(explanation.instance_names, n)
    if outputs := style.output_of_each(explanation):
        title += f", output {outputs[n]}"
    return {**table(title, heads, rows, note=note, kind=""), "said": f"{said}.", "card": ""}
