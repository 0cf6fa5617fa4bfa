"""Runs a traced function on any number of rows with few compiled shapes."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from xaijax.core.compiler import compile_sound
from xaijax.core.errors import ModelOutputError
from xaijax.core.process import before_jax
from xaijax.models.base.trace import TracedFunction

_SMALLEST = 16  # rows
_LARGEST = 8_192  # rows
_ELEMENTS = 1 << 24  # numbers per call: large instances take fewer rows


def run_jax(
    compiled: dict[Any, Any], key: str, function: TracedFunction, params: Any, rows: Any
) -> np.ndarray:
    """Evaluates function(params, rows) for rows [R, *F] (or a memory map), as NumPy [R] or [R, K].

    Rows are padded to a power of two by repeating the last row, so at most ten shapes compile.
    `compiled` caches the programs for all params of the same shapes.
    """
    before_jax()
    programs = compiled.setdefault(("predict", key), {})
    leaves, tree = jax.tree.flatten(params)
    signature = tree, *((jax.typeof(leaf), getattr(leaf, "sharding", None)) for leaf in leaves)
    per_row = max(1, int(np.prod(rows.shape[1:])))
    limit = _LARGEST
    while limit > _SMALLEST and limit * per_row > _ELEMENTS:
        limit //= 2
    answers = []
    for start in range(0, len(rows), limit):
        part = rows[start : start + limit]
        size = max(_SMALLEST, 1 << (len(part) - 1).bit_length())
        padding = np.broadcast_to(part[-1:], (size - len(part), *part.shape[1:]))
        filled = np.concatenate([part, padding])
        name = (filled.shape, filled.dtype.name, signature)
        if name not in programs:
            programs[name] = compile_sound(jax.jit(function).lower(params, filled))
            if key == "apply":
                _hold(compiled, programs[name], params, filled)
        answer = programs[name](params, filled)
        answers.append(np.asarray(answer)[: len(part)])
    return np.concatenate(answers)


def _hold(compiled: dict[Any, Any], program: Any, params: Any, rows: np.ndarray) -> None:
    """Raises ModelOutputError if a new program and the probe's program give different outputs
    for the same rows, for a model that was probed with such rows.
    """
    few = compiled.get(("probe", rows.shape[1:], rows.dtype.name))
    look = None if few is None else few["probe"][3]
    if few is None or look is None or look.asked is None:
        return
    small, count = few["probe"][0], few["probe"][4]
    place = np.linspace(0, len(rows) - 1, count).astype(np.int64)
    wanted = np.asarray(small(params, rows[place]))
    answered = np.asarray(program(params, rows))[place]
    gap = look.gap(wanted.reshape(count, -1), answered.reshape(count, -1))
    if gap is not None:
        raise ModelOutputError(
            f"{look.name} gives other answers to the same rows in a call with {len(rows)} rows "
            f"than in one with {count}: by up to {gap[0]:.3g}. Either a row's answer depends on "
            "other rows of its batch, or XLA made a wrong program: use another jaxlib, or say "
            "backend='host'."
        )
