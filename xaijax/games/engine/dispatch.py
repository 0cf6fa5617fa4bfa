"""The dispatch loop: tiles are dealt to the devices, and some dispatches run ahead of the one read.

Devices get equal shares, over a run and over many small ones (`dealt`).

All programs that hold a JAX model take, after what stays the same, the number of tiles of each
device [devices] and the tiles themselves [T, ...], and give arrays [T, ...].

Letters: T tiles in a dispatch, of all devices together.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from xaijax.core.errors import InputError
from xaijax.core.public import usual
from xaijax.games.engine.compiled import Clock

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
