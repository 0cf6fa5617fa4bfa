"""`Prefix`: a model that is a fold over its rows, as what the engine asks of a structure.

Letters: R rows, T items of a row, F columns, H answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public_class
from xaijax.models.structure.functions import PROBE_ROWS, DeclaredFunction, Ending
from xaijax_kernels.structures.prefixes import Fold, Prefixes, Segment


@public_class
@dataclass(frozen=True)
class Prefix:
    """Declares that a model is a fold along its rows: f(x) = read(step(... step(init, x_1), ...)).

    Give it as `structure=` of `as_model`, for a function that JAX traces, with rows in one array
    [R, T, ...] or [R, T]: recurrent networks, state-space models, streams. Coalitions that agree in
    the first items share the state after these, so that each distinct prefix is stepped once. Exact
    values of P players take about 2^(P + 1) steps of a player's items, in place of P 2^P. A player
    must own whole items that are next to each other (players=).

    Args:
        init: function (params, R) that returns the state of R rows before their first item: any
            pytree of arrays whose first axis is R.
        step: function (params, state, items [R, t, ...]) that returns the state after t more items.
        read: function (params, state) that returns the model's answer to R rows. If the model has
            no params, none of the three takes them.

    Raises:
        InputError: the declaration does not describe the model, or a player owns parts of items;
            raised when the model is first explained.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> import xaijax as xj
        >>> def step(state, items):  # a leaky sum that saturates
        ...     for t in range(items.shape[1]):
        ...         state = jnp.tanh(0.5 * state + items[:, t])
        ...     return state
        >>> fold = xj.Prefix(lambda R: jnp.zeros(R), step, lambda state: state)
        >>> model = xj.as_model(lambda X: step(jnp.zeros(len(X)), X), structure=fold)
        >>> explanation = xj.Explainer(model, np.zeros((1, 3)))(np.ones((1, 3)))
        >>> explanation.values.round(3), explanation.stats["structure"]
        (array([[0.084, 0.202, 0.608]]), 'prefixes')
    """

    init: Callable[..., Any]
    step: Callable[..., Any]
    read: Callable[..., Any]

    def __post_init__(self) -> None:
        checks.functions(self, "init", "step", "read")


@dataclass(frozen=True)
class RowFold:
    """The fold of a `Prefix` along rows of one shape; see `Fold`."""

    init: DeclaredFunction
    add: DeclaredFunction
    answer: DeclaredFunction
    items: tuple[int, ...] = ()  # the shape of one
    dtype: str | None = None  # of whole numbers, whose codes the rows are

    def start(self, params: Any, rows: jax.Array) -> Any:
        """See `Fold`."""
        return self.init(params, len(rows))

    def part(self, rows: jax.Array, segment: Segment) -> jax.Array:
        """See `Fold`."""
        columns = rows[:, segment.first : segment.last].reshape(len(rows), -1, *self.items)
        return columns if self.dtype is None else columns.astype(self.dtype)

    def step(self, params: Any, state: Any, part: jax.Array) -> Any:
        """See `Fold`."""
        return self.add(params, state, part)

    def read(self, params: Any, state: Any, rows: jax.Array) -> jax.Array:
        """See `Fold`."""
        return self.answer(params, state)


@dataclass(frozen=True)
class FoldedAnswers:
    """Answers [R, H] in the shape that the model gives them."""

    shape: tuple[int, ...]  # of one answer

    def __call__(self, hidden: jax.Array) -> jax.Array:
        """[R, *shape] of hidden [R, H]."""
        return hidden.reshape(len(hidden), *self.shape)


@dataclass(frozen=True)
class PrefixStructure:
    """A fold for rows of one shape, made ready: what the engine asks of it; see `Structure`."""

    fold: Fold
    segments: tuple[Segment, ...]
    answers: int
    columns: int  # F
    ending: Ending
    item: int | None  # columns of an item, whose players say the segments; None: they are given
    last: bool
    drops: bool

    @property
    def declared(self) -> bool:
        """See `Structure.declared`: few prompts need no tree."""
        return self.item is not None

    def of(self, params: Any) -> Prefixes:
        """See `Structure.of`."""
        of_rows = self.answers, self.columns, self.last, self.drops
        return Prefixes(params, self.fold, self.segments, *of_rows)

    def head(self, params: Any, hidden: Any) -> Any:
        """See `Structure.head`."""
        return self.ending(params, hidden)

    def affine(self, params: Any) -> None:
        """See `Structure.affine`: a declared answer is not looked into."""

    def of_players(self, players: np.ndarray) -> PrefixStructure:
        """The same with a segment for each player, of their columns [F]; -1: always kept.

        Raises InputError for players that own parts of items, or items apart from each other.
        """
        if self.item is None:
            return self
        each = players.reshape(-1, self.item)
        runs = [(p, len(list(group))) for p, group in groupby(each[:, 0].tolist())]
        owners = [p for p, _ in runs if p >= 0]
        if (each != each[:, :1]).any() or len(set(owners)) < len(owners) or (players < -1).any():
            raise InputError(
                "structure= is a xaijax.Prefix, whose players own whole items (entries of the "
                "first axis of a row) that are next to each other; players= has others. Group them "
                "so, or leave structure= out."
            )
        bounds = np.cumsum([0, *(count * self.item for _, count in runs)]).tolist()
        parts = zip(runs, bounds[:-1], bounds[1:], strict=True)
        segments = tuple(Segment(first, last, p >= 0) for (p, _), first, last in parts)
        return replace(self, segments=segments)


@dataclass(frozen=True)
class GivenPrefix:
    """A fold as declared, before the rows are known."""

    fold: Any
    precision: str
    select: Callable[[Any], Any] | None = None
    segments: tuple[Segment, ...] | None = None  # None: the items of a row
    last: bool = False  # see `Prefixes`
    drops: bool = False

    def shaped(self, params: Any, rows: np.ndarray, name: str) -> PrefixStructure:
        """The structure for rows [R, *F]; raises InputError if `read` gives no answer for each."""
        item = None if self.segments is not None else math.prod(rows.shape[2:])
        fold, columns = self.fold, math.prod(rows.shape[1:])
        if item is not None:
            fold = replace(fold, items=rows.shape[2:])
        starts = range(0, columns, item or 1)
        segments = self.segments or tuple(Segment(start, start + (item or 1)) for start in starts)
        few = jax.ShapeDtypeStruct((PROBE_ROWS, columns), rows.dtype)

        def answer(params: Any, rows: jax.Array) -> Any:
            state = fold.start(params, rows)
            state = fold.step(params, state, fold.part(rows, segments[0]))
            return jnp.asarray(fold.read(params, state, rows))

        result = jax.eval_shape(answer, params, few)
        if result.shape[:1] != (PROBE_ROWS,):
            raise InputError(
                f"structure=: read of the xaijax.Prefix of {name} must return [R] or [R, K]; for "
                f"{PROBE_ROWS} rows it returned {list(result.shape)}."
            )
        shape = result.shape[1:]
        said = DeclaredFunction(FoldedAnswers(shape), False, self.precision, "the answers")
        ending = Ending.of(said, self.select, name)
        of_rows = math.prod(shape), columns, ending, item, self.last, self.drops
        return PrefixStructure(fold, segments, *of_rows)
