"""From scores to the decided class: the rules of `Model.labels`."""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.core.errors import InputError, ModelOutputError
from xaijax.models.base.options import WORDS, came

_CUTS = {"proba": 0.5, "decision": 0.0}


def decide(
    scores: np.ndarray, output: Any, classes: tuple[Any, ...] | None, threshold: float | None
) -> np.ndarray:
    """The decided class of each row, [R], named by `classes` where these are known.

    Arguments and errors as of `decided_place`.
    """
    return named(np.asarray(decided_place(scores, output, classes, threshold)), classes)


def decided_place(
    scores: Any, output: Any, classes: tuple[Any, ...] | None, threshold: float | None
) -> Any:
    """The place of each row's class among `classes`, int [R]; NumPy or traced by JAX.

    scores: [R, K], or [R] (with a threshold: the selected output). [R, K] -> argmax, ties to the
    lowest column. [R] -> score > threshold, which is 0.5 for "proba" and 0 for "decision" unless
    given: the second class, or 1 where no classes are known. A selected first class is turned.

    Raises InputError where nothing says how to decide, ModelOutputError where scores and classes
    differ in number.
    """
    if scores.ndim == 2:
        if threshold is not None:
            raise InputError(
                f"threshold= needs one score per row, but the model returned {scores.shape[1]} "
                f"columns. Leave threshold= out (the largest column decides), or select one column "
                f"with output=."
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
            f"which score on a row is positive: say output='label', threshold= or classes= in "
            f"as_model (classes= for a model with a column per class; output='proba' decides at "
            f"0.5, output='decision' at 0). Rules about the number itself: tolerance= of "
            f"AnchorExplainer."
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
    """The labels of places among the classes, [R]."""
    if classes is None:
        return index.astype(np.int64)
    # NumPy would turn (1, "a") into text; such labels stay the objects they are.
    alike = len({isinstance(label, str) for label in classes}) == 1
    names = np.array(classes) if alike else np.array(classes, dtype=object)
    return names[index]
