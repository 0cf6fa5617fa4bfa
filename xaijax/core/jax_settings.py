"""JAX as this library's programs need it, whatever a person's session is set to for debugging.

`jax_numpy_rank_promotion="raise"` and `jax_numpy_dtype_promotion="strict"` refuse sums that kernels
are made of, `jax.disable_jit()` the programs that are compiled ahead, `jax_no_tracing` the first
trace of each, `jax.transfer_guard("disallow")` the rows that are sent to it, and a mesh of
`jax.set_mesh` the mesh of their own devices. None of them changes an answer.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

_AS_IT_IS: AbstractContextManager[Any] = nullcontext()


def usual() -> AbstractContextManager[Any]:
    """A context, of the calling thread, in which these have the values that JAX starts with."""
    jax: Any = sys.modules.get("jax")  # what is not loaded yet is not asked for
    if jax is None:
        return _AS_IT_IS
    now = jax.config
    promotes = now.jax_numpy_rank_promotion == "allow"
    promotes = promotes and now.jax_numpy_dtype_promotion == "standard"
    guarded = [now.jax_transfer_guard_host_to_device, now.jax_transfer_guard_device_to_host]
    guarded.append(now.jax_transfer_guard_device_to_device)
    free = all(guard in (None, "allow") for guard in guarded)
    nowhere = jax.sharding.AbstractMesh((), ())
    mesh = jax.sharding.get_abstract_mesh()
    kept = mesh == nowhere or bool(mesh.manual_axes)  # a shard_map types its arrays by its mesh
    if promotes and free and kept and not now.jax_disable_jit and not now.jax_no_tracing:
        return _AS_IT_IS
    usual_ones = ExitStack()
    usual_ones.enter_context(jax.numpy_rank_promotion("allow"))
    usual_ones.enter_context(jax.numpy_dtype_promotion("standard"))
    usual_ones.enter_context(jax.transfer_guard("allow"))
    usual_ones.enter_context(jax.disable_jit(False))
    usual_ones.enter_context(jax.no_tracing(False))
    usual_ones.enter_context(jax.sharding.use_abstract_mesh(mesh if kept else nowhere))
    return usual_ones
