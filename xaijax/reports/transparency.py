"""The transparency report of QII for one person, or for two compared, in plain words."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.core.typing import Frame, ModelLike
from xaijax.plots import style
from xaijax.plots.waterfall import largest, profile
from xaijax.reports import page
from xaijax.reports.page import about, cell, model_name
from xaijax.results import wording
from xaijax.results.explanation import Explanation
from xaijax.results.profiles import profiles_of
from xaijax.results.summary import how_sure

TOP = 5  # inputs that are described in words


@public
def transparency_report(
    explanation: Explanation,
    path: str | os.PathLike[str],
    profile: Frame | Sequence[Mapping[str, Any]] | None = None,
    model: ModelLike | str | None = None,
    *,
    title: str | None = None,
) -> Path:
    """Writes one HTML page that explains to a person, or two, what influenced a decision.

    The page shows the person's inputs next to signed bars of their influence. It says in plain
    words what the quantity, the intervention, the difference and the index were, which inputs moved
    the quantity most, and whether influences add up. With difference="subtract" it also says which
    way an input moved it (not for Deegan-Packel, which has no direction). Sampled values have 95 %
    intervals. Two people are shown side by side, and the text says where they differ. The page
    loads nothing from elsewhere. It shows the people's data: be careful whom you send it to.

    Args:
        explanation: an `Explanation` made by `QII` for one or two individuals, values [1, P] or
            [2, P]. If values are vectors of class probabilities, choose a class: explanation[:, :,
            "yes"].
        path: the file to write; an existing file is replaced.
        profile: None, or the people's data to write: a frame or a list of dicts, one row per
            person, with columns named like the players. A player without a column there, and every
            player with None, is taken from `explanation.data`.
        model: the model's name for the head of the page, or a `Model` from `as_model`. None: "not
            named", since an explanation holds no model.
        title: the page's title, a text. None: a title that says what the page shows.

    {page}
        InputError: it is not an explanation by `QII`, or not of one or two people.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import xaijax as xj
        >>> data = np.array([[0, 0], [0, 1], [1, 1], [1, 1]])
        >>> hired = xj.as_model(lambda X: X[:, 1] > 0, output="label")
        >>> explanation = xj.QII(hired, data).explain(data[:1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     xj.transparency_report(explanation, f"{folder}/page.html").name
        'page.html'

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE
        S&P 2016): transparency reports.
    """
    style.check(explanation, 1)
    if explanation.provenance.get("method") != "QII":
        raise InputError("explanation: a transparency report needs an Explanation of `QII`.")
    explanation = style.lone_output(explanation, "a transparency report is of one")
    if explanation.data is None or len(explanation) > 2:
        raise InputError(
            f"explanation: a transparency report is of one person or two, got {len(explanation):,} "
            f"instances of quantity={explanation.provenance.get('quantity')!r}. Choose them, "
            "explanation[[3, 8]]."
        )
    heading = page.heading(path, title)
    content = _content(explanation, profile, model_name(model)) | heading
    return page.write(path, "transparency.html.j2", content)


def _content(explanation: Explanation, profiles: Any, model: str | None) -> dict[str, Any]:
    texts = profiles_of(explanation, profiles)
    names = _people(explanation)
    half = style.half_widths(explanation)
    of = "" if model is None else f" about {model}"
    return {
        "title": f"Transparency report{of}",
        "lead": f"{' and '.join(names)}; {how_sure(explanation)}",
        "about": about(explanation, model),
        "words": wording.words(explanation),
        "findings": [
            {"name": name, **_finding(explanation, n, texts[n], half)}
            for n, name in enumerate(names)
        ],
        "compared": _compared(explanation, texts) if len(explanation) == 2 else None,
        "inputs": _inputs(explanation, texts, half),
        "picture": _picture(explanation, profiles),
    }


def _inputs(explanation: Explanation, texts: Any, half: np.ndarray | None) -> dict[str, Any]:
    """The table of all inputs of the people, with their influences."""
    heads, people = [cell("input")], _people(explanation)
    for name in people:
        whose = "" if len(people) == 1 else f" of {name}"
        heads += [cell(name), cell(f"influence{whose}", True)]
        heads += [] if half is None else [cell(f"95 %{whose}", True)]
    rows = []
    for j in largest(explanation, explanation.shape[1]):
        row = [cell(explanation.feature_names[j], head=True)]
        for n in range(len(explanation)):
            row += [cell(texts[n][j] or ""), cell(_signed(explanation.values[n, j]), True)]
            if half is not None:
                row.append(cell("unknown" if np.isnan(half[n, j]) else f"±{half[n, j]:.2g}", True))
        rows.append(row)
    return page.table("All inputs", heads, rows)


def _signed(value: float) -> str:
    """A number of three digits with its sign; 0 for a rounding error."""
    return "0" if abs(value) < 1e-9 else style.signed(value)


def _people(explanation: Explanation) -> list[str]:
    named = explanation.instance_names
    if named is not None and explanation.instance_index is None:  # names given by the user
        return list(named)
    people = ["This person"] if len(explanation) == 1 else ["Person A", "Person B"]
    if named is None:
        return people
    return [f"{person} ({label})" for person, label in zip(people, named, strict=True)]


def _finding(
    explanation: Explanation, n: int, texts: list[str | None], half: np.ndarray | None
) -> dict[str, Any]:
    """The people's own numbers and the inputs that moved them most."""
    values = explanation.values[n]
    order = [j for j in np.argsort(-np.abs(values), kind="stable")[:TOP] if abs(values[j]) >= 1e-9]
    lines = []
    for j in order:
        entry = "" if texts[j] is None else f" ({texts[j]})"
        sure = ""
        if half is not None and np.isfinite(half[n, j]):
            sure = f", 95 % interval {values[j] - half[n, j]:+.3g} to {values[j] + half[n, j]:+.3g}"
            if abs(values[j]) <= half[n, j]:
                sure += ": it may be none"
        done = wording.effect(explanation, values[j])
        lines.append(f"{explanation.feature_names[j]}{entry} {done}{sure}.")
    quantity, total = (_own(explanation, name, n) for name in ("quantity", "total"))
    now = wording.both_answers(explanation, quantity, float(explanation.base_values[n]), total)
    margin = _own(explanation, "margin", n)
    if margin is not None:
        now = (
            f"Nearest to the threshold: a set {margin:.2g} from it, beyond which numbers may jump."
        )
    return {"now": now, "lines": lines or [wording.nothing(explanation)]}


def _own(explanation: Explanation, name: str, n: int) -> float | None:
    """A number of one person in the stats, if there is one; vectors have several."""
    value = explanation.stats.get(name)
    if not isinstance(value, np.ndarray) or value.shape != (len(explanation),):
        return None
    return float(value[n])


def _compared(explanation: Explanation, texts: list[list[str | None]]) -> list[str]:
    """Sentences on where two people differ most."""
    gap = explanation.values[0] - explanation.values[1]
    a, b = _people(explanation)
    lines = []
    for j in np.argsort(-np.abs(gap), kind="stable")[:TOP]:
        if gap[j] == 0:
            continue
        both = [entries[j] for entries in texts]
        beside = f" ({both[0]} and {both[1]})" if None not in both and both[0] != both[1] else ""
        first, second = (_signed(explanation.values[n, j]) for n in range(2))
        name = explanation.feature_names[j]
        lines.append(f"{name}{beside}: {first} for {a}, {second} for {b}.")
    return lines or ["No influence differs."]


def _picture(explanation: Explanation, profiles: Any) -> dict[str, Any]:
    rows = min(explanation.shape[1], 15) * (1 if len(explanation) == 1 else 1.5)
    draw = partial(profile, explanation, profile=profiles)
    caption, size = wording.to_the_right(explanation), style.figure_size(rows, 8.2)
    alt = "bars of influence by input"
    return page.picture("Profile and influences", size, draw, caption, alt)
