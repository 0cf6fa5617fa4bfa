"""Functions that a person declares, as the engine calls them: in the model's precision.

Equal where they are made of equal functions: compiled programs are kept under them, so that
`as_model` with the same declaration compiles nothing anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax

from xaijax.core.errors import InputTypeError, XaiError
from xaijax.models.base.options import came
from xaijax.models.base.trace import MATMUL, Selected, explain_trace_failure, traced


@dataclass(frozen=True)
class Given:
    """A function of (params, ...), or where the model has no params of the rest alone."""

    function: Callable[..., Any]
    has_params: bool
    precision: str
    what: str  # for messages: "first of the xaijax.Split of f"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputTypeError(
                f"structure=: {self.what} must be a function, got {came(self.function)}."
            )

    def __call__(self, params: Any, *rest: Any) -> Any:
        """Its answer; an exception of its own says where it came from."""
        arguments = (params, *rest) if self.has_params else rest
        try:
            with jax.default_matmul_precision(MATMUL[self.precision]):
                return self.function(*arguments)
        except Exception as exc:
            failure = explain_trace_failure(exc, self.what)
            if failure is not exc:
                raise failure from exc
            if not isinstance(exc, XaiError):
                takes = "(params, ...)" if self.has_params else "no params, as the model has none"
                exc.add_note(
                    f"xaijax: raised while JAX traced {self.what}, a function of {takes}. Mend "
                    "structure=, or leave it out."
                )
            raise


@dataclass(frozen=True)
class Ending:
    """What follows a declared layer: the model's chosen output, checked as a model's answer is."""

    given: Given
    select: Callable[[Any], Any] | None
    whole: Selected = field(compare=False)

    @classmethod
    def of(cls, given: Given, select: Callable[[Any], Any] | None, name: str) -> Ending:
        """The ending of the model of this name."""
        whole = Selected(traced(given, given.precision, name), select, given.precision)
        return cls(given, select, whole)

    def __call__(self, params: Any, hidden: Any) -> Any:
        """[R] or [R, K] of hidden [R, ...]."""
        return self.whole(params, hidden)
