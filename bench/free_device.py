"""A device whose programs take no time: what is left of a run is the host's share of it.

The programs, and what the host sends to them, are those of a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import jax
import numpy as np

from xaijax.games.engine.compiled import Compiled, Recipe
from xaijax_kernels.engine import turns

Results = dict[int, tuple[Any, Any]]  # of each program, itself beside them: its id stays its own


@contextmanager
def free_device() -> Iterator[None]:
    """Every program runs once; after that it gives its first results again, at once: those of a
    model that answers every row alike. Its arguments are put where the program would read them,
    since that is the host's work too.
    """
    first: Results = {}
    compiled = Compiled.program

    def program(self: Compiled, recipe: Recipe) -> Any:
        call = compiled(self, recipe)

        def at_once(*arguments: Any) -> Any:
            of_host = [one for one in arguments if isinstance(one, np.ndarray | np.generic)]
            jax.block_until_ready(jax.device_put(of_host))
            if id(call) not in first:
                first[id(call)] = call, jax.block_until_ready(call(*arguments))
            return first[id(call)][1]

        return at_once

    as_on_gpu = mock.patch.object(turns, "counted", lambda platform: True)
    with as_on_gpu, mock.patch.object(Compiled, "program", program):
        yield


def host_seconds(run: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """Processor seconds of the host, of all its threads, for a run on a device that takes none;
    and what the run found.

    The least of some rounds, after one in which every program has its own results.
    """
    result: Any = None
    found = []
    with free_device():
        for _ in range(rounds + 1):
            started = time.process_time()
            result = run()
            found.append(time.process_time() - started)
    return min(found[1:]), result
