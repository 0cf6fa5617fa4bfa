"""Rows of `Model.predict` and `.labels`, the model that runs, and models of codes.

Letters: R rows, C code columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.process import before_jax
from xaijax.models.base.trace import DTYPES
from xaijax.models.queries.comparison import TranslationCheck, resolve
from xaijax.models.queries.host import read_only
from xaijax.models.structure.declared import GivenSplit
from xaijax.models.structure.functions import PROBE_ROWS
from xaijax.models.structure.prefix import GivenPrefix
from xaijax.tables.frames import copied_frame
from xaijax.tables.per_instance_table import PerInstanceTable
from xaijax.tables.rows import rows_of
from xaijax.tables.table import FloatTable, MappedRows, Untranslatable, dtype_of, read_array
from xaijax.tables.tree import is_tree
from xaijax.tables.tree_table import TreeTable

if TYPE_CHECKING:
    from xaijax.models.model import Model


def answered_by(model: Model, X: Any, labels: bool = False) -> tuple[Any, Any]:
    """(the model that runs, X in its form); labels: with the classes that it decides."""
    if model.loop == "jax":
        model.check_unchanged()
    if is_tree(X):
        return coded_rows(model, X)
    if model.reader is None:
        return model, (jax_rows if model.loop == "jax" else host_rows)(model, X)
    check = model.comparison if isinstance(model.comparison, TranslationCheck) else None
    if check is not None and check.reason is not None:
        return model.original, X
    rows = host_rows(model, X)
    labels |= model.asks_labels
    known = check is None or (check.labels_done if labels else check.done)

    def read(answerer: Model) -> Any:
        assert model.reader is not None
        if check is not None and not (check.done or check.forced):
            return None  # these rows cannot distinguish rounding from a real difference
        return model.reader.codes(rows) if answerer is model else X

    try:
        answerer, taken = resolve(model, () if known else (rows,), read, labels)
    except Untranslatable as reason:
        raise InputError(f"X: {model.name} cannot run in JAX on it: {reason}.") from None
    return (model.original, X) if taken is None else (answerer, taken)


def jax_rows(model: Model, X: Any) -> np.ndarray | MappedRows:
    """Checks and copies X in the dtype of a JAX model, [R, *F]; a memory map stays one."""
    rows = rows_of(X)
    shape = (rows.width,) if rows.is_frame else checks.as_array(X, "X").shape[1:]
    dtype = row_dtype(model, shape, dtype_of(X, "X"))
    return _read(model, X, dtype)


def _read(model: Model, X: Any, dtype: np.dtype | None = None) -> Any:
    """Checks and copies X; dtype: of a JAX model, whose names a frame must have."""
    shape, names = model.input_shape, model.feature_names
    any_shape, names = model.network and names is None, None if dtype is None else names
    return read_array(X, "X", shape, model.allow_nan, dtype, names, "the model", any_shape)


def row_dtype(model: Model, shape: tuple[int, ...], dtype: np.dtype) -> np.dtype:
    """The dtype in which rows [R, *shape] reach a JAX model: integers and bools in their JAX dtype,
    floats in the model's precision.

    Integers become floats for a function that JAX can trace with floats only: a convolution takes
    rows and weights of one dtype.
    """
    floats = np.dtype(DTYPES[model.precision])
    if dtype.kind not in "biu":
        return floats
    whole = np.dtype(jax.dtypes.canonicalize_dtype(dtype))
    key = "rows", shape, whole.name
    if key not in model.compiled:
        of = model.apply, model.params, shape
        fails = cannot_trace(*of, whole) and not cannot_trace(*of, floats)
        model.compiled[key] = floats if fails else whole
    return model.compiled[key]


def cannot_trace(apply: Any, params: Any, shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether JAX cannot trace apply(params, rows [R, *shape]) with rows of this dtype."""
    before_jax()
    try:
        jax.eval_shape(apply, params, jax.ShapeDtypeStruct((PROBE_ROWS, *shape), dtype))
    except Exception:  # the probe reports its error
        return True
    return False


def host_rows(model: Model, X: Any) -> Any:
    """Checks and copies X in its own dtypes: an array [R, *F], a memory map, or a frame."""
    if rows_of(X).is_frame:
        return copied_frame(X, "X", model.allow_nan)
    return _read(model, X)


class CodeFunction:
    """A model's function of codes [R, C] instead of rows."""

    def __init__(self, function: Callable[..., Any], table: Any) -> None:
        self._function, self._rows = function, table.decode

    @property
    def answer_dtype(self) -> Any:
        """See `Selected`."""
        return getattr(self._function, "answer_dtype", None)

    def __call__(self, *arguments: Any) -> Any:
        """(codes), or (params, codes) in JAX."""
        *params, codes = arguments
        return self._function(*params, self._rows(codes))


class WordFunction(CodeFunction):
    """`CodeFunction` on the host, where rows are read-only."""

    def __call__(self, *arguments: Any) -> Any:
        """(codes)."""
        (codes,) = arguments
        return self._function(jax.tree.map(read_only, self._rows(codes)))


def of_codes(model: Model, table: Any) -> Model:
    """The model as a function of a table's codes (`CodeTable.asked`): for trees, for integers in
    JAX, and for rows with their own players. The original model keeps the compiled programs.
    """
    if isinstance(table, PerInstanceTable) and not table.in_jax:
        table = table.inner
    whole = table if isinstance(table, FloatTable) and table.whole is not None else None
    if whole is None and not isinstance(table, TreeTable | PerInstanceTable):
        return model
    changes: dict[str, Any] = {"input_shape": None, "feature_names": None, "allow_nan": True}
    if isinstance(getattr(table, "inner", table), TreeTable):
        _refuse_tree(model)
    if isinstance(table, PerInstanceTable):
        changes["structure"] = "plain"  # a structure reads columns, which are codes here
    elif whole is not None and model.structure is not None:
        changes["structure"] = _of_whole(model.structure, whole)
    wrapped = CodeFunction if model.loop == "jax" else WordFunction
    for name in ("apply", "call", "scores", "decide"):
        if (function := getattr(model, name)) is not None:
            changes[name] = wrapped(function, table)
    programs = model.compiled.setdefault(("codes", table.key), {})
    return dataclasses.replace(model, compiled=programs, **changes)


def _of_whole(structure: Any, table: FloatTable) -> Any:
    """A declared structure of integers, for their codes."""
    if table.codes_per_column == 2:
        return "plain"  # a structure takes single numbers
    if isinstance(structure, GivenPrefix):
        assert table.whole is not None
        fold = dataclasses.replace(structure.fold, dtype=table.whole.name)
        return dataclasses.replace(structure, fold=fold)
    if isinstance(structure, GivenSplit):
        return dataclasses.replace(structure, first=CodeFunction(structure.first, table))
    return structure


def _refuse_tree(model: Model) -> None:
    """Raises if the model takes rows in one array only."""
    if model.estimator is not None:
        raise InputTypeError(
            f"{model.name} is an estimator, which takes an array or a frame; got rows in several "
            "arrays. Give one of these, or wrap it: as_model(lambda X: ..., backend='host')."
        )
    if model.structure is not None and not isinstance(model.structure, str):
        raise InputError(
            "structure= declares a layer of rows in one array; got rows in several. Leave it out."
        )


def coded_rows(model: Model, X: Any) -> tuple[Model, np.ndarray]:
    """(the model of codes, the codes) of rows X in several arrays."""
    table = TreeTable.of(X, "X", code_dtype(model))
    rows = table.read(X, "X", model.allow_nan)
    return of_codes(model, table), table.encode(rows)[1]


def code_dtype(model: Model) -> np.dtype | None:
    """Dtype of the codes of a model in JAX; None: bits, for the host."""
    return np.dtype(DTYPES[model.precision]) if model.loop == "jax" else None
