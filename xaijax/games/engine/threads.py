"""Dispatches beside each other: XLA runs what one thread of the host dispatches to a CPU one after
another, on one core where the blocks are small; dispatches of two threads run at the same time.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax

from xaijax.core.jax_settings import usual

THREADS = 2

_threads: list[ThreadPoolExecutor] = []


def beside(program: Any, arguments: tuple[Any, ...]) -> Future[tuple[jax.Array, jax.Array]]:
    """Run the compiled program on one of the threads; its outputs, once they are there."""
    if not _threads:
        _threads.append(ThreadPoolExecutor(THREADS, "xaijax-dispatch"))
    return _threads[0].submit(_run, program, arguments)


def _run(program: Any, arguments: tuple[Any, ...]) -> tuple[jax.Array, jax.Array]:
    with usual():
        return jax.block_until_ready(program(*arguments))


if hasattr(os, "register_at_fork"):  # a child has the list, but not the threads
    os.register_at_fork(after_in_child=_threads.clear)
