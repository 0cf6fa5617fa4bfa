"""Defines the space of the lines: the codes of rows, or a function's results for them.

With a pair (embed, head) as the model, the line runs between the two: embed maps rows, such as
words, to arrays of numbers, and head answers these.

Letters: M rows, R rows of a tile, C codes of a row, K outputs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from xaijax.core.errors import InputError, InputTypeError
from xaijax.games.engine.dispatch import columns, placed
from xaijax.games.engine.evaluator import Engine
from xaijax.methods.derivatives.gradients.slopes import refuse_model
from xaijax.models.base.trace import MATMUL
from xaijax.tables.table import CodeTable
from xaijax.tables.tree_table import TreeTable
from xaijax_kernels.engine.tiles import Traced
from xaijax_kernels.gradients.front import back, front, has_front


class LineSpace:
    """The space in which lines run: here the codes themselves."""

    pulls = False  # whether `lift` is affine, and gradients are propagated back through it
    name: str | None = None  # for `stats["structure"]`
    key: Any = "codes"  # equal for spaces of one model with the same programs

    def __init__(self, *entries: int) -> None:
        """entries: the number of codes in each array of `lift`."""
        self.entries = entries

    def lift(self, params: Any, codes: Any) -> Any:
        """Codes [M, C] as arrays [M, ...]."""
        del params
        return codes

    def head(self, engine: Engine, rows: int) -> Callable[[Any, Any], Any]:
        """A function (params, such arrays of R rows) -> answers [R, K]; traced once."""
        return whole_model(engine, rows)


class AfterFront(LineSpace):
    """Lines among the results of a model's affine front, mostly its first layer.

    The front is evaluated at both ends of a line, and not between them.
    """

    key, pulls, name = "front", True, "affine front"

    def __init__(self, engine: Engine, rows: int) -> None:
        """rows: those of a tile; for a model that `has_front`."""
        super().__init__(engine.replacement.columns)
        self._shape = engine.replacement.table.shape
        self._few, self._whole = engine.findings.closed, trace_of(engine, rows).closed

    def lift(self, params: Any, codes: Any) -> Any:
        """See `LineSpace.lift`."""
        return front(self._few, params, codes.reshape(len(codes), *self._shape))

    def head(self, engine: Engine, rows: int) -> Callable[[Any, Any], Any]:
        """See `LineSpace.head`."""
        del engine, rows
        return lambda params, cut: columns(partial(back, self._whole))(params, cut)


def space_of(space: LineSpace, engine: Engine, rows: int) -> LineSpace:
    """The space of codes, or the one behind the model's front if it has a front."""
    few = engine.findings.closed
    if type(space) is not LineSpace or few is None:
        return space
    return AfterFront(engine, rows) if has_front(few, trace_of(engine, rows).closed) else space


def trace_of(engine: Engine, rows: int) -> Traced:
    """The model's single trace for tiles of this number of rows."""
    donors, apply = engine.replacement, engine.model.apply
    assert apply is not None
    sample = jax.ShapeDtypeStruct((rows, *donors.table.shape), donors.dtype)
    params, look = engine.model.params, engine.findings.look
    return engine.compiled.trace(("model",), apply, params, sample, look, _mesh(engine))


def _mesh(engine: Engine) -> Mesh:
    """The mesh of the programs that take derivatives."""
    return placed(engine.devices, engine.model.params).mesh


def whole_model(engine: Engine, rows: int) -> Callable[[Any, Any], Any]:
    """A function (params, codes [R, C]) -> answers [R, K], by that trace."""
    traced, shape = trace_of(engine, rows), engine.replacement.table.shape
    return lambda params, codes: traced(params, codes.reshape(rows, *shape))


class Pair:
    """A model in two halves, with lines between them."""

    def __init__(self, pair: tuple[Any, ...]) -> None:
        """pair: (embed, head); raises InputError and InputTypeError for anything else."""
        if len(pair) != 2:
            raise InputError(f"model: a pair (embed, head) is needed, got {len(pair)} things.")
        self.embed, self.inner = pair
        if hasattr(self.embed, "probe") or not callable(self.embed):
            raise InputTypeError(
                "model: embed of (embed, head) must be a function of jax.numpy, no Model, got "
                f"{type(self.embed).__name__}."
            )
        refuse_model(self.inner)
        if self.inner.reader is not None:
            raise InputError("model: head of (embed, head) is an estimator. Give a function.")
        # The two together: probed, and called for answers to rows.
        self.whole: Any = dataclasses.replace(
            self.inner,
            apply=self,
            structure="plain",
            input_shape=None,
            feature_names=None,
            network=True,
            original=None,
            comparison=None,
            recipe=None,
            compiled={},
        )

    def embedded(self, params: Any, rows: Any) -> Any:
        """The result of embed for rows, as the model takes them."""
        with jax.default_matmul_precision(MATMUL[self.inner.precision]):
            return self.embed(rows) if params is None else self.embed(params, rows)

    @property
    def answer_dtype(self) -> Any:
        """The dtype of the head's own answer, once traced."""
        return self.inner.apply.answer_dtype

    def __call__(self, params: Any, rows: Any) -> Any:
        """head(embed(rows)), in place of a model's own function."""
        return self.inner.apply(params, self.embedded(params, rows))


class Between(LineSpace):
    """Lines between the halves of a pair."""

    name = "embedding"

    def __init__(self, pair: Pair, table: CodeTable) -> None:
        self._pair, self._table = pair, table
        shapes = table.layout.shapes if isinstance(table, TreeTable) else (table.shape,)
        super().__init__(*map(math.prod, shapes))
        self.key = pair, getattr(table, "key", table.shape)

    def lift(self, params: Any, codes: Any) -> Any:
        """See `LineSpace.lift`."""
        return self._pair.embedded(params, self._table.decode(codes))

    def head(self, engine: Engine, rows: int) -> Callable[[Any, Any], Any]:
        """See `LineSpace.head`."""
        programs, params = engine.compiled.cache, engine.model.params
        mesh = _mesh(engine)
        name = "trace", "head", self.key, rows, mesh.abstract_mesh
        if name not in programs:
            made = self.shapes(params, rows, engine.replacement.for_loops)
            programs[name] = Traced(self._pair.inner.apply, params, made, mesh=mesh)
        return programs[name]

    def shapes(self, params: Any, rows: int, codes: np.ndarray) -> Any:
        """The result of embed for this number of rows: shapes in place of arrays."""
        sample = jax.ShapeDtypeStruct((rows, codes.shape[1]), codes.dtype)
        return jax.eval_shape(self.lift, params, sample)

    def refuse(self, params: Any, codes: np.ndarray, owner: np.ndarray | None, P: int) -> None:
        """Raises InputError if the result of embed does not fit, without running anything.

        It must have an entry for each entry of a row, and no whole numbers that would have to
        change.
        """
        rows = 7  # a size that no axis has by chance
        made = self.shapes(params, rows, codes)
        table = self._table
        layout = table.layout if isinstance(table, TreeTable) else None
        shapes = (table.shape,) if layout is None else layout.shapes
        wanted = jax.tree.structure(0) if layout is None else layout.structure
        leaves = jax.tree.leaves(made)
        same = jax.tree.structure(made) == wanted and all(
            leaf.shape[: 1 + len(shape)] == (rows, *shape)
            for leaf, shape in zip(leaves, shapes, strict=True)
        )
        if not same:
            returned = jax.tree.map(lambda leaf: ("R", *leaf.shape[1:]), made)
            needed = [("R", *shape, "...") for shape in shapes]
            raise InputError(
                "model: embed must return arrays in the container of X, each with the axes of its "
                f"leaf first, {needed}; it returned {returned}."
            )
        names = ("X",) if layout is None else layout.names
        first = 0
        for name, leaf, count in zip(names, leaves, self.entries, strict=True):
            stays = owner is not None and bool((owner[..., first : first + count] == P).all())
            first += count
            floats = np.issubdtype(leaf.dtype, np.floating) or "float" in str(leaf.dtype)
            if not floats and not stays:
                raise InputError(
                    f"model: embed leaves {name!r} as {leaf.dtype}, and between whole numbers "
                    "there is no line. Embed it too, or number it -1 in players=."
                )
