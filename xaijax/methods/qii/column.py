"""The column that outcome="score" of QII reads: that of the positive class, whatever was selected.

Letters: R rows, K columns.
"""

from __future__ import annotations

from typing import Any

from xaijax.core import checks
from xaijax.games.measure.scores import Column

AS_IT_IS = (0.0, 1.0)  # a + b s of a lone column s
TURNED = {"proba": (1.0, -1.0), "decision": (0.0, -1.0)}  # into that of the other of two classes


def column_of(model: Any, positive: Any, bounds: tuple[float, float]) -> tuple[Any, Column]:
    """(the model to ask, the column of `positive` cut to bounds); positive is known to be a class.

    A model of which one column was selected is asked for all of them; without classes and without
    `positive` that column is what is meant. What there is no column for the model's first probe
    tells, see `Column.refuse`.
    """
    low, high = bounds
    classes, output = model.classes, model.output
    if classes is None and positive is None:
        return model, Column(-1, low, high)
    if classes is None:
        label = positive
        whole = " The model has no classes, so it is the number of a column."
        place, count = checks.whole_number(label, "positive", least=0, remedy=whole), None
    else:
        label = classes[-1] if positive is None else positive
        place, count = classes.index(label), len(classes)
    lone = _lone(model, place, count)
    return model.unselected(), Column(place, low, high, count, lone, label, output)


def _lone(model: Any, place: int, count: int | None) -> tuple[float, float] | None:
    """How a lone column stands for the class at this place; None: it does not.

    One number per row decides between two classes, by `Model.labels`: it is that of the second.
    """
    if model.output not in ("proba", "decision", "value"):
        return None
    if model.output == "value" and count is None and model.threshold is None:
        return AS_IT_IS if place == 0 else None  # no class at all: column 0
    if count not in (None, 2):
        return None
    return {0: TURNED.get(model.output), 1: AS_IT_IS}.get(place)
