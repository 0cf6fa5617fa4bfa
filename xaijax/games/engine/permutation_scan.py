"""Evaluates coalitions along orders of players, if the model's first layer is known.

Letters: N instances, B donors, P players, D orders, K outputs, H units of the layer, G instances in
a tile (or scans, each an instance and an order), L sizes in a block, T tiles in a dispatch.
"""

from __future__ import annotations

import copy
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from xaijax.games.engine.dispatch import (
    RAISE,
    Dispatches,
    ProgramRecipe,
    columns,
    placed,
    put,
    shape,
)
from xaijax.games.engine.plan import (
    bucket,
    bytes_of_row,
    fitting_tile,
    refuse_larger,
    rows_held,
    rows_of_head,
    waiting,
)
from xaijax_kernels.engine.tiles import counted_on, platform_of, traced, widest_layer
from xaijax_kernels.sizes import (
    LONGEST_BLOCK,
    LONGEST_ON_CPU,
    LONGEST_PRODUCT,
    SHARE_ON_CPU,
    SMALLEST_TILE,
    TILES_PER_DISPATCH,
    tile_rows,
    turns_of,
)
from xaijax_kernels.structures.first_layer import PAIRS, ScanShape, scan_tiles
from xaijax_kernels.structures.named import NAMED

if TYPE_CHECKING:
    from xaijax.games.engine.evaluator import Engine

MOST_INSTANCES = 32  # of one tile: a lone instance is padded to no more than this
ORDERS = 32  # on the device at a time
LOOK_AHEAD = 1  # a dispatch of scans is long, and its results are large
PROBE_ROWS = 32  # as for the probe: a head found in that trace is traced already


def scan_shape(
    P: int, B: int, K: int, rows: int, dtype: str, platform: str, larger: int
) -> ScanShape:
    """A tile for one call of the head, where a plain tile has `rows`; a pure function.

    On accelerators an iteration takes all sizes of enough scans to fill a call of `larger` rows.
    """
    longest = LONGEST_BLOCK
    if platform != "cpu" and 2 * P <= rows:
        tpu, rows = platform == "tpu", larger
        chunks = -(-P // LONGEST_PRODUCT) if tpu else 1
        L = -(-P // chunks) * chunks
        lanes = rows // (2 * L) or 1
        segments = -(-B // lanes)
        donors = min(bucket(-(-B // segments)), lanes)
        by = "products" if tpu else "sums"
        return ScanShape(P, lanes // donors, donors, L, K, dtype, by)
    if platform == "cpu":
        longest, rows = LONGEST_ON_CPU, max(rows // SHARE_ON_CPU, SMALLEST_TILE)
    block = -(-P // -(-P // longest))
    lanes = max(1, rows // (2 * block) // PAIRS) * PAIRS
    segments = -(-B // lanes)
    donors = min(bucket(-(-B // segments)), lanes)
    instances = max(1, min(lanes // donors, MOST_INSTANCES))
    return ScanShape(P, instances, donors, block, K, dtype)


class PermutationScan:
    """Runs scans along orders of players on the devices of an engine."""

    def __init__(self, engine: Engine) -> None:
        """engine: of a model with a first layer."""
        model, compiled, outputs = engine.model, engine.compiled, engine.findings.outputs
        placement, donors = placed(engine.devices, model.params), engine.replacement.for_loops
        mesh = placement.mesh
        self._structure, self._compiled, self._mesh = engine.structure, compiled, mesh
        self._most = engine.instances_at_a_time  # rows of x on the device at a time
        self._instances = 0  # instances that fit, see `holding`
        self._same, self._split = placement.same, placement.split
        self._results = placement.results
        self._params = placement.params(model.params)
        B, P = donors.shape
        self._count = B
        platform = platform_of(mesh)
        # One call of the head takes the number of rows of a plain model's tile.
        hidden = jax.ShapeDtypeStruct((PROBE_ROWS, engine.known.width), donors.dtype)
        jaxpr = traced(engine.structure.head, model.params, hidden).jaxpr
        width = max(engine.known.width, outputs, widest_layer(jaxpr, PROBE_ROWS, NAMED))
        rows, memory = tile_rows(width, donors.itemsize, platform), compiled.memory
        # Of a row: the layer's terms and sums of both halves, and two layers of the head.
        per_row = bytes_of_row(donors.itemsize, width, 1, outputs)
        larger = rows
        if platform != "cpu":
            rows = fitting_tile(rows, per_row, memory)
            larger = rows_of_head(rows, per_row, platform, memory)
        self.shape = scan_shape(P, B, outputs, rows, donors.dtype.name, platform, larger)
        of_call = self.shape.rows
        refuse_larger(of_call * per_row, f"one call of {of_call} rows along orders", memory)
        self.segments = -(-B // self.shape.donors)
        missing = self.segments * self.shape.donors - B
        # The padding repeats a valid row, with weight 0.
        padded = np.concatenate([donors, np.repeat(donors[-1:], missing, axis=0)])
        weights = engine.replacement.weights
        self._scale = weights.max()
        weights = np.pad(weights / self._scale, (0, missing)).astype(donors.dtype)
        split = (self.segments, self.shape.donors)
        self._donors = put(padded.reshape(*split, P), self._same)
        self._weights = put(weights.reshape(split), self._same)
        # Sums of both halves, their rounding errors, and (with `at_once`) whether one is invalid.
        per_tile = (4 if self.shape.by == "steps" else 6) * donors.itemsize * outputs
        per_tile *= self.shape.blocks * self.shape.block * self.shape.instances
        fits = max(1, memory.fits("answers", (LOOK_AHEAD + 1) * per_tile))
        self.tiles = -(-min(TILES_PER_DISPATCH, fits) // mesh.size) * mesh.size
        tiles = {"tile": of_call * per_row, "answers": self.tiles * per_tile}  # of one dispatch
        self._ahead = waiting(sum(tiles.values()), memory, LOOK_AHEAD)
        self.held = {share: (self._ahead + 1) * size for share, size in tiles.items()}

    def holding(self, N: int) -> PermutationScan:
        """The loop with room for the rows of N instances."""
        row = self._donors.dtype.itemsize * self.shape.P
        room = rows_held(N, row, self._most)
        if room <= self._instances:
            return self
        wider = copy.copy(self)
        wider._instances = room
        wider.__dict__.pop("_program", None)
        return wider

    def sums(self, x: np.ndarray, orders: np.ndarray) -> tuple[np.ndarray, int]:
        """(v(S) along orders, float64 [n, D, 2, P, K]; the number of tiles with an output that is
        not finite).

        x [n, P], orders int32 [D, P]. Entry [i, d, 0, s - 1] keeps the first s players of the
        order, entry [i, d, 1, s - 1] the others.
        """
        out = np.zeros((len(x), len(orders), 2, self.shape.P, self.shape.outputs))
        T, bad = self.tiles_of(len(x), len(orders)), 0
        for n in range(0, len(x), self._instances):
            for d in range(0, len(orders), ORDERS):
                part = out[n : n + self._instances, d : d + ORDERS]
                bad += self._some(
                    x[n : n + self._instances], orders[d : d + ORDERS].astype(np.int32), part, T
                )
        return out, bad

    def tiles_of(self, N: int, D: int) -> int:
        """T for D orders of N instances. If all T iterations are always made, a small run has
        fewer; only a few different T occur, so that similar runs share a program.
        """
        if not counted_on(self._mesh):
            return self.tiles
        needed = self._tiles(min(N, self._instances), min(D, ORDERS))
        return turns_of(needed, self.tiles, self._mesh.size)

    def _tiles(self, N: int, D: int) -> int:
        """Tiles of D orders of N instances that are on the device together."""
        G = self.shape.instances
        return self.segments * (-(-N * D // G) if self.shape.at_once else -(-N // G) * D)

    def calls(self, N: int, D: int) -> int:
        """Dispatches of D orders for N instances."""
        T, calls = self.tiles_of(N, D), 0
        for n in range(0, N, self._instances):
            for d in range(0, D, ORDERS):
                calls += -(-self._tiles(min(self._instances, N - n), min(ORDERS, D - d)) // T)
        return calls

    def _some(self, x: np.ndarray, orders: np.ndarray, out: np.ndarray, T: int) -> int:
        program, ahead = self._program(T)
        rows = np.zeros((self._instances, x.shape[1]), x.dtype)
        rows[: len(x)] = x
        listed = np.zeros((ORDERS, orders.shape[1]), np.int32)
        listed[: len(orders)] = orders
        fixed = (self._params, *jax.device_put((rows,), self._same), self._donors, self._weights)
        on_device = (*fixed, jax.device_put(listed, self._same))
        work, groups = self._work(len(x), len(orders))
        run = len(work) * self.shape.blocks * self.shape.rows
        used = 2 * self.shape.P * len(x) * len(orders) * self._count
        self._compiled.clock.padded_rows += run - used
        bad = 0
        parts = ((first, work[first : first + T]) for first in range(0, len(work), T))
        dispatches = Dispatches(self._mesh, self._compiled.clock, T, ahead)
        for dispatch in dispatches.run(program, on_device, parts):
            first, (high, low, lost) = dispatch.asked, dispatch.read()
            summed = high
            # A single donor has weight 1, and sums of its finite answers have no rounding.
            if self._count > 1 or lost.any():
                summed = high.astype(np.float64)
                with np.errstate(invalid="ignore"):  # see `DeviceBackend._means`
                    summed += low
                summed *= self._scale
            for t, (places, count) in enumerate(groups[first : first + T]):
                walks = summed[t, :, : self.shape.P, :count]  # [2, P, g, K]
                out[places] += walks.transpose(2, 0, 1, 3)
            bad += int(lost.sum())
        return bad

    def _work(self, N: int, D: int) -> tuple[np.ndarray, list[tuple[Any, int]]]:
        """(tiles for the program, positions in [N, D] of each tile's scans, their number).

        An instance's donors are summed segment by segment, whatever else is in its tiles.
        """
        G, segments = self.shape.instances, range(self.segments)
        if self.shape.at_once:
            d, n = np.divmod(np.arange(N * D), N)
            parts = [slice(first, first + G) for first in range(0, N * D, G)]
            places = [((n[part], d[part]), len(n[part])) for part in parts]
            tiles = [
                (s, *_filled(d[part], G), *_filled(n[part], G)) for part in parts for s in segments
            ]
            return np.array(tiles, np.int32), [place for place in places for _ in segments]
        groups = [(n, min(G, N - n)) for n in range(0, N, G)]
        tiles = [(d, s, n) for d in range(D) for n, _ in groups for s in segments]
        work = np.empty((len(tiles), 2 + G), np.int32)
        work[:, 0], work[:, 1], first = np.array(tiles).T
        work[:, 2:] = np.minimum(first[:, None] + np.arange(G), N - 1)
        places = [((slice(n, n + g), d), g) for d in range(D) for n, g in groups]
        return work, [place for place in places for _ in segments]

    @cached_property
    def _program(self) -> Any:
        """A cache T -> (program, number of waiting results), because the look-up takes as long as a
        small run."""
        return cache(lambda T: self._compiled.with_ahead(self.recipe(T)))

    def recipe(self, T: int) -> ProgramRecipe:
        """Recipe of the program of a dispatch of T tiles."""
        dtype, G = self._donors.dtype, self.shape.instances
        structure, same, split = self._structure, self._same, self._split
        run = partial(scan_tiles, structure.of, columns(structure.head), self.shape, self._mesh)
        arguments = (
            self._params,
            shape(same, self._instances, self.shape.P, dtype=dtype),
            self._donors,
            self._weights,
            shape(same, ORDERS, self.shape.P),
            shape(split, self._mesh.size),
            shape(split, T, 1 + 2 * G if self.shape.at_once else 2 + G),
        )
        return ProgramRecipe(
            ("walk", self.shape, structure),
            run,
            arguments,
            what=f"a dispatch of {T} tiles of walks",
            remedy=f"{RAISE[:-1]}, or leave structure= out.",
            ahead=self._ahead,
            results=self._results,
        )


def _filled(numbers: np.ndarray, G: int) -> np.ndarray:
    """Numbers [g] padded with the last one; [G]."""
    return np.pad(numbers, (0, G - len(numbers)), mode="edge")
