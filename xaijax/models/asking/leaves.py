"""A model as a function of the codes of its rows, where these are more than numbers in a line.

Letters: R rows, C code columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.models.asking.host import read_only
from xaijax.models.base.trace import DTYPES
from xaijax.models.structure.split import GivenSplit
from xaijax.tables.own_table import OwnTable
from xaijax.tables.table import FloatTable
from xaijax.tables.tree_table import TreeTable

if TYPE_CHECKING:
    from xaijax.models.model import Model


class OfCodes:
    """A model's function, given codes [R, C] in place of rows."""

    def __init__(self, function: Callable[..., Any], table: Any) -> None:
        self._function, self._rows = function, table.decode

    @property
    def answer_dtype(self) -> Any:
        """See `Selected`."""
        return getattr(self._function, "answer_dtype", None)

    def __call__(self, *given: Any) -> Any:
        """(codes), or (params, codes) in JAX."""
        *params, codes = given
        return self._function(*params, self._rows(codes))


class OfWords(OfCodes):
    """The same on the host, where rows are not to be written to."""

    def __call__(self, *given: Any) -> Any:
        """(codes)."""
        (codes,) = given
        return self._function(jax.tree.map(read_only, self._rows(codes)))


def of_codes(model: Model, table: Any) -> Model:
    """The model as a function of what a table asks with (`Table.asked`): of the codes of a tree, in
    JAX also of whole numbers, and of rows with players of their own. What is compiled is kept by
    the model it is of.
    """
    if isinstance(table, OwnTable) and not table.in_jax:
        table = table.inner
    whole = table if isinstance(table, FloatTable) and table.whole is not None else None
    if whole is None and not isinstance(table, TreeTable | OwnTable):
        return model
    changes: dict[str, Any] = {"input_shape": None, "feature_names": None, "allow_nan": True}
    if isinstance(getattr(table, "inner", table), TreeTable):
        _refuse_tree(model)
    if isinstance(table, OwnTable):
        changes["structure"] = "plain"  # a structure looks at columns, which are of codes here
    elif whole is not None and model.structure is not None:
        changes["structure"] = _of_whole(model.structure, whole)
    wrapped = OfCodes if model.loop == "jax" else OfWords
    for name in ("apply", "call", "scores", "decide"):
        if (own := getattr(model, name)) is not None:
            changes[name] = wrapped(own, table)
    kept = model.compiled.setdefault(("codes", table.key), {})
    return dataclasses.replace(model, compiled=kept, **changes)


def _of_whole(structure: Any, table: FloatTable) -> Any:
    """A declared structure of whole numbers, for their codes."""
    if table.codes_per_column == 2:
        return "plain"  # a structure is one of single numbers
    if isinstance(structure, GivenSplit):
        return dataclasses.replace(structure, first=OfCodes(structure.first, table))
    return structure


def _refuse_tree(model: Model) -> None:
    """Raise where a model is one of rows in one array."""
    if model.estimator is not None:
        raise InputTypeError(
            f"{model.name} is an estimator, which takes an array or a frame; got rows in several "
            "arrays. Give one of these, or wrap it: as_model(lambda X: ..., backend='host')."
        )
    if model.structure is not None and not isinstance(model.structure, str):
        raise InputError(
            "structure= declares a layer of rows in one array; got rows in several. Leave it out: "
            "what can be found in the model's trace is found."
        )


def coded_rows(model: Model, X: Any) -> tuple[Model, np.ndarray]:
    """(the model of codes, the codes) of rows X in several arrays."""
    table = TreeTable.of(X, "X", code_dtype(model))
    rows = table.read(X, "X", model.allow_nan)
    return of_codes(model, table), table.encode(rows)[1]


def code_dtype(model: Model) -> np.dtype | None:
    """Of the codes of a model in JAX; None: bits, for the host."""
    return np.dtype(DTYPES[model.precision]) if model.loop == "jax" else None
