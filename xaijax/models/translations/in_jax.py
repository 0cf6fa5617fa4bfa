"""Translates a fitted estimator to JAX, before an output is chosen.

Letters : R rows in a call, K outputs, F columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.models.base.source import DECIDED
from xaijax.models.base.trace import DTYPES
from xaijax.models.identity.fit_fingerprint import FitFingerprint
from xaijax.models.identity.patched import patched
from xaijax.models.translations import families as families  # registers those of this library
from xaijax.models.translations.columns import Centre, Reader
from xaijax.models.translations.registry import Head, Translation, translated
from xaijax.tables.table import Untranslatable

METHODS = {"proba": "predict_proba", "decision": "decision_function"}
OTHERS = ("value", "path-length", "density")


@dataclass(frozen=True)
class InJax:
    """A translated estimator, before an output is chosen."""

    translation: Translation
    reader: Reader
    heads: dict[str, Head]  # heads by the words of `output=`
    decide: Head | None  # the decided class, as a position in the classes [R]
    offset: np.ndarray | None = None  # the value subtracted from "value", float64 [] or [K]


def in_jax(
    estimator: Any,
    fit: FitFingerprint,
    name: str,
    classes: tuple[Any, ...] | None,
    names: Any,
    precision: str,
    centre: Centre | None = None,
) -> InJax:
    """Translates an estimator in the state `fit`; raises Untranslatable with the reason."""
    dtype = np.dtype(DTYPES[precision])
    changed = patched(estimator)
    if changed is not None:
        raise Untranslatable(f"{changed}, and a translation is of the class as it was written")
    translation, sources = translated(estimator, fit, names, dtype, centre)
    reader = Reader(sources, dtype, name)
    heads = {word: head for word, head in translation.heads.items() if word in (*METHODS, *OTHERS)}
    decide = translation.heads.get("label")
    if decide is not None and classes is not None:
        if all(isinstance(label, bool | int | float) for label in classes):
            labels = np.array([float(label) for label in classes], dtype)
            place = decide
            heads["label"] = lambda params, rows: jnp.asarray(labels)[place(params, rows)]
    if "decision" in heads and classes is not None and len(classes) == 2:
        decision = heads["decision"]
        heads["columns"] = lambda params, rows: _both(decision(params, rows))
    if decide is not None and classes is not None and not heads.keys() & METHODS.keys():
        heads[DECIDED] = lambda params, rows: jax.nn.one_hot(decide(params, rows), len(classes))
    offset = centre.answer if centre is not None and centre.taken else None
    return InJax(translation, reader, heads, decide, offset)


def head_of(in_jax: InJax, word: str, estimator: Any) -> Head:
    """The head for one word of `output=`; raises Untranslatable if only scikit-learn has it."""
    if word in in_jax.heads:
        return in_jax.heads[word]
    name = type(estimator).__name__
    if word == "label":
        raise Untranslatable(f"class labels of {name} that are no numbers cannot be used in JAX")
    raise Untranslatable(f"{METHODS.get(word, 'predict')} of {name} has no translation")


def _both(decision: Any) -> Any:
    """A binary decision [R] as a column per class."""
    return jnp.stack([-decision, decision], axis=1)


Made = tuple[InJax, Callable[..., Any]]  # a translation, and its head as `TranslationCheck.head`
