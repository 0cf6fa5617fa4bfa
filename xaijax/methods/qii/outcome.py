"""Defines QII's outcomes: the outcome, the positive class, and the score of a hybrid.

The column that outcome="score" reads is that of the positive class, whichever column was selected.

Letters: R rows, K scores or columns.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.games.measure import score
from xaijax.methods.qii.quantities import KNOWN, Interest, actual, average

AS_IT_IS = (0.0, 1.0)  # a + b s of a lone column s
TURNED = {"proba": (1.0, -1.0), "decision": (0.0, -1.0)}  # to the other class's column
OUTCOMES = ("label", "score", "proba")


@dataclass(frozen=True)
class Outcome:
    """The scoring of a model row; `score` is made when the positive class is known."""

    kind: str  # "label" | "score" | "proba"
    model: Any  # what the engine calls: for "label" a model of class numbers
    bounds: tuple[float, float]  # every score lies in them
    score_for: Callable[[Any], score.Score]  # takes the positive label
    classes: tuple[Any, ...] | None  # if known
    needs_positive: bool

    @property
    def width(self) -> float:
        """The width of the bounds."""
        return self.bounds[1] - self.bounds[0]


# What quantities measure for vectors of probabilities. "actual" and "average" become others, since
# a vector has no decided class that could stay the same.
_MEASURED = {"actual": "individual", "average": "rate"}
_OF_CHANCES = {
    "individual": "the chances of all classes for this person",
    "rate": "the mean chances of all classes over the people",
    "group": "the mean chances of all classes over the group",
    "disparity": "the differences between the group's and the other people's mean chances, class "
    "by class",
    "ratio": "the group's mean chances divided by the other people's, class by class",
}


def measured_of(interest: Interest, outcome: str) -> tuple[str, str]:
    """(the name of the quantity that is measured, its description)."""
    if outcome != "proba" or interest.score is not None:
        return interest.name, interest.words
    name = _MEASURED[interest.name] if interest in (actual, average) else interest.name
    custom = interest not in KNOWN.values()
    return name, interest.words if custom else _OF_CHANCES[name]


def outcome_of(model: Any, interest: Interest, outcome: Any, positive: Any, bounds: Any) -> Outcome:
    """Reads `outcome=`, `positive=` and `bounds=`; calls no model.

    It raises InputError for a positive label that is not among the model's classes, an outcome that
    the model or the quantity does not have, or bounds out of order.
    """
    checks.one_of(outcome, "outcome", OUTCOMES)
    if not isinstance(positive, str | bool | numbers.Real | np.generic | None):
        raise InputTypeError(
            f"positive must be one label of the model, got {type(positive).__name__}."
        )
    low, high = _bounds(bounds)
    if (low, high) != (0.0, 1.0) and outcome != "score" and interest.score is None:
        raise InputError(
            f"bounds= go with outcome='score' or your own score, not with outcome={outcome!r}."
        )
    classes = model.classes
    if positive is not None and classes is not None:
        _known(positive, classes)  # also if the quantity does not depend on it
    if outcome == "label":
        return _of_labels(model, interest, (low, high))
    if interest.agrees and outcome == "score":
        raise InputError(
            f"quantity={interest.name!r} asks whether the decided class stays the same. Say "
            "outcome='label', or quantity='individual' or 'rate' for scores."
        )
    if model.output == "label":
        raise InputError(
            f"outcome={outcome!r} needs scores, and the model gives labels. Say outcome='label', "
            "or output='proba' in as_model."
        )
    if interest.score is not None:
        scored = _custom_score(interest, (low, high))
        return Outcome(outcome, model, (low, high), lambda _: scored, classes, False)
    if outcome == "proba":
        if interest.agrees and interest not in (actual, average):
            raise InputError(
                "agrees=True of quantity= needs a decided class, and outcome='proba' keeps all "
                "classes. Say agrees=False, or outcome='label'."
            )
        if model.output != "proba" and classes is not None:
            raise InputError(
                f"outcome='proba' needs a model of output='proba', not of output={model.output!r}."
            )
        if positive is not None:
            raise InputError(
                "positive= cannot be combined with outcome='proba', which keeps all classes."
            )
        count = None if classes is None else len(classes)
        whole = score.Score(
            score.ClassProbabilities(count), outputs=None, bounds=(0.0, 1.0), distribution=True
        )
        return Outcome(outcome, model, (0.0, 1.0), lambda _: whole, classes, False)
    columns, function = column_of(model, positive)
    column = score.Score(function, bounds=(low, high), cuts=True)
    return Outcome(outcome, columns, (low, high), lambda _: column, classes, False)


def _custom_score(interest: Interest, bounds: tuple[float, float]) -> score.Score:
    assert interest.score is not None
    return score.Score(score.Own(interest.score, interest.name), reads_own=True, bounds=bounds)


def _of_labels(model: Any, interest: Interest, bounds: tuple[float, float]) -> Outcome:
    if not model.deterministic:
        raise InputError(
            "outcome='label' needs a deterministic model: a random one may give a row several "
            "labels. Say outcome='proba'."
        )
    decided, codes = model.decided()
    if interest.score is not None:
        custom = replace(_custom_score(interest, bounds), of_classes=True)
        return Outcome("label", decided, bounds, lambda _: custom, model.classes, False)
    if interest.agrees:
        same = score.Score(score.Agrees(), reads_own=True, of_classes=True)
        return Outcome("label", decided, (0.0, 1.0), lambda _: same, model.classes, False)

    def score_for(label: Any) -> score.Score:
        return score.Score(score.IsClass(codes.code(label)), of_classes=True)

    return Outcome("label", decided, (0.0, 1.0), score_for, model.classes, True)


def _known(positive: Any, classes: tuple[Any, ...]) -> Any:
    """The class that equals `positive`."""
    if positive not in classes:
        raise InputError(
            f"positive={positive!r} is no label of the model; its labels are {list(classes)[:20]}."
        )
    return classes[classes.index(positive)]


def positive_of(model: Any, classes: tuple[Any, ...] | None, positive: Any, data: Any) -> Any:
    """The positive label: as given, else the last of the classes, or of the labels seen on data.

    It calls the model for the labels of the data if the model has no classes.
    """
    if classes is not None:
        return classes[-1] if positive is None else _known(positive, classes)
    seen = np.unique(model.labels(data)).tolist()
    if positive is None:
        return seen[-1]
    if positive not in seen:
        raise InputError(
            f"positive={positive!r} is a label that the model never returns on the data; it "
            f"returns {seen[:20]}. Say classes= in as_model if there are more."
        )
    return positive  # as given: 1, 1.0 and True are equal, and the data would decide between them


def _bounds(bounds: Any) -> tuple[float, float]:
    try:
        low, high = checks.real_numbers(checks.listed(bounds, "bounds", "numbers"), "").tolist()
    except (TypeError, ValueError):
        raise InputTypeError(f"bounds must be two numbers (low, high), got {bounds!r}.") from None
    if not np.isfinite([low, high]).all() or low >= high:
        raise InputError(f"bounds must be finite with low < high, got {bounds!r}.")
    return low, high


def column_of(model: Any, positive: Any) -> tuple[Any, score.PositiveColumn]:
    """(the model to run, the column of `positive`); positive is known to be a class.

    If one column of the model was selected, all its columns are used; without classes and without
    `positive` the selected column is meant. The model's first probe finds out whether there is such
    a column, see `PositiveColumn.refuse`.
    """
    classes, output = model.classes, model.output
    if classes is None and positive is None:
        return model, score.PositiveColumn(-1)
    if classes is None:
        label = positive
        whole = " The model has no classes, so it is the number of a column."
        place, count = checks.whole_number(label, "positive", least=0, remedy=whole), None
    else:
        label = classes[-1] if positive is None else positive
        place, count = classes.index(label), len(classes)
    lone = _lone(model, place, count)
    return model.unselected(), score.PositiveColumn(place, count, lone, label, output)


def _lone(model: Any, place: int, count: int | None) -> tuple[float, float] | None:
    """(a, b) such that a + b s of a lone column s is the score of this class; None: there is none.

    One number per row decides between two classes, by `Model.labels`: it is the score of the
    second.
    """
    if model.output not in ("proba", "decision", "value"):
        return None
    if model.output == "value" and count is None and model.threshold is None:
        return AS_IT_IS if place == 0 else None  # no class at all: column 0
    if count not in (None, 2):
        return None
    return {0: TURNED.get(model.output), 1: AS_IT_IS}.get(place)
