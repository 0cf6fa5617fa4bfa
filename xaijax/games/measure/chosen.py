"""One output for each instance: the predicted one, or the one that a person names.

Letters: N instances, R rows, A answers, K columns of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.games.measure.score import Score

PREDICTED = "predicted"


@dataclass(frozen=True)
class ChosenColumn:
    """The column whose number stands beside the row, as [R, 1]. In JAX the compiled program makes
    no other, where the model's trace allows that (`engine/one_output.py` of the kernels).
    """

    def __call__(self, answers: Any, own: Any) -> Any:
        """[R, A], column numbers [R, 1] -> [R, 1]."""
        return answers.__array_namespace__().take_along_axis(
            answers, own[:, :1].astype(np.int32), axis=1
        )

    def refuse(self, answers: int) -> None:
        """Raise InputError where there is nothing to choose from."""
        if answers == 1:
            raise InputError(
                "outputs= chooses one of several outputs for each instance, and the model answers "
                "with one number a row. Leave it out."
            )


def largest(answers: np.ndarray) -> np.ndarray:
    """The number of the largest column, the first of equal ones; [N, A] -> float64 [N, 1]."""
    return answers.argmax(axis=1)[:, None].astype(np.float64)


def chosen_column() -> Score:
    """The score of `outputs=`."""
    return Score(ChosenColumn(), reads_own=True, made_of_own=largest, chooses=True)


def read_outputs(
    outputs: Any, N: int, classes: Sequence[Any] | None, names: Sequence[str] | None = None
) -> np.ndarray | None:
    """Column numbers, float64 [N, 1], of the argument `outputs=`; None: the predicted ones.

    Where classes are known, an entry is read as a label. Else one that is text is the name of an
    output, of names [K]. Raises InputError and InputTypeError.
    """
    if isinstance(outputs, str) and outputs == PREDICTED:
        return None
    try:
        array = outputs if hasattr(outputs, "__array__") else np.asarray(outputs, dtype=object)
        array = np.asarray(array)
    except ValueError as error:
        raise InputTypeError(
            f"outputs= must be 'predicted' or one output for each of the {N} instances; got "
            f"{type(outputs).__name__}, which is no array: {error}."
        ) from error
    if array.shape != (N,):
        raise InputError(
            f"outputs= must be 'predicted' or one output for each of the {N} instances; got "
            f"{checks.shown(outputs) if array.ndim == 0 else f'shape {array.shape}'}."
        )
    given = array.tolist()
    named = classes is None and names is not None and all(isinstance(one, str) for one in given)
    labels = names if named else classes
    if labels is not None:
        places = {label: place for place, label in enumerate(labels)}
        unknown = [one for one in given if isinstance(one, list | dict) or one not in places]
        if unknown:
            what = "names of outputs" if named else "class labels, as they were given to as_model"
            raise InputError(
                f"outputs= must hold {what}, {list(labels)[:10]}; got {checks.shown(unknown[0])}."
            )
        return np.array([[places[label]] for label in given], np.float64)
    wrong = [one for one in given if not isinstance(one, int) or isinstance(one, bool)]
    if wrong:
        raise InputTypeError(
            f"outputs= must hold column numbers, since the model's classes are not known; got "
            f"{checks.shown(wrong[0])}, a {type(wrong[0]).__name__}. Give as_model classes= to use "
            "labels, or output_names= to use names."
        )
    return array.astype(np.float64)[:, None]


def refuse_columns(own: np.ndarray, K: int) -> None:
    """Raise InputError for column numbers that a model of K outputs does not have."""
    wrong = np.flatnonzero((own[:, 0] < 0) | (own[:, 0] >= K))
    if len(wrong):
        raise InputError(
            f"outputs= names column {int(own[wrong[0], 0])} for X row {wrong[0]}, but the model "
            f"has {K}, numbered from 0."
        )
