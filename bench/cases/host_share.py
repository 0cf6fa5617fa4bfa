"""T38: the host's share of a run at a GPU's sizes, with a device that takes no time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xaijax
from bench.definition import against_definition
from bench.frame import Agreement, Case, Figure, Outcome, Size
from bench.free_device import host_seconds
from bench.models import continuous
from xaijax_kernels.engine.operations import operations
from xaijax_kernels.engine.tiles import tile_rows

BILLION = 1e9
PULLS = 4  # tiles of pulls are a quarter of the others
EXACT, AVERAGED, KERNEL, ANCHORS = "exact", "averaged tables", "kernel estimator", "Anchors"


def column(scale: Any, rows: Any) -> Any:
    """An almost free model: [R, P] -> [R]. With scale 0 it answers every row alike."""
    return scale * rows[:, 0]


def layer(scale: Any, rows: Any) -> Any:
    """The same of a model whose structure is found."""
    return scale * jnp.tanh(jnp.sum(rows, axis=1))


@dataclass(frozen=True)
class HostShare:
    """Instances, background, and the rows of a tile."""

    X: np.ndarray  # [N, P]
    background: np.ndarray  # [B, P]
    tile: int
    rounds: int

    def measure(self) -> Outcome:
        """Each way in turn; a few instances' values are compared, on the device that is here."""
        seconds, figures, details = {}, [], {}
        for name, run in self._ways().items():
            seconds[name], found = host_seconds(run, self.rounds)
            rows = found.stats["model_rows"]
            share = seconds[name] / rows * BILLION
            target, stretch = (0.5, 0.1) if name == EXACT else (None, None)
            label = f"{name}: host seconds per billion rows"
            figures.append(Figure(label, share, target, stretch, unit=" s"))
            details[name] = {"seconds": seconds[name], "model_rows": rows}
        note = (
            f"tiles of {self.tile:,} rows (of Anchors {self._pulls:,}), programs as for a GPU; "
            "each runs once, then gives its first results at once, and its arguments are still sent"
        )
        return Outcome(tuple(figures), (), (self._agreement(),), (note,), details)

    @property
    def _pulls(self) -> int:
        return max(256, self.tile // PULLS)

    def _ways(self) -> dict[str, Callable[[], Any]]:
        plain = xaijax.as_model(column, np.float32(0), structure="plain")
        layered = xaijax.as_model(layer, np.float32(0))
        positive = xaijax.as_model(column, np.float32(1), structure="plain", threshold=0.0)
        given: dict[str, Any] = {"tile": self.tile}
        exact = xaijax.Explainer(plain, self.background, estimator="exact", **given)
        averaged = xaijax.Explainer(layered, self.background, estimator="exact", **given)
        given["budget"] = (1 << self.X.shape[1]) // 2  # of the coalitions that there are
        kernel = xaijax.Explainer(plain, self.background, estimator="kernel", **given)
        anchors = xaijax.AnchorExplainer(positive, self.background, tile=self._pulls)
        X = self.X
        return {
            EXACT: lambda: exact(X, progress=False),
            AVERAGED: lambda: averaged(X, progress=False),
            KERNEL: lambda: kernel(X, progress=False),
            ANCHORS: lambda: anchors.explain(X, progress=False),
        }

    def _agreement(self) -> Agreement:
        model = xaijax.as_model(column, np.float32(1), structure="plain")
        found = xaijax.Explainer(model, self.background, estimator="exact")(self.X[:2])
        return against_definition(found, lambda rows: column(1, rows), self.X, self.background)


def setup(size: Size) -> HostShare:
    """The sizes of T1 and T38; the tile is what a GPU would have for such a model."""
    N, B, P = (1_000, 100, 12) if size == "full" else (4, 5, 6)
    X, background = continuous(N, B, P)
    probe = jax.make_jaxpr(column)(np.float32(0), background[:32])
    tile = tile_rows(P, X.itemsize, "gpu", operations(probe.jaxpr, 32)) if size == "full" else 256
    return HostShare(X, background, tile, rounds=3 if size == "full" else 1)


CASES = (
    Case(
        "T38",
        "host seconds outside the device per billion hybrid rows, f = one column, plain path, "
        "1,000 instances, 100 background rows, 12 players, at a GPU's sizes",
        "<= 0.5 s",
        "<= 0.1 s",
        setup,
    ),
)
