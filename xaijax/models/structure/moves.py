"""Steps that only move numbers, taken on the names of places by NumPy.

XLA would compile a program for each shape of each of them, and they move a few hundred integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xaijax_kernels.engine.steps import bound

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


MOVES: dict[str, Move] = {
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


SMALL = 1 << 16  # bytes; larger arrays stay on their device


def _in_another_order(equation: Any) -> bool:
    """Whether a reshape reads the axes in an order of its own, as order="F" does."""
    return equation.primitive.name == "reshape" and bool(equation.params.get("dimensions"))


def is_small_move(equation: Any, inputs: list[Any]) -> bool:
    """Whether a step moves a few numbers that NumPy can hold."""
    if equation.primitive.name not in MOVES or _in_another_order(equation):
        return False
    arrays = [*inputs, equation.outvars[0].aval]
    if not all(isinstance(getattr(x, "dtype", None), np.dtype) for x in arrays):
        return False
    # A number that stands in the trace has a dtype, and no shape.
    shapes = [getattr(x, "shape", ()) for x in arrays]
    sizes = [math.prod(own) * x.dtype.itemsize for own, x in zip(shapes, arrays, strict=True)]
    return max(sizes) <= SMALL


def moved(equation: Any, inputs: list[Any]) -> np.ndarray:
    """The output of a step, of NumPy arrays [R, ...]; what is no array of names is a constant."""
    options, shape = equation.params, equation.outvars[0].aval.shape
    move = MOVES.get(equation.primitive.name)
    if move is None or _in_another_order(equation):
        return np.asarray(bound(equation, inputs)[0])
    return move(options, shape, inputs)
