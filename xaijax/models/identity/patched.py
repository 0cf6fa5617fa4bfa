"""Checks whether an estimator is what its class says. A translation is of the class, not of what is
put over it.

A class may carry a scikit-learn name and module without being scikit-learn's, an object may have a
method of its own in place of its class's, and so may a class of scikit-learn, or a part of an
ensemble. If the user registered a translation for a class, only the object is looked at.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.models.base.options import came

ROOT = "sklearn"
# What a search keeps of the candidates and of its times, on which no answer depends.
SEARCHED = ("cv_results_", "refit_time_")
# The decorators of scikit-learn keep the function in one of these.
_WRAPPED = ("fn", "fget", "func", "__func__", "__wrapped__")


def of_sklearn(kind: type) -> bool:
    """Whether the class is the one that scikit-learn has by this name."""
    module = sys.modules.get(kind.__module__)
    inside = kind.__module__.partition(".")[0] == ROOT
    return inside and getattr(module, kind.__name__, None) is kind


def is_own(thing: Any, *names: str) -> bool:
    """Whether the object is of a scikit-learn class of one of these names, or of a subclass of it.

    Only then do its attributes mean what scikit-learn means by them: other libraries have `steps`
    and `transformers_` too.
    """
    return any(base.__name__ in names and of_sklearn(base) for base in type(thing).__mro__)


def chosen(estimator: Any) -> Any:
    """The `best_estimator_` of a search of scikit-learn that has one; anything else as it is."""
    while is_own(estimator, "BaseSearchCV") and hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    return estimator


def patched(estimator: Any) -> str | None:
    """What was put over a method, of the estimator or of a part of it; None: nothing."""
    kinds: set[type] = set()
    for one in parts_of(estimator):
        kind = type(one)
        for name, value in vars(one).items():
            if callable(value) and callable(getattr(kind, name, None)):
                return f"{name} was replaced on this {kind.__name__} itself"
        if kind not in kinds:
            kinds.add(kind)
            changed = _changed_method(kind)
            if changed is not None:
                return f"{changed} of the class {kind.__name__} was replaced"
    return None


def parts_of(estimator: Any) -> Iterator[Any]:
    """The estimator and all that is in it of scikit-learn, or has methods to fit and to answer."""
    seen: set[int] = set()
    waiting = [estimator]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        elif isinstance(one, np.ndarray):
            waiting += one.ravel().tolist() if one.dtype.hasobject else []
        elif one is estimator or _is_part(one):
            if hasattr(one, "__dict__"):
                yield one
                waiting += vars(one).values()


def check_version(estimator: Any, name: str) -> None:
    """Refuses an estimator that another version of scikit-learn fitted, as far as that is known.

    Loading one warns and leaves no trace in it. But one restored without that keeps its version,
    and one of another version mostly lacks a parameter of this one.
    """
    from sklearn import __version__ as here  # noqa: PLC0415

    remedy = (
        "Fit it again with this version, or install that one: fitted numbers may mean another "
        "thing, or nothing."
    )
    for one in parts_of(estimator):
        if not of_sklearn(type(one)) or not hasattr(one, "_get_param_names"):
            continue
        kind = type(one).__name__
        there = vars(one).get("_sklearn_version", here)
        if there != here:
            raise InputError(
                f"f= must be fitted by the scikit-learn that is installed, {here}; {kind} of "
                f"{name} was fitted by {there}. {remedy}"
            )
        missing = sorted(set(type(one)._get_param_names()) - set(vars(one)))
        if missing:
            raise InputError(
                f"f= must be fitted by the scikit-learn that is installed, {here}; {kind} of "
                f"{name} lacks its parameter {came(missing[0])}, so another version "
                f"fitted it. {remedy}"
            )


def _is_part(thing: Any) -> bool:
    if isinstance(thing, type | types.FunctionType | types.ModuleType):
        return False
    return type(thing).__module__.partition(".")[0] == ROOT or hasattr(thing, "_get_param_names")


def _changed_method(kind: type) -> str | None:
    """A method of scikit-learn's classes that another package wrote; None: there is none."""
    for base in kind.__mro__:
        if not of_sklearn(base):
            continue
        for name, member in vars(base).items():
            if name.startswith("__"):  # those of dataclasses are written nowhere
                continue
            written = _written_in(member)
            if written is not None and written.partition(".")[0] != ROOT:
                return name
    return None


def _written_in(member: Any) -> str | None:
    """The module in which a function was written; None: it is no function of Python's."""
    for _ in range(8):  # decorators in decorators
        if isinstance(member, types.FunctionType):
            # Not its __module__, which decorators copy from the function that they take over.
            return member.__globals__.get("__name__")
        found = [getattr(member, key) for key in _WRAPPED if key in dir(type(member))]
        found += [vars(member)[k] for k in _WRAPPED if k in getattr(member, "__dict__", {})]
        found = [one for one in found if callable(one)]
        if not found or isinstance(member, type):
            return None
        member = found[0]
    return None
