"""Finds a layer in the trace of a model: f(X) = head(layer(columns of X)).

A number computed from a row may depend on one column only: scaled, encoded, looked up in a table. A
hybrid takes each column from one of two rows, so such a number of the hybrid equals that of one of
the rows. The trace is run with placeholders for the rows: a `ColumnwiseArray` represents such
numbers, with the column of each (`run_trace`). The first step that joins numbers of several columns
is the layer: a matrix product, a convolution, a sum, or a named sum of products
(`structures/named.py`). Later steps do not read the rows. If a model does anything else with its
rows, no layer is found.

`Repeated` recognises repeated steps: the same step with the same inputs has the same outputs. A
decided class is traced together with the scores that tell whether it is valid, so a trace may hold
one pipeline twice, which would otherwise give two layers.

Letters: R rows, F numbers of one instance, flattened, C columns computed from them, H units, K
outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import Literal

from xaijax.models.structure.agreement import MOVES, affine
from xaijax_kernels.engine.steps import CALLS, ELEMENTWISE, bound
from xaijax_kernels.engine.tiles import traced
from xaijax_kernels.structures.base import Affine, Columnwise, Layer, shapes_of
from xaijax_kernels.structures.named import NAMED
from xaijax_kernels.structures.summed import AddedUp, Convolved, Summed
from xaijax_kernels.structures.sums import Dense

SMALL = 1 << 12  # numbers that are compared by value; larger arrays must be the same object
NONE = -1  # the column of a number that is the same for all rows
REDUCTIONS = frozenset(
    "argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum".split()
)


class NoLayer(Exception):
    """The model has no layer: it does something else with its rows first."""


@dataclass(frozen=True)
class ColumnwiseArray:
    """Numbers [R, ...] that each depend on one column of their row, or on none."""

    owner: np.ndarray  # int [...], a column of the model or NONE
    shape: tuple[int, ...]  # [R, ...]
    value: Any = None  # the numbers themselves, if rows were given


@dataclass(frozen=True)
class Turned:
    """Numbers [C, R]: rows [R, C] transposed."""

    rows: ColumnwiseArray

    @property
    def shape(self) -> tuple[int, ...]:
        """[C, R]."""
        return self.rows.shape[::-1]


def turned(equation: Any, x: Any) -> ColumnwiseArray | Turned | None:
    """The result of transposing [R, C] or [C, R]; None: it is another step."""
    if equation.primitive.name != "transpose" or equation.params["permutation"] != (1, 0):
        return None
    if isinstance(x, Turned):
        return x.rows
    return Turned(x) if isinstance(x, ColumnwiseArray) else None


@dataclass(frozen=True)
class Uniform:
    """Numbers [R, ...] or [1, ...] that are the same for every row."""

    value: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value."""
        return self.value.shape


def bare(x: Any) -> Any:
    """The numbers of a placeholder; None if they are unknown."""
    return x.value if isinstance(x, ColumnwiseArray | Uniform) else x


def evaluated(equation: Any, inputs: list[Any]) -> list[Any]:
    """The outputs of one step on numbers; known numbers stay concrete while others are traced."""
    if any(isinstance(x, Tracer) for x in inputs):
        return bound(equation, inputs)
    if is_small_move(equation, inputs):
        return [moved(equation, [np.asarray(x) for x in inputs])]
    with jax.ensure_compile_time_eval():
        return bound(equation, inputs)


def uniform(equation: Any, inputs: list[Any], R: int) -> bool:
    """Whether a step without row inputs returns numbers [R, ...] that are the same for every
    row."""
    name, options = equation.primitive.name, equation.params
    if not equation.outvars:  # jax.debug.print
        return False
    shape = equation.outvars[0].aval.shape
    if shape[:1] != (R,):
        return False
    if name == "iota":
        return options["dimension"] != 0
    if name == "broadcast_in_dim":
        return 0 not in options["broadcast_dimensions"]
    return name in ELEMENTWISE and any(isinstance(x, Uniform) for x in inputs)


def with_rows(equation: Any, inputs: list[Any]) -> ColumnwiseArray:
    """The placeholder for the output of a step that reads rows; raises NoLayer.

    Does not handle sums over several columns.
    """
    if len(equation.outvars) != 1:
        raise NoLayer
    name, shape = equation.primitive.name, equation.outvars[0].aval.shape
    R = next(x.shape[0] for x in inputs if isinstance(x, ColumnwiseArray))
    if shape[:1] != (R,):
        raise NoLayer
    if name in ELEMENTWISE:
        owner = _elementwise(inputs, shape)
    elif name == "gather" and not isinstance(inputs[0], ColumnwiseArray):
        owner = _looked_up(equation, inputs, shape)
    elif name in MOVES:
        owner = _moved(equation, inputs, shape)
    elif name in REDUCTIONS:
        owner = reduced(inputs[0], equation.params["axes"])
    elif name == "dot_general":
        owner = _times_a_matrix(equation, inputs)
    else:
        raise NoLayer
    numbers = [bare(x) for x in inputs]
    known = all(x is not None for x in numbers)
    return ColumnwiseArray(owner, shape, evaluated(equation, numbers)[0] if known else None)


def reduced(rows: ColumnwiseArray, axes: tuple[int, ...]) -> np.ndarray:
    """Columns of numbers reduced over axes that hold numbers of one column; raises NoLayer."""
    if 0 in axes:
        raise NoLayer
    inner = tuple(axis - 1 for axis in axes)
    largest = rows.owner.max(axis=inner, initial=NONE, keepdims=True)
    if ((rows.owner != NONE) & (rows.owner != largest)).any():
        raise NoLayer
    return largest.squeeze(inner)


def _elementwise(inputs: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    owner = np.full(shape[1:], NONE)
    for x in inputs:
        if isinstance(x, ColumnwiseArray):
            other = np.broadcast_to(x.owner, shape[1:])
            if ((other != NONE) & (owner != NONE) & (other != owner)).any():
                raise NoLayer
            owner = np.maximum(owner, other)
        elif not isinstance(x, Uniform) and np.ndim(x) and np.shape(x)[0] != 1:
            raise NoLayer  # it may differ from row to row
    return owner


def _times_a_matrix(equation: Any, inputs: list[Any]) -> np.ndarray:
    """Columns after sums over numbers of one column."""
    rows, matrix = inputs
    (left, right), batch = equation.params["dimension_numbers"]
    if (
        not isinstance(rows, ColumnwiseArray)
        or isinstance(matrix, ColumnwiseArray)
        or batch != ((), ())
    ):
        raise NoLayer
    free = bare(matrix).ndim - len(right)
    owner = reduced(rows, tuple(left))
    whole = [n for axis, n in enumerate(bare(matrix).shape) if axis not in right]
    return np.broadcast_to(owner.reshape((*owner.shape, *[1] * free)), (*owner.shape, *whole))


def _moved(equation: Any, inputs: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Columns after numbers were moved: the step itself is run on the positions."""
    owners = [x.owner for x in inputs if isinstance(x, ColumnwiseArray)]
    names = 2 + max(int(owner.max(initial=NONE)) for owner in owners)
    R = shape[0]
    row = np.arange(R).reshape(R, *[1] * 30)

    def named(x: Any, place: int) -> Any:
        if isinstance(x, ColumnwiseArray | Uniform):
            of_row = row.reshape(R, *[1] * (len(x.shape) - 1)).astype("int32") * np.int32(names)
            owner = x.owner if isinstance(x, ColumnwiseArray) else np.full(x.shape[1:], NONE)
            return of_row + (owner[None] + 1).astype("int32")
        joins = equation.primitive.name in ("concatenate", "stack")
        if joins or (place and isinstance(x, Tracer)):  # the position depends on the row
            raise NoLayer
        whole = np.issubdtype(np.asarray(x).dtype, np.integer)
        return x if whole and equation.primitive.name != "pad" else np.int32(-1)

    if (R + 1) * names >= 2**31:
        raise NoLayer
    with jax.ensure_compile_time_eval():
        places = moved(equation, [named(x, i) for i, x in enumerate(inputs)])
    filled = places < 0  # the value of padding or of numbers out of bounds
    rows, owner = places // names, places % names - 1
    wanted = row.reshape(R, *[1] * (places.ndim - 1))
    if ((rows != wanted) & ~filled).any() or (filled != filled[:1]).any():
        raise NoLayer
    owner = np.where(filled, NONE, owner)
    if (owner != owner[:1]).any():
        raise NoLayer
    return owner[0]


def _looked_up(equation: Any, inputs: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Columns of table rows that the rows' numbers select."""
    table, index = inputs
    numbers = equation.params["dimension_numbers"]
    if isinstance(table, Uniform) or numbers.operand_batching_dims or 0 in numbers.offset_dims:
        raise NoLayer
    of_index = reduced(index, (len(index.shape) - 1,))  # the last axis holds the parts of an index
    offset = [axis - 1 for axis in numbers.offset_dims]
    return np.broadcast_to(np.expand_dims(of_index, tuple(offset)), shape[1:])


# The inputs are kept with the outputs, so that no other object gets their id.
Repeated = dict[Any, tuple[list[Any], list[Any]]]


def _key(equation: Any, inputs: list[Any]) -> Any:
    """A key of a step and its inputs; None: it has none."""
    if equation.effects:
        return None
    key = (equation.primitive, *sorted(equation.params.items()), *map(_name, inputs))
    try:
        hash(key)
    except TypeError:  # an option that holds arrays, or other unhashable values
        return None
    return key


def _name(x: Any) -> Any:
    """A key that is equal for equal numbers: constants by their bytes, the rest by identity."""
    if isinstance(x, Tracer) or not hasattr(x, "dtype") and not isinstance(x, int | float | bool):
        return id(x)
    if np.size(x) > SMALL:
        return id(x)
    dtype: Any = getattr(x, "dtype", None)
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        if not jnp.issubdtype(dtype, jax.dtypes.prng_key):
            return id(x)
        with jax.ensure_compile_time_eval():  # NumPy has no typed keys, but their words
            words = np.asarray(jax.random.key_data(x))
        return str(dtype), words.shape, words.tobytes()
    constant = np.asarray(x)
    return constant.dtype.str, constant.shape, constant.tobytes()


# XLA would compile a program for each shape of each step, and they move only a few hundred
# integers.

Options = Mapping[str, Any]
Move = Callable[[Options, tuple[int, ...], list[Any]], np.ndarray]  # (options, shape, inputs)


def _broadcast(options: Options, shape: tuple[int, ...], inputs: list[Any]) -> np.ndarray:
    sizes = np.ones(len(shape), int)
    sizes[list(options["broadcast_dimensions"])] = inputs[0].shape
    return np.broadcast_to(inputs[0].reshape(sizes), shape)


def _slice(options: Options, shape: tuple[int, ...], inputs: list[Any]) -> np.ndarray:
    steps = options["strides"] or (1,) * inputs[0].ndim
    cut = zip(options["start_indices"], options["limit_indices"], steps, strict=True)
    return inputs[0][tuple(slice(*limits) for limits in cut)]


def _dynamic_slice(options: Options, shape: tuple[int, ...], inputs: list[Any]) -> np.ndarray:
    # A start is clipped so that the whole slice lies inside, as in XLA.
    whole, *starts = inputs
    last = np.subtract(whole.shape, shape)
    first = [min(max(int(start), 0), most) for start, most in zip(starts, last, strict=True)]
    return whole[tuple(slice(at, at + n) for at, n in zip(first, shape, strict=True))]


ROW_MOVES: dict[str, Move] = {
    **dict.fromkeys(("expand_dims", "reshape", "squeeze"), lambda _, shape, x: x[0].reshape(shape)),
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda options, _, x: np.concatenate(x, options["dimension"]),
    "dynamic_slice": _dynamic_slice,
    "rev": lambda options, _, x: np.flip(x[0], options["dimensions"]),
    "slice": _slice,
    "transpose": lambda options, _, x: x[0].transpose(options["permutation"]),
}


SMALL_ARRAY = 1 << 16  # bytes; larger arrays stay on their device


def _in_another_order(equation: Any) -> bool:
    """Whether a reshape reads the axes in another order, such as order="F"."""
    return equation.primitive.name == "reshape" and bool(equation.params.get("dimensions"))


def is_small_move(equation: Any, inputs: list[Any]) -> bool:
    """Whether a step moves few numbers, in dtypes that NumPy has."""
    if equation.primitive.name not in ROW_MOVES or _in_another_order(equation):
        return False
    arrays = [*inputs, equation.outvars[0].aval]
    if not all(isinstance(getattr(x, "dtype", None), np.dtype) for x in arrays):
        return False
    # A literal in the trace has a dtype, but no shape.
    shapes = [getattr(x, "shape", ()) for x in arrays]
    sizes = [math.prod(shape) * x.dtype.itemsize for shape, x in zip(shapes, arrays, strict=True)]
    return max(sizes) <= SMALL_ARRAY


def moved(equation: Any, inputs: list[Any]) -> np.ndarray:
    """The output of a step on NumPy arrays [R, ...] of positions; other inputs are constants."""
    options, shape = equation.params, equation.outvars[0].aval.shape
    move = ROW_MOVES.get(equation.primitive.name)
    if move is None or _in_another_order(equation):
        return np.asarray(bound(equation, inputs)[0])
    return move(options, shape, inputs)


# Running a trace; the first step that joins numbers of several columns is the layer.

WHOLE = (np.dtype("float32"), np.dtype("float64"))  # a layer of half precision rounds differently
MOST_SUMMED = 1 << 20  # numbers in the matrix that marks the columns of a sum
MOST_SPREAD = 1 << 14  # numbers in a matrix used as a dense layer; above it columns are summed

# Called at the layer: (the layer, its columns, the output's shape) -> the output.
AtLayer = Callable[[Layer, ColumnwiseArray, tuple[int, ...]], Any]


def run_trace(
    jaxpr: Any, consts: Any, arguments: list[Any], R: int, layer: AtLayer, made: Repeated
) -> list[Any]:
    """Runs a trace, whose arguments may be placeholders of rows; made: its steps so far."""
    values: dict[Any, Any] = {}

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else values[variable]

    values.update(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    for equation in jaxpr.eqns:
        inputs = [read(v) for v in equation.invars]
        key = _key(equation, inputs)
        if key in made:
            outputs = made[key][1]
        else:
            if any(isinstance(v, ColumnwiseArray | Turned) for v in inputs):
                outputs = _with_rows(equation, inputs, R, layer, made)
            else:
                outputs = evaluated(equation, [bare(v) for v in inputs])
                if uniform(equation, inputs, R):
                    outputs = [Uniform(output) for output in outputs]
            if key is not None:
                made[key] = inputs, outputs
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _with_rows(
    equation: Any, inputs: list[Any], R: int, layer: AtLayer, made: Repeated
) -> list[Any]:
    """The outputs of one step that reads the rows."""
    name, options = equation.primitive.name, equation.params
    shape, dtype = equation.outvars[0].aval.shape, equation.outvars[0].aval.dtype
    if name in CALLS:
        if options.get("name") in NAMED:
            rows, *others = inputs
            if not isinstance(rows, ColumnwiseArray) or any(
                isinstance(x, ColumnwiseArray) for x in others
            ):
                raise NoLayer
            return [layer(NAMED[options["name"]](*map(bare, others)), rows, shape)]
        inner = options[CALLS[name]]
        return run_trace(inner.jaxpr, inner.consts, inputs, R, layer, made)
    if (moved := turned(equation, inputs[0])) is not None:
        return [moved]
    if any(isinstance(x, Turned) for x in inputs):
        if name == "dot_general":
            return [_product(options, inputs, shape, dtype, layer)]
        raise NoLayer
    try:
        return [with_rows(equation, inputs)]
    except NoLayer:
        if name == "dot_general":
            return [_product(options, inputs, shape, dtype, layer)]
        if name == "conv_general_dilated" and dtype in WHOLE:
            inner, flat = convolution(equation, inputs, dtype)
            return [layer(inner, flat, shape)]
        if name == "reduce_sum" and dtype in WHOLE:
            return [_sum(inputs[0], options["axes"], shape, dtype, layer)]
        raise


def _product(
    options: Any, inputs: list[Any], shape: tuple[int, ...], dtype: Any, layer: AtLayer
) -> Any:
    """Columns [R, C] times W [C, H], or times w [C]; or W [H, C] times [C, R], which `vmap`
    makes from W @ row. The columns may have further axes of size one, as from W @ row[:, None].
    """
    first = isinstance(inputs[0], ColumnwiseArray | Turned)
    (at, other), batch = options["dimension_numbers"]
    at, other = (at, other) if first else (other, at)
    array, weights = inputs if first else inputs[::-1]
    if isinstance(weights, ColumnwiseArray | Turned) or batch != ((), ()):
        raise NoLayer
    if isinstance(array, ColumnwiseArray) and len(array.shape) > 2 and len(at) == 1 and at[0] > 0:
        if math.prod(array.shape[1:]) != array.shape[at[0]]:
            raise NoLayer
        array, at = flattened(array)[0], (1,)
    if len(array.shape) != 2:
        raise NoLayer
    rows, column = (array.rows, 0) if isinstance(array, Turned) else (array, 1)
    weights = bare(weights)
    if tuple(at) != (column,) or len(other) != 1:
        raise NoLayer
    if weights.ndim > 2 or weights.dtype != dtype or dtype not in WHOLE:
        raise NoLayer
    units = [n for axis, n in enumerate(weights.shape) if axis not in other]
    weights = jnp.moveaxis(weights, other[0], 0).reshape(rows.shape[1], -1)
    dense = Dense(weights, jnp.zeros(weights.shape[1], dtype))
    out = layer(dense, rows, (rows.shape[0], *units))
    return (out if first or not units else out.T).reshape(shape)


def _sum(
    rows: ColumnwiseArray, axes: tuple[int, ...], shape: tuple[int, ...], dtype: Any, layer: AtLayer
) -> Any:
    """Sums columns [R, ...] over axes that hold several of them."""
    if 0 in axes:
        raise NoLayer
    C, H = math.prod(rows.shape[1:]), math.prod(shape[1:])
    if C * H > MOST_SUMMED:
        raise NoLayer
    (flat, row_shape), zero = flattened(rows), jnp.zeros(H, dtype)
    if C * H > MOST_SPREAD:
        added = Summed((), zero, AddedUp(row_shape, axes), float(C), "first layer", linear=True)
        return layer(added, flat, shape)
    inner = tuple(1 if axis in axes else n for axis, n in enumerate(rows.shape) if axis)
    unit = np.broadcast_to(np.arange(H).reshape(inner), rows.shape[1:]).ravel()
    weights = np.zeros((C, H), dtype)
    weights[np.arange(C), unit] = 1
    return layer(Dense(jnp.asarray(weights), zero), flat, shape)


# A hybrid's layer is summed in float32, 32 rows at a time. A wider layer would leave the caches,
# and the memory plan of a tile would follow it.
MOST_UNITS = 1 << 15


def convolution(equation: Any, inputs: list[Any], dtype: Any) -> tuple[Summed, ColumnwiseArray]:
    """(the layer, its columns) for a convolution of rows; raises NoLayer."""
    options, (rows, kernel) = dict(equation.params), inputs
    numbers = options["dimension_numbers"]
    if (
        not isinstance(rows, ColumnwiseArray)
        or isinstance(kernel, ColumnwiseArray)
        or options["batch_group_count"] != 1
    ):
        raise NoLayer
    shape = equation.outvars[0].aval.shape
    H, kernel = math.prod(shape[1:]), bare(kernel)
    if numbers.lhs_spec[0] or numbers.out_spec[0] or H > MOST_UNITS or kernel.dtype != dtype:
        raise NoLayer
    each = math.prod(kernel.shape) / max(1, kernel.shape[numbers.rhs_spec[0]])
    flat, row_shape = flattened(rows)
    apply = Convolved(row_shape, tuple(sorted(options.items())))
    zero = jnp.zeros(H, dtype)
    return Summed(kernel, zero, apply, H * each, "first convolution", linear=True), flat


def flattened(rows: ColumnwiseArray) -> tuple[ColumnwiseArray, tuple[int, ...]]:
    """(rows [R, C], the original shape of one row)."""
    inner = rows.shape[1:]
    value = None if rows.value is None else rows.value.reshape(rows.shape[0], -1)
    return ColumnwiseArray(rows.owner.ravel(), (rows.shape[0], math.prod(inner)), value), inner


class _Made(Exception):
    def __init__(self, columns: Any) -> None:
        self.columns = columns


@dataclass(frozen=True, eq=False)
class FoundLayer:
    """The layer and the rest of the model, as functions of the model's parameters."""

    apply: Callable[[Any, Any], Any]  # (params, rows [R, *shape]) -> [R] or [R, K]
    shape: tuple[int, ...]  # of one instance
    dtype: Any
    traces: dict[int, Any] = field(default_factory=dict)  # closed, by R
    # called at every further trace (`queries/probe.py`)
    look: Callable[[Any, int], None] | None = None
    # programs of the head, for all explainers
    programs: dict[Any, Any] = field(default_factory=dict)
    declared = False

    def of(self, params: Any) -> Columnwise:
        """See `Structure.of`; raises NoLayer."""
        layers: list[tuple[Layer, ColumnwiseArray]] = []

        def layer(inner: Layer, rows: ColumnwiseArray, shape: tuple[int, ...]) -> Any:
            layers.append((inner, rows))
            return jnp.zeros(shape, self.dtype)

        self._run(params, next(iter(self.traces)), None, layer)
        if len(layers) != 1:
            raise NoLayer
        inner, rows = layers[0]
        if any(0 in jnp.shape(leaf) for leaf in jax.tree.leaves(inner)):
            raise NoLayer  # an empty layer: for example no support vectors
        # pyright does not see the members that Columnwise takes over from the inner layer.
        owner = tuple(rows.owner.tolist())
        return Columnwise(inner, params, self.columns, owner)  # pyright: ignore[reportAbstractUsage]

    def columns(self, params: Any, rows: Any) -> Any:
        """The columns [R, C] that the layer joins, of rows [R, F]."""

        R = len(rows)
        half = R // 2 if R not in self.traces and R // 2 in self.traces and R % 2 == 0 else None
        if half is None:
            return self._columns(params, rows)
        # The probe's rows, padded to whole vectors: its trace serves both halves.
        halves = jnp.asarray(rows).reshape(2, half, *rows.shape[1:])
        made = jax.vmap(lambda part: self._columns(params, part))(halves)
        return made.reshape(R, -1)

    def _columns(self, params: Any, rows: Any) -> Any:
        def layer(inner: Layer, columns: ColumnwiseArray, shape: tuple[int, ...]) -> Any:
            raise _Made(columns.value)

        try:
            self._run(params, len(rows), rows, layer)
        except _Made as made:
            return made.columns
        raise AssertionError("the layer is gone")

    def head(self, params: Any, hidden: Any) -> Any:
        """See `Structure.head`."""
        return self._run(params, len(hidden), None, lambda _, rows, shape: hidden.reshape(shape))

    def affine(self, params: Any) -> Affine | None:
        """See `Structure.affine`: by the trace."""
        width = shapes_of(self, params).width
        return affine(self.head, params, width, self.dtype, self.programs)

    def _run(self, params: Any, R: int, rows: Any, layer: AtLayer) -> Any:
        shape = (R, *self.shape)
        if R not in self.traces:
            self.traces[R] = traced(self.apply, params, jax.ShapeDtypeStruct(shape, self.dtype))
            if self.look is not None:
                self.look(self.traces[R], R)
        trace = self.traces[R]
        owner = np.arange(math.prod(self.shape)).reshape(self.shape)
        value = None if rows is None else jnp.asarray(rows, self.dtype).reshape(shape)
        stand_in = ColumnwiseArray(owner, shape, value)
        # In the dtypes that a program gets: NumPy's float64 as float32, for running step by step.
        flat = [x if isinstance(x, jax.Array) else jnp.asarray(x) for x in jax.tree.leaves(params)]
        arguments = [*flat, stand_in]
        (out,) = run_trace(trace.jaxpr, trace.consts, arguments, R, layer, {})
        if isinstance(out, ColumnwiseArray | Turned):
            raise NoLayer
        return bare(out)


def find(
    apply: Callable[..., Any],
    params: Any,
    rows: Any,
    trace: Any,
    look: Callable[[Any, int], None] | None = None,
) -> FoundLayer | None:
    """The model's layer, or None; trace: the model's trace for rows [R, *shape]; look: checks
    other traces.
    """
    layer = FoundLayer(apply, rows.shape[1:], rows.dtype, {len(rows): trace}, look=look)
    try:
        shapes_of(layer, params)
    except NoLayer:
        return None
    return layer
