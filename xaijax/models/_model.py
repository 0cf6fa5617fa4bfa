"""`Model`: what the engine sees of a model, and what a person can ask of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A model as the engine sees it: rows [R, *F] -> [R] or [R, K].

    Made by `xaijax.as_model`. Exactly one of `apply` (backend "jax") and `call` (backend "host") is
    set; both have the output (a class column, say) selected already.
    """

    backend: str  # "jax" | "host"
    reason: str  # why this backend, for the repr
    output: Any  # "proba" | "decision" | "label" | "value" | a class label | an output index
    apply: Callable[..., Any] | None = None  # jax: apply(params, rows [R, *F]) -> [R] or [R, K]
    params: Any = None  # a pytree; an argument of the compiled function, never a constant
    call: Callable[..., Any] | None = None  # host: call(rows: array or frame) -> array-like
    decide: Callable[..., Any] | None = None  # rows -> the model's own class labels [R]
    classes: tuple[Any, ...] | None = None
    threshold: float | None = None
    feature_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None  # [K]
    input_shape: tuple[int, ...] | None = None  # shape of one instance; None: [F]
    allow_nan: bool = False  # rows may hold NaN
    nonfinite: str = "raise"  # "raise" | "propagate": what a NaN or inf answer does
    deterministic: bool = True
    thread_safe: bool = False
    max_rows: int | None = None  # host: rows in one call at most
    timeout: float | None = None  # host: seconds one call may take
    precision: str = "float32"  # "float32" | "tf32" | "float64"
    structure: Any = None
    name: str = "model"
    compiled: dict[Any, Any] = field(default_factory=dict)  # executables, shared by `replace`
