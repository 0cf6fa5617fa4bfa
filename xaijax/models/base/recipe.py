"""What a `Model` was made of, by which it travels: arguments of `as_model`, and later changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from xaijax.core.errors import InputTypeError
from xaijax.core.travel import recipe
from xaijax.models.base.source import Source


@dataclass(frozen=True)
class Recipe:
    """make(**given).replace(**changes): the same model, made anew wherever it is opened."""

    make: Callable[..., Any]
    given: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, make: Callable[..., Any], source: Source, given: Mapping[str, Any]) -> Recipe:
        """What an adapter read, with the options given beside f, params and state.

        A module travels in the form in which it was read, whatever became of the person's since.
        """
        own = signature(make).parameters
        given = {name: one for name, one in given.items() if one is not own[name].default}
        if source.again is not None:
            names = zip(("f", "params", "state"), source.again, strict=True)
            return cls(make, {**given, **{name: one for name, one in names if one is not None}})
        changes = {} if source.params is None else {"params": source.params}
        return cls(make, given, changes)

    def made(self) -> Any:
        """The model, made anew in this process."""
        made = self.make(**self.given)
        return made.replace(**self.changes) if self.changes else made

    def changed(self, changes: Mapping[str, Any]) -> Recipe:
        """That of the model's copy by `Model.replace`."""
        return dataclasses.replace(self, changes={**self.changes, **changes})


def reduced(found: Recipe | None, name: str) -> Any:
    """The value of a model's `__reduce__`."""
    found = _known(found, name)
    return recipe(found.make, found.given, found.changes)


def anew(found: Recipe | None, name: str) -> Any:
    """The model, made again in this process: of a translation nothing is known yet."""
    return _known(found, name).made()


def _known(found: Recipe | None, name: str) -> Recipe:
    if found is None:
        raise InputTypeError(
            f"{name} cannot travel to another process: it is a copy that the engine made of a "
            f"model. Send the model of as_model."
        )
    return found
