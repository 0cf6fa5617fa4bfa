"""Decides classes from scores: the rules of `Model.labels`, and the class as a number.

Letters: R rows, K scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import InputError, ModelOutputError
from xaijax.models.base.options import WORDS, came
from xaijax.models.base.outputs import check_labels, check_output
from xaijax.models.base.trace import DTYPES
from xaijax.tables.rows import rows_of

if TYPE_CHECKING:
    from xaijax.models.model import Model

_CUTS = {"proba": 0.5, "decision": 0.0}


def decide(
    scores: np.ndarray, output: Any, classes: tuple[Any, ...] | None, threshold: float | None
) -> np.ndarray:
    """The decided class of each row, [R], as a label if `classes` are known.

    Arguments and errors are those of `decided_place`.
    """
    return named(np.asarray(decided_place(scores, output, classes, threshold)), classes)


def decided_place(
    scores: Any, output: Any, classes: tuple[Any, ...] | None, threshold: float | None
) -> Any:
    """The position of each row's class in `classes`, int [R]; NumPy or traced by JAX.

    scores: [R, K], or [R] (with a threshold: the selected output). [R, K] -> argmax, ties to the
    lowest column. [R] -> score > threshold, by default 0.5 for "proba" and 0 for "decision": the
    second class, or 1 if no classes are known. If the first class is selected, this is reversed.

    Raises InputError if there is no rule to decide, ModelOutputError if the numbers of scores and
    classes differ.
    """
    if scores.ndim == 2:
        if threshold is not None:
            raise InputError(
                f"threshold= needs one score per row, but the model returned {scores.shape[1]} "
                "columns. Leave it out (the largest column decides), or select one with output=."
            )
        if classes is not None and len(classes) != scores.shape[1]:
            raise ModelOutputError(
                f"the model returned {scores.shape[1]} columns, but there are {len(classes)} "
                f"classes: {came(list(classes))}. Give classes= in the order of the columns."
            )
        return scores.argmax(axis=1)
    cut = threshold if threshold is not None else _CUTS.get(output) if output in WORDS else None
    if cut is None:
        raise InputError(
            f"the model returns one score per row with output={output!r}, and nothing says from "
            "which score on a row is positive: say output='label', threshold= or classes= in "
            "as_model (classes= for a column per class; output='proba' decides at 0.5, 'decision' "
            "at 0). For rules about the number itself say tolerance= of AnchorExplainer."
        )
    above = scores > cut
    if classes is None:
        return above.astype("int32")
    if len(classes) != 2:
        raise ModelOutputError(
            f"the model returned one score per row, which decides between two classes, but there "
            f"are {len(classes)}: {came(list(classes))}. Return one column per class, [R, K]."
        )
    turned = not (output in WORDS or output == classes[1])
    return (~above if turned else above).astype("int32")


def named(index: np.ndarray, classes: tuple[Any, ...] | None) -> np.ndarray:
    """The labels at positions in the classes, [R]."""
    if classes is None:
        return index.astype(np.int64)
    # NumPy would convert (1, "a") to text; such labels stay objects.
    alike = len({isinstance(label, str) for label in classes}) == 1
    names = np.array(classes) if alike else np.array(classes, dtype=object)
    return names[index]


class Codes:
    """Numbers for class labels: positions in the known classes, otherwise in order of appearance.

    `raw`: the labels are numbers and are used directly. If classes are known, ModelOutputError
    names any other label.
    """

    def __init__(
        self, known: Iterable[Any] = (), raw: bool = False, name: str = "the model"
    ) -> None:
        self._code: dict[Any, int] = {label: i for i, label in enumerate(known)}
        self._raw, self._name, self._known = raw, name, bool(self._code)

    def of(self, labels: np.ndarray) -> np.ndarray:
        """float64 [R]; new labels get new numbers."""
        if self._raw:
            return labels.astype(np.float64)
        if labels.dtype.kind == "O":  # NumPy cannot sort objects of mixed types
            return np.array([self._number(label) for label in labels.tolist()], np.float64)
        distinct, place = np.unique(labels, return_inverse=True)
        numbers = np.array([self._number(label) for label in distinct.tolist()], np.float64)
        return numbers[place]

    def code(self, label: Any) -> float:
        """The number of a label."""
        return float(label) if self._raw else float(self._number(label))

    def label(self, code: float) -> Any:
        """The label of a number; the number itself if it belongs to no class."""
        if self._raw:
            return int(code) if float(code).is_integer() else float(code)
        by_number = {number: label for label, number in self._code.items()}
        return by_number.get(int(code), int(code))

    def _number(self, label: Any) -> int:
        if self._known and label not in self._code:
            raise ModelOutputError(
                f"{self._name} returned the label {label!r}, none of its classes "
                f"{came(list(self._code))}. Give as_model all in classes=, or fix the model."
            )
        return self._code.setdefault(label, len(self._code))


class _Traced:
    """The decided class of a JAX model, [R] in the dtype of its precision."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.answer_dtype = np.dtype(DTYPES[model.precision])
        self.of_labels = model.output == "label" and model.decide is None  # as they come

    def __call__(self, params: Any, rows: Any) -> Any:
        model = self._model
        one_column = model.output not in WORDS and model.threshold is not None
        function = model.apply if one_column else model.scores
        assert function is not None
        scores = function(params, rows)
        if model.decide is not None:
            place = model.decide(params, rows)
        elif model.output == "label":
            place = scores
        else:
            place = decided_place(scores, model.output, model.classes, model.threshold)
        sound = jnp.isfinite(scores) if scores.ndim == 1 else jnp.isfinite(scores).all(axis=1)
        return jnp.where(sound, place, jnp.nan).astype(self.answer_dtype)


def decided(model: Model) -> tuple[Callable[..., Any], Codes]:
    """(a function with the signature of the model's own, the `Codes` of its labels)."""
    if model.loop == "jax":
        raw = model.output == "label" and model.decide is None
        return _Traced(model), Codes(model.classes or (), raw=raw)
    codes = Codes(model.classes or (), name=model.name)
    decides = model.decide is not None or model.output == "label"
    one_column = not decides and model.output not in WORDS and model.threshold is not None
    function = (model.decide or model.call) if decides or one_column else model.scores
    assert function is not None

    def call(rows: Any) -> np.ndarray:
        raw = function(rows)
        if decides:
            return codes.of(check_labels(raw, len(rows_of(rows)), model.name))
        scores = check_output(raw, len(rows_of(rows)), model.name)
        sound = np.isfinite(scores).reshape(len(scores), -1).all(axis=1)
        labels = codes.of(decide(scores, model.output, model.classes, model.threshold))
        return np.where(sound, labels, np.nan)

    return call, codes
