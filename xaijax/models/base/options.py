"""Checks of the options of `as_model` and `Model.replace`: one typed error per wrong value."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from numbers import Real
from typing import Any

import numpy as np

from xaijax.core.checks import listed, number, whole_number, yes_or_no
from xaijax.core.errors import InputError, InputTypeError

WORDS = ("proba", "decision", "label", "value", "path-length", "density")
NONFINITE = ("raise", "propagate")


def came(value: Any) -> str:
    """The repr of a value, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def check_flag(name: str, value: Any) -> bool:
    """The value as a bool; NumPy's are accepted too."""
    return yes_or_no(bool(value) if isinstance(value, np.bool_) else value, f"{name}=")


def check_threshold(value: Any) -> float | None:
    """The threshold as a finite float, or None."""
    if value is None:
        return None
    most = sys.float_info.max
    return number(value, "threshold=", "a finite number or None", lambda x: abs(x) <= most)


def check_timeout(value: Any) -> float | None:
    """The time limit of one call in seconds, or None."""
    if value is None:
        return None
    most = threading.TIMEOUT_MAX
    wanted = f"a positive number of seconds, at most {most:.3g}"
    return number(value, "timeout=", wanted, lambda x: 0 < x <= most, " None sets no limit.")


def check_max_rows(value: Any) -> int | None:
    """The maximum number of rows in one host call, or None."""
    if value is None:
        return None
    return whole_number(value, "max_rows=", remedy=" None sets no limit.")


def check_names(name: str, value: Any) -> tuple[str, ...] | None:
    """Distinct strings as a tuple, or None."""
    if value is None:
        return None
    names = listed(value, f"{name}=", "strings")
    for item in names:
        if not isinstance(item, str):
            got = f"{type(item).__name__} {came(item)}"
            raise InputTypeError(f"{name}= must hold strings only; got {got}.")
    if not names:
        raise InputError(f"{name}= must hold at least one name; got an empty list. None: no names.")
    twice = sorted(item for item, times in Counter(names).items() if times > 1)
    if twice:
        raise InputError(f"{name}= must not name anything twice; got {came(twice)} more than once.")
    return tuple(map(str, names))


def check_classes(value: Any) -> tuple[Any, ...] | None:
    """At least two distinct class labels (strings, numbers or bools) as a tuple, or None."""
    if value is None:
        return None
    items = listed(value, "classes=", "class labels, in the order of the model's columns")
    labels = tuple(item.item() if isinstance(item, np.generic) else item for item in items)
    for label in labels:
        if not isinstance(label, (str, Real)):
            got = f"{type(label).__name__} {came(label)}"
            raise InputTypeError(f"classes= must hold strings, numbers or bools; got {got}.")
    if len(labels) < 2:
        raise InputError(f"classes= must hold at least two labels; got {came(list(labels))}.")
    if len(set(labels)) < len(labels):
        raise InputError(f"classes= must hold each label once; got {came(list(labels))}.")
    return labels


def check_input_shape(value: Any) -> tuple[int, ...] | None:
    """The shape of one instance (without the row axis), or None."""
    if value is None:
        return None
    wanted = "the shape of one instance without the row axis, such as (28, 28), or None"
    if not isinstance(value, (tuple, list)) or not value:
        error = InputError if isinstance(value, (tuple, list)) else InputTypeError
        raise error(f"input_shape= must be {wanted}; got {type(value).__name__} {came(value)}.")
    return tuple(whole_number(size, f"input_shape= is {wanted}: a size") for size in value)


def check_output_option(output: Any, classes: tuple[Any, ...] | None) -> Any:
    """`output=` as one of the words, a member of `classes`, an index >= 0, or None.

    The four words are always read as words. If classes are known, anything else is a label.
    """
    if isinstance(output, np.generic):
        output = output.item()
    if output is None or (isinstance(output, str) and output in WORDS):
        return output
    words = f"one of {', '.join(map(repr, WORDS))}"
    if not isinstance(output, (str, Real)):
        got = f"{type(output).__name__} {came(output)}"
        raise InputTypeError(f"output= must be {words}, a class label or an index; got {got}.")
    if classes is not None:
        if output in classes:
            return classes[classes.index(output)]
        raise InputError(
            f"output={output!r} is neither {words} nor a class label: {came(list(classes))}. Where "
            "classes are known a number is read as a label, never as an index."
        )
    if isinstance(output, str):
        raise InputError(
            f"output= must be {words}, or an output index; got {output!r}. To select an output by "
            "its class label, give classes= too."
        )
    return whole_number(output, "output= as an index", 0, " Give classes= to select by label.")
