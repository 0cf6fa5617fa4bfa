"""The compiled programs of one explainer: those that hold a JAX model, and reductions of values.

Letters: T tiles in a dispatch, R rows in a tile, S slots in a tile, K scores, A answers, C code
columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from xaijax.core.errors import MemoryPlanError
from xaijax.games.engine.clock import Clock
from xaijax.games.engine.plan import Sizes
from xaijax.games.measure.score import Score
from xaijax_kernels.engine.memory import program_bytes
from xaijax_kernels.engine.tiles import SMALLEST_TILE, TileShape, over_tiles, run_tiles, traced_once
from xaijax_kernels.structures.averaged import MeansShape, mean_tables

LOOK_AHEAD = 2  # dispatches under way before the first is fetched


class Programs:
    """Compiled once for all explainers of a model, and what they all take, on the devices."""

    def __init__(
        self,
        apply: Callable[[Any, jax.Array], jax.Array],
        params: Any,
        cache: dict[Any, Any],
        sizes: Sizes,
        players: np.ndarray | None,
        donors: np.ndarray,
        mesh: Mesh,
        max_memory: int,
        clock: Clock,
        listed: int = 0,
        score: Score | None = None,
        outputs: int = 1,
        structure: Any = None,
        look: Callable[[Any, int], None] | None = None,
    ) -> None:
        """listed: coalitions of the list that slots may name, 0 for none; outputs: A.

        look(trace, rows): sees the model's trace before any program is made of it.

        structure: None, or what is known of the model: `of(params)`, `head(params, hidden)`.
        """
        self.sizes, self.mesh, self.clock, self.listed = sizes, mesh, clock, listed
        self.same, self.split = NamedSharding(mesh, Spec()), NamedSharding(mesh, Spec("tiles"))
        self.params = jax.device_put(params, self.same)
        self.donors = jax.device_put(donors, self.same)
        self.players = None if players is None else jax.device_put(players, self.same)
        self._apply, self._cache, self.max_memory = apply, cache, max_memory
        self._look = look
        self._score, self._outputs, self._structure = score, outputs, structure
        self._runs: dict[tuple[str, int | None, bool], Any] = {}  # the programs that hold the model

    def reads_own(self, scored: bool) -> bool:
        """Whether the score looks at the model's answer to x itself."""
        return scored and self._score is not None and self._score.reads_own

    def shape(self, kind: str, scored: bool = True, bits: int | None = None) -> TileShape:
        """The tile for slots of one kind; slots of "rows" are single rows.

        bits: slots of 2^bits corners, answered by the structure; None: by the model.
        """
        tile = self.sizes.tile if scored else replace(self.sizes.tile, outputs=self._outputs)
        bits = 0 if kind == "rows" else bits
        return tile if bits is None else replace(tile, slot_bits=bits, slots=tile.rows >> bits)

    def run(self, kind: str, scored: bool = True, bits: int | None = None) -> Any:
        """The program that holds the model, for slots of one kind, compiled once; see `shape`."""
        if (kind, bits, scored) in self._runs:
            return self._runs[kind, bits, scored]
        s, shape = self.sizes, self.shape(kind, scored, bits)
        known = None if bits is None else self._structure
        score = self._score if scored else None
        words = -(-shape.P // 32)
        listed = None if kind in ("corners", "structured") else (self.listed, words)
        dtype = self.donors.dtype
        devices = tuple(self.mesh.devices.flat)
        key = ("run", kind, s, listed, self.players is None, dtype.name, devices, score, shape)
        key = (*key, known)
        if key not in self._cache:
            started = time.perf_counter()

            def of(sharding: Any, *dims: int, dtype: Any = jnp.int32) -> jax.ShapeDtypeStruct:
                return jax.ShapeDtypeStruct(dims, dtype, sharding=sharding)

            run = partial(
                run_tiles,
                self.traced() if known is None else self._head(known, s.tile.rows),
                shape,
                self.mesh,
                kind=kind,
                score=score,
                kept=jnp.isfinite if score is None else score.kept,
                structure=None if known is None else known.of,
            )
            arguments = (
                self.params,
                of(self.same, s.instances, s.columns, dtype=dtype),
                self.donors,
                self.players,
                of(self.split, self.mesh.size),
                of(self.split, s.tiles, shape.slots, 3 + words),
                None if listed is None else of(self.same, *listed, dtype=jnp.uint32),
                of(self.same, s.instances, self._outputs, dtype=dtype)
                if self.reads_own(scored)
                else None,
            )
            self._cache[key] = jax.jit(run).lower(*arguments).compile()
            self.clock.compile_seconds += time.perf_counter() - started
        compiled = self._cache[key]
        # Dispatches that run ahead hold their results beside the one at work.
        needed = program_bytes(compiled) * (LOOK_AHEAD + 1)
        if needed > self.max_memory:
            raise MemoryPlanError(
                f"max_memory={self.max_memory:,} bytes, but a dispatch of {s.tiles} tiles of "
                f"{shape.rows} rows needs {needed:,}. Raise max_memory=, or lower batch_size= or "
                f"tile= (at least {SMALLEST_TILE})."
            )
        self._runs[kind, bits, scored] = compiled
        return compiled

    def traced(self) -> Callable[[Any, jax.Array], jax.Array]:
        """The model for one tile of rows: one trace serves all programs."""
        shape = self.sizes.tile
        dims, dtype = (shape.rows, *shape.instance_shape), self.donors.dtype
        key = ("traced", dims, dtype.name)
        if key not in self._cache:
            rows = jax.ShapeDtypeStruct(dims, dtype)
            self._cache[key] = columns(traced_once(self._apply, self.params, rows, self._look))
        return self._cache[key]

    def mean_tables(self, shape: MeansShape, arguments: tuple[Any, ...]) -> Any:
        """The program that averages the structure's corners over donors; see `averaged`."""
        known, score = self._structure, self._score
        kept = jnp.isfinite if score is None else score.kept
        head = self._head(known, shape.rows)
        run = partial(mean_tables, known.of, head, score, kept, shape, self.mesh)
        dims = tuple(None if a is None else a.shape for a in arguments[1:])
        return self.compiled(("averaged", known, score, shape, dims), run, arguments)

    def _head(self, known: Any, rows: int) -> Callable[[Any, jax.Array], jax.Array]:
        """The rest of a model whose structure is known: one trace serves all programs."""
        layer = jax.eval_shape(known.of, self.params)
        rows, dtype = layer.block(rows), self.donors.dtype
        key = ("head", known, rows, dtype.name)
        if key not in self._cache:
            hidden = jax.ShapeDtypeStruct((rows, layer.width), dtype)
            self._cache[key] = traced_once(columns(known.head), self.params, hidden)
        return self._cache[key]

    def reduction(
        self, key: Any, function: Callable[..., Any], split: tuple[bool, ...], *arguments: Any
    ) -> Any:
        """A reduction of (values, *arguments), compiled once; split: which have the tile axis."""
        s = self.sizes
        values = jax.ShapeDtypeStruct(
            (s.tiles, s.tile.rows, s.tile.outputs), s.tile.dtype, sharding=self.split
        )
        whole = over_tiles(function, self.mesh, (True, *split))
        return self.compiled(key, whole, (values, *arguments))

    def compiled(
        self, key: Any, function: Callable[..., Any], arguments: Any, donate: tuple[int, ...] = ()
    ) -> Any:
        """`function` compiled for such arguments, once for all explainers of the model."""
        s = self.sizes
        key = (s.tile, s.tiles, tuple(self.mesh.devices.flat), *key)
        if key not in self._cache:
            started = time.perf_counter()
            program = jax.jit(function, donate_argnums=donate)
            self._cache[key] = program.lower(*arguments).compile()
            self.clock.compile_seconds += time.perf_counter() - started
        return self._cache[key]


def columns(apply: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A model, or its head, with [R] made [R, 1]."""

    def whole(params: Any, rows: Any) -> Any:
        out = apply(params, rows)
        return out[:, None] if out.ndim == 1 else out

    return whole


def make_mesh(devices: list[Any]) -> Mesh:
    """One axis, over which tiles are split."""
    return Mesh(np.array(devices), ("tiles",))
