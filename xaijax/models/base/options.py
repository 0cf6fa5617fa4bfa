"""Checks of the options of `as_model` and `Model.replace`: one typed error per wrong value."""

from __future__ import annotations

import math
import threading
from collections import Counter
from numbers import Integral, Real
from typing import Any

import numpy as np

from xaijax.core.checks import listed
from xaijax.core.errors import InputError, InputTypeError

WORDS = ("proba", "decision", "label", "value")
BACKENDS = ("auto", "jax", "host")
PRECISIONS = ("float32", "tf32", "float64")
NONFINITE = ("raise", "propagate")


def came(value: Any) -> str:
    """What was given, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_number(value: Any) -> bool:
    """Whether the value is a real number; True and False are not."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """The value, one of the words in `choices`."""
    if not isinstance(value, str):
        raise InputTypeError(
            f"{name}= must be a string, one of {', '.join(map(repr, choices))}; "
            f"got {type(value).__name__} {came(value)}."
        )
    if value not in choices:
        raise InputError(f"{name}= must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return value


def check_flag(name: str, value: Any) -> bool:
    """The value as a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputTypeError(
            f"{name}= must be True or False; got {type(value).__name__} {came(value)}."
        )
    return bool(value)


def check_threshold(value: Any) -> float | None:
    """The threshold as a finite float, or None."""
    if value is None:
        return None
    if not is_number(value):
        raise InputTypeError(
            f"threshold= must be a number or None; got {type(value).__name__} {came(value)}."
        )
    if not math.isfinite(value):
        raise InputError(f"threshold= must be finite; got {value!r}.")
    return float(value)


def check_timeout(value: Any) -> float | None:
    """The seconds one call may take, or None."""
    if value is None:
        return None
    if not is_number(value):
        raise InputTypeError(
            f"timeout= must be seconds as a number, or None for no limit; "
            f"got {type(value).__name__} {came(value)}."
        )
    if not 0 < value <= threading.TIMEOUT_MAX:  # NaN neither
        raise InputError(
            f"timeout= must be a positive number of seconds, at most {threading.TIMEOUT_MAX:.3g}; "
            f"got {came(value)}. None sets no limit."
        )
    return float(value)


def check_max_rows(value: Any) -> int | None:
    """The rows one host call may hold, or None."""
    if value is None:
        return None
    if not isinstance(value, Integral) or isinstance(value, (bool, np.bool_)):
        raise InputTypeError(
            f"max_rows= must be a whole number or None; got {type(value).__name__} {came(value)}."
        )
    if value < 1:
        raise InputError(f"max_rows= must be at least 1; got {value!r}. None sets no limit.")
    return int(value)


def check_names(name: str, value: Any) -> tuple[str, ...] | None:
    """Distinct strings as a tuple, or None."""
    if value is None:
        return None
    names = listed(value, f"{name}=", "strings")
    for item in names:
        if not isinstance(item, str):
            raise InputTypeError(
                f"{name}= must hold strings only; got {type(item).__name__} {came(item)}."
            )
    if not names:
        raise InputError(f"{name}= must hold at least one name; got an empty list. None: no names.")
    twice = sorted(item for item, times in Counter(names).items() if times > 1)
    if twice:
        raise InputError(f"{name}= must not name anything twice; got {came(twice)} more than once.")
    return tuple(str(item) for item in names)


def check_classes(value: Any) -> tuple[Any, ...] | None:
    """At least two distinct class labels (strings, numbers or bools) as a tuple, or None."""
    if value is None:
        return None
    given = listed(value, "classes=", "class labels, in the order of the model's columns")
    labels = tuple(item.item() if isinstance(item, np.generic) else item for item in given)
    for label in labels:
        if not isinstance(label, (str, Real)):
            raise InputTypeError(
                f"classes= must hold strings, numbers or bools; "
                f"got {type(label).__name__} {came(label)}."
            )
    if len(labels) < 2:
        raise InputError(f"classes= must hold at least two labels; got {came(list(labels))}.")
    if len(set(labels)) < len(labels):
        raise InputError(f"classes= must hold each label once; got {came(list(labels))}.")
    return labels


def check_input_shape(value: Any) -> tuple[int, ...] | None:
    """The shape of one instance (without the row axis), or None."""
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or not all(
        isinstance(size, Integral) and not isinstance(size, bool) for size in value
    ):
        raise InputTypeError(
            f"input_shape= must be a tuple of whole numbers, the shape of one instance such as "
            f"(28, 28), or None; got {type(value).__name__} {came(value)}."
        )
    if not value or any(size < 1 for size in value):
        raise InputError(
            f"input_shape= must hold at least one size, each at least 1 (no row axis); "
            f"got {came(value)}."
        )
    return tuple(int(size) for size in value)


def check_output_option(output: Any, classes: tuple[Any, ...] | None) -> Any:
    """`output=` as one of the words, a member of `classes`, an index >= 0, or None.

    The four words are always read as words. If classes are known, anything else is a label.
    """
    if isinstance(output, np.generic):
        output = output.item()
    if output is None or (isinstance(output, str) and output in WORDS):
        return output
    if not isinstance(output, (str, Real)):
        raise InputTypeError(
            f"output= must be one of {', '.join(map(repr, WORDS))}, a class label or an output "
            f"index; got {type(output).__name__} {came(output)}."
        )
    if classes is not None:
        if output in classes:
            return classes[classes.index(output)]
        raise InputError(
            f"output={output!r} is neither one of {', '.join(map(repr, WORDS))} nor a class label. "
            f"The labels are {came(list(classes))}; where classes are known a number is read as a "
            f"label, never as an index."
        )
    if isinstance(output, str):
        raise InputError(
            f"output= must be one of {', '.join(map(repr, WORDS))}, or an output index; got "
            f"{output!r}. To select an output by its class label, give classes= too."
        )
    if not isinstance(output, Integral) or isinstance(output, bool):
        raise InputTypeError(
            f"output= selects by index where no classes are known, so it must be a whole number; "
            f"got {type(output).__name__} {output!r}. Give classes= to select by label."
        )
    if output < 0:
        raise InputError(f"output= as an index counts from 0; got {output!r}.")
    return int(output)
