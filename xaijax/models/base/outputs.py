"""Checks a model's output: [R] or [R, K] numbers, one row per input row, or [R] class labels."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import InputError, ModelOutputError
from xaijax.models.base.options import WORDS, came

_EXPECTED = "expected one number per row, [R], or K numbers per row, [R, K]"


def check_output(raw: Any, rows: int, where: str = "the model") -> np.ndarray:
    """The output of a host model for `rows` rows as float64 [R] or [R, K]; [R, 1] becomes [R].

    Returns a copy, because the model may return a view of a buffer that its next call overwrites.
    `where` names the function ("clf.predict_proba") in messages. Any real dtype is accepted.
    Finiteness is not checked: see `check_finite`.

    Raises ModelOutputError for a wrong number of rows, a scalar, None, three or more axes, and for
    text, dates, complex numbers or anything else that is not a number.
    """
    return check_raw(raw, rows, where).astype(np.float64, copy=False)


def check_raw(raw: Any, rows: int, where: str = "the model") -> np.ndarray:
    """Like `check_output`, with the dtype that the model returned (objects become float64)."""
    array = _as_array(raw, rows, where)
    if array.dtype.kind == "O" and all(isinstance(item, Real) for item in array.flat):
        try:
            array = array.astype(np.float64)
        except OverflowError:
            raise ModelOutputError(
                f"{where} returned a whole number beyond the floats. Return floating-point numbers."
            ) from None
    _check_shape(array.shape, rows, where)
    if array.dtype.kind in "OSUT":
        raise ModelOutputError(
            f"{where} returned text or objects (such as {came(array.flat[0])}) where numbers were "
            "expected. If these are class labels, say output='label'."
        )
    _check_dtype(array.dtype, where)
    return _squeezed(array)


def check_labels(raw: Any, rows: int, where: str = "the model") -> np.ndarray:
    """The class labels of `rows` rows, [R] of any dtype; [R, 1] becomes [R]."""
    array = _as_array(raw, rows, where)
    _check_shape(array.shape, rows, where)
    array = _squeezed(array)
    if array.ndim != 1:
        raise ModelOutputError(
            f"{where} returned shape {array.shape} where one label per row, ({rows},), is needed."
        )
    refuse_chances(array, where)
    return array


def refuse_chances(labels: np.ndarray, where: str) -> None:
    """Raises ModelOutputError for class labels [R] that are numbers between 0 and 1."""
    if labels.dtype.kind != "f":
        return
    part = labels[(labels > 0) & (labels < 1)]
    if len(part) and (((labels >= 0) & (labels <= 1)) | np.isnan(labels)).all():
        raise ModelOutputError(
            f"{where} returned {float(part[0]):.6g} where output='label' wants class labels. Say "
            "threshold=0.5 in place of it for chances of one class, output='value' for amounts."
        )


def check_finite(values: np.ndarray, where: str = "the model") -> None:
    """Raises ModelOutputError, naming the first row, if a value is NaN or infinite."""
    finite = np.isfinite(values)
    if not finite.all():
        row = int(np.argwhere(~finite)[0][0])
        raise ModelOutputError(
            f"{where} returned NaN or infinity for {int((~finite).sum())} of {finite.size} "
            f"outputs, first in row {row}. Fix it, or say as_model(..., nonfinite='propagate')."
        )


def check_traced_shape(
    shape: tuple[int, ...], dtype: Any, rows: int, where: str = "the model"
) -> None:
    """`check_output` for a traced output with known shape and dtype only."""
    _check_shape(tuple(shape), rows, where)
    _check_dtype(dtype, where)


def selector(
    output: Any, classes: tuple[Any, ...] | None, where: str = "the model", named: int | None = None
) -> Callable[[Any], Any] | None:
    """A function from [R] or [R, K] (NumPy or traced) to the column of `output`; None: no column.

    named: number of names in `output_names=`; None: not given.

    The function raises InputError if the index does not exist or there is nothing to select from,
    and ModelOutputError if the numbers of columns and classes differ.
    """
    if isinstance(output, str) and classes is None or output in WORDS:
        return None

    def select(values: Any) -> Any:
        if classes is not None and values.ndim == 1:
            if values.dtype.kind in "iub" and isinstance(output, Real):  # labels, not scores
                return (values == output).astype("float32")
            raise InputError(
                f"output={output!r} selects a class's column, but {where} returned one number per "
                "row. Return a column per class, [R, K], or the class labels themselves (as whole "
                "numbers); or leave classes= and output= out."
            )
        columns = values.shape[1] if values.ndim == 2 else 1
        if classes is not None and columns != len(classes):
            raise ModelOutputError(
                f"{where} returned {columns} columns, but there are {len(classes)} "
                f"classes: {came(list(classes))}. Give classes= in the order of the columns."
            )
        if named is not None and columns != named:
            raise InputError(
                f"output_names= must name each output of the model: got {named} names for "
                f"{columns} output{'s' * (columns != 1)}."
            )
        index = int(output) if classes is None else classes.index(output)
        if index >= columns:
            raise InputError(
                f"output={output!r} is not an output of {where}, which returned {columns} "
                f"column{'s' * (columns != 1)}: the index must be below {columns}."
            )
        return values if values.ndim == 1 else values[:, index]

    return select


def selecting(
    head: Callable[..., Any],
    select: Callable[[Any], Any],
    name: str,
    output: Any,
    known: tuple[Any, ...] | None,
) -> Callable[[Any], Any]:
    """A head that returns the column chosen by `select`, or the indicator of a class label."""

    def call(rows: Any) -> Any:
        raw = head(rows)
        labels = None if known is None else is_label(raw, output, known, name)
        return select(check_raw(raw, len(rows), name)) if labels is None else labels

    return call


def is_label(raw: Any, output: Any, classes: tuple[Any, ...], where: str) -> np.ndarray | None:
    """Indicator float64 [R] of this class among the class labels [R] of a host model.

    None: the output is not one label of `classes` per row.
    """
    array = _squeezed(_as_array(raw, 0, where))
    if array.ndim != 1:
        return None
    if array.dtype.kind in "biuf":
        numbers = [label for label in classes if isinstance(label, Real)]
        known = bool(np.isin(array, numbers).all())
    else:
        known = set(array.tolist()) <= set(classes)
    return (array == output).astype(np.float64) if known else None


def refuse_codes(labels: Any, where: str) -> None:
    """Raises ModelOutputError for class labels other than 0 and 1, because they have no mean to
    explain.

    labels: some of them, or all classes. NaN is passed on.
    """
    array = np.asarray(labels)
    numbers = array.dtype.kind in "biuf"
    bad = (array != 0) & (array != 1) & (array == array) if numbers else np.ones(len(array), bool)
    if not bad.any():
        return
    label = came(array[bad].tolist()[0])
    if numbers and not np.isin(array[bad] % 1, 0).all():
        raise ModelOutputError(
            f"{where} returned {label} where output='label' wants class labels. Say output='value' "
            "for scores; threshold= in place of output='label' if they decide a class."
        )
    kind = "that are no amounts (only 0 and 1 are)" if numbers else "that are no numbers"
    raise ModelOutputError(
        f"{where} returned class labels {kind}, such as {label}, so there is no mean to explain. "
        f"Say output={label} in as_model (of a function with classes=[...], all of its labels) to "
        "explain 1 where that label is returned and else 0; or output='proba' or 'decision' where "
        "the model has scores. QII and AnchorExplainer take the labels as they are."
    )


def output_names_for(
    names: tuple[str, ...] | None, classes: tuple[Any, ...] | None, outputs: int | None
) -> tuple[str, ...] | None:
    """Names of K = `outputs` outputs; None for [R] without names, or if none are known.

    Raises InputError if `names` (the option output_names=) and the outputs differ in number.
    """
    count = 1 if outputs is None else outputs
    if names is not None:
        if len(names) != count:
            raise InputError(
                f"output_names= must name each output of the model: got {len(names)} names, "
                f"{came(list(names))}, for {count} output{'s' * (count != 1)}."
            )
        return names
    if outputs is not None and classes is not None and len(classes) == outputs:
        return tuple(str(label) for label in classes)
    return None


def _as_array(raw: Any, rows: int, where: str) -> np.ndarray:
    if raw is None:
        raise ModelOutputError(
            f"{where} returned None for {rows} rows; {_EXPECTED}. Is a return missing?"
        )
    if np.ma.is_masked(raw):
        raise ModelOutputError(f"{where} returned masked entries; {_EXPECTED}.")
    try:
        return np.array(raw)  # a copy: the model may write its next output into the same array
    except (ValueError, TypeError) as exc:
        raise ModelOutputError(
            f"{where} returned a {type(raw).__name__} that is no array; {_EXPECTED}."
        ) from exc


def _check_shape(shape: tuple[int, ...], rows: int, where: str) -> None:
    if len(shape) == 0:
        raise ModelOutputError(
            f"{where} returned a single value for {rows} rows; {_EXPECTED}; do not reduce axis 0."
        )
    if len(shape) > 2:
        raise ModelOutputError(
            f"{where} returned shape {shape}; {_EXPECTED}. Flatten or select the outputs."
        )
    if shape[0] != rows:
        raise ModelOutputError(
            f"{where} returned {shape[0]} rows (shape {shape}) for {rows} rows; {_EXPECTED}."
        )
    if len(shape) == 2 and shape[1] == 0:
        raise ModelOutputError(f"{where} returned shape {shape}, no outputs; {_EXPECTED}.")


def _check_dtype(dtype: Any, where: str) -> None:
    # The dtype may be one that NumPy does not know, such as that of a typed key.
    if not any(jnp.issubdtype(dtype, kind) for kind in (np.floating, np.integer, np.bool_)):
        raise ModelOutputError(
            f"{where} returned dtype {dtype}; expected real numbers (float, integer or bool)."
        )


def _squeezed(array: np.ndarray) -> np.ndarray:
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
