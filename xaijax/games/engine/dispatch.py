"""Compiles the programs of a model, and runs them on devices in a loop of dispatches.

Programs are compiled once for all explainers of a model, and each is checked against the memory of
a run. Tiles are distributed over the devices, and a few dispatches run ahead of the one being read.
Devices get equal shares, in one run and over many small ones (`dealt`).

All programs that hold a JAX model take, after their constant arguments, the number of tiles of each
device [devices] and the tiles themselves [T, ...], and return arrays [T, ...].

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

from xaijax.core.compiler import compile_sound, compiling
from xaijax.core.errors import InputError, MemoryPlanError
from xaijax.core.public import usual
from xaijax_kernels.engine.steps import largest_product
from xaijax_kernels.engine.tiles import Traced
from xaijax_kernels.structures.base import Structure, shapes_of

if TYPE_CHECKING:
    from xaijax.games.engine.plan import MemoryPlan


RAISE = "Raise max_memory=."


@dataclass(frozen=True)
class Program:
    """A compiled program."""

    call: Callable[..., Any]
    bytes: int  # bytes needed in addition to its arguments; querying the compiler takes time


@dataclass(frozen=True)
class ProgramRecipe:
    """The parts that a program will be compiled from."""

    key: tuple[Any, ...]  # distinguishes it from the model's other programs with such arguments
    function: Callable[..., Any]
    arguments: tuple[Any, ...]  # arrays, or their shapes
    what: str  # the program, for messages
    remedy: str = RAISE
    ahead: int = 0  # results that wait while one is computed
    donate: tuple[int, ...] = ()
    results: Any = None  # the sharding of its results; None: chosen by the compiler

    @cached_property
    def name(self) -> tuple[Any, ...]:
        """The key under which the program is cached: its own, and the shape, dtype and sharding of
        each argument."""
        return (*self.key, _shapes(self.arguments), self.donate)


@dataclass(frozen=True)
class Compiled:
    """The programs of one model, for one explainer."""

    cache: dict[Any, Any]  # the model's cache, shared by all its explainers
    clock: Clock
    memory: MemoryPlan

    def program(self, recipe: ProgramRecipe) -> Any:
        """The program, compiled the first time. Raises MemoryPlanError if it does not fit,
        before compilation if its trace already shows it.
        """
        if recipe.name not in self.cache:
            started = time.perf_counter()
            jitted = jax.jit(
                recipe.function, donate_argnums=recipe.donate, out_shardings=recipe.results
            )
            with compiling():
                traced = jitted.trace(*recipe.arguments)
                self._refuse(recipe, least_bytes(traced, recipe.arguments), "at least ")
                compiled = compile_sound(traced.lower())
            self.cache[recipe.name] = Program(compiled, program_bytes(compiled))
            self.clock.compile_seconds += time.perf_counter() - started
        program = self.cache[recipe.name]
        self._refuse(recipe, program.bytes)
        return program.call

    def with_ahead(self, recipe: ProgramRecipe) -> tuple[Any, int]:
        """(the program, number of results that wait while one is computed): as in the recipe, or
        fewer if the memory is too small.
        """
        program = self.program(recipe)
        each = max(1, self.cache[recipe.name].bytes)
        return program, min(recipe.ahead, self.memory.whole // each - 1)

    def _refuse(self, recipe: ProgramRecipe, needed: int, least: str = "") -> None:
        if needed > self.memory.whole:
            raise MemoryPlanError(
                f"max_memory={self.memory.whole:,} bytes, but {recipe.what} needs {least}"
                f"{needed:,}. {recipe.remedy} The shares are {self.memory.described}."
            )

    def run(self, recipe: ProgramRecipe) -> Any:
        """Runs the program on the recipe's own arguments."""
        return self.program(recipe)(*recipe.arguments)

    def lacks(self, recipe: ProgramRecipe) -> bool:
        """Whether the program is still to be compiled."""
        return recipe.name not in self.cache

    def lacking(self, recipes: Iterable[ProgramRecipe], runs: Mapping[Any, int]) -> int:
        """Programs of a planned run that are still to be compiled; runs: number of runs by name."""
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
        """A model, or its head, traced for such rows; all programs share the trace; it returns [R,
        K].

        look(trace, rows): inspects the trace before any program uses it. mesh: for a program with
        derivatives, see `tiles.traced`.
        """
        place = () if mesh is None or mesh.size == 1 else (mesh.abstract_mesh,)
        name = ("trace", *key, rows.shape, rows.dtype.name, *place)
        if name not in self.cache:
            self.cache[name] = Traced(apply, params, rows, look, mesh)
        return self.cache[name]

    def head(self, structure: Structure, params: Any, rows: int, dtype: Any) -> Traced:
        """The head after the structure of a model, for `rows` rows at a time."""
        hidden = jax.ShapeDtypeStruct((rows, shapes_of(structure, params).width), dtype)
        return self.trace(("head", structure), structure.head, params, hidden)


def columns(apply: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A model, or its head, with outputs [R] reshaped to [R, 1]."""

    def whole(params: Any, rows: Any) -> Any:
        out = apply(params, rows)
        return out[:, None] if out.ndim == 1 else out

    return whole


def shape(sharding: Any, *dims: int, dtype: Any = jnp.int32) -> jax.ShapeDtypeStruct:
    """The shape of a future argument."""
    return jax.ShapeDtypeStruct(dims, dtype, sharding=sharding)


def _shapes(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shape, dtype and sharding of each array, for which a program is compiled."""
    leaves, tree = jax.tree.flatten(arguments)
    shapes = [(jnp.shape(a), _dtype(a), getattr(a, "sharding", None)) for a in leaves]
    return tree, tuple(shapes)


def _dtype(a: Any) -> Any:
    """The dtype of an argument in a program. `result_type` and a dtype's name take several times
    as long as an array's own dtype, and some programs have a hundred arguments.
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


def least_bytes(traced: Any, arguments: Any) -> int:
    """A lower bound of the bytes that a traced program needs on each of its devices: its
    results, or its largest product.
    """
    places = [getattr(leaf, "sharding", None) for leaf in jax.tree.leaves(arguments)]
    devices = max((len(place.device_set) for place in places if place is not None), default=1)
    results = (result.size * result.dtype.itemsize for result in jax.tree.leaves(traced.out_info))
    return max(sum(results), largest_product(traced.jaxpr.jaxpr)) // devices


@dataclass
class Clock:
    """Running totals; a game takes the difference over its own run."""

    compile_seconds: float = 0.0
    model_calls: int = 0
    padded_rows: int = 0
    spared_rows: int = 0  # saved by equal rows
    tiles: int = 0  # tiles distributed over the devices
    tile: int = 0  # rows of a tile, or of a host call
    tile_halvings: int = 0  # times the device ran out of memory


LOOK_AHEAD = 2  # dispatches under way before the first is fetched


@dataclass
class UnderWay:
    """A dispatch whose results are pending."""

    asked: Any  # the caller's name of it
    place: np.ndarray  # positions of its tiles among T
    results: Future[tuple[Any, ...]]

    def read(self) -> tuple[np.ndarray, ...]:
        """Waits for and returns the results of its tiles, in order. The arrays are read-only."""
        place, n = self.place, len(self.place)
        # Positions ascend: the first n tiles of a single device are not copied.
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
        """Runs the dispatches of `work`, in order: (name, tiles [n, ...] with n <= T as an array or
        a tuple of arrays, further arguments).

        The program takes (*before, counts, tiles, *after, *further arguments). threads: number of
        dispatches into which one model call is split for parallel threads.
        """
        waiting: deque[UnderWay] = deque()
        try:
            for n, (label, tiles, *extra) in enumerate(work):
                count = len(jax.tree.leaves(tiles)[0])
                place, counts = dealt(count, self.tiles, self.mesh.size, self.clock.tiles)
                self.clock.tiles += count
                if count < self.tiles:
                    tiles = jax.tree.map(partial(_spread, place, self.tiles), tiles)
                self.clock.model_calls += n % threads == 0
                results = submit(program, (*before, counts, tiles, *after, *extra))
                waiting.append(UnderWay(label, place, results))
                if len(waiting) > self.ahead:
                    yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        finally:
            for dispatch in waiting:  # after an error or Ctrl-C no other is started
                dispatch.results.cancel()


def _spread(place: np.ndarray, T: int, tiles: np.ndarray) -> np.ndarray:
    """Tiles [n, ...] at their positions among T, with zeros elsewhere."""
    out = np.zeros((T, *tiles.shape[1:]), tiles.dtype)
    out[place] = tiles
    return out


def dealt(tiles: int, T: int, devices: int, before: int) -> tuple[np.ndarray, np.ndarray]:
    """(the position among T of each tile, int32 [devices] number of tiles of each device).

    before: tiles distributed earlier. All devices get the same number, and the next devices in turn
    one more each: over one run, and over many small ones, two devices never differ by more than one
    tile.
    """
    counts = np.full(devices, tiles // devices, np.int32)
    counts[(before + np.arange(tiles % devices)) % devices] += 1
    tile, device = np.arange(tiles), np.repeat(np.arange(devices), counts)
    first = np.cumsum(counts) - counts
    return device * (T // devices) + tile - first[device], counts


THREADS = 2

_threads: list[ThreadPoolExecutor] = []


def submit(program: Any, arguments: tuple[Any, ...]) -> Future[tuple[jax.Array, jax.Array]]:
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


# A model with sharded parameters keeps their sharding. All of its devices together evaluate one
# tile after another, as JAX partitions the model.


@dataclass(frozen=True)
class Placement:
    """The devices of a run, and the placement of its arrays."""

    # with axis "tiles", over which tiles are split; one device if the model spans several
    mesh: Mesh
    same: NamedSharding  # of replicated arrays
    split: NamedSharding  # of arrays with the tile axis
    results: NamedSharding | None = None  # of program results; None: like the tiles

    def params(self, params: Any) -> Any:
        """Places a model's parameters: sharded ones stay, others are replicated."""
        return jax.tree.map(lambda leaf: leaf if _sharded(leaf) else put(leaf, self.same), params)


def placed(devices: Sequence[Any], params: Any) -> Placement:
    """The placement for tiles split over these devices, or for a model with sharded parameters."""
    spanned = mesh_of(params)
    if spanned is not None:
        single = Mesh(spanned.devices.reshape(-1)[:1], ("tiles",))
        same = NamedSharding(spanned, Spec())
        return Placement(single, same, same, same)
    mesh = Mesh(np.array(devices), ("tiles",))
    return Placement(mesh, NamedSharding(mesh, Spec()), NamedSharding(mesh, Spec("tiles")))


def put(array: Any, sharding: NamedSharding) -> Any:
    """The array on the devices of the sharding; only its shape if they are described devices."""
    if not any(map(only_described, sharding.device_set)):
        return jax.device_put(array, sharding)
    dtype = jax.dtypes.canonicalize_dtype(jax.numpy.result_type(array))
    return jax.ShapeDtypeStruct(np.shape(array), dtype, sharding=sharding)


def parameters_held(params: Any, mesh: Mesh) -> dict[str, int]:
    """The bytes of a model's parameters on each device; none on a CPU, where they are held by the
    caller already.
    """
    device = mesh.devices.flat[0]
    if device.platform == "cpu" and not only_described(device):
        return {}
    sizes = [_on_each_device(leaf) for leaf in jax.tree.leaves(params)]
    return {"parameters": sum(sizes)}


def _on_each_device(leaf: Any) -> int:
    """The bytes of an array on each of its devices: of its share, if it is divided."""
    sharding = getattr(leaf, "sharding", None)
    dims = np.shape(leaf) if sharding is None else sharding.shard_shape(leaf.shape)
    return int(np.prod(dims)) * _dtype(leaf).itemsize


def only_described(device: Any) -> bool:
    """Whether the device belongs to a topology: programs can be compiled for it, but not run."""
    return device.client.runtime_type == "compile_only_runtime"


def refuse_described(device: Any) -> None:
    """Raises InputError for a device of a topology, which cannot run programs."""
    if only_described(device):
        raise InputError(
            f"devices= are {device.device_kind} of a topology: programs can be planned and "
            "compiled for them, and not run. Call plan(X), or say devices=jax.devices()."
        )


def mesh_of(params: Any) -> Mesh | None:
    """The mesh over which parameters are sharded; None: each device can hold them all.

    Raises InputError for parameters on several meshes, or sharded without a mesh.
    """
    shardings = [leaf.sharding for leaf in jax.tree.leaves(params) if _sharded(leaf)]
    if not shardings:
        return None
    meshes = {place.mesh if isinstance(place, NamedSharding) else None for place in shardings}
    mesh = meshes.pop()
    if meshes or not isinstance(mesh, Mesh):
        said = sorted({str(place) for place in shardings})
        raise InputError(
            f"params are sharded by {'; '.join(said)}. Put them on one mesh, each by a "
            "jax.sharding.NamedSharding."
        )
    return mesh


def _sharded(leaf: Any) -> bool:
    """Whether no single device holds the full array."""
    return isinstance(leaf, jax.Array) and not leaf.sharding.is_fully_replicated
