"""What a model makes of its columns one by one, followed through its trace.

A number that a model makes of a row may depend on one column only: scaled, encoded, looked up in a
table. A hybrid takes each column from one of two rows, so such a number of the hybrid is that of
the one row or of the other. `Rows` stands for numbers of this kind and says which column each is
made of; what depends on two columns is a layer, or nothing that is known.

`Repeated` knows the steps that were made before: the same step of the same inputs has the same
outputs. A decided class is traced beside the scores that say whether it is sound, so a trace holds
one pipeline twice. Followed without this, it would have two layers.

Letters: R rows, F columns of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from xaijax_kernels.engine.steps import ELEMENTWISE, bound

SMALL = 1 << 12  # numbers that are compared themselves; larger arrays must be one and the same
NONE = -1  # the owner of a number that is the same for all rows
MOVES = frozenset(
    "broadcast_in_dim concatenate dynamic_slice expand_dims gather pad reshape rev slice squeeze "
    "stack transpose".split()
)
REDUCTIONS = frozenset(
    "argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum".split()
)


class NoLayer(Exception):
    """The model does something else with its rows first."""


@dataclass(frozen=True)
class Rows:
    """Numbers [R, ...] of which each depends on one column of its row, or on none."""

    owner: np.ndarray  # int [...], a column of the model or NONE
    shape: tuple[int, ...]  # [R, ...]
    value: Any = None  # the numbers themselves, where rows were given


@dataclass(frozen=True)
class Turned:
    """Numbers [C, R]: the columns of rows [R, C], each a line."""

    rows: Rows

    @property
    def shape(self) -> tuple[int, ...]:
        """[C, R]."""
        return self.rows.shape[::-1]


def turned(equation: Any, x: Any) -> Rows | Turned | None:
    """What a transposition makes of [R, C] or of [C, R]; None: it is another step."""
    if equation.primitive.name != "transpose" or equation.params["permutation"] != (1, 0):
        return None
    return x.rows if isinstance(x, Turned) else Turned(x) if isinstance(x, Rows) else None


@dataclass(frozen=True)
class Uniform:
    """Numbers [R, ...] or [1, ...] that are the same for every row."""

    value: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the value."""
        return self.value.shape


def bare(x: Any) -> Any:
    """The numbers of whatever stands for them; None where they are not known."""
    return x.value if isinstance(x, Rows | Uniform) else x


def evaluated(equation: Any, inputs: list[Any]) -> list[Any]:
    """The outputs of one step, of numbers; known ones stay known while others are traced."""
    if any(isinstance(x, Tracer) for x in inputs):
        return bound(equation, inputs)
    if is_small_move(equation, inputs):
        return [moved(equation, [np.asarray(x) for x in inputs])]
    with jax.ensure_compile_time_eval():
        return bound(equation, inputs)


def uniform(equation: Any, inputs: list[Any], R: int) -> bool:
    """Whether a step without rows makes numbers [R, ...] that are the same for every row."""
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


def with_rows(equation: Any, inputs: list[Any]) -> Rows:
    """What stands for the output of a step that reads rows; raises NoLayer.

    Sums over several columns are not for this function.
    """
    if len(equation.outvars) != 1:
        raise NoLayer
    name, shape = equation.primitive.name, equation.outvars[0].aval.shape
    R = next(x.shape[0] for x in inputs if isinstance(x, Rows))
    if shape[:1] != (R,):
        raise NoLayer
    if name in ELEMENTWISE:
        owner = _elementwise(inputs, shape)
    elif name == "gather" and not isinstance(inputs[0], Rows):
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
    return Rows(owner, shape, evaluated(equation, numbers)[0] if known else None)


def reduced(rows: Rows, axes: tuple[int, ...]) -> np.ndarray:
    """Owners of what is reduced over axes that hold numbers of one column; raises NoLayer."""
    if 0 in axes:
        raise NoLayer
    own = tuple(axis - 1 for axis in axes)
    largest = rows.owner.max(axis=own, initial=NONE, keepdims=True)
    if ((rows.owner != NONE) & (rows.owner != largest)).any():
        raise NoLayer
    return largest.squeeze(own)


def _elementwise(inputs: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    owner = np.full(shape[1:], NONE)
    for x in inputs:
        if isinstance(x, Rows):
            own = np.broadcast_to(x.owner, shape[1:])
            if ((own != NONE) & (owner != NONE) & (own != owner)).any():
                raise NoLayer
            owner = np.maximum(owner, own)
        elif not isinstance(x, Uniform):
            same_for_all(x)
    return owner


def same_for_all(x: Any) -> None:
    """Raise NoLayer where numbers beside rows may differ from row to row."""
    if np.ndim(x) and np.shape(x)[0] != 1:
        raise NoLayer


def _times_a_matrix(equation: Any, inputs: list[Any]) -> np.ndarray:
    """Owners after sums over numbers of one column."""
    rows, matrix = inputs
    (left, right), batch = equation.params["dimension_numbers"]
    if not isinstance(rows, Rows) or isinstance(matrix, Rows) or batch != ((), ()):
        raise NoLayer
    free = bare(matrix).ndim - len(right)
    owner = reduced(rows, tuple(left))
    whole = [n for axis, n in enumerate(bare(matrix).shape) if axis not in right]
    return np.broadcast_to(owner.reshape((*owner.shape, *[1] * free)), (*owner.shape, *whole))


def _moved(equation: Any, inputs: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Owners after numbers changed places: the step itself is run on names of the places."""
    names = 1 + max(int(x.owner.max(initial=NONE)) for x in inputs if isinstance(x, Rows)) + 1
    R = shape[0]
    row = np.arange(R).reshape(R, *[1] * 30)

    def named(x: Any, place: int) -> Any:
        if isinstance(x, Rows | Uniform):
            of_row = row.reshape(R, *[1] * (len(x.shape) - 1)) * names
            owner = x.owner if isinstance(x, Rows) else np.full(x.shape[1:], NONE)
            return (of_row + owner[None] + 1).astype("int32")
        beside = place and equation.primitive.name != "concatenate"
        if beside and isinstance(x, Tracer | Rows | Uniform):  # a place that a row chooses
            raise NoLayer
        if equation.primitive.name in ("concatenate", "stack"):
            raise NoLayer
        whole = np.issubdtype(np.asarray(x).dtype, np.integer)
        return x if whole and equation.primitive.name != "pad" else np.int32(-1)

    if (R + 1) * names >= 2**31:
        raise NoLayer
    with jax.ensure_compile_time_eval():
        places = moved(equation, [named(x, i) for i, x in enumerate(inputs)])
    filled = places < 0  # what stands in for numbers out of bounds, or pads
    rows, owner = places // names, places % names - 1
    own = row.reshape(R, *[1] * (places.ndim - 1))
    if ((rows != own) & ~filled).any() or (filled != filled[:1]).any():
        raise NoLayer
    owner = np.where(filled, NONE, owner)
    if (owner != owner[:1]).any():
        raise NoLayer
    return owner[0]


def _looked_up(equation: Any, inputs: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Owners of rows of a table, which the rows' numbers choose."""
    table, index = inputs
    numbers = equation.params["dimension_numbers"]
    if isinstance(table, Uniform) or numbers.operand_batching_dims or 0 in numbers.offset_dims:
        raise NoLayer
    of_index = reduced(index, (len(index.shape) - 1,))  # the last axis holds an index's parts
    offset = [axis - 1 for axis in numbers.offset_dims]
    return np.broadcast_to(np.expand_dims(of_index, tuple(offset)), shape[1:])


class Repeated:
    """The steps made so far, by what they do and what they read."""

    def __init__(self) -> None:
        # The inputs are kept with the outputs, so that no other object gets their identity.
        self._made: dict[Any, tuple[list[Any], list[Any]]] = {}

    def key(self, equation: Any, inputs: list[Any]) -> Any:
        """What tells a step from others; None: it cannot be told."""
        if equation.effects:
            return None
        key = (equation.primitive, *sorted(equation.params.items()), *map(_name, inputs))
        try:
            hash(key)
        except TypeError:  # an option that holds arrays, or other unhashable things
            return None
        return key

    def outputs(self, key: Any) -> list[Any] | None:
        """Those of the same step, if it was made."""
        return None if key is None or key not in self._made else self._made[key][1]

    def keep(self, key: Any, inputs: list[Any], outputs: list[Any]) -> None:
        """Remember the outputs of a step."""
        if key is not None:
            self._made[key] = inputs, outputs


def _name(x: Any) -> Any:
    """Equal for what are the same numbers: constants by their bytes, the rest by identity."""
    if isinstance(x, Tracer) or not hasattr(x, "dtype") and not isinstance(x, int | float | bool):
        return id(x)
    if np.size(x) > SMALL:
        return id(x)
    own: Any = getattr(x, "dtype", None)
    if jnp.issubdtype(own, jax.dtypes.extended):
        if not jnp.issubdtype(own, jax.dtypes.prng_key):
            return id(x)
        with jax.ensure_compile_time_eval():  # NumPy has no keys, but the words that they are
            words = np.asarray(jax.random.key_data(x))
        return str(own), words.shape, words.tobytes()
    constant = np.asarray(x)
    return constant.dtype.str, constant.shape, constant.tobytes()


# XLA would compile a program for each shape of each of them, and they move a few hundred integers.

Options = Mapping[str, Any]
Move = Callable[[Options, tuple[int, ...], list[Any]], np.ndarray]  # (options, shape, inputs)


def _reshape(options: Options, shape: tuple[int, ...], inputs: list[Any]) -> np.ndarray:
    return inputs[0].reshape(shape)


def _transpose(options: Options, shape: tuple[int, ...], inputs: list[Any]) -> np.ndarray:
    return inputs[0].transpose(options["permutation"])


def _broadcast(options: Options, shape: tuple[int, ...], inputs: list[Any]) -> np.ndarray:
    own = np.ones(len(shape), int)
    own[list(options["broadcast_dimensions"])] = inputs[0].shape
    return np.broadcast_to(inputs[0].reshape(own), shape)


def _concatenate(options: Options, shape: tuple[int, ...], inputs: list[Any]) -> np.ndarray:
    return np.concatenate(inputs, options["dimension"])


def _rev(options: Options, shape: tuple[int, ...], inputs: list[Any]) -> np.ndarray:
    return np.flip(inputs[0], options["dimensions"])


def _slice(options: Options, shape: tuple[int, ...], inputs: list[Any]) -> np.ndarray:
    steps = options["strides"] or (1,) * inputs[0].ndim
    cut = zip(options["start_indices"], options["limit_indices"], steps, strict=True)
    return inputs[0][tuple(slice(*one) for one in cut)]


def _dynamic_slice(options: Options, shape: tuple[int, ...], inputs: list[Any]) -> np.ndarray:
    # A start is moved so that the whole slice lies inside, as XLA does.
    whole, *starts = inputs
    last = np.subtract(whole.shape, shape)
    first = [min(max(int(one), 0), most) for one, most in zip(starts, last, strict=True)]
    return whole[tuple(slice(at, at + n) for at, n in zip(first, shape, strict=True))]


ROW_MOVES: dict[str, Move] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "dynamic_slice": _dynamic_slice,
    "expand_dims": _reshape,
    "reshape": _reshape,
    "rev": _rev,
    "slice": _slice,
    "squeeze": _reshape,
    "transpose": _transpose,
}


SMALL_ARRAY = 1 << 16  # bytes; larger arrays stay on their device


def _in_another_order(equation: Any) -> bool:
    """Whether a reshape reads the axes in an order of its own, as order="F" does."""
    return equation.primitive.name == "reshape" and bool(equation.params.get("dimensions"))


def is_small_move(equation: Any, inputs: list[Any]) -> bool:
    """Whether a step moves a few numbers that NumPy can hold."""
    if equation.primitive.name not in ROW_MOVES or _in_another_order(equation):
        return False
    arrays = [*inputs, equation.outvars[0].aval]
    if not all(isinstance(getattr(x, "dtype", None), np.dtype) for x in arrays):
        return False
    # A number that stands in the trace has a dtype, and no shape.
    shapes = [getattr(x, "shape", ()) for x in arrays]
    sizes = [math.prod(own) * x.dtype.itemsize for own, x in zip(shapes, arrays, strict=True)]
    return max(sizes) <= SMALL_ARRAY


def moved(equation: Any, inputs: list[Any]) -> np.ndarray:
    """The output of a step, of NumPy arrays [R, ...]; what is no array of names is a constant."""
    options, shape = equation.params, equation.outvars[0].aval.shape
    move = ROW_MOVES.get(equation.primitive.name)
    if move is None or _in_another_order(equation):
        return np.asarray(bound(equation, inputs)[0])
    return move(options, shape, inputs)
