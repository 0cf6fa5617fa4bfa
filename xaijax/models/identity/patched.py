"""Checks whether an estimator behaves as its class does. A translation is of the class, not of
methods that replace the class's.

A class may have a scikit-learn name and module without being scikit-learn's. An object, a class of
scikit-learn, or a part of an ensemble may have a replaced method. If the user registered a
translation for a class, only the object is checked.
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
# A search's records of candidates and times, on which no output depends.
SEARCHED = ("cv_results_", "refit_time_")
# Attributes in which scikit-learn's decorators keep the function.
_WRAPPED = ("fn", "fget", "func", "__func__", "__wrapped__")


def of_sklearn(kind: type) -> bool:
    """Whether the class is scikit-learn's class of this name."""
    return of_library(kind) == ROOT


def of_library(kind: type) -> str | None:
    """The library whose module has this class under its name; None: it does not."""
    module = sys.modules.get(kind.__module__)
    in_module = getattr(module, kind.__name__, None) is kind
    return kind.__module__.partition(".")[0] if in_module else None


def is_own(thing: Any, *names: str) -> bool:
    """Whether the object is an instance of a scikit-learn class of one of these names.

    Only then do its attributes have scikit-learn's meaning: other libraries have `steps` and
    `transformers_` too.
    """
    return any(base.__name__ in names and of_sklearn(base) for base in type(thing).__mro__)


def chosen(estimator: Any) -> Any:
    """The `best_estimator_` of a fitted scikit-learn search; other objects are returned as they
    are."""
    while is_own(estimator, "BaseSearchCV") and hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    return estimator


def full_name(f: Any) -> str:
    """The estimator's name, with the last step of a Pipeline and what a search chose."""
    inner = f.steps[-1][1] if is_own(f, "Pipeline") else chosen(f)
    return type(f).__name__ if inner is f else f"{type(f).__name__} of {full_name(inner)}"


def patched(estimator: Any) -> str | None:
    """The replaced method of the estimator or of a part of it, in words; None: there is none."""
    kinds: set[type] = set()
    for part in parts_of(estimator):
        kind = type(part)
        for name, value in vars(part).items():
            if callable(value) and callable(getattr(kind, name, None)):
                return f"{name} was replaced on this {kind.__name__} itself"
        if kind not in kinds:
            kinds.add(kind)
            changed = _changed_method(kind)
            if changed is not None:
                return f"{changed} of the class {kind.__name__} was replaced"
    return None


def parts_of(estimator: Any) -> Iterator[Any]:
    """The estimator and all its parts that are scikit-learn's, or have methods to fit and
    predict."""
    seen: set[int] = set()
    waiting = [estimator]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, np.ndarray):
            waiting += part.ravel().tolist() if part.dtype.hasobject else []
        elif part is estimator or _is_part(part):
            if hasattr(part, "__dict__"):
                yield part
                waiting += vars(part).values()


def check_version(estimator: Any, name: str) -> None:
    """Refuses an estimator that is known to be fitted by another version of scikit-learn.

    Loading one warns, and leaves no trace in it. But one restored in another way keeps its version,
    and one of another version usually lacks a parameter of this one.
    """
    from sklearn import __version__ as installed  # noqa: PLC0415

    remedy = (
        "Fit it again with this version, or install that one: fitted numbers may mean another "
        "thing, or nothing."
    )
    for part in parts_of(estimator):
        if not of_sklearn(type(part)) or not hasattr(part, "_get_param_names"):
            continue
        kind = type(part).__name__
        there = vars(part).get("_sklearn_version", installed)
        if there != installed:
            raise InputError(
                f"f= must be fitted by the scikit-learn that is installed, {installed}; {kind} of "
                f"{name} was fitted by {there}. {remedy}"
            )
        missing = sorted(set(type(part)._get_param_names()) - set(vars(part)))
        if missing:
            raise InputError(
                f"f= must be fitted by the scikit-learn that is installed, {installed}; {kind} of "
                f"{name} lacks its parameter {came(missing[0])}, so another version "
                f"fitted it. {remedy}"
            )


def _is_part(thing: Any) -> bool:
    if isinstance(thing, type | types.FunctionType | types.ModuleType):
        return False
    return type(thing).__module__.partition(".")[0] == ROOT or hasattr(thing, "_get_param_names")


def _changed_method(kind: type) -> str | None:
    """A method of scikit-learn's classes that another package has replaced; None: there is none."""
    for base in kind.__mro__:
        if not of_sklearn(base):
            continue
        for name, member in vars(base).items():
            if name.startswith("__"):  # methods of dataclasses have no source
                continue
            written = _written_in(member)
            if written is not None and written.partition(".")[0] != ROOT:
                return name
    return None


def _written_in(member: Any) -> str | None:
    """The module in which a function was written; None: it is not a Python function."""
    for _ in range(8):  # nested decorators
        if isinstance(member, types.FunctionType):
            # Not its __module__, which decorators copy from the wrapped function.
            return member.__globals__.get("__name__")
        of_kind = {key for base in type(member).__mro__ for key in vars(base)}
        wrapped = [getattr(member, key) for key in _WRAPPED if key in of_kind]
        wrapped += [vars(member)[k] for k in _WRAPPED if k in getattr(member, "__dict__", {})]
        wrapped = [inner for inner in wrapped if callable(inner)]
        if not wrapped or isinstance(member, type):
            return None
        member = wrapped[0]
    return None
