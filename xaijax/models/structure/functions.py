"""The functions that `structure=` declares, as the engine calls them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax

from xaijax.core.errors import InputTypeError, XaiError
from xaijax.models.base.options import came
from xaijax.models.base.trace import MATMUL, Selected, explain_trace_failure, traced

PROBE_ROWS = 32  # the probe's number of rows
# Equal if their functions are equal: they are keys of compiled programs, so `as_model` with the
# same declaration compiles nothing again.


@dataclass(frozen=True)
class DeclaredFunction:
    """A function of (params, ...), or of the other arguments if the model has no params."""

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
        """Calls the function; its exceptions get a note that names it."""
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
                    f"xaijax: raised while JAX traced {self.what}, a function of {takes}. Fix "
                    "structure=, or leave it out."
                )
            raise


@dataclass(frozen=True)
class Ending:
    """The head of a declared layer: gives the model's chosen output, checked like a model's
    output.
    """

    declared: DeclaredFunction
    select: Callable[[Any], Any] | None
    whole: Selected = field(compare=False)

    @classmethod
    def of(cls, head: DeclaredFunction, select: Callable[[Any], Any] | None, name: str) -> Ending:
        """The ending of the model of this name."""
        whole = Selected(traced(head, head.precision, name), select, head.precision)
        return cls(head, select, whole)

    def __call__(self, params: Any, hidden: Any) -> Any:
        """[R] or [R, K] of hidden [R, ...]."""
        return self.whole(params, hidden)
