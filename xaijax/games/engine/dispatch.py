"""The compiled programs of a model, and the dispatch loop that runs them on devices.

Programs are compiled once for all explainers of a model, and each is checked against the memory of
a run. Tiles are dealt to the devices, and some dispatches run ahead of the one read. Devices get
equal shares, over a run and over many small ones (`dealt`).

All programs that hold a JAX model take, after what stays the same, the number of tiles of each
device [devices] and the tiles themselves [T, ...], and give arrays [T, ...].

Letters: R rows, T tiles in a dispatch, of all devices together.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from xaijax.core.compiler import compile_sound
from xaijax.core.errors import InputError, MemoryPlanError
from xaijax.core.public import usual
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


LOOK_AHEAD = 2  # dispatches under way before the first is fetched


@dataclass
class UnderWay:
    """A dispatch whose results come later."""

    asked: Any  # what the caller knows it by
    place: np.ndarray  # where its tiles are in T
    results: Future[tuple[Any, ...]]

    def read(self) -> tuple[np.ndarray, ...]:
        """What came of its tiles, in their order; waits for it. The arrays must not be written
        to.
        """
        place, n = self.place, len(self.place)
        # Places go up: the first n tiles, as one device has them, are not copied.
        where = slice(n) if n and place[-1] == n - 1 else place
        return tuple(np.asarray(result)[where] for result in self.results.result())


@dataclass(frozen=True)
class Dispatches:
    """Runs one program over the devices of `mesh`."""

    mesh: Mesh
    clock: Clock
    tiles: int  # T
    ahead: int = LOOK_AHEAD

    def run(
        self,
        program: Any,
        before: tuple[Any, ...],
        work: Iterable[tuple[Any, ...]],
        after: tuple[Any, ...] = (),
        threads: int = 1,
    ) -> Iterator[UnderWay]:
        """The dispatches of work, in order: what one is known by, its tiles [n, ...] with n <= T
        (an array, or several in a tuple), and what else is its own.

        The program takes (*before, counts, tiles, *after, *what is the dispatch's own).
        threads: dispatches that are one call of the model, cut for the threads that run them.
        """
        waiting: deque[UnderWay] = deque()
        for n, (asked, tiles, *own) in enumerate(work):
            count = len(jax.tree.leaves(tiles)[0])
            place, counts = dealt(count, self.tiles, self.mesh.size, self.clock.tiles)
            self.clock.tiles += count
            if count < self.tiles:
                tiles = jax.tree.map(partial(_spread, place, self.tiles), tiles)
            self.clock.model_calls += n % threads == 0
            results = beside(program, (*before, counts, tiles, *after, *own))
            waiting.append(UnderWay(asked, place, results))
            if len(waiting) > self.ahead:
                yield waiting.popleft()
        yield from waiting


def _spread(place: np.ndarray, T: int, tiles: np.ndarray) -> np.ndarray:
    """Tiles [n, ...] at their places among T, and zeros."""
    out = np.zeros((T, *tiles.shape[1:]), tiles.dtype)
    out[place] = tiles
    return out


def dealt(tiles: int, T: int, devices: int, before: int) -> tuple[np.ndarray, np.ndarray]:
    """(the place in T of each of some tiles, int32 [devices] how many each device runs).

    before: tiles dealt before. All devices get the same number, and those whose turn it is one more
    each: over a run, and over many small ones, no two differ by more than one tile.
    """
    counts = np.full(devices, tiles // devices, np.int32)
    counts[(before + np.arange(tiles % devices)) % devices] += 1
    tile, device = np.arange(tiles), np.repeat(np.arange(devices), counts)
    first = np.cumsum(counts) - counts
    return device * (T // devices) + tile - first[device], counts


THREADS = 2

_threads: list[ThreadPoolExecutor] = []


def beside(program: Any, arguments: tuple[Any, ...]) -> Future[tuple[jax.Array, jax.Array]]:
    """Runs the compiled program on one of the threads; returns the future of its outputs."""
    if not _threads:
        _threads.append(ThreadPoolExecutor(THREADS, "xaijax-dispatch"))
    wide = jax.config.jax_enable_x64  # a context of the calling thread may have set it
    return _threads[0].submit(_run, program, arguments, wide)


def _run(program: Any, arguments: tuple[Any, ...], wide: bool) -> tuple[jax.Array, jax.Array]:
    with usual(), jax.enable_x64(wide):
        return jax.block_until_ready(program(*arguments))


if hasattr(os, "register_at_fork"):  # a child has the list, but not the threads
    os.register_at_fork(after_in_child=_threads.clear)


# A model whose parameters are sharded keeps them as they are sharded. It answers one tile after
# another, each by all of its devices together, as JAX partitions the model.


@dataclass(frozen=True)
class Placement:
    """The devices of a run, and what is placed where."""

    mesh: Mesh  # of axis "tiles", over which tiles are dealt; one device where the model spans some
    same: NamedSharding  # of what all devices hold
    split: NamedSharding  # of what has the tile axis
    results: NamedSharding | None = None  # of what programs give; None: as the tiles are dealt

    def params(self, params: Any) -> Any:
        """A model's parameters: sharded ones as they are, the others on all devices."""
        return jax.tree.map(lambda leaf: leaf if _sharded(leaf) else put(leaf, self.same), params)


def placed(devices: Sequence[Any], params: Any) -> Placement:
    """Placement of tiles that are dealt to these devices, or of a model whose parameters are
    sharded.
    """
    own = mesh_of(params)
    if own is not None:
        one = Mesh(own.devices.reshape(-1)[:1], ("tiles",))
        same = NamedSharding(own, Spec())
        return Placement(one, same, same, same)
    mesh = Mesh(np.array(devices), ("tiles",))
    return Placement(mesh, NamedSharding(mesh, Spec()), NamedSharding(mesh, Spec("tiles")))


def put(array: Any, sharding: NamedSharding) -> Any:
    """The array on the devices of the sharding; its shape there if they are only described."""
    if not any(map(only_described, sharding.device_set)):
        return jax.device_put(array, sharding)
    dtype = jax.dtypes.canonicalize_dtype(jax.numpy.result_type(array))
    return jax.ShapeDtypeStruct(np.shape(array), dtype, sharding=sharding)


def only_described(device: Any) -> bool:
    """Whether the device is one of a topology: a program can be compiled for it, and not run."""
    return device.client.runtime_type == "compile_only_runtime"


def mesh_of(params: Any) -> Mesh | None:
    """The mesh over which parameters are sharded; None: each device can hold them all.

    Raises InputError for parameters of several meshes, or sharded by no mesh.
    """
    shardings = [leaf.sharding for leaf in jax.tree.leaves(params) if _sharded(leaf)]
    if not shardings:
        return None
    meshes = {one.mesh if isinstance(one, NamedSharding) else None for one in shardings}
    mesh = meshes.pop()
    if meshes or not isinstance(mesh, Mesh):
        said = sorted({str(one) for one in shardings})
        raise InputError(
            f"params are sharded by {'; '.join(said)}. Put them on one mesh, each by a "
            "jax.sharding.NamedSharding."
        )
    return mesh


def _sharded(leaf: Any) -> bool:
    """Whether no device holds all of an array."""
    return isinstance(leaf, jax.Array) and not leaf.sharding.is_fully_replicated
