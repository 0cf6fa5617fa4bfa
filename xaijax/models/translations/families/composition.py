"""Translates Pipelines, ColumnTransformers and searches.

Letters: R rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from xaijax.models.identity.patched import chosen
from xaijax.models.translations.columns import Columns
from xaijax.models.translations.registry import (
    Head,
    Translation,
    asks_thresholds,
    translates,
    translation,
)
from xaijax.tables.table import Untranslatable


@translates("Pipeline", mixed=True)
def pipeline(estimator: Any, columns: Columns) -> Translation:
    """The heads of the last step, on the outputs of the steps before it."""
    if asks_thresholds(chosen(estimator.steps[-1][1])):
        try:
            return _chained(estimator, columns.for_thresholds())
        except Untranslatable:
            pass  # a step needs a scaler's outputs, not only thresholds: they are computed below
    return _chained(estimator, columns)


def _chained(estimator: Any, columns: Columns) -> Translation:
    steps = []
    for _, step in estimator.steps:
        if step is None or step == "passthrough":
            continue
        translated = translation(step, columns)
        steps.append(translated)
        if translated.outputs is not None:
            columns = translated.outputs
    *before, last = steps
    params = tuple(step.params for step in steps)

    def made(params: Any, rows: Any) -> Any:
        for step, step_params in zip(before, params, strict=False):
            rows = step.heads["transform"](step_params, rows)
        return rows

    def head(word: str, params: Any, rows: Any) -> Any:
        return last.heads[word](params[-1], made(params, rows))

    heads: dict[str, Head] = {word: partial(head, word) for word in last.heads}
    ties_of_last = last.undecided

    def undecided(rows: np.ndarray) -> np.ndarray:
        assert ties_of_last is not None
        return ties_of_last(np.asarray(made(params, jnp.asarray(rows))))

    ties = None if ties_of_last is None else undecided
    return Translation(params, heads, last.kind, True, last.outputs, ties)


@translates(
    "GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV", mixed=True
)
def search(estimator: Any, columns: Columns) -> Translation:
    """The estimator that the search chose."""
    return translation(estimator.best_estimator_, columns)


@translates("ColumnTransformer", mixed=True)
def column_transformer(estimator: Any, columns: Columns) -> Translation:
    """Each transformer on its own columns, with their results concatenated."""
    if estimator.transformer_weights:
        raise Untranslatable("ColumnTransformer weighs its transformers")
    parts, outputs, gaps, maps = [], [], [], []
    read = [places_of(estimator, name) for name, step, _ in estimator.transformers_]
    for j, times in zip(*np.unique(np.concatenate([[], *read]), return_counts=True), strict=True):
        if times > 1 and columns[int(j)] is not None:
            columns[int(j)].shared = True
    for name, step, _ in estimator.transformers_:
        places = places_of(estimator, name)
        if step == "drop" or not len(places):
            continue
        chosen = columns.chosen(places)
        part = _passed(chosen) if step == "passthrough" else translation(step, chosen)
        parts.append((places, part))
        place = estimator.output_indices_[name]
        made = part.outputs if part.outputs is not None else chosen.made(place.stop - place.start)
        outputs.extend(made)
        gaps.extend(made.gaps)
        maps.extend(made.maps)
    params = tuple(part.params for _, part in parts)

    def transform(params: Any, rows: Any) -> Any:
        made = [
            part.heads["transform"](part_params, rows[:, places])
            for (places, part), part_params in zip(parts, params, strict=True)
        ]
        return jnp.concatenate(made, axis=1)

    outputs = Columns(outputs, columns.dtype, gaps, maps, columns.lazy, columns.centre)
    return Translation(params, {"transform": transform}, "columns", True, outputs)


def places_of(estimator: Any, name: str) -> np.ndarray:
    """Returns which columns a transformer of a ColumnTransformer reads; int64."""
    return np.asarray(estimator._transformer_to_input_indices[name], np.int64)


def _passed(columns: Columns) -> Translation:
    return Translation((), {"transform": lambda _, rows: rows}, "pass", True, columns)
