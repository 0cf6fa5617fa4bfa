"""Pipelines and ColumnTransformers: translations one after another, and side by side.

Letters: R rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from xaijax._coded_table import Untranslatable
from xaijax.models._columns import Columns, Source
from xaijax.models._translation import Head, Translation, translates, translation


@translates("Pipeline", mixed=True)
def pipeline(estimator: Any, columns: Columns) -> Translation:
    """The heads of the last step, on what the steps before it make."""
    steps, takes_nan, nan = [], True, True
    for _, step in estimator.steps:
        if step is None or step == "passthrough":
            continue
        found = translation(step, columns)
        takes_nan &= found.takes_nan or not nan
        nan &= found.passes_nan
        steps.append(found)
        if found.outputs is not None:
            columns = found.outputs
    *before, last = steps
    params = tuple(step.params for step in steps)

    def made(params: Any, rows: Any) -> Any:
        for step, own in zip(before, params, strict=False):
            rows = step.heads["transform"](own, rows)
        return rows

    def head(word: str, params: Any, rows: Any) -> Any:
        return last.heads[word](params[-1], made(params, rows))

    heads: dict[str, Head] = {word: partial(head, word) for word in last.heads}
    own = last.undecided

    def undecided(rows: np.ndarray) -> np.ndarray:
        assert own is not None
        return own(np.asarray(made(params, jnp.asarray(rows))))

    ties = None if own is None else undecided
    return Translation(params, heads, last.kind, takes_nan, nan, last.outputs, ties)


@translates("ColumnTransformer", mixed=True)
def column_transformer(estimator: Any, columns: Columns) -> Translation:
    """Each transformer on its own columns, their results side by side."""
    if estimator.transformer_weights:
        raise Untranslatable("ColumnTransformer weighs its transformers")
    parts, outputs = [], []
    for name, step, _ in estimator.transformers_:
        places = np.asarray(estimator._transformer_to_input_indices[name], np.int64)
        if step == "drop" or not len(places):
            continue
        chosen = columns.chosen(places)
        found = _passed(chosen) if step == "passthrough" else translation(step, chosen)
        parts.append((places, found))
        outputs.extend(_made(found, estimator.output_indices_[name]))
    takes_nan = all(part.takes_nan for _, part in parts)
    passes_nan = any(part.passes_nan for _, part in parts)
    params = tuple(part.params for _, part in parts)

    def transform(params: Any, rows: Any) -> Any:
        made = [
            part.heads["transform"](own, rows[:, places])
            for (places, part), own in zip(parts, params, strict=True)
        ]
        return jnp.concatenate(made, axis=1)

    made = Columns(outputs, columns.dtype)
    return Translation(params, {"transform": transform}, "columns", takes_nan, passes_nan, made)


def _passed(columns: Columns) -> Translation:
    return Translation((), {"transform": lambda _, rows: rows}, "pass", True, True, columns)


def _made(found: Translation, place: slice) -> list[Source | None]:
    """The columns that a transformer makes; all of numbers where it does not say."""
    count = place.stop - place.start
    return [None] * count if found.outputs is None else list(found.outputs)
