"""`ModelSource`: the result of an adapter. `ModelRecipe`: how a model is pickled."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputTypeError
from xaijax.core.pickling import recipe

DECIDED = "decided"  # a column for each class: 1 where `decide` returns it, else 0


@dataclass(frozen=True)
class ModelSource:
    """One kind of model, read by its adapter; `as_model` makes the `Model` from it.

    heads: the model's outputs by the word of `output=`; each is f(params, rows) for backend
    "jax" and f(rows) for "host", with rows [R, *F] -> [R] or [R, K].
    """

    backend: str  # "jax" | "host"
    reason: str
    name: str
    heads: Mapping[str, Callable[..., Any]]
    default: str | None  # the head of output=None; None: there is none, one must be chosen
    columns: str  # the head from which a class label or an output index selects, or DECIDED
    params: Any = None
    decide: Callable[..., Any] | None = None  # rows -> the model's own class labels [R]
    classes: tuple[Any, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    again: Any = None  # (f, params, state) that give the same source; None: the given ones
    estimator: Any = None  # the fitted object whose methods the heads are
    original: Callable[..., Any] | None = None  # rows -> a traced module's output, by its library
    several: bool = False  # several targets: `decide` refuses, as there is no single class per row
    method: str | None = None  # the only method of the estimator that was given; None: all
    takes_nan: bool | NanColumns = False  # the model accepts NaN in rows
    network: bool = False  # a module of a neural library: rows of any number of axes

    @property
    def selects(self) -> str | None:
        """The output whose column a class label selects: "proba", "decision", ...; None:
        unknown."""
        word = "decision" if self.columns == "columns" else self.columns  # one for each of two
        return None if word == "value" else word


@dataclass(frozen=True)
class ModelRecipe:
    """make(**arguments).replace(**changes): the same model, made again where it is unpickled."""

    make: Callable[..., Any]
    arguments: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, make: Callable[..., Any], source: ModelSource, arguments: Mapping[str, Any]
    ) -> ModelRecipe:
        """The recipe from an adapter's result and the options given besides f, params and state.

        A module is pickled in the form in which it was read, even if the user has changed it since.
        """
        parameters = signature(make).parameters
        arguments = {k: v for k, v in arguments.items() if v is not parameters[k].default}
        if source.again is not None:
            names = zip(("f", "params", "state"), source.again, strict=True)
            return cls(make, {**arguments, **{k: v for k, v in names if v is not None}})
        changes = {} if source.params is None else {"params": source.params}
        return cls(make, arguments, changes)

    def made(self) -> Any:
        """The model, made anew in this process."""
        made = self.make(**self.arguments)
        return made.replace(**self.changes) if self.changes else made

    def changed(self, changes: Mapping[str, Any]) -> ModelRecipe:
        """The recipe of the model's copy by `Model.replace`."""
        return dataclasses.replace(self, changes={**self.changes, **changes})


def reduced(known: ModelRecipe | None, name: str) -> Any:
    """The value of a model's `__reduce__`."""
    known = _known(known, name)
    return recipe(known.make, known.arguments, known.changes)


def anew(known: ModelRecipe | None, name: str) -> Any:
    """The model, made again in this process; a translation is compared again."""
    return _known(known, name).made()


def _known(known: ModelRecipe | None, name: str) -> ModelRecipe:
    if known is None:
        raise InputTypeError(
            f"{name} is a copy that the engine made; it cannot travel. Send the model itself."
        )
    return known
