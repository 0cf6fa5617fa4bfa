"""The head of a page: the model, the date, the background, and what a value means."""

from __future__ import annotations

from xaijax.core.errors import InputTypeError
from xaijax.core.typing import Model
from xaijax.reports.page import today
from xaijax.results import wording
from xaijax.results.asked import background, meaning
from xaijax.results.explanation import Explanation


def model_name(model: Model | str | None) -> str | None:
    """The name to write; None: an explanation holds no model, and none was said.

    Raises:
        InputTypeError: neither a text nor what `as_model` made.
    """
    name = getattr(model, "name", None) if hasattr(model, "probe") else model
    if name is not None and not isinstance(name, str):
        raise InputTypeError(
            f"model: got {type(model).__name__}; pass its name as a text, what xaijax.as_model "
            "returned, or None."
        )
    return name


def lines(
    model: str | None, asked: str, value: str, rows: str = "Background", what: str = "A value"
) -> list[tuple[str, str]]:
    """Names and texts; asked: of the background, "" where it is not known."""
    return [
        ("Model", model or "not named"),
        ("Page written", today()),
        (rows, asked or "not known"),
        (what, value),
    ]


def about(explanation: Explanation, model: str | None) -> list[tuple[str, str]]:
    """The head of a page about an explanation, by the facts of its provenance."""
    facts, kind = explanation.provenance, explanation.kind
    if facts.get("method") == "QII" and "pool_rows" in facts:
        told = wording.words(explanation)[-1]
        return lines(model, wording.changed(facts, kind), told, "What was changed")
    return lines(model, background(facts), meaning(kind, facts))
