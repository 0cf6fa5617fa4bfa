"""`ModelSource`: what an adapter found out about a model. `ModelRecipe`: how it is pickled."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputTypeError
from xaijax.core.pickling import recipe

DECIDED = "decided"  # a column for each class: 1 where `decide` answers with it, else 0


@dataclass(frozen=True)
class ModelSource:
    """One kind of model, read by its adapter; `as_model` makes the `Model` from it.

    heads: what the model can answer, by the word of `output=`; each is f(params, rows) for backend
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
    again: Any = None  # (f, params, state) that are read to the same; None: as they were given
    estimator: Any = None  # the fitted object that all heads are methods of
    own: Callable[..., Any] | None = None  # rows -> what a traced module of another library answers
    several: bool = False  # several targets: `decide` refuses, one class a row is not predicted
    method: str | None = None  # the only method of the estimator that was given; None: all
    takes_nan: bool | NanColumns = False  # the model says that rows may hold NaN
    network: bool = False  # a module of a neural library: rows of any number of axes

    @property
    def selects(self) -> str | None:
        """What a class label selects a column of: "proba", "decision", ...; None: unknown."""
        word = "decision" if self.columns == "columns" else self.columns  # one for each of two
        return None if word == "value" else word


@dataclass(frozen=True)
class ModelRecipe:
    """make(**given).replace(**changes): the same model, made anew wherever it is opened."""

    make: Callable[..., Any]
    given: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, make: Callable[..., Any], source: ModelSource, given: Mapping[str, Any]
    ) -> ModelRecipe:
        """What an adapter read, with the options given in addition to f, params and state.

        A module is pickled in the form in which it was read, whatever became of the user's own
        since.
        """
        parameters = signature(make).parameters
        given = {name: one for name, one in given.items() if one is not parameters[name].default}
        if source.again is not None:
            names = zip(("f", "params", "state"), source.again, strict=True)
            return cls(make, {**given, **{name: one for name, one in names if one is not None}})
        changes = {} if source.params is None else {"params": source.params}
        return cls(make, given, changes)

    def made(self) -> Any:
        """The model, made anew in this process."""
        made = self.make(**self.given)
        return made.replace(**self.changes) if self.changes else made

    def changed(self, changes: Mapping[str, Any]) -> ModelRecipe:
        """The recipe of the model's copy by `Model.replace`."""
        return dataclasses.replace(self, changes={**self.changes, **changes})


def reduced(known: ModelRecipe | None, name: str) -> Any:
    """The value of a model's `__reduce__`."""
    known = _known(known, name)
    return recipe(known.make, known.given, known.changes)


def anew(found: ModelRecipe | None, name: str) -> Any:
    """The model, made again in this process: of a translation nothing is known yet."""
    return _known(found, name).made()


def _known(found: ModelRecipe | None, name: str) -> ModelRecipe:
    if found is None:
        raise InputTypeError(
            f"{name} is a copy that the engine made; it cannot travel. Send the model itself."
        )
    return found
