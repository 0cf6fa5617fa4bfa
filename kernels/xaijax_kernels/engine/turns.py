"""How a loop inside a dispatch counts its turns: by a number that it is compiled with, or not.

A dispatch has tiles for T turns and may be asked for fewer. On a CPU the loop stops there, and what
fills the tiles up costs nothing. On CUDA and ROCm XLA copies the condition of a loop whose count it
does not know to the host in every turn, and the device waits: there the loop makes all T turns, and
what a turn beyond the last finds is left out.

The numbers are the same in both: a turn sees only its own tile.

Letters: T turns that there is room for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh

# Where the condition of a loop is looked at beside the numbers: on TPU the device itself does.
_STOPS_FOR_FREE = ("cpu", "tpu")


def counted(platform: str) -> bool:
    """Whether a loop's turns must be known when it is compiled for `platform`."""
    return platform not in _STOPS_FOR_FREE


def counted_on(mesh: Mesh | AbstractMesh) -> bool:
    """The same for the devices of a mesh; of a mesh of no devices in particular: yes, since a known
    count runs well on every platform.
    """
    return counted(platform_of(mesh))


def platform_of(mesh: Mesh | AbstractMesh) -> str:
    """The platform of a mesh's devices; "gpu" if it has no devices in particular."""
    return "gpu" if isinstance(mesh, AbstractMesh) else mesh.devices.flat[0].platform


def tile_by_tile(
    tile: Callable[[jax.Array], tuple[jax.Array, ...]],
    room: tuple[jax.Array, ...],  # each [T, ...], zeros
    turns: jax.Array,  # int32 [], at most T
    known: bool,
) -> tuple[jax.Array, ...]:
    """What tile(t) finds, t from 0 to turns - 1, each at place t of its room; zeros after.

    known: all T turns are made, see `counted`.
    """

    def turn(t: jax.Array, kept: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        found = tile(t)
        if known:
            found = tuple(jnp.where(t < turns, own, jnp.zeros_like(own)) for own in found)
        return tuple(placed(whole, own, t) for whole, own in zip(kept, found, strict=True))

    return _loop(turn, room, turns, len(room[0]) if known else None)


def placed(whole: jax.Array, own: jax.Array, t: jax.Array) -> jax.Array:
    """`whole` [T, ...] with `own` at place t. A scatter, which may have t outside, would take four
    kernels more.
    """
    return jax.lax.dynamic_update_index_in_dim(whole, own, t, 0)


def folded(
    add: Callable[[jax.Array, Any], Any],
    start: Any,
    turns: jax.Array,  # int32 [], at most `most`
    most: int,
    known: bool,
) -> Any:
    """add(t, ..) of `start` and t from 0 to turns - 1, one after another; known: as above."""

    def turn(t: jax.Array, kept: Any) -> Any:
        new = add(t, kept)
        if not known:
            return new
        return jax.tree.map(lambda after, before: jnp.where(t < turns, after, before), new, kept)

    return _loop(turn, start, turns, most if known else None)


def _loop(
    turn: Callable[[jax.Array, Any], Any], start: Any, turns: jax.Array, count: int | None
) -> Any:
    """`turn` for count turns, or where it is None for `turns`."""
    if count is not None:
        each = jnp.arange(count, dtype=jnp.int32)
        return jax.lax.scan(lambda kept, t: (turn(t, kept), None), start, each)[0]

    def body(carry: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        return carry[0] + 1, turn(*carry)

    first = (jnp.int32(0), start)
    return jax.lax.while_loop(lambda carry: carry[0] < turns, body, first)[1]
