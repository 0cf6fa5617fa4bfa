"""What the numbers of a result answer: facts and digests by which two results are told apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from xaijax.core.facts import FUNCTIONS

# Facts of the provenance that say what a score is.
SCORE = ("outcome", "positive", "bounds", "signed", "difference", "floor")
# Facts that say what a number is an amount of.
AMOUNT = ("quantity", "quantity_words", "link", *SCORE, "threshold", "absolute")
# Facts that make two results answers to one question.
QUESTION = (
    "selected_output",
    "player_columns",
    "method",
    "path",
    "steps",
    "quantity",
    "link",
    "index_weights",
    "replacement",
    "background_rows",
    "weights",
    "guests",
    "reference",
    "end_weight",
    *SCORE,
    "intervention",
    "pool_rows",
    "pool_weights",
    "scheme",
    "threshold",
    "absolute",
)


def marks_of(stats: Mapping[str, Any]) -> dict[str, str]:
    """Returns the digests of a result's rows and model, by what they can be compared with.

    Two marks tell two questions apart if they differ under one key. "fingerprint" is of the rows,
    their weights and the functions. "model_fingerprint" is how the model was read: by JAX or as an
    estimator of scikit-learn, not as a function, which both JAX and the host may ask. A digest of
    the model stands under "model_fingerprint " and the versions that it depends on. A merged result
    may have several.
    """
    marks: dict[str, str] = {}
    for text in _texts(stats.get("fingerprint")):
        marks["fingerprint"] = text
    for text in _texts(stats.get("model_fingerprint")):
        versions, _, digest = text.rpartition(":")
        marks[f"model_fingerprint {versions}"] = digest
        kind = versions.partition(" ")[0]
        if kind != "python":
            marks["model_fingerprint"] = kind
    return marks


def functions_in(stats: Mapping[str, Any]) -> dict[str, str]:
    """Returns the digests of the user's functions, by what each one is: a link, a difference."""
    known = {key: stats.get(key) for key in FUNCTIONS}
    return {key.removesuffix("_fingerprint"): one for key, one in known.items() if one is not None}


def why_not(
    mine: Mapping[str, Any], other: Mapping[str, Any], fields: Iterable[str] | None = None
) -> Iterator[str]:
    """Yields the fields that both know and in which they differ; fields: None compares all."""
    for field in mine if fields is None else fields:
        if field in mine and field in other and not equal(mine[field], other[field]):
            yield field


def other_mark(stats: Mapping[str, Any], others: Mapping[str, Any]) -> str | None:
    """Returns the entry of stats that tells the questions of two results apart; None: none does."""
    differ = next(why_not(marks_of(stats), marks_of(others)), None)
    return differ and differ.partition(" ")[0]


def equal(a: Any, b: Any) -> bool:
    """Returns whether two facts are the same; NaN equals NaN."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        same_form = np.shape(a) == np.shape(b)
        return same_form and bool(np.all((a == b) | ((a != a) & (b != b))))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b) or bool(a != a and b != b)


def _texts(known: Any) -> list[str]:
    several = known if isinstance(known, list | tuple) else (known,)
    return [one for one in several if isinstance(one, str)]
