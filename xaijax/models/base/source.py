"""`Source`: what an adapter found out about a model, before any output is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xaijax.core.checks import NanColumns

DECIDED = "decided"  # a column for each class: 1 where `decide` answers with it, else 0


@dataclass(frozen=True)
class Source:
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
        """Of what a class label selects a column: "proba", "decision", ...; None: unknown."""
        word = "decision" if self.columns == "columns" else self.columns  # one for each of two
        return None if word == "value" else word
