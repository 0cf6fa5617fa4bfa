"""T38: the host's share of a run at a GPU's sizes, with a device whose programs take no time.

Measured once, at commit bd038fca96 on 2026-11-28, and not repeated by the case, per billion rows:
averaged tables 0.319 s, the kernel estimator 6.06 s, Anchors 58.2 s (tiles of 131,072 rows).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import jax
import numpy as np

import xaijax
from bench.definition import against_definition
from bench.frame import Agreement, Case, Figure, Outcome, Size
from bench.models import continuous
from xaijax.games.engine.dispatch import Compiled, ProgramRecipe
from xaijax_kernels.engine import tiles as turns
from xaijax_kernels.engine.steps import operations
from xaijax_kernels.sizes import tile_rows

First = dict[int, tuple[Any, Any]]  # id of a program: (it, its results)


@contextmanager
def free_device() -> Iterator[None]:
    """Every program runs once; after that it gives its first results again, at once: those of a
    model that answers every row alike. Its arguments are put where the program would read them,
    since that is the host's work too.
    """
    first: First = {}
    compiled = Compiled.program

    def program(self: Compiled, recipe: ProgramRecipe) -> Any:
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


def column(scale: Any, rows: Any) -> Any:
    """An almost free model: [R, P] -> [R]. With scale 0 it answers every row alike."""
    return scale * rows[:, 0]


@dataclass(frozen=True)
class HostShare:
    """Instances, background, and the rows of a tile."""

    X: np.ndarray  # [N, P]
    background: np.ndarray  # [B, P]
    tile: int
    rounds: int

    def measure(self) -> Outcome:
        """Exact values; a few instances' values are compared, on the device that is here."""
        plain = xaijax.as_model(column, np.float32(0), structure="plain")
        exact = xaijax.Explainer(plain, self.background, estimator="exact", tile=self.tile)
        seconds, found = host_seconds(lambda: exact(self.X, progress=False), self.rounds)
        rows = found.stats["model_rows"]
        figure = Figure("host seconds per billion rows", seconds / rows * 1e9, 0.5, 0.1, unit=" s")
        note = (
            f"tiles of {self.tile:,} rows, programs as for a GPU; each runs once, then gives its "
            "first results at once, and its arguments are still sent"
        )
        details = {"seconds": seconds, "model_rows": rows}
        return Outcome((figure,), (), (self._agreement(),), (note,), details)

    def _agreement(self) -> Agreement:
        model = xaijax.as_model(column, np.float32(1), structure="plain")
        found = xaijax.Explainer(model, self.background, estimator="exact")(self.X[:2])
        return against_definition(found, lambda rows: column(1, rows), self.X, self.background)


def setup(size: Size) -> HostShare:
    """Measures host seconds outside the device per billion hybrid rows, f = one column, plain path,
    1,000 instances, 100 background rows, 12 players, at a GPU's sizes.

    The sizes of T1 and T38; the tile is what a GPU would have for such a model.
    """
    N, B, P = (1_000, 100, 12) if size == "full" else (4, 5, 6)
    X, background = continuous(N, B, P)
    probe = jax.make_jaxpr(column)(np.float32(0), background[:32])
    tile = tile_rows(P, X.itemsize, "gpu", operations(probe.jaxpr, 32)) if size == "full" else 256
    return HostShare(X, background, tile, rounds=3 if size == "full" else 1)


CASES = (Case("T38", setup),)
