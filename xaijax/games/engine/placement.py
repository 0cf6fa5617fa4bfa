"""Placement of the arrays of a run: tiles dealt to devices, or a model that spans its own.

A model whose parameters are sharded keeps them as they are sharded. It answers one tile after
another, each by all of its devices together, as JAX partitions the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from xaijax.core.errors import InputError


@dataclass(frozen=True)
class Placement:
    """The devices of a run, and what is placed where."""

    mesh: Mesh  # of axis "tiles", over which tiles are dealt; one device where the model spans some
    same: NamedSharding  # of what all devices hold
    split: NamedSharding  # of what has the tile axis
    results: NamedSharding | None = None  # of what programs give; None: as the tiles are dealt

    def params(self, params: Any) -> Any:
        """A model's parameters: sharded ones as they are, the others on all devices."""
        return jax.tree.map(
            lambda leaf: leaf if _sharded(leaf) else jax.device_put(leaf, self.same), params
        )


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
