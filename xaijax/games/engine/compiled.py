"""The compiled programs of a model: compiled once for all its explainers, each checked against the
memory of a run.

Letters: R rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xaijax.core.compiler import compile_sound
from xaijax.core.errors import MemoryPlanError
from xaijax_kernels.engine.tiles import Traced
from xaijax_kernels.structures.base import Structure, shapes_of

if TYPE_CHECKING:
    from xaijax.games.engine.plan import MemoryPlan

RAISE = "Raise max_memory=."


@dataclass(frozen=True)
class Program:
    """A compiled program."""

    call: Callable[..., Any]
    bytes: int  # that it needs besides its arguments; asking the compiler for them takes time


@dataclass(frozen=True)
class ProgramRecipe:
    """What a program is compiled of, before it is."""

    key: tuple[Any, ...]  # what distinguishes it from the model's other programs of such arguments
    function: Callable[..., Any]
    arguments: tuple[Any, ...]  # arrays, or their shapes
    what: str  # the program, for messages
    remedy: str = RAISE
    ahead: int = 0  # results that wait while one is at work
    donate: tuple[int, ...] = ()
    results: Any = None  # the sharding of what it gives; None: as the compiler likes

    @cached_property
    def name(self) -> tuple[Any, ...]:
        """What the program is kept by: the key, and the shape, dtype and place of each argument."""
        return (*self.key, _shapes(self.arguments), self.donate)


@dataclass(frozen=True)
class Compiled:
    """The programs of one model, as one explainer runs them."""

    kept: dict[Any, Any]  # the model's own, which all its explainers share
    clock: Clock
    memory: MemoryPlan

    def program(self, recipe: ProgramRecipe) -> Any:
        """The program, compiled the first time; raises MemoryPlanError if it does not fit."""
        if recipe.name not in self.kept:
            started = time.perf_counter()
            jitted = jax.jit(
                recipe.function, donate_argnums=recipe.donate, out_shardings=recipe.results
            )
            compiled = compile_sound(jitted.lower(*recipe.arguments))
            self.kept[recipe.name] = Program(compiled, program_bytes(compiled))
            self.clock.compile_seconds += time.perf_counter() - started
        program = self.kept[recipe.name]
        needed = program.bytes * (recipe.ahead + 1)
        if needed > self.memory.whole:
            raise MemoryPlanError(
                f"max_memory={self.memory.whole:,} bytes, but {recipe.what} needs {needed:,}. "
                f"{recipe.remedy}"
            )
        return program.call

    def run(self, recipe: ProgramRecipe) -> Any:
        """What the program makes of the recipe's own arguments."""
        return self.program(recipe)(*recipe.arguments)

    def lacks(self, recipe: ProgramRecipe) -> bool:
        """Whether the program is still to be compiled."""
        return recipe.name not in self.kept

    def lacking(self, recipes: Iterable[ProgramRecipe], runs: Mapping[Any, int]) -> int:
        """Programs of a planned run that are still to be compiled; runs: of each, by its name."""
        return sum(map(self.lacks, recipes))

    def trace(
        self,
        key: tuple[Any, ...],
        apply: Callable[[Any, Any], Any],
        params: Any,
        rows: jax.ShapeDtypeStruct,
        look: Callable[[Any, int], None] | None = None,
        mesh: Mesh | None = None,
    ) -> Traced:
        """A model, or its head, traced for such rows: one trace for all programs; [R, K] comes out.

        look(trace, rows): sees the trace before any program is made of it. mesh: of a program that
        takes derivatives, see `tiles.traced`.
        """
        place = () if mesh is None or mesh.size == 1 else (mesh.abstract_mesh,)
        own = ("trace", *key, rows.shape, rows.dtype.name, *place)
        if own not in self.kept:
            self.kept[own] = Traced(apply, params, rows, look, mesh)
        return self.kept[own]

    def head(self, structure: Structure, params: Any, rows: int, dtype: Any) -> Traced:
        """What follows the structure of a model, for `rows` rows at a time."""
        hidden = jax.ShapeDtypeStruct((rows, shapes_of(structure, params).width), dtype)
        return self.trace(("head", structure), structure.head, params, hidden)


def columns(apply: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A model, or its head, with [R] made [R, 1]."""

    def whole(params: Any, rows: Any) -> Any:
        out = apply(params, rows)
        return out[:, None] if out.ndim == 1 else out

    return whole


def shape(sharding: Any, *dims: int, dtype: Any = jnp.int32) -> jax.ShapeDtypeStruct:
    """An argument that is not there yet."""
    return jax.ShapeDtypeStruct(dims, dtype, sharding=sharding)


def _shapes(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a program is compiled for: the shape, dtype and place of each array."""
    leaves, tree = jax.tree.flatten(arguments)
    own = [(jnp.shape(a), _dtype(a), getattr(a, "sharding", None)) for a in leaves]
    return tree, tuple(own)


def _dtype(a: Any) -> Any:
    """The dtype that a program has an argument in. `result_type` and a dtype's name take several
    times as long as an array's own dtype, and some programs have a hundred arguments.
    """
    if isinstance(a, jax.Array | jax.ShapeDtypeStruct):
        return a.dtype
    if isinstance(a, np.ndarray):
        return jax.dtypes.canonicalize_dtype(a.dtype)
    return jnp.result_type(a)


def program_bytes(compiled: Any) -> int:
    """Bytes that a compiled program needs in addition to its arguments: temporaries and results."""
    analysis = compiled.memory_analysis()
    if analysis is None:
        return 0
    return int(analysis.temp_size_in_bytes + analysis.output_size_in_bytes)


@dataclass
class Clock:
    """Running totals; a game takes the difference over its own run."""

    compile_seconds: float = 0.0
    model_calls: int = 0
    padded_rows: int = 0
    spared_rows: int = 0  # that equal rows asked before
    tiles: int = 0  # dealt to the devices
    tile: int = 0  # rows of a tile, or of a host call
    tile_halvings: int = 0  # times the device ran out of memory
