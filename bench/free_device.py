"""A device whose programs take no time: what is left of a run is the host's share of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.games.engine.compiled import Compiled, Recipe

Results = dict[int, tuple[Any, Any]]  # of each program, itself beside them: its id stays its own


@contextmanager
def free_device() -> Iterator[None]:
    """Every program runs once; after that it gives zeros at once, the answers of f(x) = 0, and what
    is no number of a model (bits, counts) as it was the first time. Its arguments are put where
    the program would read them, since that is the host's work too.
    """
    first: Results = {}
    compiled = Compiled.program

    def program(self: Compiled, recipe: Recipe) -> Any:
        call = compiled(self, recipe)

        def at_once(*arguments: Any) -> Any:
            of_host = [one for one in arguments if isinstance(one, np.ndarray | np.generic)]
            jax.block_until_ready(jax.device_put(of_host))
            if id(call) not in first:
                own = jax.tree.map(_nothing, call(*arguments))
                first[id(call)] = call, jax.block_until_ready(own)
            return first[id(call)][1]

        return call if recipe.donate else at_once

    with mock.patch.object(Compiled, "program", program):
        yield


def host_seconds(run: Callable[[], Any], rounds: int) -> float:
    """Processor seconds of the host, of all its threads, for a run on a device that takes none.

    The least of some rounds, after one in which every program has its own results.
    """
    found = []
    with free_device():
        for _ in range(rounds + 1):
            started = time.process_time()
            run()
            found.append(time.process_time() - started)
    return min(found[1:])


def _nothing(found: jax.Array) -> jax.Array:
    return jnp.zeros_like(found) if jnp.issubdtype(found.dtype, jnp.floating) else found
