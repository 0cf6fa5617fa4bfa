"""Who answers for a translated estimator once it is compared: its translation, one for numbers
less what they have in common (`centre`), or the estimator itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from xaijax.models.translations.translated import Made

CENTRED = "for numbers less what the first rows have in common"


def settled_to(model: Any) -> Any:
    """The model that answers for this one, as far as its comparison has come."""
    comparison = model.comparison
    if comparison.reason is not None:
        return model.original
    if comparison.centred is None or model.recentred is None:
        return model
    made = model.recentred(model, comparison.centred)
    if made.loop == "host":
        return made
    kept = model.compiled.setdefault(("centred",), {})
    return dataclasses.replace(made, recentred=None, compiled=kept)


def reason_of(model: Any) -> str:
    """Why it runs where it does."""
    comparison = model.comparison
    if comparison is None or comparison.reason is None:
        centred = comparison is not None and comparison.centred is not None
        return f"{model.why}, {CENTRED}" if centred else model.why
    return comparison.reason


def recentred_copy(model: Any, of: Callable[[Any], Any]) -> Callable[[Any, Made], Any] | None:
    """`Model.recentred` of a copy that answers otherwise, of(model), by a function of the program.

    What answers are short of cannot be added there: the estimator answers where anything is.
    """
    recentred, original = model.recentred, model.original
    if recentred is None or original is None:
        return None

    def copy(_: Any, made: Made) -> Any:
        other = recentred(model, made)
        return of(original if other.offset is not None else other)

    return copy
