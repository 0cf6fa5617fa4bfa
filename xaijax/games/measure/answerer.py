"""`resolve`: decides before a game who answers it: JAX, a centred translation, or the estimator.

Letters: B donors, N instances, C code columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.games.measure.replacement.base import Replacement
from xaijax.models.asking.comparison import COMPARED, Bridged, TranslationCheck, answering
from xaijax.models.base.outputs import refuse_codes
from xaijax.models.model import Model
from xaijax.tables.table import CodedTable, CodeTable, Untranslatable

NOTHING, FIRST, ALL = range(3)


@dataclass(frozen=True)
class Answerer:
    """Who answers a game, and what is asked, in the codes that it takes."""

    model: Model
    donors: Replacement
    table: CodeTable  # which knows the instances
    codes: np.ndarray  # of the instances, [N, C]
    compared: int  # NOTHING, the FIRST donors and instances, or ALL donors


def resolve(
    model: Model,
    donors: Replacement,
    rows: Any,
    *,
    offsets: bool = False,
    every: bool = True,
    compared: int = NOTHING,
) -> Answerer:
    """Returns who answers for a model on these rows, as read by the donors' table.

    The answers of a translation are compared with its estimator's own on the donors and the rows.
    The estimator answers if they differ, or if rows do not fit JAX, from now on.

    Args:
        model, donors: as they were resolved before, or as they were given.
        rows: the instances, as the estimator takes them.
        offsets: whether `Model.offset` is added to the answers.
        every: whether all rows are compared; False: only the first.
        compared: which donors were compared before.

    Raises:
        ModelOutputError: labels that are no amounts, or a bridged module that answers otherwise.
        InputError: a difference where backend="jax" was said.
    """
    known = model.classes or ("",)
    if model.output == "label" and not any(isinstance(label, str) for label in known):
        refuse_codes(model.classes, model.name)  # unknown labels again with each answer
    comparison = model.comparison
    if not isinstance(donors.table, CodedTable):
        table, codes = donors.table.encode(rows)
        if every and isinstance(comparison, Bridged):
            comparison.compare_all(rows)
        return Answerer(model, donors, table, codes, compared)
    assert isinstance(comparison, TranslationCheck)
    labels, first = model.asks_labels, 0
    if compared == NOTHING:
        comparison.compare_first((donors.rows, rows), labels)
        first = COMPARED
    while True:
        model = answering(model, offsets)
        try:
            donors = donors.for_model(model)
            table, codes = donors.table.encode(rows)
        except Untranslatable as reason:
            comparison.fall_back(str(reason))
            continue
        if every and model.loop == "jax":
            if compared != ALL:
                own = donors.codes_of_rows
                comparison.compare_all(donors.rows, own, COMPARED, shared=True, labels=labels)
            comparison.compare_all(rows, codes, first, labels=labels)
        if answering(model, offsets) is model:
            return Answerer(model, donors, table, codes, ALL if every else max(compared, FIRST))
