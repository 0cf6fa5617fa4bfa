"""v(S) of listed coalitions by a layer that adds: what x keeps and what the donor gives instead.

Both are made once for a coalition: x's part for all donors, a donor's for all instances that are
asked together (`structures/listed_means.py`). Whether the layer answers follows from the sizes of
the model and the number of donors, so that an instance's bits do not depend on the others.

Letters: n instances, B donors, P players, C coalitions, K scores, T tiles of a dispatch, G
instances of a tile.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import numpy as np

from xaijax.games.engine.device import DeviceBackend
from xaijax.games.engine.dispatch import LOOK_AHEAD, Dispatches, ProgramRecipe
from xaijax.games.engine.dispatch import shape as shape_of
from xaijax.games.engine.evaluator import Engine, once
from xaijax.games.engine.loop import Backend
from xaijax.games.engine.plan import bucket, capacity, power_below, rows_of_head
from xaijax.games.run import GameRun
from xaijax.games.strategies.listed import ByRows, ListedChunk
from xaijax_kernels.engine.lattice import list_words
from xaijax_kernels.engine.tiles import counted_on, platform_of
from xaijax_kernels.sizes import (
    CALLS_OF_LIST,
    COALITIONS_OF_LIST,
    INSTANCES_OF_LIST,
    LEAST_CALLS,
    NUMBERS_OF_LIST,
    ROWS_OF_LIST,
    TILES_OF_LIST,
    turns_of,
)
from xaijax_kernels.structures.base import shapes_of
from xaijax_kernels.structures.listed_means import ListShape, listed_means, player_parts

FEWEST_DONORS = 4  # x's part of a coalition is made once for all of them
LEAST_ROWS = 16  # whose parts of players are held


class ByParts:
    """Sums of parts, where a layer that adds saves enough of the model."""

    def __init__(self, run: GameRun) -> None:
        self._run = run

    @property
    def structure(self) -> str:
        """What answers in place of the whole model."""
        return self._run.engine.structure_name

    @property
    def holds_answers(self) -> bool:
        """See `BySubsets`. A CPU has no loop to fill, and its chunks stay as they are."""
        backend = self._run.backend()
        return not isinstance(backend, DeviceBackend) or platform_of(backend.mesh) == "cpu"

    def takes(self, n: int, differs: np.ndarray | None, C: int) -> np.ndarray:
        """All of n instances, or none; bool [n]."""
        run = self._run
        few = run.engine.replacement.count < FEWEST_DONORS
        by = not few and isinstance(run.backend(), DeviceBackend) and run.may_structure()
        return np.full(n, by and run.engine.known.adds)

    def of(
        self, backend: Backend, rows: np.ndarray, masks: np.ndarray, part: ListedChunk
    ) -> np.ndarray:
        """Means over the part's donors, float64 [n, C, K]; masks bool [C, P].

        An instance with a bad score is asked by rows, which name it.
        """
        assert isinstance(backend, DeviceBackend)
        run, B, C = self._run, len(part.donors), len(masks)
        means, bad = listed_of(run.engine, backend, B).means(run, rows, masks, part.donors)
        well = np.flatnonzero(~bad)
        run.count.distinct += len(well) * B * C
        run.report(len(well) * B * C)
        if bad.any():
            by_rows, some = ByRows(run), np.flatnonzero(bad)
            own = ListedChunk(some, part.coalitions, part.donors, None)
            means[some] = by_rows.of(backend, rows[some], masks, own)
        return means

    def cost(self, backend: Backend, rows: np.ndarray, C: int, part: ListedChunk) -> None:
        """Adds what `of` asks for C coalitions to the run's cost."""
        assert isinstance(backend, DeviceBackend)
        n, B, cost = len(rows), len(part.donors), self._run.cost
        program = listed_of(self._run.engine, backend, B)
        held = program.capacity(C)
        cost.add_rows(rows, C * B)
        recipe, *parts = program.recipes(held, n, C)
        cost.add_calls(program.calls(n, C), recipe)
        cost.add_runs(1, *parts)
        cost.hold(**program.held(n, C))


@once
def listed_of(engine: Engine, backend: DeviceBackend, donors: int) -> Listed:
    """The program of a setting's lists, for `donors` donors at a time."""
    return Listed(backend, engine, donors)


class Listed:
    """The program of the lists of one explainer."""

    def __init__(self, backend: DeviceBackend, engine: Engine, donors: int) -> None:
        self._programs = programs = backend.programs
        tile, self._B = backend.sizes.tile, donors
        known = shapes_of(programs.structure, programs.params)
        platform = platform_of(programs.mesh)
        cpu = platform == "cpu"
        itemsize, width, rows = programs.donors.dtype.itemsize, known.width, tile.rows
        # Of a row: also what the donor adds, and of CALLS_OF_LIST calls what the instances add.
        parts = itemsize * width * (1 + CALLS_OF_LIST / donors)
        self._row_bytes = backend.sizes.bytes_per_row + int(parts)
        if cpu:
            block = programs.block(rows)
        else:
            block = rows_of_head(rows, self._row_bytes, platform, engine.memory)
        self.segments = -(-donors // block)
        together = min(bucket(-(-donors // self.segments)), block)
        coalitions, blocks, of_call = block // together, 1, 0
        if cpu:
            most = min(ROWS_OF_LIST, max(rows, NUMBERS_OF_LIST // width))
            blocks = max(1, most // block)
        else:
            coalitions = min(COALITIONS_OF_LIST, power_below(coalitions))
        # Of an instance: sums, what they lost, and at once whether one is bad.
        self._sums = (2 if cpu else 3) * coalitions * blocks * tile.outputs * itemsize
        fits = max(1, engine.memory.fits("results", (LOOK_AHEAD + 1) * self._sums))
        instances = min(INSTANCES_OF_LIST, fits)
        if not cpu:
            of_call = min(max(1, block // (coalitions * together)), fits)
            instances = of_call * min(CALLS_OF_LIST, fits // of_call)
        dims = together, coalitions, blocks, instances, tile.outputs
        # Parts of single players, where a product with them is cheaper than the layer itself.
        of_row = tile.P * width
        cheap = of_row <= known.work() / (1 if known.dense is None else 2)
        held = engine.memory.fits("parts", of_row * itemsize)
        left = held - self.segments * together  # what the donors leave
        by_player = cheap and left >= 0 and held >= LEAST_ROWS
        # Parts are made of several rows together: their number does not follow the question's.
        most = min(engine.rows_at_a_time, power_below(max(LEAST_ROWS, left)))
        self._instances = most if by_player else programs.sizes.instances
        self.shape = ListShape(tile.P, *dims, tile.dtype, by_player, of_call, made=instances)
        self._width = width
        devices = programs.mesh.size
        self._tiles = -(-max(1, min(TILES_OF_LIST, fits // instances)) // devices) * devices
        self.most = programs.listed + self.shape.coalitions
        # By the coalitions and the rows that it holds; to find it takes as long as a small run.
        self._program = cache(lambda *held: programs.compiled.program(self.recipe(*held)))

    def means(
        self, run: GameRun, rows: np.ndarray, masks: np.ndarray, donors: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(weighted means [n, C, K], which instances have a bad score [n]).

        rows: the instances, int [n]; masks: the coalitions, bool [C, P]; donors: int [B].
        """
        replacement, shape, programs = run.engine.replacement, self.shape, self._programs
        (n, C), K = (len(rows), len(masks)), shape.outputs
        G, T = self._sizes(n, C)
        missing = self.segments * shape.donors - len(donors)
        filled = np.pad(donors, (0, missing), mode="edge")
        codes = replacement.codes[filled].reshape(self.segments, shape.donors, -1)
        # Equal weights become ones, exactly; the scale is put back in float64.
        own = replacement.weights[donors]
        scale = own.max()
        given = np.pad(own / scale, (0, missing)).reshape(self.segments, -1).astype(codes.dtype)
        held = self.capacity(C)
        words = list_words(masks, held)
        put = partial(jax.device_put, device=programs.same)
        theirs = self._given(put(codes.reshape(-1, codes.shape[2])))
        theirs = theirs.reshape(*codes.shape[:2], *theirs.shape[1:])
        fixed = (put(theirs), put(given), self._players, put(words))
        program = self._program(held, self._rows_of(n), G, T)
        out, bad = np.zeros((n, C, K)), np.zeros(n, bool)
        step = self._instances
        for first in range(0, n, step):
            some = rows[first : first + step]
            x = np.zeros((self._rows_of(n), codes.shape[2]), codes.dtype)
            x[: len(some)] = run.codes[some]
            before = (programs.params, put(self._given(put(x))), *fixed)
            here = slice(first, first + step)
            self._some(program, before, C, G, T, out[here], bad[here])
        run.count.padded += self._rows(n, C) - n * C * len(donors)
        out *= scale
        return out, bad

    def capacity(self, C: int) -> int:
        """Coalitions that the list of a program for C of them has room for."""
        return capacity(C + self.shape.coalitions, self.most, self.shape.P)

    @property
    def _players(self) -> jax.Array | None:
        return None if self.shape.by_player else self._programs.players

    def _sizes(self, n: int, C: int) -> tuple[int, int]:
        """(G, T) for n instances and C coalitions: fewer for a small question if all turns are
        made.
        """
        G, T, mesh = self.shape.instances, self._tiles, self._programs.mesh
        if not counted_on(mesh):
            return G, T
        n, each = min(n, self._instances), max(1, self.shape.of_call)
        calls = max(LEAST_CALLS, 1 << (-(-n // each) - 1).bit_length())
        G = min(G, each * calls)
        return G, turns_of(self._tiles_of(n, C, G), T, mesh.size)

    def _rows_of(self, n: int) -> int:
        """Rows that are held of n instances; of parts by players few, since these are large."""
        if not self.shape.by_player:
            return self._instances
        return min(self._instances, max(LEAST_ROWS, 1 << (n - 1).bit_length()))

    def _given(self, rows: jax.Array) -> jax.Array:
        """Rows [R, F] as the program takes them."""
        return self._programs.compiled.run(self._parts(rows)) if self.shape.by_player else rows

    def _parts(self, rows: Any) -> ProgramRecipe:
        """Recipe of the program that makes what each player of rows adds."""
        p = self._programs
        function = partial(player_parts, p.structure.of, self.shape.P)
        arguments = (p.params, rows, p.players)
        key, what = ("player parts", p.structure, self.shape.P), "what players add"
        return ProgramRecipe(key, function, arguments, what=what)

    def _some(
        self,
        program: Any,
        before: Any,
        C: int,
        G: int,
        T: int,
        out: np.ndarray,
        bad: np.ndarray,
    ) -> None:
        """Puts the sums of some instances into out [n, C, K], in the donors' order."""
        programs, work = self._programs, self._work(len(out), C, G)
        parts = ((some, some) for some in (work[t : t + T] for t in range(0, len(work), T)))
        dispatches = Dispatches(programs.mesh, programs.compiled.clock, T)
        for dispatch in dispatches.run(program, before, parts):
            high, low, lost = dispatch.read()
            with np.errstate(invalid="ignore"):  # of scores that are not finite
                sums = high.astype(np.float64) + low
            for t, (c, _, i, count) in enumerate(dispatch.asked):
                out[i : i + count, c : c + self.shape.coalitions] += sums[t, :count, : C - c]
                bad[i : i + count] |= lost[t, :count] > 0

    def _work(self, n: int, C: int, G: int) -> np.ndarray:
        """int32 [tiles, 4], see `listed_means`."""
        tiles = [
            (c, segment, i, min(G, n - i))
            for c in range(0, C, self.shape.coalitions)
            for i in range(0, n, G)
            for segment in range(self.segments)
        ]
        return np.array(tiles, np.int32).reshape(-1, 4)

    def _rows(self, n: int, C: int) -> int:
        """Hybrids that go through the head, the padding included."""
        shape, each = self.shape, max(1, self.shape.of_call)
        full = [self._instances] * (n // self._instances), n % self._instances
        calls = sum(-(-size // each) for size in (*full[0], full[1]))
        return calls * -(-C // shape.coalitions) * shape.blocks * shape.rows * self.segments

    def calls(self, n: int, C: int) -> int:
        """Dispatches of n instances and C coalitions."""
        step, (G, T) = self._instances, self._sizes(n, C)
        sizes = [step] * (n // step) + [n % step] * (n % step > 0)
        return sum(-(-self._tiles_of(size, C, G) // T) for size in sizes)

    def held(self, n: int, C: int) -> dict[str, int]:
        """The bytes of the dispatches under way for n instances and C coalitions, and of what is
        held of instances and donors.
        """
        (G, T), shape, dispatches = self._sizes(n, C), self.shape, LOOK_AHEAD + 1
        itemsize = self._programs.donors.dtype.itemsize
        rows = self._rows_of(n) + self.segments * shape.donors
        own = itemsize * rows * shape.P * self._width
        return {
            "tile": dispatches * shape.rows * self._row_bytes,
            "results": dispatches * T * G * self._sums,
            "parts": own if shape.by_player else 0,
        }

    def _tiles_of(self, n: int, C: int, G: int) -> int:
        return -(-C // self.shape.coalitions) * -(-n // G) * self.segments

    def recipes(self, held: int, n: int, C: int) -> list[ProgramRecipe]:
        """Recipes of all programs that C coalitions of n instances run; held: as for `recipe`."""
        p, donors = self._programs, self.segments * self.shape.donors
        rows = (self._rows_of(n), donors) if self.shape.by_player else ()
        row = partial(shape_of, p.same, dtype=p.donors.dtype)
        return [
            self.recipe(held, self._rows_of(n), *self._sizes(n, C)),
            *(self._parts(row(R, p.sizes.columns)) for R in rows),
        ]

    def recipe(self, held: int, rows: int, G: int, T: int) -> ProgramRecipe:
        """What the program of a dispatch is compiled of; held: coalitions of its list."""
        p, shape = self._programs, replace(self.shape, instances=G)
        dims, dtype = (self.segments, shape.donors), p.donors.dtype
        row = (shape.P, self._width) if shape.by_player else (p.sizes.columns,)
        arguments = (
            p.params,
            shape_of(p.same, rows, *row, dtype=dtype),
            shape_of(p.same, *dims, *row, dtype=dtype),
            shape_of(p.same, *dims, dtype=dtype),
            self._players,
            shape_of(p.same, held, -(-shape.P // 32), dtype=np.uint32),
            shape_of(p.split, p.mesh.size),
            shape_of(p.split, T, 4),
        )
        return p.means(listed_means, "listed coalitions", shape, shape.rows, arguments)
